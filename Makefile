# What people run. `make help` lists it; everything stays inside this folder.

VENV := .venv
BIN := $(VENV)/bin
MAP ?=
PYTHON ?=
PIP_ARGS ?=
PYTEST_ARGS ?=
SOAK_ARGS ?=

# What the installed package is made from. The Python sources are not: the install points at the working tree.
PACKAGE := CMakeLists.txt package.xml setup.py pyproject.toml tools/launch_standin.py tools/launch_entities.py \
  $(wildcard cmake/* config/* config/sros2/* config/training/* config/training/*/* launch/* msg/* srv/*)

# An environment that was moved or copied along with the folder cannot run: set up anew.
ifneq ($(shell cat $(VENV)/place 2>/dev/null),$(CURDIR))
.PHONY: $(VENV)/requirements-installed
endif

.PHONY: setup
setup: $(VENV)/package-installed  ## set up .venv with ROS 2, torch and this package (every target does it)

$(VENV)/requirements-installed: requirements.lock
	@set -e; \
	  python=$$(PYTHON="$(PYTHON)" sh tools/check_machine.sh); \
	  [ "$$(cat $(VENV)/place 2>/dev/null)" = "$(CURDIR)" ] || rm -rf $(VENV); \
	  echo "== Setting up $(VENV) with $$($$python --version): ROS 2, torch and the rest, some minutes"; \
	  $$python -m venv $(VENV); \
	  $(BIN)/python -m pip install $(PIP_ARGS) -r requirements.lock
	@echo "$(CURDIR)" > $(VENV)/place
	@touch $@

$(VENV)/package-installed: $(VENV)/requirements-installed $(PACKAGE)
	@echo "== Building the message and installing the package, some seconds"
	@$(BIN)/python -m pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

.PHONY: demo
demo: setup  ## the main job for real, pictures in demo_output/; MAP=some/map.yaml: in your own map
	@$(BIN)/floorgent demo $(if $(MAP),--map "$(MAP)") --out demo_output

# What computes alone runs in two processes, what waits for other processes by itself: it minds a busy core.
.PHONY: test
test: compile lint  ## linters, types and the whole test suite once, the colcon build included
ifeq ($(PYTEST_ARGS),)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile --ignore test/ros --ignore test/view
	@$(BIN)/python -m pytest test/ros test/view
else
	@$(BIN)/python -m pytest $(PYTEST_ARGS)
endif

.PHONY: compile
compile: setup  ## compile now what the first predictions would compile, about two minutes after an installation
	@for weights in floorgent unseen; do \
	  $(BIN)/floorgent warm-up --checkpoint floorgent_ros/weights/$$weights.safetensors & pids="$$pids $$!"; \
	done; for pid in $$pids; do wait $$pid || exit 1; done

.PHONY: soak
soak: setup  ## load, faults and kills: what the node bears, with figures (SOAK_ARGS='--maps 400 --kills 2' for a look)
	@$(BIN)/python tools/soak.py $(SOAK_ARGS)

# Sources and environment of its own: the build in .venv stays as it is.
JAZZY := build/jazzy
.PHONY: jazzy
jazzy: $(VENV)/requirements-installed  ## the core ROS tests with ROS 2 Jazzy's wheels, in build/jazzy/ (some minutes)
	@rm -rf $(JAZZY)/sources
	@mkdir -p $(JAZZY)/sources
	@tar -c --exclude=./.git --exclude=./.venv --exclude=./build --exclude=./runs . | tar -x -C $(JAZZY)/sources
	@[ -d $(JAZZY)/venv ] || $(BIN)/python -m venv $(JAZZY)/venv
	@grep -v '^ros-' requirements.lock | cat - requirements-jazzy.in > $(JAZZY)/requirements.txt
	@$(JAZZY)/venv/bin/python -m pip install $(PIP_ARGS) -r $(JAZZY)/requirements.txt
	@cd $(JAZZY)/sources && $(CURDIR)/$(JAZZY)/venv/bin/python -m pip install --no-build-isolation --no-deps --editable .
	@cd $(JAZZY)/sources && $(CURDIR)/$(JAZZY)/venv/bin/python -m pytest test/test_message.py test/ros $(PYTEST_ARGS)

.PHONY: lint
lint: setup  ## ruff and mypy
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

.PHONY: format
format: setup  ## format the sources and apply the linter's safe fixes
	@$(BIN)/ruff check --fix --exit-zero --quiet
	@$(BIN)/ruff format

.PHONY: lock
lock: setup  ## resolve requirements.in anew and write requirements.lock
	@$(BIN)/python -m pip install $(PIP_ARGS) --upgrade --upgrade-strategy eager -r requirements.in
	@$(BIN)/python tools/lock_requirements.py > requirements.lock.new
	@mv requirements.lock.new requirements.lock

.PHONY: clean
clean:  ## remove what builds, tests and the demo leave; .venv stays
	@rm -rf build install log demo_output .hypothesis .mypy_cache .pytest_cache .ruff_cache *.egg-info
	@find floorgent_ros launch test tools -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: distclean
distclean: clean  ## clean, and remove .venv
	@rm -rf $(VENV)

.PHONY: help
help:  ## this list
	@sed -nE 's/^([a-z]+):[^#]*  ## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 18
	@echo
	@echo "  PYTHON=python3.12        the Python for .venv (3.11 or 3.12; default: the first usable one in PATH)"
	@echo "  PIP_ARGS='...'           more arguments for pip, such as --extra-index-url URL of an index with"
	@echo "                           CPU-only builds of torch (the default build brings CUDA, several GB)"
	@echo "  PYTEST_ARGS='-k grid'    more arguments for pytest"
