"""Read a distance from a `floorgent_ros/msg/DistanceGrid`; needs neither rclpy nor NumPy."""

from __future__ import annotations

import math
from typing import Any

from floorgent_ros.errors import MapError


def distance_at(message: Any, x: float, y: float) -> float:
    """Median shortest-path distance (m) from the robot to the cell that contains the point (x, y).

    message: a DistanceGrid. x, y: metres, in the frame of the message's header; the position and the yaw
    of `info.origin` are honoured. The value is +inf where most completions do not reach the cell and NaN
    where the map is occupied. Raises `MapError` when the point lies outside the window.
    """
    return float(message.distance[cell_at(message, x, y)])


def cell_at(message: Any, x: float, y: float) -> int:
    """Index, in a DistanceGrid's arrays, of the cell that contains the point (x, y): see `distance_at`."""
    info = message.info
    corner, turn = info.origin.position, info.origin.orientation
    yaw = math.atan2(2 * (turn.w * turn.z + turn.x * turn.y), 1 - 2 * (turn.y**2 + turn.z**2))
    east, north = x - corner.x, y - corner.y
    across = (math.cos(yaw) * east + math.sin(yaw) * north) / info.resolution
    up = (math.cos(yaw) * north - math.sin(yaw) * east) / info.resolution
    if not (0 <= across < info.width and 0 <= up < info.height):
        width, height = info.width * info.resolution, info.height * info.resolution
        raise MapError(
            f"({x}, {y}) is outside the window of {width:g} x {height:g} m whose corner is "
            f"({corner.x:g}, {corner.y:g}): ask for a point inside it"
        )
    return int(up) * int(info.width) + int(across)
