"""What the ROS tests share: an executor that waits on conditions, a robot, a predictor of a few lines."""

from __future__ import annotations

import math
import threading
import time
from array import array
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest
import rclpy
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped
from nav_msgs.msg import OccupancyGrid, Odometry
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node

from floorgent_ros.config import ObservationSettings, PredictorSettings
from floorgent_ros.geometry.grid import OccupancyMap, Window
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.ros.floorgent_node import FloorgentNode
from floorgent_ros.ros.listener import LATCHED
from floorgent_ros.ros.parameters import Settings

if TYPE_CHECKING:
    from floorgent_ros.predictor import DistanceField

LIMIT_S = 60.0  # discovery takes 0.1 or 2.1 s, starting a process 2 s; a busy machine many times that


class Bench:
    """Nodes in one executor that spins while somebody waits."""

    def __init__(self) -> None:
        self.executor = SingleThreadedExecutor()
        self.nodes: list[Node] = []

    def add(self, node: Any) -> Any:
        self.nodes.append(node)
        self.executor.add_node(node)
        return node

    def node(self, name: str = "tester", **options: Any) -> Node:
        return self.add(rclpy.create_node(name, **options))

    def floorgent(self, predictor: FakePredictor, namespace: str = "", **parameters: Any) -> FloorgentNode:
        """The node under test, with a predictor of ours and the parameters given."""
        overrides = [rclpy.Parameter(name, value=value) for name, value in parameters.items()]
        return self.add(
            FloorgentNode(
                predictor.load, namespace=namespace, parameter_overrides=overrides, use_global_arguments=False
            )
        )

    def until(self, condition: Callable[[], Any], what: str = "", limit_s: float = LIMIT_S) -> Any:
        """Spin until the condition holds; its value."""
        end = time.monotonic() + limit_s
        while not (value := condition()):
            assert time.monotonic() < end, f"waited {limit_s} s for {what or condition}"
            self.executor.spin_once(timeout_sec=0.02)
        return value

    def until_said(self, capfd: pytest.CaptureFixture[str], *texts: str) -> str:
        """Spin until all the texts were written to standard error; what was, since the last look."""
        said = ""

        def heard() -> bool:
            nonlocal said
            said += capfd.readouterr().err
            return all(text in said for text in texts)

        self.until(heard, f"the lines with {texts}")
        return said

    def until_served(self, client: Any) -> None:
        """Spin until the client's service can answer.

        A client knows of a server in another process before that one knows of the client, and an answer
        sent in between is lost.
        """
        self.until(client.service_is_ready, client.srv_name)
        self.spin_for(0.5)

    def spin_for(self, duration_s: float) -> None:
        """Spin for a time in which something must NOT happen."""
        end = time.monotonic() + duration_s
        while time.monotonic() < end:
            self.executor.spin_once(timeout_sec=0.02)

    def close(self) -> None:
        for node in self.nodes:
            self.executor.remove_node(node)
            node.destroy_node()
        self.executor.shutdown()


class Robot:
    """Publishes maps and poses, and keeps what comes back on the topics it is told to hear."""

    def __init__(
        self, bench: Bench, namespace: str = "", map_qos: Any = LATCHED, pose_type: type = PoseStamped
    ) -> None:
        self.bench = bench
        self.node = bench.node("robot", namespace=namespace)
        self.maps = self.node.create_publisher(OccupancyGrid, "map", map_qos)
        self.poses = self.node.create_publisher(pose_type, "pose", LATCHED)
        self.heard: dict[str, list[Any]] = {}

    def hear(self, topic: str, message_type: type, qos: Any = LATCHED) -> list[Any]:
        """The list in which the topic's messages arrive."""
        heard: list[Any] = []
        self.node.create_subscription(message_type, topic, heard.append, qos)
        return heard

    def connected(self) -> None:
        """Wait until somebody listens to map and pose."""
        self.bench.until(
            lambda: self.maps.get_subscription_count() and self.poses.get_subscription_count(),
            "subscriptions",
        )

    def publish_once_heard(self) -> None:
        """Wait for a listener, then publish a pose and a map."""
        self.connected()
        self.poses.publish(pose_message())
        self.maps.publish(map_message())


