"""What exists while the node is configured: inputs, worker, outputs, and the way from one to the next."""

from __future__ import annotations

import re
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rclpy.node import Node
from rclpy.task import Future

from floorgent_ros.ros.failures import one_line, short_line
from floorgent_ros.ros.maps import MapInput, MapUpdate
from floorgent_ros.ros.outputs import Outputs
from floorgent_ros.ros.parameters import Settings
from floorgent_ros.ros.poses import Pose, pose_source
from floorgent_ros.ros.steady_time import Throttle
from floorgent_ros.ros.worker import (
    Broken,
    Failed,
    FellBack,
    Predicted,
    Predictor,
    Ready,
    Report,
    Request,
    Worker,
)

GRACE_S = 2.0  # discovery takes up to this long: before, a missing input is no news
WARN_PERIOD_S = 10.0
STOP_S = 0.3  # a worker that is not done by then is in the middle of a prediction
WAIT_STEP_S = 0.05
_DIGITS = re.compile(r"[-.\d]+|nan|inf")  # a moving robot's notes differ in nothing else


@dataclass
class Tally:
    """What happened since the node was configured. latencies_s: of the last 100 results."""

    published: int = 0
    failed: int = 0
    failing: str = ""  # the last prediction's exception, '' when it went well
    fallbacks: list[str] = field(default_factory=list)
    latencies_s: deque[float] = field(default_factory=lambda: deque(maxlen=100))
    network: str = ""
    device: str = ""


