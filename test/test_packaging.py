"""The package's metadata agree with each other and with the sources, and what gets installed is whole."""

from __future__ import annotations

import ast
import filecmp
import os
import re
import shutil
import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

import floorgent_ros

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MANIFEST = ET.parse(ROOT / "package.xml").getroot()
TAG = f"python{sys.version_info.major}.{sys.version_info.minor}"

# The distribution that holds a library, where the names differ.
DISTRIBUTIONS = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
}
# Public ROS packages whose import name is another than the package's.
ROS_PACKAGES = {"tf2_ros": "tf2_ros_py"}


def imported_libraries(folder: Path) -> set[str]:
    """Top-level names of everything that the sources below a folder import, the standard library aside."""
    names: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"floorgent_ros"}


def requirements(path: Path) -> dict[str, Requirement]:
    lines = (line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines())
    found = [Requirement(line) for line in lines if line]
    return {requirement.name.lower().replace("_", "-"): requirement for requirement in found}


def is_ros_package(name: str) -> bool:
    return bool(re.match(r"rclpy$|tf2_|rcl_|ament_|launch|builtin_interfaces$|\w+_msgs$|\w+_srvs$", name))


def test_one_version_everywhere() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert floorgent_ros.__version__ == PYPROJECT["project"]["version"] == MANIFEST.findtext("version")
    assert re.search(r"^## (\S+)", changelog, re.MULTILINE).group(1) == floorgent_ros.__version__
    assert metadata.version("floorgent_ros") == floorgent_ros.__version__


def test_pip_metadata_name_what_is_imported_and_nothing_else() -> None:
    libraries = {name for name in imported_libraries(ROOT / "floorgent_ros") if not is_ros_package(name)}
    used = {DISTRIBUTIONS.get(name, name) for name in libraries}
    declared = {Requirement(text).name for text in PYPROJECT["project"]["dependencies"]}
    assert declared == used


def test_the_manifest_names_the_ros_packages_that_are_imported() -> None:
    imported = imported_libraries(ROOT / "floorgent_ros") | imported_libraries(ROOT / "launch")
    used = {ROS_PACKAGES.get(name, name) for name in imported if is_ros_package(name)}
    declared = {item.text for kind in ("depend", "exec_depend") for item in MANIFEST.findall(kind)}
    assert used - declared == set()
    message_packages = {"builtin_interfaces", "geometry_msgs", "nav_msgs", "std_msgs"}
    assert message_packages <= {item.text for item in MANIFEST.findall("depend")}
    assert MANIFEST.findtext("member_of_group") == "rosidl_interface_packages"


def test_the_lock_file_satisfies_what_is_asked_for() -> None:
    locked = requirements(ROOT / "requirements.lock")
    assert all(re.fullmatch(r"==[^,*]+", str(item.specifier)) for item in locked.values())
    wanted = [*requirements(ROOT / "requirements.in").values()]
    wanted += [Requirement(text) for text in PYPROJECT["project"]["dependencies"]]
    wanted += [Requirement(text) for text in PYPROJECT["project"]["optional-dependencies"]["ros"]]
    for requirement in wanted:
        version = str(locked[requirement.name.lower()].specifier).removeprefix("==")
        assert requirement.specifier.contains(version), f"{requirement} but {version} is locked"


def test_the_environment_is_what_the_lock_file_says() -> None:
    for requirement in requirements(ROOT / "requirements.lock").values():
        version = metadata.version(requirement.name).partition("+")[0]
        assert requirement.specifier.contains(version), f"{requirement} but {version} is installed: run make"


@pytest.mark.parametrize("folder", ["launch", "config", "msg", "srv"])
def test_installed_files_are_those_of_the_working_tree(folder: str) -> None:
    installed = Path(sys.prefix) / "share" / "floorgent_ros" / folder
    names = [path.name for path in (ROOT / folder).iterdir() if path.is_file()]
    assert names
    _, different, missing = filecmp.cmpfiles(ROOT / folder, installed, names, shallow=False)
    assert different + missing == [], "run make"


def test_sources_come_from_the_working_tree() -> None:
    """A change of a source needs no installation, whatever the working directory is."""
    code = (
        "import floorgent_ros, floorgent_ros.msg\nprint(floorgent_ros.__file__, floorgent_ros.msg.__file__)"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=True)
    ours, generated = map(Path, result.stdout.split())
    assert ours == ROOT / "floorgent_ros" / "__init__.py"
    assert generated.is_relative_to(sys.prefix)


