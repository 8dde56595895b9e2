"""What the node bears: maps at a high rate, calls, malformed messages, kills. Exits 1 if a limit is not met.

    python tools/soak.py                        10,000 maps at 20 Hz, 500 calls, 1,000 faults, 100 kills,
                                                50 of a bare subscriber
    python tools/soak.py --maps 400 --answers 50 --faults 50 --kills 2   a look
    python tools/soak.py --minutes 30                       maps for half an hour

The node runs as its own process, with the shipped weights unless --checkpoint says otherwise; only the
malformed messages go to a node in this process, where each refusal can be seen.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from bisect import bisect
from pathlib import Path
from random import Random

import bare_listener
import numpy as np
import rclpy
from geometry_msgs.msg import Point, PoseStamped
from nav_msgs.msg import OccupancyGrid
from rcl_interfaces.srv import GetParameters
from soak_bench import Figures, Robot, Surroundings, cpu_s, end, resident_mb, surroundings, threads

from floorgent_ros.demo.children import signals_interrupt
from floorgent_ros.ros.floorgent_node import FloorgentNode
from floorgent_ros.ros.listener import LATCHED
from floorgent_ros.srv import GetDistances
from malformed import good_map, good_pose, malformed_map, malformed_parameter, malformed_pose

SETTLED_SHARE = 0.1  # of the maps: from there on memory may not grow
GROWTH_LIMIT, RECOVERY_LIMIT_S, ANSWER_LIMIT_S, IDLE_LIMIT = 0.05, 5.0, 0.1, 0.05
ARRIVED_S = 0.1  # a map that left so long ago has arrived, whatever the scheduler did
NEWEST_SHARE = 0.95
IDLE_S = 10.0


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
    robot.results.clear()
    begun = time.monotonic()
    for number in range(count):
        robot.send()
        if number % max(1, round(options.rate)) == 0:
            memory.append(resident_mb(child.pid))
            counts.append(threads(child.pid))
        robot.spin_until(begun + (number + 1) / options.rate)
    last = robot.sent
    robot.until(
        lambda: robot.results and robot.results[-1].map == last, f"the result of the last map, {last}"
    )
    elapsed_s = time.monotonic() - begun
    figures.add("maps", count)
    figures.add("maps a second", count / elapsed_s)
    figures.add("results", len(robot.results))
    figures.add("last map served", last, met=True)
    numbers = [result.map for result in robot.results]
    in_order = numbers == sorted(numbers)
    figures.add("results in the order of their maps", in_order, met=in_order)
    latencies_s = [result.latency_s for result in robot.results]
    figures.add("latency median [s]", statistics.median(latencies_s))
    figures.add("latency maximum [s]", max(latencies_s))
    newest_served(robot, figures)
    settled = round(SETTLED_SHARE * len(memory))
    first, final = statistics.median(memory[settled : settled + 5]), statistics.median(memory[-5:])
    figures.add("memory after a tenth of the maps [MB]", first)
    middle = len(memory) // 2
    figures.add("memory after half of them [MB]", statistics.median(memory[middle : middle + 5]))
    growth = final / first - 1
    figures.add("its growth since", growth, met=growth < GROWTH_LIMIT, limit=f"below {GROWTH_LIMIT:.0%}")
    half = (len(counts) + 1) // 2
    most, later = max(counts[:half]), max(counts[half:], default=0)
    figures.add("threads at most, in either half", f"{most}, {later}", met=later <= most)
    robot.spin_until(time.monotonic() + 2.0)
    before = cpu_s(child.pid)
    robot.spin_until(time.monotonic() + IDLE_S)
    idle = (cpu_s(child.pid) - before) / IDLE_S
    figures.add(
        "CPU of the idle node", idle, met=idle < IDLE_LIMIT, limit=f"below {IDLE_LIMIT:.0%} of a core"
    )
    end(child, figures)


def newest_served(robot: Robot, figures: Figures) -> None:
    """Whether each prediction took the newest of the maps that had arrived when it began.

    Counted in maps that had really left by then, so a robot that is late with sending changes nothing. A node
    that works through a backlog fails both limits.
    """
    begun = robot.begun()
    there = [bisect(robot.sent_s, begun_s - ARRIVED_S) for _, begun_s in begun]  # number of the newest
    behind = [max(0, newest - number) for newest, (number, _) in zip(there, begun, strict=True)]
    share = behind.count(0) / len(behind)
    figures.add(
        "predictions of the newest map",
        share,
        met=share >= NEWEST_SHARE,
        limit=f"at least {NEWEST_SHARE:.0%}; of those that had left {ARRIVED_S:g} s before",
    )
    figures.add("newer maps there, at most", max(behind))
    stale = sum(number < newest for (number, _), newest in zip(begun[1:], there, strict=False))
    figures.add("maps out of date one prediction earlier", stale, met=stale == 0, limit="none")


def answers(around: Surroundings, figures: Figures) -> None:
    """Parameters and services while predictions run back to back: how long they take to answer."""
    robot, random = around.robot, Random(around.options.seed)
    robot.place()
    robot.send()
    child, _ = around.start_and_serve(max_rate=100.0)
    near, far = Point(x=2.0, y=1.5), Point(x=3.0, y=2.0)
    calls = (
        (GetParameters, "floorgent/get_parameters", GetParameters.Request(names=["seed"])),
        (GetDistances, "floorgent/get_distances", GetDistances.Request(sources=[near], targets=[far])),
    )
    clients = [(robot.node.create_client(kind, name), request) for kind, name, request in calls]
    for client, _ in clients:
        robot.until(client.service_is_ready, client.srv_name)
    robot.spin_until(time.monotonic() + 1.0)  # the node has to find the clients, too
    took_s: dict[str, list[float]] = {name: [] for _, name, _ in calls}
    refused = 0
    robot.results.clear()
    begun = time.monotonic()
    for _ in range(around.options.answers):
        robot.send()
        robot.spin_until(time.monotonic() + random.uniform(0.0, 0.1))
        for (client, request), (_, name, _) in zip(clients, calls, strict=True):
            called = time.monotonic()
            answer = client.call_async(request)
            robot.until(answer.done, f"the answer of {name}")
            took_s[name].append(time.monotonic() - called)
            refused += not getattr(answer.result(), "success", True)
    elapsed_s = time.monotonic() - begun
    predicting_s = sum(result.latency_s - robot.waits_s.get(result.map, 0.0) for result in robot.results)
    figures.add("share of the time in which a prediction ran", predicting_s / elapsed_s)
    for name, times_s in took_s.items():
        median, high = np.quantile(times_s, [0.5, 0.95])
        figures.add(f"{name}: calls", len(times_s))
        figures.add("  median [s]", float(median))
        figures.add("  95 % [s]", float(high), met=high < ANSWER_LIMIT_S, limit=f"below {ANSWER_LIMIT_S:g}")
        figures.add("  maximum [s]", max(times_s))
    figures.add("calls that were refused", refused, met=refused == 0)
    for client, _ in clients:
        robot.node.destroy_client(client)
    end(child, figures)


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


def bare(around: Surroundings, figures: Figures) -> None:
    """The same kills of a node that only subscribes: what of a recovery is the middleware's, not ours."""
    around.robot.send()
    waits_s = [_bare_wait_s(around, number) for number in range(around.options.bare)]
    figures.add("kills of a bare subscriber", len(waits_s))
    figures.add("its node to the latched map, median [s]", statistics.median(waits_s))
    figures.add("its node to the latched map, slowest [s]", max(waits_s))


