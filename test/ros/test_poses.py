"""Poses from topics and from tf: the newest, in the map's frame, never invented."""

from __future__ import annotations

import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from geometry_msgs.msg import PoseStamped, PoseWithCovarianceStamped, TransformStamped
from nav_msgs.msg import Odometry
from rclpy.parameter import Parameter
from rclpy.qos import qos_profile_sensor_data
from ros_harness import Bench, amcl_message, odometry_message, pose_message
from rosgraph_msgs.msg import Clock

from floorgent_ros.config import NodeSettings
from floorgent_ros.errors import ConfigError
from floorgent_ros.ros.listener import LATCHED
from floorgent_ros.ros.poses import Pose, TfPose, TopicPose, pose_source


class TransformError(Exception):
    """As tf2's: the text runs over lines."""


@pytest.mark.parametrize(
    ("kind", "message_type", "message"),
    [
        ("pose", PoseStamped, pose_message(3.0, 4.0)),
        ("odometry", Odometry, odometry_message(3.0, 4.0)),
        ("pose_with_covariance", PoseWithCovarianceStamped, amcl_message(3.0, 4.0)),
    ],
)
@pytest.mark.parametrize("qos", [LATCHED, qos_profile_sensor_data], ids=["latched", "sensor data"])
def test_topic_gives_the_newest_pose(
    bench: Bench, kind: str, message_type: type, message: Any, qos: Any
) -> None:
    node, calls = bench.node(), []
    source = pose_source(node, NodeSettings(pose_source=kind, pose_topic="where"), lambda: calls.append(1))
    assert "no pose yet on /where" in source.missing()
    publisher = node.create_publisher(message_type, "where", qos)

    def there() -> bool:
        source.adapt()
        return bool(publisher.get_subscription_count())

    bench.until(there, "the subscription")
    publisher.publish(message)
    bench.until(lambda: calls, "the pose")
    pose = source.pose_in("map")
    assert isinstance(pose, Pose)
    assert (pose.x, pose.y, pose.frame, pose.stamp) == (3.0, 4.0, "map", message.header.stamp)
    assert source.missing() == ""


def test_pose_in_another_frame_is_refused_by_name(bench: Bench) -> None:
    source = TopicPose(bench.node(), Odometry, "odom", lambda: None)
    source._receive(odometry_message(frame="odom"))
    text = source.pose_in("map")
    assert isinstance(text, str)
    assert "/odom" in text
    assert "'odom'" in text
    assert "'map'" in text


def test_leading_slash_of_the_pose_frame_is_forgiven(bench: Bench) -> None:
    source = TopicPose(bench.node(), PoseStamped, "pose", lambda: None)
    source._receive(pose_message(frame="/map"))
    assert isinstance(source.pose_in("map"), Pose)


@pytest.mark.parametrize("x", [math.nan, math.inf])
def test_pose_that_is_not_finite_is_refused_until_a_good_one_comes(bench: Bench, x: float) -> None:
    source = TopicPose(bench.node(), PoseStamped, "pose", lambda: None)
    source._receive(pose_message(1.0, 1.0))
    source._receive(pose_message(x, 1.0))
    assert "not finite" in str(source.pose_in("map"))
    source._receive(pose_message(2.0, 1.0))
    assert isinstance(source.pose_in("map"), Pose)


def transform(x: float, y: float) -> TransformStamped:
    message = TransformStamped()
    message.header.stamp.sec = 9
    message.transform.translation.x, message.transform.translation.y = x, y
    return message


def test_tf_looks_up_the_robot_in_the_map() -> None:
    asked = []

    def lookup(target: str, source: str) -> TransformStamped:
        asked.append((target, source))
        return transform(5.0, 6.0)

    pose = TfPose("/base_link", lookup, (TransformError,)).pose_in("map")
    assert isinstance(pose, Pose)
    assert asked == [("map", "base_link")]
    assert (pose.x, pose.y, pose.frame, pose.stamp.sec) == (5.0, 6.0, "map", 9)


def test_tf_without_a_transform_gives_a_line_and_never_an_identity() -> None:
    def lookup(target: str, source: str) -> TransformStamped:
        raise TransformError('"base_link" passed to lookupTransform\ndoes not exist')

    text = TfPose("base_link", lookup, (TransformError,)).pose_in("map")
    assert isinstance(text, str)
    assert "'base_link'" in text
    assert "'map'" in text
    assert "does not exist" in text
    assert "\n" not in text


