"""What the node says, and how often, of what it cannot use and of predictions that go wrong."""

from __future__ import annotations

import math
from array import array

import pytest
from nav_msgs.msg import Odometry
from ros_harness import (
    Bench,
    FakePredictor,
    Robot,
    map_message,
    odometry_message,
    pose_message,
    room,
    started,
)

from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros import pipeline


def test_malformed_maps_are_refused_with_one_line_each_and_the_next_good_one_served(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str]
) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor)
    robot.connected()
    robot.poses.publish(pose_message())
    short, flat, nan, zero, empty = (map_message() for _ in range(5))
    short.data = array("b", [0] * 7)
    flat.info.resolution = 0.0
    nan.info.origin.position.x = math.nan
    zero.info.origin.orientation.w = 0.0
    empty.data, empty.info.width, empty.info.height = array("b"), 0, 0
    lines: list[str] = []
    for message in (short, flat, nan, zero, empty):
        robot.maps.publish(message)

        def refused(wanted: int = len(lines) + 1) -> bool:
            lines.extend(line for line in capfd.readouterr().err.splitlines() if "refused" in line)
            return len(lines) >= wanted

        bench.until(refused, "a refusal")
    assert len(lines) == 5
    assert all("map on /map refused" in line for line in lines)
    assert not predictor.asked
    robot.maps.publish(map_message())
    bench.until(lambda: distances, "a result")


def test_a_stream_of_the_same_bad_map_is_one_line(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str]
) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor)
    robot.connected()
    bad = map_message()
    bad.data = array("b", [0] * 7)
    for _ in range(50):
        robot.maps.publish(bad)
        bench.executor.spin_once(timeout_sec=0.01)
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message())
    bench.until(lambda: distances, "a result")
    assert capfd.readouterr().err.count("refused") == 1


def test_without_map_and_pose_a_throttled_line_names_topic_and_qos(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "GRACE_S", 0.0)
    started(bench, predictor, namespace="robot1")
    said = bench.until_said(capfd, "no map yet", "no pose yet")
    bench.spin_for(1.2)
    said += capfd.readouterr().err
    (map_line,) = [line for line in said.splitlines() if "no map yet" in line]
    (pose_line,) = [line for line in said.splitlines() if "no pose yet" in line]
    assert "/robot1/map (nav_msgs/OccupancyGrid; reliable, transient local, depth 1" in map_line
    assert "/robot1/pose (geometry_msgs/PoseStamped; reliable, transient local, depth 1" in pose_line


def test_pose_in_another_frame_gives_one_line_and_no_prediction(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "GRACE_S", 0.0)
    robot = Robot(bench, pose_type=Odometry)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor, pose_source="odometry")
    robot.connected()
    robot.maps.publish(map_message())
    said = ""

    def complained() -> bool:
        nonlocal said
        robot.poses.publish(odometry_message(frame="odom"))
        said += capfd.readouterr().err
        return "'odom'" in said

    bench.until(complained, "the line")
    bench.spin_for(0.2)
    said += capfd.readouterr().err
    assert said.count("'odom'") == 1
    assert not predictor.asked
    robot.poses.publish(odometry_message(frame="/map"))
    bench.until(lambda: distances, "a result")


def test_frame_of_a_million_letters_and_lines_is_one_short_line(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a message brings along fills neither the log nor the memory of what was said."""
    monkeypatch.setattr(pipeline, "GRACE_S", 0.0)
    robot = Robot(bench)
    node = started(bench, predictor)
    robot.connected()
    robot.maps.publish(map_message())
    bench.until(lambda: node.pipeline.maps.latest, "the map")
    capfd.readouterr()
    robot.poses.publish(pose_message(frame="odom\n[FATAL] " + "m" * 1_000_000))
    said = bench.until_said(capfd, "'odom [FATAL] mm")
    assert max(map(len, said.splitlines())) < 700
    assert not [line for line in said.splitlines() if line.startswith("[FATAL]")]
    assert sum(map(len, node.pipeline._throttle._said)) < 5000


def test_note_of_the_predictor_is_logged(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str]
) -> None:
    predictor.note = "the robot stands in an obstacle: searching from the nearest free cell, 0.4 m away"
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor)
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message())
    bench.until(lambda: distances, "a result")
    assert predictor.note in capfd.readouterr().err
    predictor.note = predictor.note.replace("0.4 m", "0.3 m")
    robot.maps.publish(map_message(room(61)))
    bench.until(lambda: len(distances) == 2, "the next result")
    assert "obstacle" not in capfd.readouterr().err  # the same again, said already


def test_exception_in_a_prediction_is_one_line_and_the_node_goes_on(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str]
) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    started(bench, predictor)
    robot.connected()
    predictor.error = ValueError("math domain error\nin the network")
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message())
    said = bench.until_said(capfd, "prediction failed")
    (line,) = [line for line in said.splitlines() if "failed" in line]
    assert "ValueError: math domain error in the network" in line
    assert "Traceback" not in said
    predictor.error = None
    robot.maps.publish(map_message(room(61)))
    bench.until(lambda: distances, "a result")
