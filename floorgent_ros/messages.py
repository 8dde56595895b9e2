"""What ROS messages say, read and filled by their fields' names alone.

The node's messages are rclpy's, a recorded bag's are those of its reader: both have the fields of the same
.msg files, so one code serves both, and this module needs no ROS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import CELL_M, OCCUPIED, UNKNOWN, WINDOW_CELLS, OccupancyMap

if TYPE_CHECKING:  # the predictor brings torch, which a node's thread loads in its own time
    from floorgent_ros.predictor import DistanceField

MAX_CELLS = 100_000_000  # 500 x 500 m in cells of 5 cm: no message makes a reader hold more
RESOLUTIONS_M = (0.001, 10.0)  # what a map's cell may measure; far finer ones would be padded without end
GRIDS = ("distance", "spread", "reach_probability")  # the float32 arrays of a DistanceGrid
_FLAT = 0.99  # cosine of the tilt up to which a map's plane counts as level

Pack = Callable[[NDArray[Any], Any], Any]
"""(values, dtype) → the array that the message's library takes."""


def clean_frame(frame: str) -> str:
    """The frame's name without the leading slash, which tf2 does not know."""
    return frame.strip().lstrip("/")


def occupancy_map(message: Any) -> OccupancyMap:
    """A nav_msgs/OccupancyGrid's map, without copying its cells; `MapError` in one line if it has none."""
    info = message.info
    count = info.width * info.height
    if count > MAX_CELLS:
        raise MapError(
            f"{info.width} x {info.height} cells: more than {MAX_CELLS:,}; publish a coarser or smaller map"
        )
    cells = np.frombuffer(message.data, np.int8)
    if len(cells) != count:
        raise MapError(
            f"{len(cells)} values for {info.width} x {info.height} cells: publish width x height of them"
        )
    # the shortest decimal that the float32 stands for: 0.05, not 0.05000000075, as in the map's YAML file
    resolution = float(str(np.float32(info.resolution)))
    if not RESOLUTIONS_M[0] <= resolution <= RESOLUTIONS_M[1]:  # nan included
        raise MapError(
            f"map resolution is {resolution}: give {RESOLUTIONS_M[0]} to {RESOLUTIONS_M[1]:g} metres per cell"
        )
    origin = (info.origin.position.x, info.origin.position.y)
    return OccupancyMap(
        cells.reshape(info.height, info.width), resolution, origin, yaw(info.origin.orientation)
    )


def yaw(turn: Any) -> float:
    """Rotation about z of a quaternion, rad; `MapError` when it is no rotation or tilts the plane."""
    norm = math.hypot(turn.x, turn.y, turn.z, turn.w)
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


def position(message: Any) -> tuple[float, float]:
    """(x, y), m, of a PoseStamped, an Odometry or a PoseWithCovarianceStamped."""
    pose = getattr(message.pose, "pose", message.pose)
    return pose.position.x, pose.position.y


def fill_distance_grid(message: Any, field: DistanceField, pack: Pack) -> None:
    """Write a prediction into a DistanceGrid; header, pose stamp, info and latency stay as they are."""
    message.source.x, message.source.y = map(float, field.source)
    for name in GRIDS:
        setattr(message, name, pack(getattr(field, name), np.float32))
    message.completions = len(field.completions)
    message.seed = int(field.seed)
    message.horizon_m = float(field.horizon_m)


def fill_window(info: Any, field: DistanceField) -> None:
    """Write the window's geometry into a MapMetaData: its axes are the frame's own (method decision 1)."""
    info.resolution, info.width, info.height = CELL_M, WINDOW_CELLS, WINDOW_CELLS
    info.origin.position.x, info.origin.position.y = map(float, field.origin)
    info.origin.orientation.w = 1.0


def distance_cells(distance: NDArray[np.float32], max_m: float) -> NDArray[np.int8]:
    """Distances (m) as occupancy values: 0…99 for 0…max_m, saturating; 100 occupied, −1 unreachable."""
    cells = np.full(distance.shape, UNKNOWN, np.int8)
    reached = np.isfinite(distance)
    cells[reached] = np.rint(np.minimum(distance[reached] / max_m, 1.0) * 99)
    cells[np.isnan(distance)] = OCCUPIED
    return cells
