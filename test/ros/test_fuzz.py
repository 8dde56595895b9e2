"""Malformed maps, poses and parameters by the hundred: each refused with a reason, and the node goes on."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
import rclpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ros_harness import Bench, FakePredictor, Robot

from floorgent_ros.errors import FloorgentError
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros.conversions import occupancy_map
from malformed import good_map, good_pose, malformed_map, malformed_parameter, malformed_pose

seeds = st.integers(0, 2**32 - 1)
quickly = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Node:
    """A running node and a robot that sends it nonsense."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.predictor, self.robot = bench, FakePredictor(), Robot(bench)
        self.distances = self.robot.hear("floorgent/distance", DistanceGrid)
        self.node = bench.floorgent(
            self.predictor, pose_source="pose", max_rate=100.0, min_travel=0.0, republish_period=0
        )
        self.robot.connected()
        self.count = 0
        self.serves()

    def serves(self) -> None:
        """A good map from a good pose still gets its distances."""
        self.count += 1
        self.robot.poses.publish(good_pose())
        message = good_map(mark=self.count)
        message.header.stamp.sec = self.count
        self.robot.maps.publish(message)
        self.bench.until(
            lambda: self.distances and self.distances[-1].header.stamp.sec == self.count, "a result"
        )


@pytest.fixture
def node(bench: Bench) -> Iterator[Node]:
    node = Node(bench)
    yield node
    assert node.node.pipeline.worker.alive
    node.serves()


def test_malformed_maps_are_refused_with_a_reason_and_the_node_goes_on(node: Node) -> None:
    maps = node.node.pipeline.maps

    @quickly
    @given(seeds)
    def refused(seed: int) -> None:
        before = maps.refused
        message = malformed_map(Random(seed))
        node.robot.maps.publish(message)
        node.bench.until(lambda: maps.refused > before, f"a refusal of {message.info}")
        assert maps.refusal.startswith("map on /map refused: ")
        assert len(maps.refusal) > 40
        assert "\n" not in maps.refusal
        with pytest.raises(FloorgentError):
            occupancy_map(message)

    refused()


def test_malformed_poses_are_refused_with_a_reason_and_the_node_goes_on(node: Node) -> None:
    poses = node.node.pipeline.poses

    @quickly
    @given(seeds)
    def refused(seed: int) -> None:
        poses._pose, poses._refusal = None, ""
        node.robot.poses.publish(malformed_pose(Random(seed)))
        node.bench.until(lambda: poses._pose or poses._refusal, "the pose")
        answer = poses.pose_in("map")
        assert isinstance(answer, str)
        assert "/pose" in answer
        assert "\n" not in answer

    refused()


def test_malformed_parameters_are_refused_with_a_reason_and_nothing_changes(node: Node) -> None:
    before = node.node.settings

    @quickly
    @given(seeds)
    def refused(seed: int) -> None:
        name, value = malformed_parameter(Random(seed))
        (outcome,) = node.node.set_parameters([rclpy.Parameter(name, value=value)])
        assert not outcome.successful, (name, value)
        assert outcome.reason
        assert "\n" not in outcome.reason
        assert node.node.settings == before

    refused()


def test_bytes_that_are_no_message_are_dropped(node: Node) -> None:
    """A publisher of the same type that sends anything, as a broken bridge does."""
    random = Random(0)
    for _ in range(50):
        node.robot.maps.publish(bytes([0, 1, 0, 0, *(random.randrange(256) for _ in range(100))]))
        node.bench.executor.spin_once(timeout_sec=0.01)