def test_tf_that_fails_later_leaves_the_last_pose_which_gets_old() -> None:
    there, now = [True], [9.5]

    def lookup(target: str, source: str) -> TransformStamped:
        if not there[0]:
            raise TransformError("extrapolation into the future")
        return transform(5.0, 6.0)

    source = TfPose("base_link", lookup, (TransformError,), now_s=lambda: now[0])
    assert source.age_s() is None
    first = source.pose_in("map")
    assert source.age_s() == pytest.approx(0.5)
    there[0], now[0] = False, 29.0
    assert source.pose_in("map") == first
    assert source.age_s() == pytest.approx(20.0)
    assert "extrapolation" in str(source.pose_in("other_map"))  # not a pose of another frame


def test_tf_pose_is_not_old_after_the_clock_jumped_back_nor_when_static() -> None:
    source = TfPose("base_link", lambda *_: transform(5.0, 6.0), (TransformError,), now_s=lambda: 1.0)
    source.pose_in("map")
    assert source.age_s() == 0.0
    static = transform(5.0, 6.0)
    static.header.stamp.sec = 0
    source = TfPose("base_link", lambda *_: static, (TransformError,), now_s=lambda: 1e9)
    source.pose_in("map")
    assert source.age_s() == 0.0


def test_tf_transform_that_is_not_finite_is_refused() -> None:
    pose = TfPose("base_link", lambda *_: transform(math.nan, 0.0), (TransformError,)).pose_in("map")
    assert "not finite" in str(pose)


@pytest.fixture
def tf2_ros(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A tf2_ros of a few lines, for machines without the real one; `buffers` are those that were made."""
    buffers: list[Buffer] = []

    class Buffer:
        def __init__(self, node: Any = None) -> None:
            assert node is None  # else it would offer a service
            self.cleared = 0
            buffers.append(self)

        def clear(self) -> None:
            self.cleared += 1

        def lookup_transform(self, target: str, source: str, time: Any) -> TransformStamped:
            assert time.nanoseconds == 0  # tf2's "latest"
            return transform(7.0, 8.0)

    class Listener:
        def __init__(self, buffer: Buffer, node: Any, spin_thread: bool) -> None:
            assert not spin_thread

        def unregister(self) -> None:
            pass

    module = ModuleType("tf2_ros")
    module.__spec__ = SimpleNamespace(name="tf2_ros", loader=None)  # type: ignore[assignment]
    module.buffers = buffers  # type: ignore[attr-defined]
    module.Buffer = Buffer  # type: ignore[attr-defined]
    module.TransformListener = Listener  # type: ignore[attr-defined]
    module.TransformException = TransformError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tf2_ros", module)
    return module


@pytest.mark.parametrize("kind", ["auto", "tf"])
def test_tf_is_used_where_it_is_installed(bench: Bench, tf2_ros: ModuleType, kind: str) -> None:
    calls: list[int] = []
    source = pose_source(bench.node(), NodeSettings(pose_source=kind), lambda: calls.append(1))
    assert isinstance(source, TfPose)
    bench.until(lambda: calls, "the look-up timer")
    pose = source.pose_in("map")
    assert isinstance(pose, Pose)
    assert (pose.x, pose.y) == (7.0, 8.0)
    source.close()
    calls.clear()
    bench.spin_for(0.5)
    assert not calls


@pytest.fixture
def no_tf2_ros(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("floorgent_ros.ros.poses._has_tf", lambda: False)


def test_auto_without_tf2_listens_to_pose_messages(bench: Bench, no_tf2_ros: None) -> None:
    source = pose_source(bench.node(), NodeSettings(), lambda: None)
    assert isinstance(source, TopicPose)
    assert "/pose (geometry_msgs/PoseStamped; reliable, transient local" in source.missing()


def test_tf_asked_for_but_missing_is_a_config_error(bench: Bench, no_tf2_ros: None) -> None:
    with pytest.raises(ConfigError, match="tf2_ros"):
        pose_source(bench.node(), NodeSettings(pose_source="tf"), lambda: None)


def test_tf_begins_anew_when_the_clock_jumps_back(bench: Bench, tf2_ros: ModuleType) -> None:
    node = bench.node(parameter_overrides=[Parameter("use_sim_time", value=True)])
    clock = bench.node("bag").create_publisher(Clock, "/clock", 1)
    source = pose_source(node, NodeSettings(pose_source="tf"), lambda: None)
    (buffer,) = tf2_ros.buffers

    def at(seconds: int) -> None:
        def reached() -> bool:
            clock.publish(Clock(clock=Time(sec=seconds)))
            return bool(node.get_clock().now().nanoseconds == seconds * 10**9)

        bench.until(reached, "the clock")

    at(100)
    cleared = buffer.cleared
    at(101)
    assert buffer.cleared == cleared
    at(5)  # a bag begins again
    assert buffer.cleared == cleared + 1
    source.close()
    at(3)
    assert buffer.cleared == cleared + 1
