"""Faults that users of other mapping, navigation and inference nodes report, each by its symptom.

Those of maps alone stand in test/geometry/test_map_symptoms.py; ELSEWHERE lists those that other tests prove
under the name of what the node does instead. Speed is no test's business.
"""

from __future__ import annotations

import signal
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rclpy
from diagnostic_msgs.msg import DiagnosticArray
from nav_msgs.msg import OccupancyGrid
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from ros_harness import LIMIT_S, Bench, FakePredictor, Robot, map_message, pose_message, room
from ros_process import NodeProcess, ros_arguments
from rosgraph_msgs.msg import Clock
from visualization_msgs.msg import Marker, MarkerArray

from floorgent_ros.distance_lookup import distance_at
from floorgent_ros.errors import ConfigError
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros.conversions import packed
from floorgent_ros.ros.poses import TfPose

FAKE = [sys.executable, str(Path(__file__).parent / "fake_node.py")]
Start = Callable[..., NodeProcess]
VOLATILE = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.VOLATILE)

ELSEWHERE = {
    "durability is incompatible and no message comes": (
        "ros/test_node.py::test_volatile_map_publisher_is_heard_and_the_topic_named"
    ),
    "no map in a viewer that is started late": (
        "ros/test_node.py::test_late_joiner_gets_the_last_result_on_every_topic"
    ),
    "no map received, without a hint": (
        "ros/test_node_log.py::test_without_map_and_pose_a_throttled_line_names_topic_and_qos"
    ),
    "walls are 1 where they should be 100": (
        "ros/test_maps.py::test_a_map_of_zeros_and_ones_is_warned_about_and_used"
    ),
    "width x height that does not fit the data crashes the node": (
        "ros/test_node_log.py::test_malformed_maps_are_refused_with_one_line_each_and_the_next_good_one_served"
    ),
    "inference starves services": (
        "ros/test_parameters.py::test_parameters_can_be_set_over_ros_while_a_prediction_runs"
    ),
    "use_sim_time is not passed on": (
        "test_launch.py::test_given_arguments_become_parameters_of_the_right_type"
    ),
    "a stream of invalid-frame warnings": (
        "ros/test_node_log.py::test_pose_in_another_frame_gives_one_line_and_no_prediction"
    ),
    "ExternalShutdownException as a traceback": (
        "ros/test_faults.py::test_signal_in_any_state_exits_0_at_once"
    ),
    "out of GPU memory ends the node": "model/test_memory.py::test_not_even_one_fits_and_the_cpu_takes_over",
    "a map every five seconds is reported as an error": (
        "ros/test_diagnostics.py::test_a_map_every_five_seconds_and_a_latched_one_are_no_fault"
    ),
}


class Pair:
    """A robot and a node in one namespace, and what the robot hears."""

    def __init__(self, bench: Bench, namespace: str = "", **parameters: Any) -> None:
        self.bench = bench
        self.predictor = FakePredictor()
        self.robot = Robot(bench, namespace=namespace, map_qos=parameters.pop("map_qos", VOLATILE))
        self.distances = self.robot.hear("floorgent/distance", DistanceGrid)
        settings = {"pose_source": "pose", "max_rate": 100.0, "republish_period": 0, **parameters}
        self.node = bench.floorgent(self.predictor, namespace, **settings)
        self.robot.connected()

    def result(self, message: OccupancyGrid) -> DistanceGrid:
        """What comes back for a map."""
        count = len(self.distances)
        self.robot.maps.publish(message)
        self.bench.until(lambda: len(self.distances) > count, "a result")
        return self.distances[-1]


@pytest.fixture
def pair(bench: Bench) -> Iterator[Pair]:
    pair = Pair(bench)
    pair.robot.poses.publish(pose_message())
    yield pair
    pair.predictor.go.set()


@pytest.mark.parametrize("place", ELSEWHERE.values(), ids=ELSEWHERE)
def test_the_other_symptoms_have_their_tests(place: str) -> None:
    file, name = place.split("::")
    assert f"\ndef {name}(" in (Path(__file__).parents[1] / file).read_text(encoding="utf-8")


def test_planner_crashes_when_the_map_shrinks_to_nothing_and_comes_back(pair: Pair) -> None:
    pair.result(map_message(room(200, 300)))
    pair.result(map_message(room(40, 50)))
    nothing = map_message()
    nothing.info.width, nothing.info.height, nothing.data = 0, 0, array("b")
    pair.robot.maps.publish(nothing)
    pair.bench.until(lambda: pair.node.pipeline.maps.refused == 1, "the refusal")
    assert pair.result(map_message(room(300, 200), stamp_s=9)).header.stamp.sec == 9


