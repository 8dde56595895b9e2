"""When a map and a pose deserve a prediction: the rule that the node and a replayed bag share."""

from __future__ import annotations

import math
import zlib
from typing import Protocol

import numpy as np

from floorgent_ros.config import NodeSettings
from floorgent_ros.geometry.grid import OccupancyMap


class IdentifiedMap(Protocol):
    """A map that knows whether another is the same."""

    @property
    def identity(self) -> int:
        """Equal for messages that hold the same map."""
        ...


class Place(Protocol):
    """Where the robot is, in the map's frame, m."""

    @property
    def x(self) -> float: ...  # noqa: D102
    @property
    def y(self) -> float: ...  # noqa: D102


class Asked(Protocol):
    """A prediction that was made, or is being made."""

    @property
    def map(self) -> IdentifiedMap: ...  # noqa: D102
    @property
    def pose(self) -> Place: ...  # noqa: D102


def identity(grid: OccupancyMap, frame: str) -> int:
    """A number that two grids share when they say the same about the same place."""
    # over the cells where they are: a large map's copy as bytes would cost more than the sum
    cells = grid.cells.shape, zlib.crc32(np.ascontiguousarray(grid.cells).data)
    return hash((frame, grid.resolution, grid.origin, grid.yaw, cells))


def is_due(newest_map: IdentifiedMap, pose: Place, last: Asked | None, settings: NodeSettings) -> bool:
    """Whether a map and pose deserve a prediction: another map than the last one's, or enough travel."""
    if last is None or newest_map.identity != last.map.identity:
        return True
    travel = math.hypot(pose.x - last.pose.x, pose.y - last.pose.y)
    return travel > 0 and travel >= settings.min_travel
