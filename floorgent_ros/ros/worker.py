"""The thread that predicts: it owns the predictor and takes the newest request when it is free."""

from __future__ import annotations

import math
import statistics
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from floorgent_ros.config import ObservationSettings, PredictorSettings
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros.failures import save_case
from floorgent_ros.ros.maps import MapUpdate
from floorgent_ros.ros.parameters import Settings
from floorgent_ros.ros.poses import Pose
from floorgent_ros.schedule import is_due

if TYPE_CHECKING:
    from floorgent_ros.predictor import DistanceField


class Predictor(Protocol):
    """What the worker needs of `floorgent_ros.predictor.DistancePredictor`."""

    settings: PredictorSettings
    observation: ObservationSettings

    @property
    def device(self) -> object:
        """Where the network is; its text is shown."""
        ...

    @property
    def description(self) -> str:
        """One line about checkpoint, device and number format."""
        ...

    @property
    def fallbacks(self) -> Sequence[str]:
        """One line for each time that memory ran out and another way was found."""
        ...

    def warm_up(self) -> None:
        """Compile and allocate what the first prediction would."""
        ...

    def predict(self, grid: OccupancyMap, viewpoint: tuple[float, float]) -> DistanceField:
        """Distances from the viewpoint (map frame, m)."""
        ...


@dataclass(frozen=True, eq=False)
class Request:
    """A prediction to be made. arrived: when the map or pose that called for it came in, monotonic, s.

    call: whatever the caller of `Worker.ask` needs to find it again; None for the robot's own predictions.
    """

    map: MapUpdate
    pose: Pose
    arrived: float
    call: Any = None


@dataclass(frozen=True)
class Ready:
    """The predictor is loaded and warm."""

    description: str
    device: str = ""


@dataclass(frozen=True)
class Broken:
    """The predictor could not be loaded, or the thread came to an unexpected end: no prediction any more."""

    error: BaseException


@dataclass(frozen=True)
class Failed:
    """A prediction (or the warm-up: no request) raised an exception; the next request may do better.

    saved: one line about the case on disk, '' when that was not asked for.
    """

    error: Exception
    request: Request | None = None
    saved: str = ""


@dataclass(frozen=True)
class FellBack:
    """Memory ran out and another way was found; one line says which."""

    note: str
    device: str = ""


@dataclass(frozen=True, eq=False)
class Predicted:
    """A request's answer. waited_s: from the request's arrival to the start of its prediction."""

    request: Request
    field: DistanceField
    waited_s: float = 0.0


Report = Ready | Broken | Failed | FellBack | Predicted


class Worker:
    """One daemon thread and a slot for one request, in which a newer one replaces an older.

    A second slot holds one call, which waits for no rate and goes first, but not twice before a request that
    is due. load: makes the predictor, in the
    thread. settings: the settings at present. report: called in the thread after each thing that happened,
    never after `stop` has returned. loaded, warm: set when the predictor is. error: why the thread ended, if
    that was not asked for. skipped: how many maps were replaced by a newer one before their turn.
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
        self._call: Request | None = None
        self._last: Request | None = None
        self._last_start = -math.inf
        self._called = False  # the last one taken was a call
        self._begun: float | None = None  # when the prediction in progress began
        self._durations: deque[float] = deque(maxlen=20)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="prediction", daemon=True)
        self.loaded, self.warm = threading.Event(), threading.Event()
        self.error: BaseException | None = None
        self.skipped = 0

    def start(self) -> None:
        """Load the predictor, warm it up and take requests from then on."""
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def offer(self, newest_map: MapUpdate, pose: Pose) -> None:
        """Ask for a prediction of the newest map and pose, if they differ enough from the last one's."""
        with self._changed:
            if not is_due(newest_map, pose, self._last, self._settings().node):
                self._waiting = None
                return
            arrived = max(newest_map.arrived, pose.arrived)
            if self._waiting is not None and self._waiting.map.identity == newest_map.identity:
                arrived = self._waiting.arrived
            elif self._waiting is not None:
                self.skipped += 1
            self._waiting = Request(newest_map, pose, arrived)
            self._changed.notify()

    def ask(self, request: Request) -> bool:
        """Have a call's request predicted next; False when another call is waiting already."""
        with self._changed:
            if self._call is not None:
                return False
            self._call = request
            self._changed.notify()
            return True

    def forget(self) -> None:
        """Drop what waits, and take the next offer whatever was predicted before."""
        with self._changed:
            self._waiting = self._last = None

    def hang_up(self) -> None:
        """Drop the call that waits."""
        with self._changed:
            self._call = None

    def ready_in_s(self) -> float:
        """How long until a new call could start, by the predictions so far, s."""
        with self._changed:
            usual_s = statistics.median(self._durations) if self._durations else 1.0
            running_s = 0.0 if self._begun is None else usual_s - (time.monotonic() - self._begun)
            return max(0.1, running_s) + (usual_s if self._call is not None else 0.0)

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
            self._work()
        except BaseException as error:  # noqa: BLE001  nobody else would notice that the thread ended
            self.error = error
            self._report(Broken(error))
        torch = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_initialized():  # the network is gone, its memory is not
            torch.cuda.empty_cache()

    def _work(self) -> None:
        predictor = self._load()
        self.loaded.set()
        try:
            predictor.warm_up()
        except Exception as error:  # noqa: BLE001  the first prediction will be slow, or fail as well
            self._report(Failed(error))
        self.warm.set()
        self._report(Ready(predictor.description, str(predictor.device)))
        told = 0
        while (request := self._take()) is not None:
            report = self._answer(predictor, request)
            for note in predictor.fallbacks[told:]:
                told += 1
                self._report(FellBack(note, str(predictor.device)))
            self._report(report)

    def _take(self) -> Request | None:
        """Wait for a request and for its time; None when the worker shall stop."""
        with self._changed:
            while not self._stopping:
                wait_s = self._last_start + 1 / self._settings().node.max_rate - time.monotonic()
                due = self._waiting is not None and wait_s <= 0
                if self._call is not None and not (due and self._called):
                    request, self._call, self._called = self._call, None, True
                    return request
                if self._waiting is None:
                    self._changed.wait()
                elif not due:
                    self._changed.wait(wait_s)
                else:
                    request, self._waiting, self._last = self._waiting, None, self._waiting
                    self._last_start, self._called = time.monotonic(), False
                    return request
        return None

    def _answer(self, predictor: Predictor, request: Request) -> Report:
        settings = self._settings()
        predictor.settings, predictor.observation = settings.predictor, settings.observation
        self._begun = begun = time.monotonic()
        try:
            field = predictor.predict(request.map.grid, (request.pose.x, request.pose.y))
        except Exception as error:  # noqa: BLE001  whatever it is, the next map may be better
            place = request.pose.x, request.pose.y
            return Failed(error, request, save_case(settings, request.map.grid, place, error))
        finally:
            with self._changed:
                self._begun = None
                self._durations.append(time.monotonic() - begun)
        return Predicted(request, field, begun - request.arrived)

    def _report(self, report: Report) -> None:
        with self._changed:
            if not self._stopping:
                self._report_to(report)
