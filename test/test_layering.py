"""The rooms of the package and who may import whom, read from the sources and proved by importing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import floorgent_ros

PACKAGE = Path(floorgent_ros.__file__).parent
BASE = {"errors", "config", "whole_file", "stopwatch"}

# What each room may import besides itself. What runs on a robot: geometry → model → predictor → ros.
# The workshop: geometry → plans → simulation → training, evaluation. Nobody imports demo, but cli.
GEOMETRY = BASE | {"geometry"}
WORKSHOP = GEOMETRY | {"plans", "simulation", "model", "predictor"}
ROOMS = {
    "errors": set(),
    "whole_file": {"errors"},
    "stopwatch": set(),
    "config": {"errors"},
    "distance_lookup": {"errors"},
    "geometry": BASE,
    "plans": GEOMETRY,
    "simulation": GEOMETRY | {"plans"},
    "model": GEOMETRY,
    "predictor": GEOMETRY | {"model"},
    "plots": GEOMETRY | {"predictor"},
    "messages": GEOMETRY | {"predictor"},
    "schedule": GEOMETRY,
    "bags": GEOMETRY | {"predictor", "messages", "schedule", "plots"},
    "ros": GEOMETRY | {"model", "predictor", "distance_lookup", "messages", "schedule", "msg", "srv"},
    "training": WORKSHOP,
    "evaluation": WORKSHOP | {"training", "plots"},
    "demo": GEOMETRY | {"plans", "simulation", "ros", "plots", "predictor", "distance_lookup"},
    "view": GEOMETRY | {"messages", "distance_lookup"},
    "benchmark": WORKSHOP | {"plots", "schedule", "ros"},
    "cli": GEOMETRY
    | {"predictor", "plots", "bags", "view", "ros", "demo", "training", "evaluation", "benchmark"},
}

TORCH = {"model", "predictor", "training", "evaluation", "benchmark"}
ALLOWED_LIBRARIES = {
    "geometry": {"numpy", "scipy", "cv2", "skimage", "numba", "yaml"},
    "model": {"torch", "numpy", "safetensors"},
    "config": set(),
    "errors": set(),
    "whole_file": set(),
    "stopwatch": set(),
    "distance_lookup": set(),
}


def sources() -> list[Path]:
    """All modules but the package's own front, whose public names are loaded lazily."""
    return sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    return room_named(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))


def room_named(first: str) -> str:
    """The room of a folder or of a file of the package itself; the command line has several files."""
    return "cli" if first.startswith("cli_") else first


