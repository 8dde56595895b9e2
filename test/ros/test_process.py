"""The node as its own process, over DDS on loopback: inputs, outputs, signals, exit codes."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import rclpy
from nav_msgs.msg import OccupancyGrid
from rcl_interfaces.srv import GetParameters
from ros_harness import Bench, Robot, map_message, pose_message, room
from ros_process import NodeProcess, ros_arguments
from visualization_msgs.msg import Marker, MarkerArray

from floorgent_ros.msg import DistanceGrid

HERE = Path(__file__).parent
FAKE = [sys.executable, str(HERE / "fake_node.py")]
Start = Callable[..., NodeProcess]


def test_growing_map_and_moving_robot_then_late_joiner_then_ctrl_c(bench: Bench, start: Start) -> None:
    robot = Robot(bench, namespace="robot1")
    distances = robot.hear("floorgent/distance", DistanceGrid)
    process = start([*FAKE, "answer"], *ros_arguments(republish_period=0), "-r", "__ns:=/robot1")
    robot.connected()
    for count in range(1, 6):
        robot.poses.publish(pose_message(2.0 + 0.1 * count, stamp_s=count))
        robot.maps.publish(
            map_message(room(60 + count, 80 + 2 * count), origin=(-0.1 * count, 0.0), stamp_s=count)
        )
        bench.until(
            lambda wanted=count: distances and distances[-1].header.stamp.sec == wanted, f"result {count}"
        )
    late = Robot(bench, namespace="robot1")
    topics = {"distance": DistanceGrid, "walls": MarkerArray, "distance_map": OccupancyGrid}
    heard = {topic: late.hear(f"floorgent/{topic}", kind) for topic, kind in topics.items()}
    bench.until(lambda: all(heard.values()), "the last result")
    assert heard["distance"][0].header.stamp.sec == heard["distance_map"][0].header.stamp.sec == 5
    assert heard["walls"][0].markers[0].action == Marker.DELETEALL
    assert process.stop(signal.SIGINT) == 0
    assert process.said().count("ready: fake predictor") == 1


@pytest.mark.parametrize(
    ("mode", "number"),
    [("sleep", signal.SIGINT), ("spin", signal.SIGTERM), ("load", signal.SIGTERM)],
    ids=["Ctrl-C in a prediction", "SIGTERM in a busy prediction", "SIGTERM while loading"],
)
def test_signal_while_the_worker_is_busy_exits_0_at_once(
    bench: Bench, start: Start, mode: str, number: int
) -> None:
    robot = Robot(bench)
    process = start([*FAKE, mode], *ros_arguments())
    robot.publish_once_heard()
    process.until_said("loading" if mode == "load" else "predicting")
    if mode == "spin":
        assert_answers_parameters(bench)
    before = time.monotonic()
    process.child.send_signal(number)
    assert process.stop(number) == 0  # a terminal and ros2 launch both send one
    assert time.monotonic() - before < 2


def assert_answers_parameters(bench: Bench) -> None:
    """Services answer beside a prediction."""
    client = bench.node("asker").create_client(GetParameters, "/floorgent/get_parameters")
    bench.until_served(client)
    before = time.monotonic()
    answer = client.call_async(GetParameters.Request(names=["seed"]))
    bench.until(answer.done, "the answer")
    assert time.monotonic() - before < 5.0  # not the 60 s of the prediction; 0.1 s on an idle machine
    assert rclpy.Parameter("seed", value=answer.result().values[0].integer_value).value == 0


SLOW_IMPORT = """
import sys, time
from floorgent_ros.ros.node import main
class SlowFinder:
    def find_spec(self, name, path=None, target=None):
        if name == "rclpy":
            print("importing", flush=True)
            time.sleep(60)
sys.meta_path.insert(0, SlowFinder())
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signal_while_ros_is_still_being_imported_exits_0(start: Start, number: int) -> None:
    process = start([sys.executable, "-c", SLOW_IMPORT])
    process.until_said("importing")
    assert process.stop(number) == 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (ros_arguments(max_rate="fast"), "max_rate"),
        (ros_arguments(pose_source="pose", pose_topic="bad topic"), "pose_topic = 'bad topic': use"),
        (["--ros-args", "--params-file", "/nowhere/predict.yaml"], "/nowhere/predict.yaml"),
    ],
    ids=["parameter", "topic", "parameters file"],
)
def test_wrong_arguments_exit_2_and_are_named(start: Start, arguments: list[str], says: str) -> None:
    process = start([*FAKE, "answer"], *arguments)
    assert process.exit_code() == 2
    assert "Traceback" not in process.said()
    assert says in process.said().splitlines()[-1]
