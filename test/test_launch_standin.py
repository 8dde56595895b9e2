"""The stand-in for ROS's launch: what it reads from a launch file and how it starts and stops processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import launch_standin as standin

TOOL = Path(standin.__file__)

IMPORTS = """
from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

def generate_launch_description():
    return LaunchDescription([
"""

# Announces itself, then ends with code 0 on SIGINT, or stays (stubborn).
PROGRAM = """\
#!{python}
import os, signal, sys, time
signal.signal(signal.SIGINT, lambda *_: None if "stubborn" in sys.argv else sys.exit(0))
if "broken" in sys.argv:
    sys.exit(5)
print("started", *sys.argv[1:], os.environ.get("COLOUR", ""), flush=True)
time.sleep(60)
"""


@pytest.fixture
def launch_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Writes launch files; the package `toys` has the executable `toy`."""
    program = tmp_path / "prefix" / "lib" / "toys" / "toy"
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM.format(python=sys.executable), encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"/nowhere{os.pathsep}{tmp_path / 'prefix'}")

    def write(actions: str) -> Path:
        path = tmp_path / "toys.launch.py"
        path.write_text(
            IMPORTS + textwrap.indent(textwrap.dedent(actions), " " * 8) + "    ])\n", encoding="utf-8"
        )
        return path

    return write


def test_command_line_in_the_order_of_launch_ros(launch_file: Callable[[str], Path], tmp_path: Path) -> None:
    path = launch_file("""
        DeclareLaunchArgument("speed", default_value="3"),
        DeclareLaunchArgument("ns", default_value="robot1"),
        SetEnvironmentVariable("COLOUR", "red"),
        Node(package="toys", executable="toy", name="one", namespace=LaunchConfiguration("ns"),
             arguments=["-d"], ros_arguments=["--log-level", "warn"],
             remappings=[("map", ["/", LaunchConfiguration("ns"), "/map"])],
             parameters=[{"speed": LaunchConfiguration("speed"), "word": ParameterValue("7", value_type=str),
                          "flag": True}],
             additional_env={"SHAPE": "round"}),
    """)
    (process,) = standin.describe(path)
    parameters = Path(process.argv[process.argv.index("--params-file") + 1])
    assert process.name == "/robot1/one"
    assert process.argv == [
        *(f"{tmp_path}/prefix/lib/toys/toy", "-d", "--ros-args", "--log-level", "warn"),
        *(
            "-r",
            "__node:=one",
            "-r",
            "__ns:=/robot1",
            "--params-file",
            str(parameters),
            "-r",
            "map:=/robot1/map",
        ),
    ]
    assert yaml.safe_load(parameters.read_text(encoding="utf-8")) == {
        "/robot1/one": {"ros__parameters": {"speed": 3, "word": "7", "flag": True}}
    }
    assert process.env["COLOUR"] == "red"
    assert process.env["SHAPE"] == "round"
    assert process.env["PATH"] == os.environ["PATH"]


def test_arguments_replace_defaults(launch_file: Callable[[str], Path]) -> None:
    path = launch_file("""
        DeclareLaunchArgument("name", default_value="robot1"),
        Node(package="toys", executable="toy", name="one", namespace=LaunchConfiguration("name")),
    """)
    assert standin.describe(path)[0].name == "/robot1/one"
    assert standin.describe(path, {"name": "/lab/robot2/"})[0].name == "/lab/robot2/one"
    assert standin.describe(path, {"name": ""})[0].name == "/one"


@pytest.mark.parametrize(("wanted", "count"), [("true", 1), ("1", 1), ("False", 0), ("0", 0)])
def test_conditions(launch_file: Callable[[str], Path], wanted: str, count: int) -> None:
    path = launch_file("""
        DeclareLaunchArgument("wanted", default_value="false"),
        Node(package="toys", executable="toy", name="one",
             condition=IfCondition(LaunchConfiguration("wanted"))),
    """)
    assert len(standin.describe(path, {"wanted": wanted})) == count


def test_an_opaque_function_decides_late(launch_file: Callable[[str], Path]) -> None:
    path = launch_file("""
        DeclareLaunchArgument("count", default_value="2"),
        OpaqueFunction(function=lambda context: [
            Node(package="toys", executable="toy", name=f"toy{number}")
            for number in range(int(LaunchConfiguration("count").perform(context)))
        ]),
    """)
    assert [process.name for process in standin.describe(path)] == ["/toy0", "/toy1"]
    assert len(standin.describe(path, {"count": "5"})) == 5


@pytest.mark.parametrize(
    ("actions", "arguments", "message"),
    [
        ('DeclareLaunchArgument("a"),', {}, "argument a is missing"),
        ('DeclareLaunchArgument("a", default_value="x", choices=["x", "y"]),', {"a": "z"}, "use one of x, y"),
        ('DeclareLaunchArgument("a", default_value=""),', {"b": "1"}, "has no argument b"),
        ('Node(package="toys", executable="toi", name="one"),', {}, "no executable 'toi'"),
        (
            'Node(package="toys", executable="toy", name="a", namespace=LaunchConfiguration("n")),',
            {},
            "argument n",
        ),
        (
            'Node(package="toys", executable="toy", name="a", parameters=["/no.yaml"]),',
            {},
            "no parameter file",
        ),
        (
            'Node(package="toys", executable="toy", name="a", condition=IfCondition("maybe")),',
            {},
            "no condition",
        ),
    ],
)
def test_faults_are_told_in_one_line(
    launch_file: Callable[[str], Path], actions: str, arguments: dict[str, str], message: str
) -> None:
    with pytest.raises(standin.LaunchError, match=message) as caught:
        standin.describe(launch_file(actions + "\n"), arguments)
    assert "\n" not in str(caught.value)


def test_a_missing_launch_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(standin.LaunchError, match=r"no launch file .*none\.launch\.py"):
        standin.describe(tmp_path / "none.launch.py")


def test_what_the_standin_lacks_is_told(tmp_path: Path) -> None:
    path = tmp_path / "other.launch.py"
    path.write_text("from launch.actions import TimerAction\n", encoding="utf-8")
    with pytest.raises(standin.LaunchError, match=r"TimerAction.*stand-in may lack it"):
        standin.describe(path)


def test_real_modules_come_back(launch_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "launch", sys)
    standin.describe(launch_file(""))
    assert sys.modules["launch"] is sys
    assert "launch_ros.actions" not in sys.modules


TWO = """
    Node(package="toys", executable="toy", name="one"),
    Node(package="toys", executable="toy", name="two", arguments=["stubborn"]),
"""


def test_stop_interrupts_then_terminates(launch_file: Callable[[str], Path]) -> None:
    with standin.start(launch_file(TWO), stdout=subprocess.PIPE, text=True) as running:
        for process in running.processes.values():
            assert process.stdout.readline().startswith("started")
        assert running.poll() == {"/one": None, "/two": None}
        assert running.stop(patience_s=1.0) == {"/one": 0, "/two": -signal.SIGTERM}


def test_leaving_the_block_stops_everything(launch_file: Callable[[str], Path]) -> None:
    path = launch_file('Node(package="toys", executable="toy", name="one"),\n')
    with standin.start(path, stdout=subprocess.PIPE, text=True) as running:
        assert running.processes["/one"].stdout.readline().startswith("started")
    assert running.poll() == {"/one": 0}


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_command_line_passes_a_failure_on(launch_file: Callable[[str], Path]) -> None:
    path = launch_file('Node(package="toys", executable="toy", name="one", arguments=["broken"]),\n')
    assert run_tool(str(path)).returncode == 5


def test_command_line_lists_arguments(launch_file: Callable[[str], Path]) -> None:
    path = launch_file('DeclareLaunchArgument("speed", default_value="3", description="how fast"),\n')
    result = run_tool(str(path), "--show-args")
    assert result.stdout == "speed:=3\n    how fast\n"


@pytest.mark.parametrize("arguments", [["/none.launch.py"], ["/none.launch.py", "speed=3"]])
def test_command_line_refuses_in_its_last_line(arguments: list[str]) -> None:
    result = run_tool(*arguments)
    assert result.returncode == 2
    assert result.stderr.strip()
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_command_line_ends_its_processes_on_a_signal(launch_file: Callable[[str], Path], number: int) -> None:
    path = launch_file('Node(package="toys", executable="toy", name="one"),\n')
    with subprocess.Popen([sys.executable, str(TOOL), str(path)], stdout=subprocess.PIPE, text=True) as tool:
        assert tool.stdout.readline().startswith("started")
        for _ in range(3):  # a terminal and a parent may both send one; the first must not be cut off
            tool.send_signal(number)
        assert tool.wait(timeout=30) == 0
        # Whoever still had the pipe open would keep it from ending.
        end = time.monotonic() + 10
        assert tool.stdout.read() == ""
        assert time.monotonic() < end


def test_its_processes_are_in_the_session_that_it_was_given(launch_file: Callable[[str], Path]) -> None:
    path = launch_file('Node(package="toys", executable="toy", name="one"),\n')
    command = [sys.executable, str(TOOL), str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as tool:
        assert tool.stdout.readline().startswith("started")
        os.killpg(tool.pid, signal.SIGKILL)  # the last resort of whoever started it
        assert tool.stdout.read() == ""  # nobody is left who has the pipe open
