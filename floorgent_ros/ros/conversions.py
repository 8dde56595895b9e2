"""ROS messages to the core's types and back; arrays travel as bytes, never as lists."""

from __future__ import annotations

import math
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np
from builtin_interfaces.msg import Time
from geometry_msgs.msg import Quaternion
from nav_msgs.msg import MapMetaData, OccupancyGrid
from numpy.typing import NDArray
from sensor_msgs.msg import Image
from std_msgs.msg import Header

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS, OccupancyMap
from floorgent_ros.msg import DistanceGrid, StageTimings

if TYPE_CHECKING:  # the predictor brings torch, which a node's thread loads in its own time
    from floorgent_ros.predictor import DistanceField
    from floorgent_ros.ros.worker import Predicted

_FLAT = 0.99  # cosine of the tilt up to which a map's plane counts as level


def clean_frame(frame: str) -> str:
    """The frame's name without the leading slash, which tf2 does not know."""
    return frame.strip().lstrip("/")


def occupancy_map(message: OccupancyGrid) -> OccupancyMap:
    """The message's grid, without copying its cells; `MapError` in one line when it cannot be used."""
    info = message.info
    cells = np.frombuffer(message.data, np.int8)
    if len(cells) != info.width * info.height:
        raise MapError(
            f"{len(cells)} values for {info.width} x {info.height} cells: publish width x height of them"
        )
    # the shortest decimal that the float32 stands for: 0.05, not 0.05000000075, as in the map's YAML file
    resolution = float(str(np.float32(info.resolution)))
    origin = (info.origin.position.x, info.origin.position.y)
    return OccupancyMap(
        cells.reshape(info.height, info.width), resolution, origin, yaw(info.origin.orientation)
    )


def yaw(turn: Quaternion) -> float:
    """Rotation about z, rad; `MapError` when the quaternion is no rotation or tilts the plane."""
    norm = math.sqrt(turn.x**2 + turn.y**2 + turn.z**2 + turn.w**2)
    if not (math.isfinite(norm) and norm > 1e-6):
        raise MapError(
            f"origin orientation ({turn.x}, {turn.y}, {turn.z}, {turn.w}) is no rotation: use w = 1 for none"
        )
    x, y, z, w = turn.x / norm, turn.y / norm, turn.z / norm, turn.w / norm
    if 1 - 2 * (x * x + y * y) < _FLAT:
        raise MapError(
            f"origin orientation ({turn.x}, {turn.y}, {turn.z}, {turn.w}) tilts the map: turn about z only"
        )
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def distance_grid(field: DistanceField, header: Header, info: MapMetaData, pose_stamp: Time) -> DistanceGrid:
    """The prediction as planners read it; the latency is filled in when it is published."""
    message = DistanceGrid(header=header, pose_stamp=pose_stamp, info=info)
    message.source.x, message.source.y = map(float, field.source)
    message.distance = packed(field.distance, np.float32)
    message.spread = packed(field.spread, np.float32)
    message.reach_probability = packed(field.reach_probability, np.float32)
    message.completions = len(field.completions)
    message.seed = int(field.seed)
    message.horizon_m = float(field.horizon_m)
    return message


def occupancy_grid(field: DistanceField, header: Header, info: MapMetaData) -> OccupancyGrid:
    """The share of completions in which a cell is wall, in percent; observed cells are 0 and 100."""
    message = OccupancyGrid(header=header, info=info)
    message.data = packed(field.occupancy, np.int8)
    return message


def distance_map(field: DistanceField, header: Header, info: MapMetaData, max_m: float) -> OccupancyGrid:
    """The median distance for viewers: 0…99 for 0…max_m, saturating; 100 occupied, −1 unreachable."""
    distance = np.asarray(field.distance)
    cells = np.full(distance.shape, UNKNOWN, np.int8)
    reached = np.isfinite(distance)
    cells[reached] = np.rint(np.minimum(distance[reached] / max_m, 1.0) * 99)
    cells[np.isnan(distance)] = OCCUPIED
    message = OccupancyGrid(header=header, info=info)
    message.data = packed(cells, np.int8)
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
    info = MapMetaData(map_load_time=load_time, resolution=CELL_M, width=WINDOW_CELLS, height=WINDOW_CELLS)
    info.origin.position.x, info.origin.position.y = map(float, field.origin)
    info.origin.orientation.w = 1.0
    return info


def packed(values: NDArray[Any], dtype: Any) -> array[Any]:
    """The values as the array that rclpy takes as it is, 100 times faster than a list."""
    contents = np.ascontiguousarray(values, dtype)
    result: array[Any] = array(_CODES[contents.dtype])
    result.frombytes(contents.data.cast("B"))
    return result


_CODES = {np.dtype(np.float32): "f", np.dtype(np.int8): "b", np.dtype(np.uint8): "B"}
