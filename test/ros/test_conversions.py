"""Messages to maps and predictions to messages, bit for bit."""

from __future__ import annotations

import math
from array import array
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from nav_msgs.msg import OccupancyGrid
from rclpy.serialization import deserialize_message, serialize_message
from ros_harness import fake_field, map_message
from std_msgs.msg import Header

from floorgent_ros.distance_lookup import distance_at
from floorgent_ros.errors import MapError
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros.conversions import (
    clean_frame,
    distance_grid,
    distance_map,
    observation_image,
    occupancy_grid,
    occupancy_map,
    window_info,
)

HEADER = Header(stamp=Time(sec=7, nanosec=8), frame_id="map")
LOADED = Time(sec=3)


def broken(**changes: Any) -> OccupancyGrid:
    message = map_message()
    for path, value in changes.items():
        *parents, name = path.split("__")
        target = message
        for parent in parents:
            target = getattr(target, parent)
        setattr(target, name, value)
    return message


MALFORMED = {
    "too few values": broken(data=array("b", [0] * 10)),
    "too many values": broken(data=array("b", [0] * 5000)),
    "no values": broken(data=array("b")),
    "size zero": broken(data=array("b"), info__width=0),
    "both sizes zero": broken(data=array("b"), info__width=0, info__height=0),
    "size that overflows 32 bits": broken(info__width=65536, info__height=65536, data=array("b")),
    "resolution zero": broken(info__resolution=0.0),
    "resolution negative": broken(info__resolution=-0.05),
    "resolution nan": broken(info__resolution=math.nan),
    "resolution infinite": broken(info__resolution=math.inf),
    "origin nan": broken(info__origin__position__x=math.nan),
    "origin infinite": broken(info__origin__position__y=-math.inf),
    "zero quaternion": broken(info__origin__orientation__w=0.0),
    "nan quaternion": broken(info__origin__orientation__z=math.nan),
    "quaternion whose square overflows": broken(info__origin__orientation__x=1e200),
    "map on its side": broken(info__origin__orientation__x=1.0),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_map_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(MapError) as refusal:
        occupancy_map(MALFORMED[name])
    assert "\n" not in str(refusal.value)


def test_map_keeps_cells_resolution_and_pose() -> None:
    cells = np.array([[-1, 0, 100], [1, 50, 99]], np.int8)
    message = map_message(cells, resolution=0.05, origin=(-3.5, 2.25), yaw=math.radians(30))
    grid = occupancy_map(deserialize_message(serialize_message(message), OccupancyGrid))
    assert np.array_equal(grid.cells, cells)
    assert grid.resolution == 0.05  # not the float32 nearest to it
    assert grid.origin == (-3.5, 2.25)
    assert grid.yaw == pytest.approx(math.radians(30))


def test_map_cells_are_not_copied() -> None:
    message = map_message()
    assert np.shares_memory(occupancy_map(message).cells, np.frombuffer(message.data, np.int8))


def test_quaternion_need_not_be_normalised() -> None:
    message = map_message(yaw=1.0)
    message.info.origin.orientation.z *= 5
    message.info.origin.orientation.w *= 5
    assert occupancy_map(message).yaw == pytest.approx(1.0)


def test_leading_slash_of_a_frame_is_dropped() -> None:
    assert clean_frame("/map") == clean_frame("map") == clean_frame(" map") == "map"


def test_distance_grid_carries_every_value_through_the_wire() -> None:
    field = fake_field(completions=3, seed=2**63 - 1)
    sent = distance_grid(field, HEADER, window_info(field, LOADED), Time(sec=5))
    assert all(isinstance(values, array) for values in (sent.distance, sent.spread, sent.reach_probability))
    got = deserialize_message(serialize_message(sent), DistanceGrid)
    for name in ("distance", "spread", "reach_probability"):
        values = np.asarray(getattr(got, name), np.float32).reshape(256, 256)
        assert np.array_equal(values, getattr(field, name), equal_nan=True), name
    assert (got.header, got.pose_stamp, got.info.map_load_time) == (HEADER, Time(sec=5), LOADED)
    assert (got.completions, got.seed, got.horizon_m) == (3, 2**63 - 1, 15.0)
    assert (got.source.x, got.source.y, got.source.z) == (1.5, -2.25, 0.0)


def test_window_is_the_one_of_method_decision_1() -> None:
    info = window_info(fake_field((1.5, -2.25)), LOADED)
    assert (info.resolution, info.width, info.height) == (0.15625, 256, 256)
    assert (info.origin.position.x, info.origin.position.y) == (1.5 - 20, -2.25 - 20)
    turn = info.origin.orientation
    assert (turn.x, turn.y, turn.z, turn.w) == (0, 0, 0, 1)


def test_look_up_in_the_message_agrees_with_the_field() -> None:
    field = fake_field((1.5, -2.25))
    message = distance_grid(field, HEADER, window_info(field, LOADED), Time())
    for row, column in [(0, 0), (128, 128), (255, 255), (3, 250)]:
        x, y = field.observation.window.to_frame((column + 0.5, row + 0.5))
        assert distance_at(message, float(x), float(y)) == field.distance[row, column]
    assert distance_at(message, 1.5, -2.25) == field.distance[128, 128]


def test_occupancy_is_published_as_it_is() -> None:
    field = fake_field()
    message = occupancy_grid(field, HEADER, window_info(field, LOADED))
    assert isinstance(message.data, array)
    assert np.array_equal(np.frombuffer(message.data, np.int8).reshape(256, 256), field.occupancy)
    assert message.header == HEADER


def test_distance_map_scales_saturates_and_marks() -> None:
    field = fake_field()
    field.distance[:] = 0
    field.distance[0, :6] = [0.0, 20.0, 40.0, 55.0, np.nan, np.inf]
    message = distance_map(field, HEADER, window_info(field, LOADED), 40.0)
    assert list(message.data[:6]) == [0, 50, 99, 99, 100, -1]
    assert message.info.width * message.info.height == len(message.data)


def test_picture_of_the_observation_is_upright() -> None:
    field = fake_field()
    field.observation.image[:] = -1
    field.observation.image[0, 0] = 100  # lowest x, lowest y
    field.observation.image[255, 0] = 0  # lowest x, highest y
    message = observation_image(field, HEADER)
    pixels = np.frombuffer(message.data, np.uint8).reshape(message.height, message.step)
    assert message.encoding == "mono8"
    assert (pixels[255, 0], pixels[0, 0]) == (0, 255)  # black at the bottom left, white at the top left
    assert (pixels == 128).sum() == 256 * 256 - 2
