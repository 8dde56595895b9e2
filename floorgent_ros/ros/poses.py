"""Where the robot is: from tf2, or from a topic of PoseStamped, PoseWithCovarianceStamped or Odometry."""

from __future__ import annotations

import importlib
import importlib.util
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped, TransformStamped
from nav_msgs.msg import Odometry
from rclpy.clock import JumpThreshold
from rclpy.duration import Duration
from rclpy.exceptions import NameValidationException
from rclpy.node import Node
from rclpy.time import Time as RclTime

from floorgent_ros.config import NodeSettings
from floorgent_ros.errors import ConfigError
from floorgent_ros.ros.conversions import clean_frame
from floorgent_ros.ros.listener import Listener
from floorgent_ros.ros.steady_time import steady_timer

TF_PERIOD_S = 0.2
LATEST = RclTime()  # tf2's word for the newest transform there is
TOPIC_TYPES = {
    "pose": PoseStamped,
    "odometry": Odometry,
    "pose_with_covariance": PoseWithCovarianceStamped,
}


@dataclass(frozen=True)
class Pose:
    """The robot's position in a frame. arrived: time.monotonic() when the node got it, s."""

    x: float
    y: float
    frame: str
    stamp: Time
    arrived: float


class PoseSource(Protocol):
    """Knows the robot's newest pose, or why there is none."""

    def pose_in(self, frame: str) -> Pose | str:
        """The newest pose in the frame, or one line that says what is missing and the cure."""
        ...

    def missing(self) -> str:
        """One line about what is waited for before any map, '' once it has come."""
        ...

    def age_s(self) -> float | None:
        """How old the newest pose is, s; None before the first one."""
        ...

    def describe(self) -> str:
        """Where the pose comes from, for log lines."""
        ...

    def adapt(self) -> None:
        """Follow what changed in the ROS graph."""
        ...

    def close(self) -> None:
        """End the subscriptions."""
        ...


class TopicPose:
    """The newest pose of a topic of one of TOPIC_TYPES; it must be given in the map's frame."""

    def __init__(self, node: Node, message_type: type, topic: str, on_pose: Callable[[], None]) -> None:
        self._on_pose = on_pose
        self._pose: Pose | None = None
        self._refusal = ""
        self._listener = Listener(node, message_type, topic, self._receive)

    def pose_in(self, frame: str) -> Pose | str:
        """The newest pose; a line when there is none, or none that can be used, or another frame's."""
        if self._refusal:
            return f"pose on {self._listener.topic} refused: {self._refusal}"
        if self._pose is None:
            return self.missing()
        if self._pose.frame != frame:
            return (
                f"the pose on {self._listener.topic} is in frame '{self._pose.frame}', the map in '{frame}': "
                "publish it in the map's frame or set pose_source to tf"
            )
        return self._pose

    def missing(self) -> str:
        """One line about the topic that is waited for, '' once a usable pose has come."""
        return "" if self._pose else f"no pose yet on {self._listener.describe()}"

    def age_s(self) -> float | None:
        """How long ago the newest usable pose came, s."""
        return None if self._pose is None else time.monotonic() - self._pose.arrived

    def describe(self) -> str:
        """The topic."""
        return f"the pose on {self._listener.topic}"

    def adapt(self) -> None:
        """Open the subscriptions that the topic's publishers need."""
        self._listener.adapt()

    def close(self) -> None:
        """End the subscriptions."""
        self._listener.close()

    def _receive(self, message: PoseStamped | PoseWithCovarianceStamped | Odometry) -> None:
        arrived = time.monotonic()
        pose = message.pose if isinstance(message, PoseStamped) else message.pose.pose
        x, y = pose.position.x, pose.position.y
        self._refusal = "" if math.isfinite(x) and math.isfinite(y) else f"position ({x}, {y}) is not finite"
        if not self._refusal:
            self._pose = Pose(x, y, clean_frame(message.header.frame_id), message.header.stamp, arrived)
        self._on_pose()


