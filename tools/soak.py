"""What the node bears: maps at a high rate, malformed messages, kills. Prints figures, 1 if one is not met.

    python tools/soak.py                                    10,000 maps at 20 Hz, 1,000 faults, 100 kills
    python tools/soak.py --maps 400 --faults 50 --kills 2   a look
    python tools/soak.py --minutes 30                       maps for half an hour

The node runs as its own process, with the shipped weights unless --checkpoint says otherwise; only the
malformed messages go to a node in this process, where each refusal can be seen.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import rclpy
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid
from rclpy.executors import SingleThreadedExecutor

from floorgent_ros.demo.children import Child, Children, ros_environment, signals_interrupt
from floorgent_ros.msg import DistanceGrid, StageTimings
from floorgent_ros.ros.floorgent_node import FloorgentNode
from floorgent_ros.ros.listener import LATCHED
from malformed import good_map, good_pose, malformed_map, malformed_parameter, malformed_pose

PATIENCE_S = 120.0  # for one result; a machine may be busy
SETTLED_SHARE = 0.1  # of the maps: from there on memory may not grow
GROWTH_LIMIT, RECOVERY_LIMIT_S = 0.05, 5.0
BEHIND_LIMIT = 5  # what scheduling may cost; maps that are worked through in order are 15 and more behind
IDLE_S = 10.0


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


class Robot:
    """Publishes maps and poses and keeps the results' stamps and timings."""

    def __init__(self) -> None:
        self.node = rclpy.create_node("soak_robot")
        self.executor = SingleThreadedExecutor()
        self.executor.add_node(self.node)
        self.maps = self.node.create_publisher(OccupancyGrid, "map", LATCHED)
        self.poses = self.node.create_publisher(PoseStamped, "pose", LATCHED)
        self.results: list[int] = []  # the number of the map of each
        self.waits_s: list[float] = []
        self.latencies_s: list[float] = []
        self.node.create_subscription(DistanceGrid, "floorgent/distance", self._on_result, LATCHED)
        self.node.create_subscription(StageTimings, "floorgent/timings", self._on_timings, LATCHED)
        self.sent = 0

    def send(self) -> int:
        """Publish the next map; its number is in its stamp."""
        self.sent += 1
        message = good_map(mark=self.sent)
        message.header.stamp.sec = self.sent
        self.maps.publish(message)
        return self.sent

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

    def _on_result(self, message: DistanceGrid) -> None:
        self.results.append(message.header.stamp.sec)
        self.latencies_s.append(message.latency_s)

    def _on_timings(self, message: StageTimings) -> None:
        self.waits_s.append(message.milliseconds[0] / 1e3)


class Surroundings:
    """The robot, the processes, and how a node is started."""

    def __init__(self, children: Children, options: argparse.Namespace) -> None:
        self.children, self.options, self.robot = children, options, Robot()
        self.count = 0

    def start(self) -> Child:
        """Start a node process."""
        self.count += 1
        parameters = {"pose_source": "pose", "republish_period": 0.0, "device": self.options.device}
        if self.options.checkpoint:
            parameters["checkpoint"] = str(self.options.checkpoint)
        command = [sys.executable, "-m", "floorgent_ros.ros.node", "--ros-args"]
        for name, value in parameters.items():
            command += ["-p", f"{name}:={value}"]
        return self.children.start(f"node{self.count}", command)

    def start_and_serve(self) -> tuple[Child, float]:
        """Start a node and wait for its first result: the process, and how long that took, s."""
        self.robot.results.clear()
        begun = time.monotonic()
        child = self.start()
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


