"""The demo's robot on the ROS side: publishes a map as slam_toolbox does, and where the robot is."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Protocol

import rclpy
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid
from rclpy.executors import ExternalShutdownException
from rclpy.node import Node

from floorgent_ros.errors import FloorgentError
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros.conversions import map_message
from floorgent_ros.ros.listener import LATCHED
from floorgent_ros.ros.outputs import DISTANCE_TOPIC

FRAME = "map"
MAP_PERIOD_S = 1.0
FIRST_PREDICTION_S = 120.0  # loading torch on a busy machine takes long
LAST_PREDICTION_S = 6.0


class Step(Protocol):
    """A step of a walk."""

    @property
    def map(self) -> OccupancyMap:
        """The robot's map so far."""

    @property
    def pose(self) -> tuple[float, float, float]:
        """Where it is: x, y (m), yaw (rad), map frame."""

    @property
    def stamp(self) -> float:
        """Seconds since the start."""


class DemoRobot(Node):  # type: ignore[misc]  # rclpy has no types
    """Publishes `map` (reliable, transient local, depth 1) and `pose`; hears when distances come back."""

    def __init__(self) -> None:
        super().__init__("demo_robot")
        self.maps = 0
        self._answered: tuple[int, int] | None = None  # stamp of the newest map that has an answer
        self._map_stamp = (0, 0)
        self._map_publisher = self.create_publisher(OccupancyGrid, "map", LATCHED)
        self._pose_publisher = self.create_publisher(PoseStamped, "pose", 10)
        self.create_subscription(DistanceGrid, DISTANCE_TOPIC, self._on_distance, LATCHED)

    def publish_map(self, grid: OccupancyMap) -> None:
        """Publish the map so far."""
        stamp = self.get_clock().now().to_msg()
        message = map_message(grid, FRAME, stamp)
        self._map_publisher.publish(message)
        self._map_stamp = (stamp.sec, stamp.nanosec)
        self.maps += 1

    def publish_pose(self, x: float, y: float, yaw: float) -> None:
        """Publish where the robot is."""
        message = PoseStamped()
        message.header.frame_id, message.header.stamp = FRAME, self.get_clock().now().to_msg()
        message.pose.position.x, message.pose.position.y = x, y
        message.pose.orientation.z, message.pose.orientation.w = math.sin(yaw / 2), math.cos(yaw / 2)
        self._pose_publisher.publish(message)

    def wait_for_distance(self, seconds: float, pose: tuple[float, float, float]) -> bool:
        """Stand still until the last map has its distances; the pose goes on being published."""
        end = time.monotonic() + seconds
        while self._answered is None or self._answered < self._map_stamp:
            if time.monotonic() > end:
                return False
            self.publish_pose(*pose)
            pause = time.monotonic() + 0.2
            while time.monotonic() < pause:
                rclpy.spin_once(self, timeout_sec=0.05)
        return True

    def _on_distance(self, message: DistanceGrid) -> None:
        stamp = message.header.stamp
        self._answered = max(self._answered or (0, 0), (stamp.sec, stamp.nanosec))


def walk(steps: Iterable[Step], seconds: float, progress: Callable[[float, int], None]) -> None:
    """Walk in real time: first map, wait for the node, then each step at its stamp, for at most `seconds`.

    progress: called with the seconds walked and the maps published. Raises `FloorgentError` when no
    distance comes back for the first map. Ctrl-C and SIGTERM end the walk.
    """
    rclpy.init(args=[])
    try:
        _walk(DemoRobot(), iter(steps), seconds, progress)
    except (KeyboardInterrupt, ExternalShutdownException):
        pass
    finally:
        rclpy.try_shutdown()


def _walk(
    robot: DemoRobot, steps: Iterator[Step], seconds: float, progress: Callable[[float, int], None]
) -> None:
    shown = last = next(steps)
    robot.publish_map(shown.map)
    progress(0.0, robot.maps)
    if not robot.wait_for_distance(FIRST_PREDICTION_S, shown.pose):
        raise FloorgentError(f"no distance came within {FIRST_PREDICTION_S:g} s of the first map")
    began = last_map = time.monotonic()
    for last in itertools.takewhile(lambda step: step.stamp <= seconds, steps):
        time.sleep(max(0.0, began + last.stamp - time.monotonic()))
        robot.publish_pose(*last.pose)
        if time.monotonic() - last_map >= MAP_PERIOD_S:
            shown, last_map = last, time.monotonic()
            robot.publish_map(shown.map)
        progress(last.stamp, robot.maps)
    if shown is not last:
        robot.publish_map(last.map)
    robot.wait_for_distance(LAST_PREDICTION_S, last.pose)
    robot.destroy_node()
