"""A subscription that hears every publisher of its topic, whatever quality of service it offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.qos import DurabilityPolicy, QoSProfile, ReliabilityPolicy, qos_policy_name_from_kind

from floorgent_ros.ros.failures import one_line
from floorgent_ros.ros.steady_time import Throttle

LATCHED = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.TRANSIENT_LOCAL
)
VOLATILE = QoSProfile(depth=1, reliability=ReliabilityPolicy.RELIABLE, durability=DurabilityPolicy.VOLATILE)
BEST_EFFORT = QoSProfile(
    depth=1, reliability=ReliabilityPolicy.BEST_EFFORT, durability=DurabilityPolicy.VOLATILE
)
WARN_PERIOD_S = 10.0


class Listener:
    """Subscribes reliable, transient local, depth 1, and more permissively once a publisher needs that.

    DDS connects a transient-local reader to no volatile writer, and a reliable one to no best-effort
    writer, while a permissive reader misses what was latched. So the strict subscription stays and a second
    one is opened when a publisher is found that it cannot hear. A transient-local publisher beside a volatile
    one is then heard twice: callbacks must bear the same message again.

    An exception of the callback is logged and the message dropped: what a message holds must not end a node.

    topic: its full name, namespace and remapping applied.
    """

    def __init__(self, node: Node, message_type: type, topic: str, callback: Callable[[Any], None]) -> None:
        self._node = node
        self._message_type = message_type
        self._topic = topic
        self._callback = callback
        self._throttle = Throttle(WARN_PERIOD_S)
        self._subscriptions: dict[tuple[Any, Any], Any] = {}
        self._listen(LATCHED)
        self.topic: str = self._subscriptions[_key(LATCHED)].topic_name

    def adapt(self) -> None:
        """Open what the topic's present publishers need; cheap, to be called now and then."""
        for publisher in self._publishers():
            self._listen(_profile_for(publisher.qos_profile))

    def close(self) -> None:
        """End the subscriptions."""
        for subscription in self._subscriptions.values():
            self._node.destroy_subscription(subscription)
        self._subscriptions.clear()

    def describe(self) -> str:
        """What is listened for, where and how, and who publishes there: for log lines."""
        package, name = self._message_type.__module__.split(".")[0], self._message_type.__name__
        found = [_words(publisher.qos_profile) for publisher in self._publishers()]
        count = f"{len(found)} publisher{'s' if len(found) > 1 else ''}"
        publishers = f"{count} ({'; '.join(found)})" if found else "no publisher"
        profile = f"{_words(LATCHED)}, depth 1; others are heard too"
        return f"{self.topic} ({package}/{name}; {profile}): {publishers}"

    def _listen(self, profile: QoSProfile) -> None:
        if _key(profile) in self._subscriptions:
            return
        events = SubscriptionEventCallbacks(
            incompatible_qos=self._on_incompatible, use_default_callbacks=True
        )
        self._subscriptions[_key(profile)] = self._node.create_subscription(
            self._message_type, self._topic, self._receive, profile, event_callbacks=events
        )

    def _receive(self, message: Any) -> None:
        try:
            self._callback(message)
        except Exception as error:  # noqa: BLE001  a latched message would end each new node again
            text = f"a message on {self.topic} is dropped: {one_line(error)}"
            if self._throttle.due(text):
                self._node.get_logger().error(text)

    def _on_incompatible(self, event: Any) -> None:
        self.adapt()
        self._node.get_logger().info(
            f"a publisher on {self.topic} offers incompatible QoS ({_policy(event)}) to a subscription "
            f"that is {_words(LATCHED)}: it is heard by a second one"
        )

    def _publishers(self) -> list[Any]:
        wanted = f"{self._message_type.__module__.split('.')[0]}/msg/{self._message_type.__name__}"
        found = self._node.get_publishers_info_by_topic(self._topic)
        return [publisher for publisher in found if publisher.topic_type == wanted]


def _profile_for(offered: QoSProfile) -> QoSProfile:
    if offered.reliability == ReliabilityPolicy.BEST_EFFORT:
        return BEST_EFFORT
    return VOLATILE if offered.durability == DurabilityPolicy.VOLATILE else LATCHED


def _key(profile: QoSProfile) -> tuple[Any, Any]:
    return profile.reliability, profile.durability


def _words(profile: QoSProfile) -> str:
    return f"{profile.reliability.name}, {profile.durability.name}".lower().replace("_", " ")


def _policy(event: Any) -> str:
    name: str = qos_policy_name_from_kind(event.last_policy_kind)
    return name.removesuffix("_QOS_POLICY").lower()
