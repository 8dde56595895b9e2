"""Walls as RViz is told to draw them."""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Time
from ros_harness import fake_field
from std_msgs.msg import Header
from visualization_msgs.msg import Marker

from floorgent_ros.ros.markers import wall_markers

HEADER = Header(stamp=Time(sec=7), frame_id="map")


def test_delete_all_comes_first_then_observed_then_each_completion() -> None:
    markers = wall_markers(fake_field(completions=8), HEADER).markers
    assert markers[0].action == Marker.DELETEALL
    assert [marker.ns for marker in markers[1:]] == ["observed", *(f"completion_{i}" for i in range(1, 9))]
    assert all(marker.action == Marker.ADD and marker.type == Marker.LINE_LIST for marker in markers[1:])
    assert all(marker.header == HEADER for marker in markers)


def test_no_two_layers_share_a_colour() -> None:
    markers = wall_markers(fake_field(completions=8), HEADER).markers[1:]
    colours = np.array([(marker.color.r, marker.color.g, marker.color.b) for marker in markers])
    apart = np.abs(colours[:, None] - colours[None]).max(-1) + np.eye(len(colours))
    assert apart.min() > 0.1
    assert all(marker.color.a > 0.5 and marker.scale.x > 0 for marker in markers)
    assert all(marker.pose.orientation.w == 1.0 for marker in markers)


def test_lines_are_the_segments() -> None:
    field = fake_field()
    observed = wall_markers(field, HEADER).markers[1]
    ends = np.array([(point.x, point.y, point.z) for point in observed.points])
    assert np.array_equal(ends[:, :2].reshape(-1, 2, 2), field.observation.walls)
    assert not ends[:, 2].any()


def test_a_completion_without_walls_has_no_marker() -> None:
    field = fake_field(completions=2)
    field.completions[0] = np.zeros((0, 2, 2), np.float32)
    assert [marker.ns for marker in wall_markers(field, HEADER).markers[1:]] == ["observed", "completion_2"]
