"""What the parts of `soak.py` share: figures, a robot that keeps what comes back, and node processes."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import rclpy
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid
from rclpy.executors import SingleThreadedExecutor

from floorgent_ros.demo.children import Child, Children, ros_environment
from floorgent_ros.msg import DistanceGrid, StageTimings
from floorgent_ros.ros.listener import LATCHED
from launch_standin import describe
from malformed import good_map, good_pose

LAUNCH_FILE = Path(__file__).parents[1] / "launch/predict.launch.py"
PATIENCE_S = 120.0  # for one result; a machine may be busy


@dataclass
class Figures:
    """Names and values in the order of the measurement, and what was not met."""

    values: dict[str, Any] = field(default_factory=dict)
    unmet: list[str] = field(default_factory=list)

    def add(self, name: str, value: Any, *, met: bool = True, limit: str = "") -> None:
        """Print a figure and keep it. limit: what it should be, in words."""
        self.values[name] = value
        text = f"{value:.3g}" if isinstance(value, float) else value
        print(f"{name:<44} {text}{f'   ({limit})' if limit else ''}{'' if met else '   NOT MET'}", flush=True)
        self.unmet += [] if met else [name]


class Result(NamedTuple):
    """Of a DistanceGrid: the number of its map, when it left the node (wall clock, s), and its latency, s."""

    map: int
    published_s: float
    latency_s: float


class Robot:
    """Publishes maps and poses and keeps the results' stamps and timings."""

    def __init__(self) -> None:
        self.node = rclpy.create_node("soak_robot")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.maps = self.node.create_publisher(OccupancyGrid, "map", LATCHED)
        self.poses = self.node.create_publisher(PoseStamped, "pose", LATCHED)
        self.sent_s: list[float] = []  # when each map left, wall clock; the first is number 1
        self.results: list[Result] = []
        self.waits_s: dict[int, float] = {}  # by the number of the map
        self.node.create_subscription(DistanceGrid, "floorgent/distance", self._on_result, LATCHED)
        self.node.create_subscription(StageTimings, "floorgent/timings", self._on_timings, LATCHED)

    @property
    def sent(self) -> int:
        """The number of the newest map."""
        return len(self.sent_s)

    def send(self) -> int:
        """Publish the next map; its number is in its stamp."""
        number = self.sent + 1
        message = good_map(mark=number)
        message.header.stamp.sec = number
        self.sent_s.append(time.time())
        self.maps.publish(message)
        return number

    def place(self, x: float = 2.0, y: float = 1.5) -> None:
        """Publish where the robot is."""
        self.poses.publish(good_pose(x, y))

    def until(self, condition: Callable[[], Any], what: str, patience_s: float = PATIENCE_S) -> None:
        """Spin until the condition holds; RuntimeError when it does not in time."""
        end = time.monotonic() + patience_s
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"waited {patience_s:g} s for {what}")
            self.executor.spin_once(timeout_sec=0.01)

    def spin_until(self, end: float) -> None:
        """Spin until a monotonic time."""
        while (left := end - time.monotonic()) > 0:
            self.executor.spin_once(timeout_sec=left)

    def begun(self) -> list[tuple[int, float]]:
        """Of each result the number of its map, and when its prediction began, wall clock."""
        known = [result for result in self.results if result.map in self.waits_s]
        return [
            (result.map, result.published_s - result.latency_s + self.waits_s[result.map]) for result in known
        ]

    def _on_result(self, message: DistanceGrid, info: dict[str, int]) -> None:
        left_s = info["source_timestamp"] / 1e9
        self.results.append(Result(message.header.stamp.sec, left_s, message.latency_s))

    def _on_timings(self, message: StageTimings) -> None:
        self.waits_s[message.header.stamp.sec] = message.milliseconds[0] / 1e3


class Surroundings:
    """The robot, the processes, and how a node is started."""

    def __init__(self, children: Children, options: argparse.Namespace) -> None:
        self.children, self.options, self.robot = children, options, Robot()
        self.count = 0

    def start(self, **parameters: Any) -> Child:
        """Start a node process with these parameters."""
        self.count += 1
        parameters |= {"pose_source": "pose", "republish_period": 0.0, "device": self.options.device}
        if self.options.checkpoint:
            parameters["checkpoint"] = str(self.options.checkpoint)
        command = [sys.executable, "-m", "floorgent_ros.ros.node", "--ros-args"]
        for name, value in parameters.items():
            command += ["-p", f"{name}:={value}"]
        return self.children.start(f"node{self.count}", command)

    def start_and_serve(self, **parameters: Any) -> tuple[Child, float]:
        """Start a node and wait for its first result: the process, and how long that took, s."""
        self.robot.results.clear()
        begun = time.monotonic()
        child = self.start(**parameters)
        self.robot.until(lambda: self.robot.results, f"a result; the node said: {child.last_words()}")
        return child, time.monotonic() - begun


def resident_mb(pid: int) -> float:
    """Memory that the process holds, MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def threads(pid: int) -> int:
    """How many threads the process has."""
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def cpu_s(pid: int) -> float:
    """Processor time that the process has used, s."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def end(child: Child, figures: Figures) -> None:
    """Ctrl-C and its exit code."""
    begun = time.monotonic()
    child.interrupt()
    code = child.wait(10.0)
    figures.add("exit code after Ctrl-C", code, met=code == 0)
    figures.add("time to exit [s]", time.monotonic() - begun)


def launched(environment: dict[str, str]) -> dict[str, str]:
    """The environment with what the launch file adds to it for the node."""
    (node,) = describe(LAUNCH_FILE, env=environment)
    return node.env


@contextlib.contextmanager
def surroundings(options: argparse.Namespace) -> Iterator[Surroundings]:
    """A ROS domain of this run's own, and processes that end with it."""
    with tempfile.TemporaryDirectory(prefix="floorgent_soak_") as folder:
        environment = ros_environment(Path(folder))  # of the robot, too
        os.environ.update(environment)
        rclpy.init(args=[], signal_handler_options=rclpy.SignalHandlerOptions.NO)
        try:
            with Children(Path(folder), launched(environment)) as children:
                yield Surroundings(children, options)
        finally:
            rclpy.try_shutdown()
