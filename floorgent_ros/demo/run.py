"""The demo from start to end: three processes, a bounded walk, a table and two pictures."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from tqdm import tqdm

from floorgent_ros.demo.building import building, first_place
from floorgent_ros.demo.children import Child, Children, ros_environment, signals_interrupt
from floorgent_ros.demo.records import Record
from floorgent_ros.errors import FloorgentError

LAUNCH_FILE, LAUNCHER = "launch/predict.launch.py", "tools/launch_standin.py"
START_LIMIT_S = 180.0  # until the first distance: longer than the robot itself waits
NODE_PATIENCE_S = 35.0  # the launch process interrupts, terminates and kills the node in 10 s each
SLACK_S = 60.0  # by how much a walk may overrun on a busy machine
LAST_RECORD_S = 1.0
LOG_PREFIX = re.compile(r"^(\[[^\]]*\] ?)+: ?")  # [FATAL] [1700000000.0] [floorgent]:


def run(options: argparse.Namespace) -> int:
    """Run the demo as the command line says; raises `FloorgentError` when no prediction arrived."""
    if importlib.util.find_spec("rclpy") is None:
        raise FloorgentError("the demo needs ROS 2's rclpy: run `make demo`, or source a ROS 2 installation")
    if options.seconds <= 0:
        raise FloorgentError(f"--seconds {options.seconds:g}: give a time above 0")
    world = building(options.map, options.seed)
    start = options.start and (options.start[0], options.start[1])
    options.start = first_place(world, start, options.map, options.seed)
    logs = _logs(options.out)
    with tempfile.TemporaryDirectory(prefix=".records-", dir=options.out) as folder:
        records = Path(folder).absolute()
        with signals_interrupt(), Children(logs, ros_environment(logs)) as children:
            _walk(children, options, records)
        heard = [Record.load(path) for path in sorted(records.glob("*.npz"))]
    if not heard:
        raise FloorgentError(f"no prediction arrived; see {logs}")

    from floorgent_ros.demo.pictures import draw
    from floorgent_ros.demo.summary import summarise, table

    pictures = draw(heard, world, options.out)
    print(table(summarise(heard, world)))
    for picture in pictures:
        print(f"picture      {picture}")
    return 0


@dataclass
class _Progress:
    """What the processes have told; a bar that shows it."""

    bar: tqdm[NoReturn]
    maps: int = 0
    predictions: int = 0

    def robot_says(self, line: str) -> None:
        told = json.loads(line)
        self.maps = told["maps"]
        self.bar.set_description_str("walking" if told["seconds"] else "the first distances", refresh=False)
        self.bar.n = min(told["seconds"], self.bar.total)
        self._show()

    def planner_says(self, line: str) -> None:
        self.predictions = json.loads(line)["predictions"]
        self._show()

    def _show(self) -> None:
        self.bar.set_postfix_str(f"{self.maps} maps, {self.predictions} predictions")


def _walk(children: Children, options: argparse.Namespace, records: Path) -> None:
    """Start the three processes and wait for the robot's end; raises `FloorgentError` when one fails."""
    form = "{desc:<20}{bar:30} {n:.0f}/{total:.0f} s  {postfix}"
    python = [sys.executable, "-m"]
    with tqdm(total=options.seconds, bar_format=form, desc="starting", file=sys.stderr) as bar:
        progress = _Progress(bar)
        node = children.start("node", _node_command(options), patience_s=NODE_PATIENCE_S)
        listen = [*python, "floorgent_ros.demo.planner", "--records", str(records)]
        planner = children.start("planner", listen, progress.planner_says)
        robot = children.start("robot", [*python, *_robot_arguments(options)], progress.robot_says)
        deadline = time.monotonic() + START_LIMIT_S + options.seconds + SLACK_S
        while robot.code is None:
            for child in (node, planner):
                if child.code is not None:
                    _fail(child)
            if time.monotonic() > deadline:
                raise FloorgentError(f"the walk did not end in time; see {node.log.parent}")
            time.sleep(0.1)
        if robot.code:
            _fail(robot)
        time.sleep(LAST_RECORD_S)  # the planner is just keeping the last distances
        planner.interrupt()
        planner.wait(10.0)


def _fail(child: Child) -> NoReturn:
    reason = LOG_PREFIX.sub("", child.last_words())
    raise FloorgentError(f"the {child.name} process ended (code {child.code}): {reason} (see {child.log})")


def _robot_arguments(options: argparse.Namespace) -> list[str]:
    arguments = ["floorgent_ros.demo.robot", "--seconds", str(options.seconds), "--seed", str(options.seed)]
    arguments += ["--start", *(str(number) for number in options.start)]
    return arguments + (["--map", str(options.map)] if options.map else [])


def _node_command(options: argparse.Namespace) -> list[str]:
    """The launch file, with its stand-in for a missing `launch`, which uses the real one where it exists."""
    package = _package_files()
    arguments = ["pose_source:=pose", f"device:={options.device}"]
    if options.checkpoint:
        arguments.append(f"checkpoint:={options.checkpoint.absolute()}")
    return [
        sys.executable,
        str(package / LAUNCHER),
        str(package / LAUNCH_FILE),
        *arguments,
    ]


def _package_files() -> Path:
    """Where launch/ and tools/ are: the source tree, else an installed share/floorgent_ros."""
    prefixes = [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]
    places = [Path(__file__).parents[2], *(Path(prefix) / "share" / "floorgent_ros" for prefix in prefixes)]
    for place in places:
        if all((place / name).is_file() for name in (LAUNCH_FILE, LAUNCHER)):
            return place
    raise FloorgentError(f"{LAUNCH_FILE} was not found: build the package with colcon or pip first")


def _logs(out: Path) -> Path:
    """Make the output folder and that of the logs in it."""
    logs = out / "log"
    try:
        logs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FloorgentError(f"{out}: cannot be written ({error.strerror}); give another --out") from error
    return logs.absolute()
