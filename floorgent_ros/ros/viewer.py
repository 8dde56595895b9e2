"""The live page's ears: a node that hears the map, the robot and what `floorgent` publishes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid
from numpy.typing import NDArray
from rclpy.context import Context
from rclpy.exceptions import NameValidationException
from rclpy.executors import ExternalShutdownException, SingleThreadedExecutor
from rclpy.node import Node
from rclpy.validate_namespace import validate_namespace
from rclpy.validate_topic_name import validate_topic_name
from visualization_msgs.msg import MarkerArray

from floorgent_ros.errors import ConfigError, MapError
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.messages import clean_frame, occupancy_map, position, yaw
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros.listener import Listener
from floorgent_ros.ros.markers import WALLS_TOPIC, walls_of
from floorgent_ros.ros.outputs import DISTANCE_TOPIC
from floorgent_ros.ros.steady_time import Throttle, steady_timer

ADAPT_PERIOD_S = 1.0
MAX_COMPLETIONS = 128
_PREFIX = "completion_"


class Audience(Protocol):
    """Who is told what the node hears, in the node's thread; all in the map's frame, metres."""

    def on_map(self, grid: OccupancyMap, frame: str) -> None:
        """A new map."""
        ...

    def on_prediction(self, message: DistanceGrid) -> None:
        """New distances."""
        ...

    def on_walls(self, observed: NDArray[Any], completions: list[NDArray[Any]]) -> None:
        """The walls (K, 2, 2) of a prediction."""
        ...

    def on_pose(self, x: float, y: float, yaw: float) -> None:
        """Where the robot is now."""
        ...


class Viewer(Node):  # type: ignore[misc]  # rclpy has no types
    """Hears map, pose, distances and walls, whatever quality of service their publishers offer."""

    def __init__(self, audience: Audience, map_topic: str, pose_topic: str, **node_options: Any) -> None:
        super().__init__("floorgent_view", **node_options)
        self._audience = audience
        self._throttle = Throttle(10.0)
        self._listeners = [
            Listener(self, OccupancyGrid, map_topic, self._on_map),
            Listener(self, PoseStamped, pose_topic, self._on_pose),
            Listener(self, DistanceGrid, DISTANCE_TOPIC, audience.on_prediction),
            Listener(self, MarkerArray, WALLS_TOPIC, self._on_walls),
        ]
        steady_timer(self, ADAPT_PERIOD_S, self._adapt)

    @property
    def topics(self) -> list[str]:
        """The full names of what is heard: map, pose, distances, walls."""
        return [listener.topic for listener in self._listeners]

    def _adapt(self) -> None:
        for listener in self._listeners:
            listener.adapt()

    def _on_map(self, message: OccupancyGrid) -> None:
        try:
            grid = occupancy_map(message)
        except MapError as error:
            text = f"map on {self.topics[0]} refused: {error}"
            if self._throttle.due(text):
                self.get_logger().warning(text)
            return
        self._audience.on_map(grid, clean_frame(message.header.frame_id))

    def _on_pose(self, message: PoseStamped) -> None:
        try:
            turn = yaw(message.pose.orientation)
        except MapError:
            turn = 0.0
        self._audience.on_pose(*position(message), turn)

    def _on_walls(self, message: MarkerArray) -> None:
        numbers = [marker.ns.removeprefix(_PREFIX) for marker in message.markers]
        count = max((int(number) for number in numbers if number.isdecimal()), default=0)
        self._audience.on_walls(*walls_of(message, min(count, MAX_COMPLETIONS)))


def _check(kind: str, name: str, validate: Callable[[str], object]) -> None:
    """Before a node is made: what rclpy says of a node that it could not make has many lines."""
    try:
        validate(name)
    except NameValidationException:
        raise ConfigError(
            f"{kind} {name!r}: use letters, digits and _, parts parted by /, none begun by a digit"
        ) from None


class Ears:
    """A viewer that runs in a thread of its own."""

    def __init__(self, audience: Audience, namespace: str, map_topic: str, pose_topic: str) -> None:
        """Raises `ConfigError` when a name cannot be used."""
        namespace = "/" + namespace.strip("/")
        _check("namespace", namespace, validate_namespace)
        for topic in (map_topic, pose_topic):
            _check("topic", topic, validate_topic_name)
        self._context = Context()
        self._context.init(args=[])
        self._viewer = Viewer(audience, map_topic, pose_topic, namespace=namespace, context=self._context)
        self.topics = self._viewer.topics
        self._thread = threading.Thread(target=self._spin, name="ears", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop hearing."""
        self._context.try_shutdown()
        self._thread.join(5.0)

    def _spin(self) -> None:
        executor = SingleThreadedExecutor(context=self._context)
        executor.add_node(self._viewer)
        try:
            executor.spin()
        except ExternalShutdownException:
            pass
        finally:
            self._viewer.destroy_node()