class FakePredictor:
    """Stands in for DistancePredictor: remembers what it is asked and answers when it may.

    go: while clear, predictions wait. error: raised by the next predictions. fallbacks: what they report.
    """

    description = "fake predictor"
    device = "cpu"

    def __init__(self) -> None:
        self.settings = PredictorSettings()
        self.observation = ObservationSettings()
        self.asked: list[
            tuple[OccupancyMap, tuple[float, float], PredictorSettings, ObservationSettings]
        ] = []
        self.go = threading.Event()
        self.go.set()
        self.error: Exception | None = None
        self.note = ""
        self.fallbacks: list[str] = []

    def load(self, settings: Settings) -> FakePredictor:
        return self

    def warm_up(self) -> None:
        pass

    def predict(self, grid: OccupancyMap, viewpoint: tuple[float, float]) -> DistanceField:
        self.asked.append((grid, viewpoint, self.settings, self.observation))
        assert self.go.wait(60)
        if self.error is not None:
            raise self.error
        return fake_field(
            viewpoint, completions=self.settings.completions, seed=self.settings.seed, note=self.note
        )


def started(bench: Bench, predictor: FakePredictor, **parameters: Any) -> FloorgentNode:
    """The node with poses from a topic and no needless waits."""
    return bench.floorgent(predictor, **{"pose_source": "pose", "max_rate": 100.0, **parameters})


def fake_field(
    viewpoint: tuple[float, float] = (1.5, -2.25), completions: int = 2, seed: int = 0, note: str = ""
) -> DistanceField:
    """What a DistanceField has (test_real_prediction compares), without torch; all cells are different."""
    window = Window(viewpoint)
    distance = np.arange(256 * 256, dtype=np.float32).reshape(256, 256) / 1000
    distance[0, 1], distance[255, 0] = np.nan, np.inf
    states = np.full((256, 256), -1, np.int8)
    states[0, 0], states[255, 255] = 100, 0
    walls = np.array([[[1.0, 2.0], [3.0, 2.0]], [[3.0, 2.0], [3.0, 4.5]]])
    field = SimpleNamespace(
        distance=distance,
        spread=distance / 10,
        reach_probability=np.where(np.isfinite(distance), np.float32(1), np.float32(0)),
        completions=[np.array([[[i, 0], [i, 5]]], np.float32) for i in range(completions)],
        occupancy=np.where(states < 0, np.int8(37), states),
        observation=Observation(window, states, walls, window, states),
        origin=window.origin,
        source=viewpoint,
        seed=seed,
        horizon_m=15.0,
        blocked=np.zeros((completions, 256, 256), bool),
        source_note=note,
        timings={"complete": 40.0},
    )
    return cast("DistanceField", field)


def map_message(
    cells: np.ndarray[Any, Any] | None = None,
    *,
    resolution: float = 0.05,
    origin: tuple[float, float] = (0.0, 0.0),
    yaw: float = 0.0,
    frame: str = "map",
    stamp_s: int = 1,
) -> OccupancyGrid:
    """An OccupancyGrid; by default a room of 4 x 3 m."""
    if cells is None:
        cells = room()
    message = OccupancyGrid()
    message.header.frame_id = frame
    message.header.stamp.sec = stamp_s
    message.info.height, message.info.width = cells.shape
    message.info.resolution = resolution
    message.info.origin.position.x, message.info.origin.position.y = origin
    message.info.origin.orientation.z = math.sin(yaw / 2)
    message.info.origin.orientation.w = math.cos(yaw / 2)
    message.data = array("b", cells.astype(np.int8).tobytes())
    return message


def room(rows: int = 60, columns: int = 80) -> np.ndarray[Any, Any]:
    """Free cells with a wall of two cells around them."""
    cells = np.zeros((rows, columns), np.int8)
    cells[:2] = cells[-2:] = 100
    cells[:, :2] = cells[:, -2:] = 100
    return cells


def pose_message(x: float = 2.0, y: float = 1.5, *, frame: str = "map", stamp_s: int = 1) -> PoseStamped:
    message = PoseStamped()
    message.header.frame_id = frame
    message.header.stamp.sec = stamp_s
    message.pose.position.x, message.pose.position.y = float(x), float(y)
    message.pose.orientation.w = 1.0
    return message


def odometry_message(x: float = 2.0, y: float = 1.5, *, frame: str = "map") -> Odometry:
    message = Odometry()
    message.header.frame_id = frame
    message.pose.pose.position.x, message.pose.pose.position.y = x, y
    message.pose.pose.orientation.w = 1.0
    return message


def amcl_message(x: float = 2.0, y: float = 1.5, *, frame: str = "map") -> PoseWithCovarianceStamped:
    message = PoseWithCovarianceStamped()
    message.header.frame_id = frame
    message.pose.pose.position.x, message.pose.pose.position.y = x, y
    message.pose.pose.orientation.w = 1.0
    return message
