"""What the node publishes, and to whom it is worth publishing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from builtin_interfaces.msg import Time
from nav_msgs.msg import MapMetaData, OccupancyGrid
from rclpy.event_handler import PublisherEventCallbacks, UnsupportedEventTypeError
from rclpy.node import Node
from sensor_msgs.msg import Image
from std_msgs.msg import Header
from visualization_msgs.msg import MarkerArray

from floorgent_ros.config import NodeSettings
from floorgent_ros.msg import DistanceGrid, StageTimings
from floorgent_ros.ros.conversions import (
    distance_grid,
    distance_map,
    observation_image,
    occupancy_grid,
    stage_timings,
    window_info,
)
from floorgent_ros.ros.listener import LATCHED
from floorgent_ros.ros.markers import wall_markers
from floorgent_ros.ros.steady_time import steady_timer
from floorgent_ros.ros.worker import Predicted

if TYPE_CHECKING:
    from floorgent_ros.predictor import DistanceField

DISTANCE_TOPIC = "floorgent/distance"
TIMINGS_TOPIC = "floorgent/timings"


@dataclass(frozen=True, eq=False)
class Result:
    """A prediction with what every message about it says."""

    field: DistanceField
    header: Header
    info: MapMetaData
    pose_stamp: Time


Make = Callable[[Result, NodeSettings], Any]
VISUALS: dict[str, tuple[type, Make]] = {
    "floorgent/occupancy": (
        OccupancyGrid,
        lambda result, _: occupancy_grid(result.field, result.header, result.info),
    ),
    "floorgent/distance_map": (
        OccupancyGrid,
        lambda result, settings: distance_map(
            result.field, result.header, result.info, settings.distance_map_max_m
        ),
    ),
    "floorgent/walls": (MarkerArray, lambda result, _: wall_markers(result.field, result.header)),
    "floorgent/observation": (Image, lambda result, _: observation_image(result.field, result.header)),
}


@dataclass
class Visual:
    """A topic for viewers: its message is made when somebody listens. message: of the present result."""

    publisher: Any
    make: Make
    message: Any = None


class Outputs:
    """The node's publishers: reliable, transient local, depth 1, so that late joiners get the last result.

    It is published again every republish_period, for volatile late subscribers. Nothing leaves while `open`
    is False. All in the executor's thread.
    """

    def __init__(self, node: Node, settings: Callable[[], NodeSettings]) -> None:
        self.open = False
        self.result: Result | None = None
        self._node = node
        self._settings = settings
        self._message: DistanceGrid | None = None
        self._distance = node.create_publisher(DistanceGrid, DISTANCE_TOPIC, LATCHED)
        self._timings = node.create_publisher(StageTimings, TIMINGS_TOPIC, LATCHED)
        self._visuals = {topic: self._visual(topic, *kind) for topic, kind in VISUALS.items()}
        self._timer: Any = None
        self.restart_timer()

    @property
    def topic(self) -> str:
        """The full name of the distance topic."""
        name: str = self._distance.topic_name
        return name

    def publish(self, predicted: Predicted) -> float:
        """Publish a new result and return its latency: from the arrival of its input to now, s."""
        begun = time.monotonic()
        result = result_of(predicted)
        message = message_of(result)
        message.latency_s = latency_s = time.monotonic() - predicted.request.arrived
        self._distance.publish(message)
        self.result, self._message = result, message
        for visual in self._visuals.values():
            visual.message = None
            if visual.publisher.get_subscription_count():
                self._show(visual)
        if self._timings.get_subscription_count():
            published_s = time.monotonic() - begun
            self._timings.publish(stage_timings(result.header, predicted, latency_s, published_s))
        if self._timer is not None:
            self._timer.reset()
        return latency_s

    def republish(self) -> None:
        """Publish the last result once more."""
        if self._message is None or not self.open:
            return
        self._distance.publish(self._message)
        for visual in self._visuals.values():
            if visual.publisher.get_subscription_count():
                self._show(visual)

    def redraw(self) -> None:
        """Make what viewers see anew from the last result, with the settings of now."""
        for visual in self._visuals.values():
            visual.message = None
            if visual.publisher.get_subscription_count():
                self._show(visual)

    def restart_timer(self) -> None:
        """Follow the parameter republish_period."""
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
        period_s = self._settings().republish_period
        self._timer = steady_timer(self._node, period_s, self.republish) if period_s > 0 else None

    def close(self) -> None:
        """Take the topics back."""
        if self._timer is not None:
            self._node.destroy_timer(self._timer)
        visuals = (visual.publisher for visual in self._visuals.values())
        for publisher in (self._distance, self._timings, *visuals):
            self._node.destroy_publisher(publisher)

    def _visual(self, topic: str, message_type: type, make: Make) -> Visual:
        def matched(event: Any) -> None:
            visual = self._visuals[topic]
            if event.current_count_change > 0 and visual.message is None:
                self._show(visual)  # nobody listened when the present result came

        try:
            events = PublisherEventCallbacks(matched=matched)
            publisher = self._node.create_publisher(message_type, topic, LATCHED, event_callbacks=events)
        except UnsupportedEventTypeError:  # then the new subscriber gets it when it is published again
            publisher = self._node.create_publisher(message_type, topic, LATCHED)
        return Visual(publisher, make)

    def _show(self, visual: Visual) -> None:
        if self.result is None or not self.open:
            return
        if visual.message is None:
            visual.message = visual.make(self.result, self._settings())
        visual.publisher.publish(visual.message)


def result_of(predicted: Predicted) -> Result:
    """The prediction in the frame and with the stamps of its request."""
    request, field = predicted.request, predicted.field
    header = Header(stamp=request.map.stamp, frame_id=request.map.frame)
    return Result(field, header, window_info(field, request.map.load_time), request.pose.stamp)


def message_of(result: Result) -> DistanceGrid:
    """The prediction as planners read it, without its latency."""
    return distance_grid(result.field, result.header, result.info, result.pose_stamp)