def load(around: Surroundings, figures: Figures) -> None:
    """Maps at a high rate: the newest is served, memory and threads stay."""
    robot, options = around.robot, around.options
    robot.place()
    robot.send()
    child, start_s = around.start_and_serve()
    figures.add("start to first distances [s]", start_s)
    figures.add("processor time until then [s]", cpu_s(child.pid))
    memory, counts = [], []
    count = round(options.minutes * 60 * options.rate) if options.minutes else options.maps
    robot.latencies_s.clear()
    robot.waits_s.clear()
    begun = time.monotonic()
    for number in range(count):
        robot.send()
        if number % max(1, round(options.rate)) == 0:
            memory.append(resident_mb(child.pid))
            counts.append(threads(child.pid))
        robot.spin_until(begun + (number + 1) / options.rate)
    last = robot.sent
    robot.until(lambda: robot.results[-1] == last, f"the result of the last map, {last}")
    elapsed_s = time.monotonic() - begun
    figures.add("maps", count)
    figures.add("maps a second", count / elapsed_s)
    figures.add("results", len(robot.latencies_s))
    figures.add("last map served", last, met=True)
    in_order = robot.results == sorted(robot.results)
    figures.add("results in the order of their maps", in_order, met=in_order)
    figures.add("latency median [s]", statistics.median(robot.latencies_s))
    figures.add("latency maximum [s]", max(robot.latencies_s))
    behind = max(robot.waits_s) * options.rate
    figures.add(
        "newer maps at the start of a prediction, at most",
        behind,
        met=behind < BEHIND_LIMIT,
        limit=f"below {BEHIND_LIMIT}",
    )
    settled = round(SETTLED_SHARE * len(memory))
    first, final = statistics.median(memory[settled : settled + 5]), statistics.median(memory[-5:])
    figures.add("memory after a tenth of the maps [MB]", first)
    growth = final / first - 1
    figures.add("its growth since", growth, met=growth < GROWTH_LIMIT, limit=f"below {GROWTH_LIMIT:.0%}")
    figures.add(
        "threads then and at the end", f"{counts[settled]}, {counts[-1]}", met=counts[-1] <= counts[settled]
    )
    robot.spin_until(time.monotonic() + 2.0)
    before = cpu_s(child.pid)
    robot.spin_until(time.monotonic() + IDLE_S)
    figures.add("CPU of the idle node", (cpu_s(child.pid) - before) / IDLE_S, limit="share of a core")
    end(child, figures)


def end(child: Child, figures: Figures) -> None:
    """Ctrl-C and its exit code."""
    begun = time.monotonic()
    child.interrupt()
    code = child.wait(10.0)
    figures.add("exit code after Ctrl-C", code, met=code == 0)
    figures.add("time to exit [s]", time.monotonic() - begun)


def faults(around: Surroundings, figures: Figures) -> None:
    """Malformed maps, poses and parameters: each refused with a reason, and good ones are served between."""
    robot, random = around.robot, Random(around.options.seed)
    overrides = {"pose_source": "pose", "max_rate": 100.0, "republish_period": 0.0, "min_travel": 0.0}
    wanted = around.options.checkpoint
    overrides |= {"checkpoint": str(wanted)} if wanted else {}
    node = FloorgentNode(
        namespace="fuzzed",
        parameter_overrides=[rclpy.Parameter(name, value=value) for name, value in overrides.items()],
    )
    robot.executor.add_node(node)
    robot.until(lambda: node.state == "active" and node.pipeline, "the node")
    pipeline = node.pipeline
    if pipeline is None:  # for the type checker
        return
    maps = node.create_publisher(OccupancyGrid, "map", LATCHED)
    poses = node.create_publisher(PoseStamped, "pose", LATCHED)
    served = 0

    def serves() -> None:
        nonlocal served
        before = pipeline.tally.published
        poses.publish(good_pose())
        robot.until(lambda: not isinstance(pipeline.poses.pose_in("map"), str), "the good pose")
        maps.publish(good_map(mark=random.getrandbits(16)))
        robot.until(lambda: pipeline.tally.published > before, "distances after malformed messages")
        served += 1

    serves()
    refused = {"maps": 0, "poses": 0, "parameters": 0}
    for number in range(around.options.faults):
        kind = random.choice(list(refused))
        if kind == "maps":
            before = pipeline.maps.refused
            maps.publish(malformed_map(random))
            robot.until(lambda before=before: pipeline.maps.refused > before, "a refusal")  # type: ignore[misc]
            refused[kind] += bool(pipeline.maps.refusal)
        elif kind == "poses":
            poses.publish(malformed_pose(random))
            robot.until(lambda: isinstance(pipeline.poses.pose_in("map"), str), "a refusal")
            refused[kind] += 1
            poses.publish(good_pose())
            robot.until(lambda: not isinstance(pipeline.poses.pose_in("map"), str), "the good pose")
        else:
            name, value = malformed_parameter(random)
            (outcome,) = node.set_parameters([rclpy.Parameter(name, value=value)])
            refused[kind] += not outcome.successful and bool(outcome.reason)
        if number % 50 == 49:
            serves()
    total = sum(refused.values())
    for kind, count in refused.items():
        figures.add(f"malformed {kind} refused with a reason", count)
    figures.add("faults", around.options.faults, met=total == around.options.faults, limit="all refused")
    figures.add("good maps served in between", served)
    robot.executor.remove_node(node)
    node.destroy_node()


