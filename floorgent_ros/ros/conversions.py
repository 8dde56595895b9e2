"""ROS messages to the core's types and back; arrays travel as bytes, never as lists."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
from builtin_interfaces.msg import Time
from nav_msgs.msg import MapMetaData, OccupancyGrid
from numpy.typing import NDArray
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from floorgent_ros.geometry.grid import FREE, OCCUPIED, OccupancyMap
from floorgent_ros.messages import (
    clean_frame,
    distance_cells,
    fill_distance_grid,
    fill_window,
    occupancy_map,
    yaw,
)
from floorgent_ros.msg import DistanceGrid, StageTimings

if TYPE_CHECKING:  # the predictor brings torch, which a node's thread loads in its own time
    from floorgent_ros.predictor import DistanceField
    from floorgent_ros.ros.worker import Predicted

__all__ = [
    "clean_frame",
    "distance_grid",
    "distance_map",
    "map_message",
    "observation_image",
    "occupancy_grid",
    "occupancy_map",
    "packed",
    "window_info",
    "yaw",
]


def map_message(grid: OccupancyMap, frame: str, stamp: Time | None = None) -> OccupancyGrid:
    """The grid as mappers publish it."""
    stamp = stamp or Time()
    message = OccupancyGrid()
    message.header.frame_id, message.header.stamp = frame, stamp
    message.info.map_load_time, message.info.resolution = stamp, grid.resolution
    message.info.height, message.info.width = grid.cells.shape
    message.info.origin.position.x, message.info.origin.position.y = grid.origin
    orientation = message.info.origin.orientation
    orientation.z, orientation.w = math.sin(grid.yaw / 2), math.cos(grid.yaw / 2)
    message.data = packed(grid.cells, np.int8)
    return message


def distance_grid(field: DistanceField, header: Header, info: MapMetaData, pose_stamp: Time) -> DistanceGrid:
    """The prediction as planners read it; the latency is filled in when it is published."""
    message = DistanceGrid(header=header, pose_stamp=pose_stamp, info=info)
    fill_distance_grid(message, field, packed)
    return message


def occupancy_grid(field: DistanceField, header: Header, info: MapMetaData) -> OccupancyGrid:
    """The share of completions in which a cell is wall, in percent; observed cells are 0 and 100."""
    message = OccupancyGrid(header=header, info=info)
    message.data = packed(field.occupancy, np.int8)
    return message


def distance_map(field: DistanceField, header: Header, info: MapMetaData, max_m: float) -> OccupancyGrid:
    """The median distance for viewers: 0…99 for 0…max_m, saturating; 100 occupied, −1 unreachable."""
    message = OccupancyGrid(header=header, info=info)
    message.data = packed(distance_cells(field.distance, max_m), np.int8)
    return message


def observation_image(field: DistanceField, header: Header) -> Image:
    """What the network sees, as mono8: occupied black, unknown grey, free white; up is the window's +y."""
    states = field.observation.image[::-1]  # a picture's first row is its upper one
    pixels = np.full(states.shape, 128, np.uint8)
    pixels[states == OCCUPIED] = 0
    pixels[states == FREE] = 255
    message = Image(header=header, height=len(pixels), width=len(pixels[0]), encoding="mono8")
    message.step = message.width
    message.data = packed(pixels, np.uint8)
    return message


def stage_timings(header: Header, predicted: Predicted, latency_s: float, published_s: float) -> StageTimings:
    """How long each stage of a prediction took; published_s: making and sending the messages."""
    stages = {"wait": 1e3 * predicted.waited_s, **predicted.field.timings, "publish": 1e3 * published_s}
    message = StageTimings(header=header, stages=list(stages), total_ms=1e3 * latency_s)
    message.milliseconds = array("f", stages.values())
    return message


def window_info(field: DistanceField, load_time: Time) -> MapMetaData:
    """The window's geometry; its axes are the frame's own (method decision 1). load_time: the map's."""
    info = MapMetaData(map_load_time=load_time)
    fill_window(info, field)
    return info


def packed(values: NDArray[Any], dtype: Any) -> array[Any]:
    """The values as the array that rclpy takes as it is, 100 times faster than a list."""
    contents = np.ascontiguousarray(values, dtype)
    result: array[Any] = array(_CODES[contents.dtype])
    result.frombytes(contents.data.cast("B"))
    return result


_CODES = {np.dtype(np.float32): "f", np.dtype(np.int8): "b", np.dtype(np.uint8): "B"}
