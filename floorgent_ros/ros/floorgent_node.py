"""The node `floorgent`: map and pose in, distances out."""

from __future__ import annotations

import re
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any

from rclpy.node import Node

from floorgent_ros.errors import ConfigError
from floorgent_ros.ros.failures import one_line
from floorgent_ros.ros.maps import MapInput
from floorgent_ros.ros.outputs import Outputs
from floorgent_ros.ros.parameters import Parameters, Settings
from floorgent_ros.ros.poses import pose_source
from floorgent_ros.ros.steady_time import Throttle, steady_timer
from floorgent_ros.ros.worker import Broken, Failed, Predicted, Predictor, Ready, Report, Worker

GRACE_S = 2.0  # discovery takes up to this long: before, a missing input is no news
WARN_PERIOD_S = 10.0
WATCH_PERIOD_S = 1.0
_DIGITS = re.compile(r"[-.\d]+")  # a moving robot's notes differ in nothing else
STOP_S = 0.3  # a worker that is not done by then is in the middle of a prediction


def load_predictor(settings: Settings) -> Predictor:
    """The shipped predictor; torch is imported here, in the worker's thread."""
    from floorgent_ros.predictor import DistancePredictor  # noqa: PLC0415

    wanted = settings.predictor
    return DistancePredictor.from_checkpoint(
        wanted.checkpoint or None,
        device=wanted.device,
        precision=wanted.precision,
        settings=wanted,
        observation=settings.observation,
    )


class FloorgentNode(Node):  # type: ignore[misc]
    """Subscribes map and pose, lets its worker predict and publishes what comes back.

    Every callback runs in the executor's one thread; the worker hands its reports back to it through a
    guard condition. `failure` is the exit line when there is nothing that the node can do.

    Raises `ConfigError` when a parameter cannot be used.
    """

    def __init__(self, load: Callable[[Settings], Predictor] = load_predictor, **node_options: Any) -> None:
        super().__init__("floorgent", **node_options)
        self.failure = ""
        self._started = time.monotonic()
        self._throttle = Throttle(WARN_PERIOD_S)
        self._reports: deque[Report] = deque()
        self._published = 0
        self._reported = self.create_guard_condition(self._on_reports)
        self._worker = Worker(lambda: load(self.settings), lambda: self.settings, self._hand_back)
        try:
            self._configuration = Parameters(self, self._on_settings)
            self._outputs = Outputs(self, lambda: self.settings.node)
            self._maps = MapInput(self, "map", self._consider, self._warn)
            self._poses = pose_source(self, self.settings.node, self._consider)
        except ConfigError:
            super().destroy_node()
            raise
        steady_timer(self, WATCH_PERIOD_S, self._watch)
        self._worker.start()

    @property
    def settings(self) -> Settings:
        """The parameters at present."""
        return self._configuration.settings

    def stop(self) -> bool:
        """End the worker; False when it is still in a prediction (or loading)."""
        return self._worker.stop(STOP_S)

    def destroy_node(self) -> None:
        """End the worker and free what the node holds."""
        self.stop()
        super().destroy_node()

    def _consider(self) -> None:
        """Offer the newest map and pose to the worker, which knows whether they deserve a prediction."""
        newest = self._maps.latest
        if newest is None:
            return
        pose = self._poses.pose_in(newest.frame)
        if isinstance(pose, str):
            self._missing(pose)
        else:
            self._worker.offer(newest, pose)

    def _watch(self) -> None:
        """Follow the ROS graph, and say what is missing."""
        self._maps.adapt()
        self._poses.adapt()
        for text in filter(None, (self._maps.missing(), self._poses.missing())):
            self._missing(text)
        self._consider()

    def _missing(self, text: str) -> None:
        if time.monotonic() - self._started > GRACE_S:
            self._warn(text)

    def _warn(self, text: str, kind: str = "") -> None:
        """Log the text, unless one of its kind (by default the same text) was logged lately."""
        if self._throttle.due(kind or text):
            self.get_logger().warning(text)

    def _on_settings(self, _: Settings) -> None:
        self._outputs.restart_timer()

    def _hand_back(self, report: Report) -> None:
        """Called in the worker's thread."""
        self._reports.append(report)
        self._reported.trigger()

    def _on_reports(self) -> None:
        while self._reports:
            self._on_report(self._reports.popleft())

    def _on_report(self, report: Report) -> None:
        match report:
            case Predicted(request, field):
                if field.source_note:
                    self._warn(field.source_note, kind=_DIGITS.sub("#", field.source_note))
                latency_s = self._outputs.publish(request, field)
                self._published += 1
                if self._published == 1:
                    self.get_logger().info(
                        f"first distances on {self._outputs.topic} after {latency_s:.2f} s"
                    )
            case Failed(error):
                self.get_logger().error(
                    f"prediction failed, the next map or pose is tried: {one_line(error)}"
                )
                self.get_logger().debug("".join(traceback.format_exception(error)))
            case Ready(description):
                self.get_logger().info(f"ready: {description}")
            case Broken(error):
                self.failure = one_line(error)
                self.get_logger().fatal(self.failure)
                self.get_logger().debug("".join(traceback.format_exception(error)))
                self.context.try_shutdown()
