"""The demo's planner on the ROS side: what an exploration planner would hear, kept for the pictures."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import rclpy
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid
from numpy.typing import NDArray
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.qos import QoSProfile
from visualization_msgs.msg import MarkerArray

from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros.conversions import occupancy_map
from floorgent_ros.ros.listener import LATCHED
from floorgent_ros.ros.markers import WALLS_TOPIC, walls_of
from floorgent_ros.ros.outputs import DISTANCE_TOPIC

SETTLE_S = 0.4  # a prediction's markers come on another topic, a little before or after its distances
_KEPT = 50  # maps and markers

Stamp = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Heard:
    """One prediction as it arrived, with the map that it was made from; map frame, metres.

    age_s: from the map's stamp to the arrival here. maps: how many maps were heard before. path: (K, 2).
    """

    grid: OccupancyMap
    source: tuple[float, float]
    origin: tuple[float, float]
    distance: NDArray[np.float32]
    walls: NDArray[np.float32]
    completions: list[NDArray[np.float32]]
    path: NDArray[np.float64]
    latency_s: float
    age_s: float
    maps: int


class DemoPlanner(Node):  # type: ignore[misc]  # rclpy has no types
    """Hears distances, walls, map and pose, and hands each prediction on once."""

    def __init__(self, on_prediction: Callable[[Heard], None]) -> None:
        super().__init__("demo_planner")
        self._on_prediction = on_prediction
        self._maps: dict[Stamp, OccupancyMap] = {}
        self._markers: dict[Stamp, MarkerArray] = {}
        self._pending: list[tuple[DistanceGrid, float, float]] = []  # message, age, monotonic time of arrival
        self._seen: set[tuple[Stamp, Stamp]] = set()
        self._path: list[tuple[float, float]] = []
        self._count = 0
        latched = QoSProfile(depth=20, reliability=LATCHED.reliability, durability=LATCHED.durability)
        self.create_subscription(OccupancyGrid, "map", self._on_map, latched)
        self.create_subscription(PoseStamped, "pose", self._on_pose, 10)
        self.create_subscription(MarkerArray, WALLS_TOPIC, self._on_markers, latched)
        self.create_subscription(DistanceGrid, DISTANCE_TOPIC, self._on_distance, latched)
        self.create_timer(0.1, lambda: self.flush(SETTLE_S))

    def flush(self, older_than_s: float = 0.0) -> None:
        """Hand on what waits for its markers."""
        now = time.monotonic()
        while self._pending and now - self._pending[0][2] >= older_than_s:
            message, age_s, _ = self._pending.pop(0)
            stamp = _stamp(message.header.stamp)
            if stamp in self._maps and stamp in self._markers:
                self._on_prediction(self._heard(message, age_s, stamp))

    def _on_map(self, message: OccupancyGrid) -> None:
        self._count += 1
        _keep(self._maps, _stamp(message.header.stamp), occupancy_map(message))

    def _on_pose(self, message: PoseStamped) -> None:
        place = (message.pose.position.x, message.pose.position.y)
        if not self._path or math.dist(self._path[-1], place) > 0.05:
            self._path.append(place)

    def _on_markers(self, message: MarkerArray) -> None:
        if message.markers:
            _keep(self._markers, _stamp(message.markers[0].header.stamp), message)

    def _on_distance(self, message: DistanceGrid) -> None:
        stamp = _stamp(message.header.stamp)
        key = (stamp, _stamp(message.pose_stamp))
        if key in self._seen:  # published again for late subscribers
            return
        self._seen.add(key)
        age_s = self.get_clock().now().nanoseconds * 1e-9 - (stamp[0] + stamp[1] * 1e-9)
        self._pending.append((message, age_s, time.monotonic()))

    def _heard(self, message: DistanceGrid, age_s: float, stamp: Stamp) -> Heard:
        walls, completions = walls_of(self._markers[stamp], message.completions)
        corner, info = message.info.origin.position, message.info
        return Heard(
            grid=self._maps[stamp],
            source=(message.source.x, message.source.y),
            origin=(corner.x, corner.y),
            distance=np.array(message.distance, np.float32).reshape(info.height, info.width),
            walls=walls,
            completions=completions,
            path=np.array(self._path, float).reshape(-1, 2),
            latency_s=message.latency_s,
            age_s=age_s,
            maps=self._count,
        )


def listen(on_prediction: Callable[[Heard], None]) -> None:
    """Run the planner until Ctrl-C or SIGTERM."""
    rclpy.init(args=[])
    planner = DemoPlanner(on_prediction)
    executor = SingleThreadedExecutor()
    executor.add_node(planner)
    with contextlib.suppress(KeyboardInterrupt, ExternalShutdownException):
        executor.spin()
    planner.flush()
    planner.destroy_node()
    rclpy.try_shutdown()


def _keep(store: dict[Stamp, Any], stamp: Stamp, value: Any) -> None:
    store[stamp] = value
    while len(store) > _KEPT:
        del store[next(iter(store))]


def _stamp(time_message: Any) -> Stamp:
    return time_message.sec, time_message.nanosec