def imports(source: str) -> Iterator[str]:
    """The dotted names of all modules that a source imports, those in functions included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "import by full name"
            module = str(node.module)
            if module == "floorgent_ros":
                yield from (
                    floorgent_ros._HOMES.get(item.name, f"{module}.{item.name}") for item in node.names
                )
            else:
                yield module


def is_ros(library: str) -> bool:
    return library.startswith(("rclpy", "tf2", "rcl_", "ament_")) or library.endswith(
        ("_msgs", "_interfaces", "_srvs")
    )


def faults(room: str, source: str) -> list[str]:
    """What a source of this room imports although it may not."""
    found = []
    for name in imports(source):
        library, _, rest = name.partition(".")
        other = room_named(rest.partition(".")[0])
        if library == "floorgent_ros":
            if other not in ROOMS[room] | {room, "__version__"}:
                found.append(name)
        elif library in sys.stdlib_module_names:
            continue
        elif is_ros(library):
            if room != "ros":
                found.append(name)
        elif (library == "torch" and room not in TORCH) or library not in ALLOWED_LIBRARIES.get(
            room, {library}
        ):
            found.append(name)
    return found


@pytest.mark.parametrize("path", sources(), ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_stay_within_the_room(path: Path) -> None:
    assert faults(room_of(path), path.read_text(encoding="utf-8")) == []


def test_the_rooms_have_one_direction() -> None:
    """No two rooms may import each other, directly or around."""
    order: list[str] = []
    rest = {room: allowed - {"msg", "srv"} for room, allowed in ROOMS.items()}
    while rest:
        free = [room for room, allowed in rest.items() if allowed <= set(order)]
        assert free, f"{sorted(rest)} import each other"
        order += free
        rest = {room: allowed for room, allowed in rest.items() if room not in free}
    assert order.index("geometry") < order.index("model") < order.index("predictor") < order.index("ros")
    assert (
        order.index("geometry") < order.index("plans") < order.index("simulation") < order.index("training")
    )


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("geometry", "import torch"),
        ("geometry", "from floorgent_ros.model.decoder import Decoder"),
        ("geometry", "import matplotlib.pyplot"),
        ("model", "import rclpy"),
        ("predictor", "from nav_msgs.msg import OccupancyGrid"),
        ("predictor", "def late():\n    from floorgent_ros.simulation.lidar import scan"),
        ("ros", "import torch"),
        ("ros", "from floorgent_ros.training.dataset import Samples"),
        ("simulation", "from floorgent_ros import DistancePredictor"),
        ("config", "import numpy"),
    ],
)
def test_a_fault_is_found(room: str, source: str) -> None:
    assert len(faults(room, source)) == 1


@pytest.mark.parametrize(
    ("room", "source"),
    [
        ("geometry", "import numpy as np\nfrom floorgent_ros.errors import MapError"),
        (
            "ros",
            "import rclpy\nfrom floorgent_ros.msg import DistanceGrid\nfrom floorgent_ros.predictor import X",
        ),
        ("training", "import torch\nfrom floorgent_ros.simulation.lidar import scan"),
        ("demo", "from floorgent_ros import OccupancyMap, plots"),
    ],
)
def test_what_is_allowed_passes(room: str, source: str) -> None:
    assert faults(room, source) == []


def test_no_room_takes_the_name_of_generated_code() -> None:
    """The compiled messages join the package as floorgent_ros.msg (and .srv)."""
    assert not {"msg", "srv", "action"} & {room_of(path) for path in sources()}


BLOCK = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        library = name.partition('.')[0]
        if library in {blocked!r} or library.endswith('_msgs'):
            raise ModuleNotFoundError(f'No module named {{name!r}}', name=name)

sys.meta_path.insert(0, Block())
import importlib
for name in {names!r}:
    importlib.import_module(name)
"""


def modules_of(*rooms: str) -> list[str]:
    """The dotted names of all modules of these rooms."""
    paths = [path for path in sources() if room_of(path) in rooms]
    dotted = (".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in paths)
    return [name.removesuffix(".__init__") for name in dotted]


def run_python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )


def test_the_core_imports_without_ros() -> None:
    core = modules_of(*(room for room in ROOMS if room not in ("ros", "demo")))
    assert {"floorgent_ros.geometry.grid", "floorgent_ros.predictor", "floorgent_ros.cli"} <= set(core)
    result = run_python(
        BLOCK.format(blocked={"rclpy", "launch", "ament_index_python", "tf2_ros"}, names=core)
    )
    assert result.returncode == 0, result.stderr


def test_geometry_plans_and_simulation_import_without_torch() -> None:
    names = modules_of("errors", "config", "geometry", "plans", "simulation", "cli", "distance_lookup")
    result = run_python(BLOCK.format(blocked={"torch", "rclpy"}, names=names))
    assert result.returncode == 0, result.stderr


def test_the_block_blocks() -> None:
    result = run_python(BLOCK.format(blocked={"rclpy"}, names=["rclpy"]))
    assert result.returncode == 1
    assert "No module named 'rclpy'" in result.stderr


def test_importing_the_package_loads_nothing_heavy() -> None:
    """Every `ros2 topic echo` of our message imports it."""
    heavy = ("torch", "rclpy", "numpy", "numba", "matplotlib")
    code = f"import sys, floorgent_ros\nprint([name for name in {heavy!r} if name in sys.modules])"
    result = run_python(code)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr


def test_public_names_load_lazily() -> None:
    for name in floorgent_ros.__all__:
        assert getattr(floorgent_ros, name) is not None
    assert set(floorgent_ros.__all__) <= set(dir(floorgent_ros))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = floorgent_ros.nonsense