class Pipeline:
    """Map and pose in, worker, distances out; all but the worker in the executor's one thread.

    The worker hands its reports back through a guard condition. on_ready, on_broken: called when the
    network is warm, and when there will be no prediction any more. active: whether predictions are made and
    published. Raises `ConfigError` when the settings name a source of poses that is not installed.
    """

    def __init__(
        self,
        node: Node,
        load: Callable[[Settings], Predictor],
        settings: Callable[[], Settings],
        on_ready: Callable[[], None],
        on_broken: Callable[[BaseException], None],
    ) -> None:
        self.active = False
        self.tally = Tally()
        self._node = node
        self._settings = settings
        self._on_ready = on_ready
        self._on_broken = on_broken
        self._started = time.monotonic()
        self._throttle = Throttle(WARN_PERIOD_S)
        self._stale = False
        self._calls: set[Future] = set()
        self._reports: deque[Report] = deque()
        self.poses = pose_source(node, settings().node, self.consider)
        self.maps = MapInput(node, "map", self.consider, self._warn)
        self.outputs = Outputs(node, lambda: settings().node)
        self._reported = node.create_guard_condition(self._on_reports)
        self.worker = Worker(lambda: load(settings()), settings, self._hand_back)
        self.worker.start()

    def wait(self, event: threading.Event) -> bool:
        """Block until the worker has come so far; False when it ended before, or ROS was shut down."""
        while not event.wait(WAIT_STEP_S):
            if not (self.worker.alive and self._node.context.ok()):
                return event.is_set()
        return True

    def activate(self) -> None:
        """Predict and publish from now on, whatever was predicted before."""
        self.active = self.outputs.open = True
        self.anew()

    def deactivate(self) -> None:
        """Neither predict nor publish from now on; maps and poses are still heard."""
        self.active = self.outputs.open = False
        self.worker.forget()
        self.worker.hang_up()
        self._drop_calls()

    def anew(self) -> None:
        """Predict once more, whatever was predicted before: the settings are others."""
        self.worker.forget()
        self.consider()

    def stop(self) -> bool:
        """End the worker; False when it is still in a prediction (or loading)."""
        return self.worker.stop(STOP_S)

    def close(self) -> bool:
        """End everything; False when the network's memory is freed only after the present prediction."""
        self.deactivate()
        stopped = self.stop()
        self.maps.close()
        self.poses.close()
        self.outputs.close()
        self._node.destroy_guard_condition(self._reported)
        return stopped

    def consider(self) -> None:
        """Offer the newest map and pose to the worker, which knows whether they deserve a prediction."""
        newest = self.maps.latest
        if newest is None or not self.active:
            return
        pose = self.poses.pose_in(newest.frame)
        if isinstance(pose, str):
            self._missing(pose)
        else:
            self.worker.offer(newest, pose)

    def watch(self) -> None:
        """Follow the ROS graph, and say what is missing."""
        self.maps.adapt()
        self.poses.adapt()
        if not self.active:
            return
        for text in filter(None, (self.maps.missing(), self.poses.missing())):
            self._missing(text)
        self.consider()
        stale = self.stale()
        if stale and not self._stale:
            self._node.get_logger().warning(stale)
        self._stale = bool(stale)

    def stale(self) -> str:
        """One line when the pose is older than it may be, else ''."""
        age_s, limit_s = self.poses.age_s(), self._settings().node.max_pose_age
        if not limit_s or age_s is None or age_s <= limit_s:
            return ""
        return (
            f"{self.poses.describe()} is {age_s:.1f} s old (max_pose_age is {limit_s:g} s): distances start "
            "where the robot was then"
        )

    def ask(self, newest: MapUpdate, pose: Pose, arrived: float) -> Future | None:
        """Have a map predicted from a pose: the future Report, or None when another call waits already.

        The future's result is None when the node is deactivated before the prediction's turn.
        """
        future: Future = Future()
        if not self.worker.ask(Request(newest, pose, arrived, future)):
            return None
        self._calls.add(future)
        return future

    def _missing(self, text: str) -> None:
        if time.monotonic() - self._started > GRACE_S:
            self._warn(text)

    def _warn(self, text: str) -> None:
        """Log the text, unless one that differs in numbers only was logged lately."""
        line = short_line(text)
        if self._throttle.due(_DIGITS.sub("#", line)):
            self._node.get_logger().warning(line)

    def _hand_back(self, report: Report) -> None:
        """Called in the worker's thread."""
        self._reports.append(report)
        self._reported.trigger()

    def _on_reports(self) -> None:
        while self._reports:
            self._on_report(self._reports.popleft())

    def _on_report(self, report: Report) -> None:
        match report:
            case Predicted(request, field) if request.call is None:
                if self.active:
                    self._publish(report, field.source_note)
            case Predicted(request):
                self.tally.failing = ""
                self._answer(request, report)
            case Failed(error, request, saved):
                self._failed(error, saved)
                if request is not None and request.call is not None:
                    self._answer(request, report)
            case FellBack(note, device):
                self.tally.fallbacks.append(note)
                self.tally.device = device
                self._node.get_logger().warning(note)
            case Ready(description, device):
                self.tally.network, self.tally.device = description, device
                self._node.get_logger().info(f"ready: {description}")
                self._on_ready()
            case Broken(error):
                self._node.get_logger().debug("".join(traceback.format_exception(error)))
                self._on_broken(error)

    def _publish(self, predicted: Predicted, note: str) -> None:
        if note:
            self._warn(note)
        latency_s = self.outputs.publish(predicted)
        self.tally.published += 1
        self.tally.failing = ""
        self.tally.latencies_s.append(latency_s)
        if self.tally.published == 1:
            text = f"first distances on {self.outputs.topic} after {latency_s:.2f} s"
            self._node.get_logger().info(text)

    def _failed(self, error: Exception, saved: str) -> None:
        self.tally.failed += 1
        self.tally.failing = one_line(error)
        text = f"prediction failed, the next map or pose is tried: {self.tally.failing}"
        self._node.get_logger().error(f"{text}; {saved}" if saved else text)
        self._node.get_logger().debug("".join(traceback.format_exception(error)))

    def _answer(self, request: Request, report: Report) -> None:
        if request.call in self._calls:
            self._calls.remove(request.call)
            request.call.set_result(report)

    def _drop_calls(self) -> None:
        for call in self._calls:
            call.set_result(None)
        self._calls.clear()
