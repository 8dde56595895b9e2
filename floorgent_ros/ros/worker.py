"""The thread that predicts: it owns the predictor and takes the newest request when it is free."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from floorgent_ros.config import NodeSettings, ObservationSettings, PredictorSettings
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros.maps import MapUpdate
from floorgent_ros.ros.parameters import Settings
from floorgent_ros.ros.poses import Pose

if TYPE_CHECKING:
    from floorgent_ros.predictor import DistanceField


class Predictor(Protocol):
    """What the worker needs of `floorgent_ros.predictor.DistancePredictor`."""

    settings: PredictorSettings
    observation: ObservationSettings

    @property
    def description(self) -> str:
        """One line about checkpoint, device and number format."""
        ...

    def warm_up(self) -> None:
        """Compile and allocate what the first prediction would."""
        ...

    def predict(self, grid: OccupancyMap, viewpoint: tuple[float, float]) -> DistanceField:
        """Distances from the viewpoint (map frame, m)."""
        ...


@dataclass(frozen=True, eq=False)
class Request:
    """A prediction to be made. arrived: when the map or pose that called for it came in, monotonic, s."""

    map: MapUpdate
    pose: Pose
    arrived: float


@dataclass(frozen=True)
class Ready:
    """The predictor is loaded and warm."""

    description: str


@dataclass(frozen=True)
class Broken:
    """The predictor could not be loaded: there is nothing this node can do."""

    error: Exception


@dataclass(frozen=True)
class Failed:
    """A prediction (or the warm-up) raised an exception; the next request may do better."""

    error: Exception


@dataclass(frozen=True, eq=False)
class Predicted:
    """A request's answer."""

    request: Request
    field: DistanceField


Report = Ready | Broken | Failed | Predicted


class Worker:
    """One daemon thread and a slot for one request, in which a newer one replaces an older.

    load: makes the predictor, in the thread. settings: the settings at present. report: called in the thread
    after each thing that happened, never after `stop` has returned.
    """

    def __init__(
        self,
        load: Callable[[], Predictor],
        settings: Callable[[], Settings],
        report: Callable[[Report], None],
    ) -> None:
        self._load = load
        self._settings = settings
        self._report_to = report
        self._changed = threading.Condition()
        self._waiting: Request | None = None
        self._last: Request | None = None
        self._next_start = 0.0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="prediction", daemon=True)

    def start(self) -> None:
        """Load the predictor, warm it up and take requests from then on."""
        self._thread.start()

    def offer(self, newest_map: MapUpdate, pose: Pose) -> None:
        """Ask for a prediction of the newest map and pose, if they differ enough from the last one's."""
        with self._changed:
            if not is_due(newest_map, pose, self._last, self._settings().node):
                self._waiting = None
                return
            arrived = max(newest_map.arrived, pose.arrived)
            if self._waiting is not None and self._waiting.map.identity == newest_map.identity:
                arrived = self._waiting.arrived
            self._waiting = Request(newest_map, pose, arrived)
            self._changed.notify()

    def stop(self, timeout_s: float = 0.0) -> bool:
        """Take no further request and report nothing more; True when the thread ended in time."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            predictor = self._load()
        except Exception as error:  # noqa: BLE001  the node ends with a line about it
            self._report(Broken(error))
            return
        try:
            predictor.warm_up()
        except Exception as error:  # noqa: BLE001  the first prediction will be slow, or fail as well
            self._report(Failed(error))
        self._report(Ready(predictor.description))
        while (request := self._take()) is not None:
            self._report(self._answer(predictor, request))

    def _take(self) -> Request | None:
        """Wait for a request and for its time; None when the worker shall stop."""
        with self._changed:
            while not self._stopping:
                wait_s = self._next_start - time.monotonic()
                if self._waiting is None:
                    self._changed.wait()
                elif wait_s > 0:
                    self._changed.wait(wait_s)
                else:
                    request, self._waiting, self._last = self._waiting, None, self._waiting
                    self._next_start = time.monotonic() + 1 / self._settings().node.max_rate
                    return request
        return None

    def _answer(self, predictor: Predictor, request: Request) -> Report:
        settings = self._settings()
        predictor.settings, predictor.observation = settings.predictor, settings.observation
        try:
            field = predictor.predict(request.map.grid, (request.pose.x, request.pose.y))
        except Exception as error:  # noqa: BLE001  whatever it is, the next map may be better
            return Failed(error)
        return Predicted(request, field)

    def _report(self, report: Report) -> None:
        with self._changed:
            if not self._stopping:
                self._report_to(report)


def is_due(newest_map: MapUpdate, pose: Pose, last: Request | None, settings: NodeSettings) -> bool:
    """Whether a map and pose deserve a prediction: another map than the last one's, or enough travel."""
    if last is None or newest_map.identity != last.map.identity:
        return True
    travel = math.hypot(pose.x - last.pose.x, pose.y - last.pose.y)
    return travel > 0 and travel >= settings.min_travel