def test_the_message_imports_from_an_empty_environment() -> None:
    code = "from floorgent_ros.msg import DistanceGrid\nprint(DistanceGrid(completions=3).completions)"
    result = subprocess.run(
        [sys.executable, "-c", code], env={}, cwd="/", capture_output=True, text=True, check=False
    )
    assert result.stdout.strip() == "3", result.stderr


@pytest.mark.parametrize("place", ["bin/floorgent", "lib/floorgent_ros/floorgent"])
def test_the_command_starts(place: str) -> None:
    result = subprocess.run(
        [f"{sys.prefix}/{place}", "--help"], cwd="/", capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    for command in ("predict", "replay", "view", "demo", "train", "evaluate"):
        assert command in result.stdout


def test_the_node_executable_refuses_bad_parameters_in_one_line() -> None:
    command = [f"{sys.prefix}/lib/floorgent_ros/predict", "--ros-args", "-p", "seed:=-1"]
    result = subprocess.run(command, cwd="/", capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert len(result.stderr.strip().splitlines()) == 1
    assert "seed" in result.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel as ``pip install .`` makes it, from a copy of the sources."""
    folder = tmp_path_factory.mktemp("wheel")
    ignored = shutil.ignore_patterns(
        ".*", "build", "install", "log", "demo_output", "__pycache__", "*.egg-info", "runs"
    )
    shutil.copytree(ROOT, folder / "sources", ignore=ignored)
    command = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", "."]
    result = subprocess.run(
        [*command, str(folder / "sources")], cwd=folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def test_a_wheel_holds_sources_message_executables_and_shared_files(wheel: zipfile.ZipFile) -> None:
    data = f"floorgent_ros-{floorgent_ros.__version__}.data/data/"
    names = wheel.namelist()
    shipped = {path.relative_to(ROOT).as_posix() for path in (ROOT / "floorgent_ros").rglob("*.py")}
    for folder in ("weights", "view/page"):
        shipped |= {path.relative_to(ROOT).as_posix() for path in (ROOT / "floorgent_ros" / folder).iterdir()}
    assert shipped <= set(names)
    built = {
        f"lib/{TAG}/site-packages/floorgent_ros/msg/_distance_grid.py",
        f"lib/{TAG}/site-packages/floorgent_ros/srv/_get_distances.py",
        "lib/libfloorgent_ros__rosidl_generator_py.so",
        "lib/floorgent_ros/predict",
        "lib/floorgent_ros/floorgent",
        "share/floorgent_ros/launch/predict.launch.py",
        "share/floorgent_ros/config/predict.yaml",
        "share/floorgent_ros/config/predict.rviz",
        "share/floorgent_ros/config/sros2/policy.xml",
        "share/floorgent_ros/msg/DistanceGrid.msg",
        "share/floorgent_ros/srv/Predict.srv",
        "share/floorgent_ros/package.xml",
        "share/ament_index/resource_index/packages/floorgent_ros",
    }
    assert {data + name for name in built} <= set(names)
    assert data + f"lib/{TAG}/site-packages/floorgent_ros/__init__.py" not in names
    assert not [name for name in names if name.startswith("test/")]
    assert re.search(r"cp3\d+-cp3\d+-linux_x86_64", wheel.filename)


def test_executables_of_a_wheel_can_be_executed(wheel: zipfile.ZipFile) -> None:
    scripts = [item for item in wheel.infolist() if "/lib/floorgent_ros/" in item.filename]
    assert len(scripts) == 2
    for script in scripts:
        assert (script.external_attr >> 16) & 0o111
        assert wheel.read(script).decode().startswith(f"#!{sys.executable}\n")


def test_the_licence_is_apache_2() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert "Version 2.0" in text
    assert MANIFEST.findtext("license") == "Apache-2.0"


def test_ci_ends_with_the_test_suite() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").rstrip().endswith("make test")


def test_the_parameter_file_is_for_every_namespace() -> None:
    """A node name as key would miss the node when it runs in a namespace."""
    assert set(yaml.safe_load((ROOT / "config" / "predict.yaml").read_text(encoding="utf-8"))) == {"/**"}