def _bare_wait_s(around: Surroundings, number: int) -> float:
    """From a bare subscriber's creation to the latched map, s; it is killed then."""
    said: dict[str, float] = {}
    child = around.children.start(
        f"bare{number}",
        [sys.executable, bare_listener.__file__],
        on_line=lambda line: said.update({line.strip(): time.monotonic()}),
    )
    around.robot.until(lambda: bare_listener.HEARD in said, "the map, in a bare node")
    child.kill()
    return said[bare_listener.HEARD] - said[bare_listener.LISTENING]


def main() -> int:
    """Run the parts that are asked for."""
    parser = argparse.ArgumentParser(description="Load, faults and kills: what the node bears, with figures.")
    parser.add_argument("--maps", type=int, default=10_000, metavar="N", help="0: none (default %(default)s)")
    parser.add_argument("--minutes", type=float, help="send maps for so long instead")
    parser.add_argument(
        "--rate", type=float, default=20.0, metavar="HZ", help="of the maps (default %(default)s)"
    )
    parser.add_argument("--faults", type=int, default=1000, metavar="N", help="default %(default)s")
    parser.add_argument("--answers", type=int, default=500, metavar="N", help="calls (default %(default)s)")
    parser.add_argument("--kills", type=int, default=100, metavar="N", help="default %(default)s")
    parser.add_argument(
        "--bare", type=int, default=50, metavar="N", help="kills of a bare subscriber (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of faults and kills (default %(default)s)")
    parser.add_argument("--checkpoint", type=Path, metavar="F", help="default: the shipped weights")
    parser.add_argument("--device", default="auto", metavar="D", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--json", type=Path, metavar="F", help="write the figures there")
    options = parser.parse_args()
    figures = Figures()
    try:
        with signals_interrupt(), surroundings(options) as around:
            parts = (
                (options.maps, load),
                (options.answers, answers),
                (options.faults, faults),
                (options.kills, kills),
                (options.bare, bare),
            )
            for wanted, part in parts:
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
