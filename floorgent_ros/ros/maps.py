"""The newest usable map of a topic."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from builtin_interfaces.msg import Time
from nav_msgs.msg import OccupancyGrid
from rclpy.node import Node

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros.conversions import clean_frame, occupancy_map
from floorgent_ros.ros.listener import Listener


@dataclass(frozen=True, eq=False)
class MapUpdate:
    """A map as it came in. identity: equal for messages that hold the same map; arrived: monotonic, s."""

    grid: OccupancyMap
    frame: str
    stamp: Time
    load_time: Time
    arrived: float
    identity: int


class MapInput:
    """Keeps the newest map; calls `on_map` after a usable one, `on_refusal` with a line after another."""

    def __init__(
        self, node: Node, topic: str, on_map: Callable[[], None], on_refusal: Callable[[str], None]
    ) -> None:
        self.latest: MapUpdate | None = None
        self._on_map = on_map
        self._on_refusal = on_refusal
        self._listener = Listener(node, OccupancyGrid, topic, self._receive)

    def adapt(self) -> None:
        """Open the subscriptions that the topic's publishers need."""
        self._listener.adapt()

    def missing(self) -> str:
        """One line about what is waited for, '' once a usable map has come."""
        return "" if self.latest else f"no map yet on {self._listener.describe()}"

    def _receive(self, message: OccupancyGrid) -> None:
        arrived = time.monotonic()
        try:
            grid = occupancy_map(message)
        except MapError as error:
            self._on_refusal(f"map on {self._listener.topic} refused: {error}")
            return
        frame = clean_frame(message.header.frame_id)
        stamp, load_time = message.header.stamp, message.info.map_load_time
        self.latest = MapUpdate(grid, frame, stamp, load_time, arrived, identity(grid, frame))
        self._on_map()


def identity(grid: OccupancyMap, frame: str) -> int:
    """A number that two grids share when they say the same about the same place."""
    # over the cells where they are: a large map's copy as bytes would cost more than the sum
    cells = grid.cells.shape, zlib.crc32(np.ascontiguousarray(grid.cells).data)
    return hash((frame, grid.resolution, grid.origin, grid.yaw, cells))
