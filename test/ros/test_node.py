"""The node in this process, with a predictor of a few lines: what goes in, what comes out."""

from __future__ import annotations

import numpy as np
import pytest
import rclpy
from nav_msgs.msg import OccupancyGrid
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_profile_sensor_data
from ros_harness import Bench, FakePredictor, Robot, map_message, pose_message, room, started
from sensor_msgs.msg import Image
from visualization_msgs.msg import MarkerArray

from floorgent_ros.msg import DistanceGrid

VOLATILE = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.VOLATILE)
VISUALS = {
    "floorgent/occupancy": OccupancyGrid,
    "floorgent/distance_map": OccupancyGrid,
    "floorgent/walls": MarkerArray,
    "floorgent/observation": Image,
}


def test_map_and_pose_become_a_distance_grid_with_their_stamps_and_frame(
    bench: Bench, predictor: FakePredictor
) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor, completions=3, seed=5)
    robot.connected()
    robot.poses.publish(pose_message(2.0, 1.5, stamp_s=11))
    robot.maps.publish(map_message(stamp_s=12, frame="/map", origin=(-1.0, 2.0), yaw=0.5))
    bench.until(lambda: distances, "a result")
    (message,) = distances
    assert (message.header.stamp.sec, message.header.frame_id) == (12, "map")
    assert message.pose_stamp.sec == 11
    assert (message.source.x, message.source.y) == (2.0, 1.5)
    assert (message.completions, message.seed) == (3, 5)
    assert 0 < message.latency_s < 20
    ((grid, viewpoint, _, _),) = predictor.asked
    assert np.array_equal(grid.cells, room())
    assert (grid.origin, viewpoint) == ((-1.0, 2.0), (2.0, 1.5))
    assert grid.yaw == pytest.approx(0.5)


def test_growing_shrinking_and_shifting_maps_are_each_predicted(
    bench: Bench, predictor: FakePredictor
) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor)
    robot.connected()
    robot.poses.publish(pose_message())
    for count, (rows, columns, shift) in enumerate([(60, 80, 0.0), (90, 120, -0.317), (40, 50, 0.123)], 1):
        robot.maps.publish(map_message(room(rows, columns), origin=(shift, 2 * shift), stamp_s=count))
        bench.until(lambda wanted=count: len(distances) == wanted, f"result {count}")
        assert distances[-1].header.stamp.sec == count
        assert predictor.asked[-1][0].cells.shape == (rows, columns)


def test_nothing_is_predicted_twice_for_the_same_map_and_pose(bench: Bench, predictor: FakePredictor) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor, republish_period=0)
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message(stamp_s=1))
    bench.until(lambda: distances, "a result")
    robot.maps.publish(map_message(stamp_s=2))  # slam_toolbox sends the same map with a new stamp
    robot.poses.publish(pose_message(2.3))
    bench.spin_for(0.3)
    assert len(predictor.asked) == len(distances) == 1
    robot.poses.publish(pose_message(2.6))
    bench.until(lambda: len(distances) == 2, "a result after travel")
    assert distances[-1].header.stamp.sec == 2  # the newest message of that map
    assert len(predictor.asked) == 2


def test_newest_map_wins_while_a_prediction_runs(bench: Bench, predictor: FakePredictor) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    node = started(bench, predictor)
    robot.connected()
    predictor.go.clear()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message(stamp_s=1))
    bench.until(lambda: predictor.asked, "the first prediction")
    for count in range(2, 30):
        robot.maps.publish(map_message(room(60 + count), stamp_s=count))
        bench.until(lambda wanted=count: node.pipeline.maps.latest.stamp.sec == wanted, f"map {count}")
    predictor.go.set()
    bench.until(lambda: distances and distances[-1].header.stamp.sec == 29, "the newest map's result")
    assert len(predictor.asked) == 2


def test_the_distance_maps_scale_follows_its_parameter_at_once(
    bench: Bench, predictor: FakePredictor
) -> None:
    robot = Robot(bench)
    shown = robot.hear("floorgent/distance_map", OccupancyGrid)
    node = started(bench, predictor, republish_period=0.0)
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message())
    bench.until(lambda: shown, "a distance map")
    node.set_parameters([rclpy.Parameter("distance_map_max_m", value=10.0)])
    bench.until(lambda: len(shown) == 2, "the same in the other scale")
    assert sum(cell == 99 for cell in shown[1].data) > sum(cell == 99 for cell in shown[0].data)
    assert len(predictor.asked) == 1


@pytest.mark.parametrize("qos", [VOLATILE, qos_profile_sensor_data], ids=["volatile", "best effort"])
def test_volatile_map_publisher_is_heard_and_the_topic_named(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str], qos: QoSProfile
) -> None:
    robot = Robot(bench, map_qos=qos)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor)
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message())
    bench.until(lambda: distances, "a result")
    assert "/map offers incompatible QoS" in capfd.readouterr().err