def kills(around: Surroundings, figures: Figures) -> None:
    """Kills at random moments: a node that is started again serves the latched map."""
    robot, random = around.robot, Random(around.options.seed)
    robot.place()
    robot.send()
    child, usual_s = around.start_and_serve()
    recoveries_s = []
    for _ in range(around.options.kills):
        # half of the kills hit a running node, in a prediction as often as not; the others a starting one
        end_s = time.monotonic() + random.uniform(0.0, 1.0)
        while time.monotonic() < end_s:
            robot.place(random.uniform(0.5, 3.5))
            robot.spin_until(min(end_s, time.monotonic() + 0.1))
        child.kill()
        if random.random() < 0.5:
            child = around.start()
            robot.spin_until(time.monotonic() + random.uniform(0.0, usual_s))
            child.kill()
        child, recovery_s = around.start_and_serve()
        recoveries_s.append(recovery_s)
    figures.add("kills, each followed by distances", len(recoveries_s))
    figures.add("start to distances, median [s]", statistics.median(recoveries_s))
    slowest = max(recoveries_s)
    figures.add(
        "start to distances, slowest [s]",
        slowest,
        met=slowest < RECOVERY_LIMIT_S,
        limit=f"below {RECOVERY_LIMIT_S:g}",
    )
    end(child, figures)


@contextlib.contextmanager
def surroundings(options: argparse.Namespace) -> Iterator[Surroundings]:
    """A ROS domain of this run's own, and processes that end with it."""
    with tempfile.TemporaryDirectory(prefix="floorgent_soak_") as folder:
        environment = ros_environment(Path(folder))
        os.environ.update(environment)
        rclpy.init(args=[], signal_handler_options=rclpy.SignalHandlerOptions.NO)
        try:
            with Children(Path(folder), environment) as children:
                yield Surroundings(children, options)
        finally:
            rclpy.try_shutdown()


def main() -> int:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description="Load, faults and kills: what the node bears, with figures.")
    parser.add_argument("--maps", type=int, default=10_000, metavar="N", help="0: none (default %(default)s)")
    parser.add_argument("--minutes", type=float, help="send maps for so long instead")
    parser.add_argument(
        "--rate", type=float, default=20.0, metavar="HZ", help="of the maps (default %(default)s)"
    )
    parser.add_argument("--faults", type=int, default=1000, metavar="N", help="default %(default)s")
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="default %(default)s")
    parser.add_argument("--seed", type=int, default=0, help="of faults and kills (default %(default)s)")
    parser.add_argument("--checkpoint", type=Path, metavar="F", help="default: the shipped weights")
    parser.add_argument("--device", default="auto", metavar="D", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--json", type=Path, metavar="F", help="write the figures there")
    options = parser.parse_args()
    figures = Figures()
    try:
        with signals_interrupt(), surroundings(options) as around:
            for wanted, part in ((options.maps, load), (options.faults, faults), (options.kills, kills)):
                if wanted:
                    part(around, figures)
    except (RuntimeError, KeyboardInterrupt) as error:
        print(f"soak: stopped: {error}", file=sys.stderr)
        figures.unmet.append(str(error))
    if options.json:
        text = json.dumps({"figures": figures.values, "not met": figures.unmet}, indent=2)
        options.json.write_text(text + "\n", encoding="utf-8")
    return 1 if figures.unmet else 0


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # torch's threads take seconds to tear down, as in the node
