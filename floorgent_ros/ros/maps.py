"""The newest usable map of a topic, and the patches that some mappers publish beside it."""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from builtin_interfaces.msg import Time
from nav_msgs.msg import OccupancyGrid
from rclpy.node import Node

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros.conversions import clean_frame, occupancy_map
from floorgent_ros.ros.listener import Listener
from floorgent_ros.schedule import identity

PATCHES_KEPT = 50  # patches build on each other, so none may be lost while a callback runs


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
    """Keeps the newest map; calls `on_map` after a usable one, `warn` with a line about another.

    received, refused: how many messages came, patches included, and how many of them could not be used.
    refusal: the line about the last one that could not; last_was_refused: whether it was the newest. Where
    map_msgs is installed, `TOPIC_updates` is heard as well.
    """

    def __init__(
        self, node: Node, topic: str, on_map: Callable[[], None], warn: Callable[[str], None]
    ) -> None:
        self.latest: MapUpdate | None = None
        self.received = self.refused = 0
        self.refusal = ""
        self.last_was_refused = False
        self._node = node
        self._on_map = on_map
        self._warn = warn
        self._listener = Listener(node, OccupancyGrid, topic, self._receive)
        self._patches = self._patch_subscription()

    def adapt(self) -> None:
        """Open the subscriptions that the topic's publishers need."""
        self._listener.adapt()

    def close(self) -> None:
        """End the subscriptions."""
        self._listener.close()
        if self._patches is not None:
            self._node.destroy_subscription(self._patches)

    def missing(self) -> str:
        """One line about what is waited for, '' once a usable map has come."""
        return "" if self.latest else f"no map yet on {self._listener.describe()}"

    def _receive(self, message: OccupancyGrid) -> None:
        arrived = time.monotonic()
        self.received += 1
        try:
            grid = occupancy_map(message)
        except MapError as error:
            self._refuse(f"map on {self._listener.topic} refused: {error}")
            return
        if grid.cells.max() == 1:
            self._warn(
                f"the largest value of the map on {self._listener.topic} is 1: walls are 100 in a "
                "nav_msgs/OccupancyGrid, so none is seen in it"
            )
        frame = clean_frame(message.header.frame_id)
        stamp, load_time = message.header.stamp, message.info.map_load_time
        self.latest = MapUpdate(grid, frame, stamp, load_time, arrived, identity(grid, frame))
        self.last_was_refused = False
        self._on_map()

    def _patch_subscription(self) -> Any:
        if importlib.util.find_spec("map_msgs") is None:
            return None
        message_type = importlib.import_module("map_msgs.msg").OccupancyGridUpdate
        topic = f"{self._listener.topic}_updates"
        return self._node.create_subscription(message_type, topic, self._receive_patch, PATCHES_KEPT)

    def _receive_patch(self, message: Any) -> None:
        """message: map_msgs/OccupancyGridUpdate, cells that replace a part of the newest map."""
        arrived = time.monotonic()
        stamp = message.header.stamp
        # One that the newest map holds already was made for another grid, perhaps: DDS orders no two topics.
        if self.latest is None or _older(stamp, self.latest.stamp):
            return
        self.received += 1
        try:
            grid = patched(self.latest.grid, message)
        except MapError as error:
            self._refuse(f"update on {self._listener.topic}_updates refused: {error}")
            return
        number = identity(grid, self.latest.frame)
        self.latest = replace(self.latest, grid=grid, stamp=stamp, arrived=arrived, identity=number)
        self.last_was_refused = False
        self._on_map()

    def _refuse(self, text: str) -> None:
        self.refused += 1
        self.refusal, self.last_was_refused = text, True
        self._warn(text)


def _older(stamp: Time, other: Time) -> bool:
    """Whether a stamp is before another; a stamp of zero, which some mappers leave, is not."""
    given = stamp.sec, stamp.nanosec
    return (0, 0) != given < (other.sec, other.nanosec)


def patched(grid: OccupancyMap, patch: Any) -> OccupancyMap:
    """A copy of the grid with a patch's cells (x, y: column and row of its first; width, height; data).

    Raises `MapError` when the patch does not lie within the grid or is not whole.
    """
    rows, columns = grid.cells.shape
    x, y, width, height = patch.x, patch.y, patch.width, patch.height
    if x < 0 or y < 0 or x + width > columns or y + height > rows:
        raise MapError(
            f"{width} x {height} cells from ({x}, {y}) leave the map of {columns} x {rows}: "
            "publish the whole map after its size has changed"
        )
    cells = np.frombuffer(patch.data, np.int8)
    if len(cells) != width * height:
        raise MapError(f"{len(cells)} values for {width} x {height} cells: publish width x height of them")
    whole = grid.cells.copy()
    whole[y : y + height, x : x + width] = cells.reshape(height, width)
    return replace(grid, cells=whole)