class TfPose:
    """The robot's frame looked up in tf: the latest transform, else the last one found, never an assumed one.

    lookup: (target frame, source frame) → the latest transform; it raises one of `errors` when it has none.
    now_s: the node's clock, which counts the age of a transform. close: ends the subscriptions.
    """

    def __init__(
        self,
        base_frame: str,
        lookup: Callable[[str, str], TransformStamped],
        errors: tuple[type[Exception], ...],
        now_s: Callable[[], float] = time.time,
        close: Callable[[], None] = lambda: None,
    ) -> None:
        self._base_frame = clean_frame(base_frame)
        self._lookup = lookup
        self._errors = errors
        self._now_s = now_s
        self._close = close
        self._last: Pose | None = None

    def pose_in(self, frame: str) -> Pose | str:
        """The robot's latest position in the frame, or tf's reason for having none."""
        try:
            transform = self._lookup(frame, self._base_frame)
        except self._errors as error:
            if self._last is not None and self._last.frame == frame:  # its age tells
                return self._last
            reason = " ".join(str(error).split())
            return (
                f"no transform from '{self._base_frame}' to '{frame}' on /tf and /tf_static: {reason} "
                "(is robot_base_frame right, does the robot publish tf?)"
            )
        x, y = transform.transform.translation.x, transform.transform.translation.y
        if not (math.isfinite(x) and math.isfinite(y)):
            return f"the transform from '{self._base_frame}' to '{frame}' is not finite: ({x}, {y})"
        self._last = Pose(x, y, frame, transform.header.stamp, time.monotonic())
        return self._last

    def missing(self) -> str:
        """Nothing: without a map it is not known between which frames to look."""
        return ""

    def age_s(self) -> float | None:
        """The age of the last transform by its stamp, s; 0 for a static one and after a clock's jump back."""
        if self._last is None:
            return None
        stamp_s = self._last.stamp.sec + 1e-9 * self._last.stamp.nanosec
        return max(0.0, self._now_s() - stamp_s) if stamp_s > 0 else 0.0

    def describe(self) -> str:
        """The frames."""
        return f"the transform of '{self._base_frame}' on /tf"

    def adapt(self) -> None:
        """Nothing to do: the tf2 listener has its own subscriptions."""

    def close(self) -> None:
        """End tf2's subscriptions."""
        self._close()


def pose_source(node: Node, settings: NodeSettings, on_pose: Callable[[], None]) -> PoseSource:
    """The source that the settings ask for; `on_pose` is called whenever the pose may have changed.

    Raises `ConfigError` when tf is asked for and tf2_ros is not installed, or for a topic that cannot be.
    """
    kind = settings.pose_source
    if kind == "auto":
        kind = "tf" if _has_tf() else "pose"
    if kind == "tf" and not _has_tf():
        raise ConfigError(
            "pose_source = tf, but there is no tf2_ros: install it or set pose_source to pose, odometry or "
            "pose_with_covariance"
        )
    if kind == "tf":
        return _tf_pose(node, settings.robot_base_frame, on_pose)
    try:
        return TopicPose(node, TOPIC_TYPES[kind], settings.pose_topic, on_pose)
    except NameValidationException:
        raise ConfigError(
            f"pose_topic = {settings.pose_topic!r}: use letters, digits and _, parts parted by /, "
            "none begun by a digit"
        ) from None


def _has_tf() -> bool:
    return importlib.util.find_spec("tf2_ros") is not None


def _tf_pose(node: Node, base_frame: str, on_pose: Callable[[], None]) -> TfPose:
    tf2_ros: Any = importlib.import_module("tf2_ros")
    # Without the node: with it the buffer would offer a service that no policy allows and no one can end.
    buffer = tf2_ros.Buffer()
    backwards = JumpThreshold(min_forward=None, min_backward=Duration(nanoseconds=-1), on_clock_change=True)
    jumps = node.get_clock().create_jump_callback(backwards, post_callback=lambda _: buffer.clear())
    listener = tf2_ros.TransformListener(buffer, node, spin_thread=False)

    def lookup(target: str, source: str) -> TransformStamped:
        return buffer.lookup_transform(target, source, LATEST)

    def now_s() -> float:
        return float(node.get_clock().now().nanoseconds) * 1e-9

    def close() -> None:
        node.destroy_timer(timer)
        listener.unregister()
        jumps.unregister()

    timer = steady_timer(node, TF_PERIOD_S, on_pose)
    return TfPose(base_frame, lookup, (tf2_ros.TransformException,), now_s, close)