def test_waiting_for_the_map_for_ever_with_a_volatile_and_with_a_latched_publisher(bench: Bench) -> None:
    for name, qos in (("volatile", VOLATILE), ("latched", None)):
        pair = Pair(bench, namespace=name, **({"map_qos": qos} if qos else {}))
        pair.robot.poses.publish(pose_message())
        assert pair.result(map_message(stamp_s=3)).header.stamp.sec == 3


def test_viewer_shows_the_grid_in_the_wrong_place(pair: Pair) -> None:
    """The twin for viewers has the window of the distances, without rotation, in the map's frame."""
    twins = pair.robot.hear("floorgent/distance_map", OccupancyGrid)
    pair.bench.until(lambda: pair.robot.node.count_publishers("floorgent/distance_map"), "the twin")
    grid = pair.result(map_message(origin=(-3.3, 1.7), yaw=0.5))
    pair.bench.until(lambda: twins, "the twin")
    twin = twins[-1]
    assert twin.header == grid.header
    assert twin.info == grid.info
    assert (twin.info.origin.orientation.z, twin.info.origin.orientation.w) == (0.0, 1.0)
    assert twin.data[1] == 100  # NaN: an observed wall
    assert np.isnan(grid.distance[1])


def test_distance_is_off_by_one_cell_from_what_the_planner_reads(pair: Pair) -> None:
    grid = pair.result(map_message())
    values, info = np.asarray(grid.distance).reshape(256, 256), grid.info
    for row, column in ((0, 0), (0, 255), (255, 1), (255, 255), (128, 127)):
        x = info.origin.position.x + (column + 0.5) * info.resolution
        y = info.origin.position.y + (row + 0.5) * info.resolution
        assert distance_at(grid, x, y) == values[row, column]


def test_publishing_arrays_takes_a_hundred_times_as_long() -> None:
    """What rclpy copies at once is an array of the field's type; lists and ndarrays go element by element."""
    for dtype, code in ((np.float32, "f"), (np.int8, "b"), (np.uint8, "B")):
        assert packed(np.zeros((256, 256)), dtype).typecode == code


def test_stale_markers_stay_when_a_prediction_has_fewer_completions(pair: Pair) -> None:
    heard = pair.robot.hear("floorgent/walls", MarkerArray)
    pair.bench.until(lambda: pair.robot.node.count_publishers("floorgent/walls"), "the topic")
    for completions in (8, 2):
        pair.node.set_parameters([rclpy.Parameter("completions", value=completions)])
        pair.result(map_message(room(60 + completions)))
        pair.bench.until(
            lambda wanted=completions: heard and len(heard[-1].markers) == wanted + 2, "the markers"
        )
        assert heard[-1].markers[0].action == Marker.DELETEALL


def test_whole_number_for_a_float_parameter_kills_the_node(bench: Bench) -> None:
    node = bench.floorgent(FakePredictor(), max_rate=50, min_travel=1)
    assert node.set_parameters([rclpy.Parameter("republish_period", value=2)])[0].successful


def test_bad_parameter_kills_the_running_node(pair: Pair) -> None:
    for name, value in (("completions", -3), ("top_p", "much"), ("seed", None), ("free_threshold", 100)):
        assert not pair.node.set_parameters([rclpy.Parameter(name, value=value)])[0].successful
    assert pair.result(map_message()).completions == 8


def test_leading_slash_in_frame_ids_breaks_the_lookup(pair: Pair) -> None:
    pair.robot.poses.publish(pose_message(3.0, frame="map"))
    assert pair.result(map_message(frame="/map")).header.frame_id == "map"