def test_late_joiner_gets_the_last_result_on_every_topic(bench: Bench, predictor: FakePredictor) -> None:
    robot = Robot(bench)
    node = started(bench, predictor, republish_period=0)
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message(stamp_s=3))
    bench.until(lambda: node.pipeline.tally.published, "a result")
    assert all(visual.message is None for visual in node.pipeline.outputs._visuals.values())  # nobody asked
    heard = {
        topic: robot.hear(topic, kind)
        for topic, kind in {"floorgent/distance": DistanceGrid, **VISUALS}.items()
    }
    bench.until(lambda: all(heard.values()), "all topics")
    for messages in heard.values():
        header = getattr(messages[0], "header", None) or messages[0].markers[0].header
        assert (header.stamp.sec, header.frame_id) == (3, "map")
    robot.maps.publish(map_message(room(70), stamp_s=4))
    bench.until(lambda: all(len(messages) == 2 for messages in heard.values()), "the next result")


def test_volatile_late_subscriber_gets_it_when_it_is_published_again(
    bench: Bench, predictor: FakePredictor
) -> None:
    robot = Robot(bench)
    node = started(bench, predictor, republish_period=0.2)
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message(stamp_s=3))
    bench.until(lambda: node.pipeline.tally.published, "a result")
    distances = robot.hear("floorgent/distance", DistanceGrid, VOLATILE)
    walls = robot.hear("floorgent/walls", MarkerArray, VOLATILE)
    bench.until(lambda: len(distances) > 1 and walls, "the last result again")
    assert all(message.header.stamp.sec == 3 for message in distances)
    assert len(predictor.asked) == 1


def test_republish_period_can_be_changed(bench: Bench, predictor: FakePredictor) -> None:
    robot = Robot(bench)
    node = started(bench, predictor, republish_period=0)
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message())
    distances = robot.hear("floorgent/distance", DistanceGrid)
    bench.until(lambda: distances, "a result")
    bench.spin_for(0.2)
    assert len(distances) == 1
    node.set_parameters([rclpy.Parameter("republish_period", value=0.1)])
    bench.until(lambda: len(distances) > 2, "the last result again")
    node.set_parameters([rclpy.Parameter("republish_period", value=0)])
    bench.spin_for(0.1)
    count = len(distances)
    bench.spin_for(0.3)
    assert len(distances) == count


def test_changed_parameters_are_seen_by_a_standing_robot_on_a_still_map(
    bench: Bench, predictor: FakePredictor
) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    node = started(bench, predictor)
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message())
    bench.until(lambda: distances, "a result")
    node.set_parameters([rclpy.Parameter("completions", value=5), rclpy.Parameter("seed", value=9)])
    bench.until(lambda: (distances[-1].completions, distances[-1].seed) == (5, 9), "a result of the new ones")
    asked = len(predictor.asked)
    node.set_parameters([rclpy.Parameter("max_pose_age", value=3.0)])  # nothing that a prediction depends on
    bench.spin_for(0.3)
    assert len(predictor.asked) == asked


def test_two_robots_in_two_namespaces_do_not_hear_each_other(bench: Bench) -> None:
    predictors = FakePredictor(), FakePredictor()
    robots = [Robot(bench, namespace=name) for name in ("robot1", "robot2")]
    heard = [robot.hear("floorgent/distance", DistanceGrid) for robot in robots]
    for name, predictor in zip(("robot1", "robot2"), predictors, strict=True):
        started(bench, predictor, namespace=name)
    for count, robot in enumerate(robots, 1):
        robot.connected()
        robot.poses.publish(pose_message(count))
        robot.maps.publish(map_message(stamp_s=count))
    bench.until(lambda: all(heard), "both results")
    assert [message.header.stamp.sec for messages in heard for message in messages] == [1, 2]
    assert [predictor.asked[0][1][0] for predictor in predictors] == [1.0, 2.0]
    topics = dict(robots[0].node.get_topic_names_and_types())
    assert "/robot1/floorgent/distance" in topics
    assert "/floorgent/distance" not in topics


def test_every_output_is_reliable_transient_local_depth_1(bench: Bench, predictor: FakePredictor) -> None:
    node = started(bench, predictor)
    published = node.pipeline.outputs
    outputs = [
        published._distance,
        published._timings,
        *(visual.publisher for visual in published._visuals.values()),
    ]
    assert {output.topic_name for output in outputs} == {
        "/floorgent/distance",
        "/floorgent/timings",
        *(f"/{name}" for name in VISUALS),
    }
    for output in outputs:
        profile = output.qos_profile
        assert (profile.reliability, profile.durability, profile.depth) == (
            ReliabilityPolicy.RELIABLE,
            DurabilityPolicy.TRANSIENT_LOCAL,
            1,
        )


def test_simulated_time_that_stands_still_stops_nothing(bench: Bench, predictor: FakePredictor) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor, use_sim_time=True, republish_period=0.1)
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message())
    bench.until(lambda: len(distances) > 2, "results and repetitions")
