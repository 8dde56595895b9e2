"""colcon builds the package, its tests run there, and the install space works without the working tree."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which colcon build and colcon test have run."""
    folder = tmp_path_factory.mktemp("workspace")
    command = [sys.executable, str(ROOT / "tools" / "colcon_test.py"), str(folder)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False)
    assert result.returncode == 0, (result.stdout + result.stderr)[-6000:]
    return folder


def sourced(workspace: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command after sourcing the workspace, outside the working tree."""
    script = f". {workspace}/install/setup.sh && {command}"
    return subprocess.run(
        ["sh", "-c", script], cwd=workspace, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.timeout(600)
def test_colcon_ran_tests_and_they_passed(workspace: Path) -> None:
    results = sorted(workspace.glob("build/floorgent_ros/test_results/floorgent_ros/*.xml"))
    suites = [ET.parse(path).getroot().find("testsuite") for path in results]
    assert len(suites) == 3
    for suite in suites:
        assert int(suite.get("tests")) > 0
        assert int(suite.get("errors")) == int(suite.get("failures")) == int(suite.get("skipped")) == 0


def test_colcon_tested_what_it_installed(workspace: Path) -> None:
    logs = workspace.glob("build/floorgent_ros/Testing/*/*.log")
    text = "".join(
        path.read_text(encoding="utf-8") for path in (*logs, *workspace.glob("log/latest_test/**/*.log"))
    )
    assert f"floorgent_ros: {workspace}/install/floorgent_ros/lib/" in text


def test_the_message_imports_from_the_install_space(workspace: Path) -> None:
    code = (
        "import floorgent_ros as package; import floorgent_ros.msg as messages; "
        "print(messages.DistanceGrid.__name__, package.__file__, messages.__file__)"
    )
    result = sourced(workspace, f"{sys.executable} -c '{code}'")
    assert result.returncode == 0, result.stderr
    name, package, message = result.stdout.split()
    assert name == "DistanceGrid"
    assert Path(package).is_relative_to(workspace / "install")
    assert Path(message).is_relative_to(workspace / "install")


def test_the_node_of_the_install_space_starts(workspace: Path) -> None:
    """Far enough to declare its parameters and to refuse one of them."""
    result = sourced(workspace, "install/floorgent_ros/lib/floorgent_ros/predict --ros-args -p seed:=-1")
    assert result.returncode == 2, result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "seed" in result.stderr


def test_the_command_of_the_install_space_starts(workspace: Path) -> None:
    result = sourced(workspace, "install/floorgent_ros/lib/floorgent_ros/floorgent predict --help")
    assert result.returncode == 0, result.stderr
    assert "--viewpoint" in result.stdout


@pytest.mark.parametrize("name", ["predict", "floorgent"])
def test_executables_can_be_installed_as_links(workspace: Path, name: str) -> None:
    """With --symlink-install a link to the file of the build folder is what runs."""
    assert os.access(workspace / "build" / "floorgent_ros" / "executables" / name, os.X_OK)


@pytest.mark.parametrize(
    "name",
    [
        "launch/predict.launch.py",
        "config/predict.yaml",
        "config/predict.rviz",
        "tools/launch_standin.py",
        "tools/launch_entities.py",
    ],
)
def test_shared_files_are_installed(workspace: Path, name: str) -> None:
    installed = workspace / "install" / "floorgent_ros" / "share" / "floorgent_ros" / name
    assert installed.read_bytes() == (ROOT / name).read_bytes()


def test_the_weights_are_installed(workspace: Path) -> None:
    installed = next(workspace.glob("install/floorgent_ros/lib/python3*/site-packages/floorgent_ros/weights"))
    shipped = sorted((ROOT / "floorgent_ros" / "weights").glob("*.safetensors"))
    assert shipped
    for path in shipped:
        assert (installed / path.name).read_bytes() == path.read_bytes()
