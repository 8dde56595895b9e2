"""One subscription hears every publisher, and says what it found."""

from __future__ import annotations

from typing import Any

import pytest
import rclpy
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy
from ros_harness import Bench
from std_msgs.msg import Bool, String

from floorgent_ros.ros.listener import LATCHED, Listener

RELIABLE, BEST_EFFORT = ReliabilityPolicy.RELIABLE, ReliabilityPolicy.BEST_EFFORT
LATCHING, VOLATILE = DurabilityPolicy.TRANSIENT_LOCAL, DurabilityPolicy.VOLATILE


def profile(reliability: ReliabilityPolicy, durability: DurabilityPolicy) -> QoSProfile:
    return QoSProfile(depth=1, reliability=reliability, durability=durability)


@pytest.mark.parametrize("reliability", [RELIABLE, BEST_EFFORT])
@pytest.mark.parametrize("durability", [LATCHING, VOLATILE])
def test_every_publisher_is_heard_by_its_event_alone(
    bench: Bench, reliability: ReliabilityPolicy, durability: DurabilityPolicy
) -> None:
    """Without anybody calling `adapt`: the incompatible-QoS event does."""
    heard: list[Any] = []
    Listener(bench.node("listener"), String, "words", heard.append)
    publisher = bench.node("speaker").create_publisher(String, "words", profile(reliability, durability))
    bench.until(publisher.get_subscription_count, "a subscription")
    publisher.publish(String(data="hello"))
    bench.until(lambda: heard, "the message")


def test_latched_message_is_heard_by_a_late_listener_beside_a_volatile_one(bench: Bench) -> None:
    speaker, heard = bench.node("speaker"), []
    latched = speaker.create_publisher(String, "words", LATCHED)
    volatile = speaker.create_publisher(String, "words", profile(RELIABLE, VOLATILE))
    latched.publish(String(data="early"))
    listener = Listener(bench.node("listener"), String, "words", lambda message: heard.append(message.data))

    def connected() -> bool:
        listener.adapt()
        return bool(volatile.get_subscription_count() and heard)

    bench.until(connected, "both publishers")
    volatile.publish(String(data="late"))
    bench.until(lambda: "late" in heard, "the volatile message")
    assert "early" in heard


def test_description_names_topic_type_qos_and_publishers(bench: Bench) -> None:
    listener = Listener(bench.node("listener", namespace="robot1"), String, "words", lambda _: None)
    qos = "reliable, transient local, depth 1; others are heard too"
    assert listener.describe() == f"/robot1/words (std_msgs/String; {qos}): no publisher"
    publisher = bench.node("speaker").create_publisher(
        String, "/robot1/words", profile(BEST_EFFORT, VOLATILE)
    )
    bench.until(lambda: "1 publisher (best effort, volatile)" in listener.describe(), "the publisher")
    assert publisher.topic_name == listener.topic == "/robot1/words"


def test_publisher_of_another_type_does_not_count(bench: Bench) -> None:
    listener = Listener(bench.node("listener"), String, "words", lambda _: None)
    context = rclpy.Context()  # a participant of its own: one participant cannot have both types
    rclpy.init(context=context, signal_handler_options=rclpy.SignalHandlerOptions.NO)
    speaker = rclpy.create_node("speaker", context=context)
    speaker.create_publisher(Bool, "words", LATCHED)
    bench.until(lambda: listener._node.count_publishers("words"), "the graph")
    assert listener.describe().endswith("no publisher")
    speaker.destroy_node()
    context.try_shutdown()


def test_an_exception_over_a_message_drops_it_and_no_more(
    bench: Bench, capfd: pytest.CaptureFixture[str]
) -> None:
    heard: list[str] = []

    def callback(message: String) -> None:
        if message.data == "bad":
            raise OverflowError("math range error")
        heard.append(message.data)

    listener = Listener(bench.node(), String, "words", callback)
    words = bench.node("speaker").create_publisher(String, "words", LATCHED)
    for text in ("bad", "good"):
        words.publish(String(data=text))
        if text == "bad":
            bench.until_said(capfd, "a message on /words is dropped: OverflowError: math range error")
    bench.until(lambda: heard, "the good one")
    listener.close()