def test_extrapolation_into_the_future_spams_the_log_and_stops_everything(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    """A transform that fails for a while leaves the last pose; one that never came gives one line."""
    pair = Pair(bench)
    pipeline = pair.node.pipeline
    stamped = pose_message().header.stamp
    there = [False]

    def lookup(*_: str) -> Any:
        if not there[0]:
            raise LookupError("Lookup would require extrapolation into the future")
        from geometry_msgs.msg import TransformStamped

        transform = TransformStamped()
        transform.header.stamp = stamped
        transform.transform.translation.x = 2.0
        transform.transform.translation.y = 1.5
        return transform

    pipeline.poses.close()
    pipeline.poses = TfPose("base_link", lookup, (LookupError,), now_s=lambda: 1.0)
    pipeline._started -= 100.0
    for count in range(20):
        pair.robot.maps.publish(map_message(room(60 + count)))
        bench.until(lambda wanted=count: pipeline.maps.received > wanted, "the map")
    assert capfd.readouterr().err.count("extrapolation into the future") == 1
    there[0] = True
    pair.result(map_message(room(100)))
    there[0] = False
    pair.result(map_message(room(101)))
    assert "extrapolation" not in capfd.readouterr().err


def test_second_robot_gets_the_first_ones_distances_in_another_process(bench: Bench, start: Start) -> None:
    """Two nodes in two namespaces, as processes; both end on Ctrl-C, one that comes twice."""
    robots = [Robot(bench, namespace=name) for name in ("robot1", "robot2")]
    heard = [robot.hear("floorgent/distance", DistanceGrid) for robot in robots]
    processes = [
        start([*FAKE, "answer"], *ros_arguments(), "-r", f"__ns:=/{robot.node.get_namespace().strip('/')}")
        for robot in robots
    ]
    for count, robot in enumerate(robots, 1):
        robot.connected()
        robot.poses.publish(pose_message(float(count)))
        robot.maps.publish(map_message(stamp_s=count))
    bench.until(lambda: all(heard), "both results")
    assert {message.header.stamp.sec for message in heard[0]} == {1}
    assert {message.header.stamp.sec for message in heard[1]} == {2}
    for process in processes:
        process.child.send_signal(signal.SIGINT)
        assert process.stop(signal.SIGINT) == 0
        assert "shutdown" not in process.said().lower()


@pytest.mark.parametrize(
    ("mode", "numbers"),
    [
        ("sleep", (signal.SIGINT, signal.SIGINT)),
        ("sleep", (signal.SIGINT, signal.SIGTERM)),
        ("shutdown", ()),
        ("shutdown", (signal.SIGTERM,)),
    ],
    ids=["Ctrl-C twice", "SIGTERM after Ctrl-C", "by somebody else", "by somebody else, then SIGTERM"],
)
def test_shutting_down_twice_is_an_error(
    bench: Bench, start: Start, mode: str, numbers: tuple[int, ...]
) -> None:
    """A second signal while the node ends, or a context that is gone already: no traceback, exit code 0."""
    robot = Robot(bench)
    process = start([*FAKE, mode], *ros_arguments())
    robot.publish_once_heard()
    process.until_said("predicting")
    for number in numbers:
        process.child.send_signal(number)
        time.sleep(0.1)  # it waits three times as long for the prediction
    assert process.exit_code() == 0, process.said()
    said = process.said().lower()
    assert not [word for word in ("traceback", "shutdown", "context", "error") if word in said], said


def test_simulated_clock_is_starved_and_jumps_back_when_the_bag_begins_again(bench: Bench) -> None:
    """The node's clock follows /clock beside a prediction that never ends, and results come after a jump."""
    pair = Pair(bench, use_sim_time=True, max_pose_age=5.0)
    clock = pair.robot.node.create_publisher(Clock, "/clock", 10)
    heard = pair.robot.hear("/diagnostics", DiagnosticArray, 10)

    def tick(second: int) -> None:
        def there() -> bool:
            message = Clock()
            message.clock.sec = second
            clock.publish(message)
            return bool(pair.node.get_clock().now().nanoseconds == second * 10**9)

        bench.until(there, f"second {second}")

    pair.predictor.go.clear()
    tick(1000)
    pair.robot.poses.publish(pose_message(stamp_s=1000))
    pair.robot.maps.publish(map_message(stamp_s=1000))
    bench.until(lambda: pair.predictor.asked, "the prediction")
    tick(1001)
    pair.predictor.go.set()
    bench.until(lambda: pair.distances, "a result")
    tick(10)
    pair.robot.poses.publish(pose_message(3.0, stamp_s=10))
    pair.robot.maps.publish(map_message(room(61), stamp_s=10))
    bench.until(lambda: pair.distances[-1].header.stamp.sec == 10, "a result after the jump")
    heard.clear()
    bench.until(lambda: heard, "a status")
    assert heard[-1].header.stamp.sec == 10
    assert "pose" not in heard[-1].status[0].message


def test_no_module_named_torch_is_a_traceback(start: Start) -> None:
    """Built for a Python without torch, the node says which Python lacks it."""
    code = "import sys; sys.modules['torch'] = None; from floorgent_ros.ros.node import main; main()"
    process = start([sys.executable, "-c", code], *ros_arguments())
    assert process.exit_code(LIMIT_S) == 2
    assert "Traceback" not in process.said()
    line = process.said().splitlines()[-1]
    assert "torch" in line
    assert sys.executable in line
    assert "install it for this Python" in line


def test_tf_asked_for_but_not_installed_is_one_line(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("floorgent_ros.ros.poses._has_tf", lambda: False)
    with pytest.raises(ConfigError, match="no tf2_ros"):
        bench.floorgent(FakePredictor(), pose_source="tf")
