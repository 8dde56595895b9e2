"""What the node would have predicted while a bag was recorded: its rules, in the bag's own time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from floorgent_ros.bags.poses import Pose, PoseSource
from floorgent_ros.bags.recording import Recorded, Recording
from floorgent_ros.config import NodeSettings
from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.messages import clean_frame, occupancy_map
from floorgent_ros.schedule import identity, is_due

if TYPE_CHECKING:
    from floorgent_ros.predictor import DistanceField


class Predictor(Protocol):
    """What a replay needs of `floorgent_ros.predictor.DistancePredictor`."""

    def predict(self, grid: OccupancyMap, viewpoint: tuple[float, float]) -> DistanceField:
        """Distances from the viewpoint (map frame, m)."""
        ...


@dataclass(frozen=True, eq=False)
class MapUpdate:
    """A map as it came in. stamp, load_time: the message's. arrived_ns: bag time."""

    grid: OccupancyMap
    frame: str
    stamp: Any
    load_time: Any
    arrived_ns: int
    identity: int


@dataclass(frozen=True, eq=False)
class Request:
    """A prediction to be made. arrived_ns: bag time of the map or pose that called for it."""

    map: MapUpdate
    pose: Pose
    arrived_ns: int


@dataclass(frozen=True, eq=False)
class Replayed:
    """A prediction. at_ns: when it was made, bag time. seconds: how long it took here."""

    request: Request
    field: DistanceField
    at_ns: int
    seconds: float

    @property
    def latency_s(self) -> float:
        """From the arrival of its input, in bag time, plus what the prediction took here."""
        return (self.at_ns - self.request.arrived_ns) * 1e-9 + self.seconds


class Slot:
    """The node's slot for one request, in which a newer one replaces an older, with bag time for a clock."""

    def __init__(self, settings: NodeSettings) -> None:
        self._settings = settings
        self._waiting: Request | None = None
        self._last: Request | None = None
        self._next_start_ns = 0

    def offer(self, newest_map: MapUpdate, pose: Pose) -> None:
        """Ask for a prediction of the newest map and pose, if they differ enough from the last one's."""
        if not is_due(newest_map, pose, self._last, self._settings):
            self._waiting = None
            return
        arrived_ns = max(newest_map.arrived_ns, pose.arrived_ns)
        if self._waiting is not None and self._waiting.map.identity == newest_map.identity:
            arrived_ns = self._waiting.arrived_ns
        self._waiting = Request(newest_map, pose, arrived_ns)

    def start_ns(self) -> int | None:
        """When the waiting request may start, None without one."""
        return None if self._waiting is None else max(self._next_start_ns, self._waiting.arrived_ns)

    def take(self, now_ns: int) -> Request:
        """Hand over the waiting request; the next may start 1 / max_rate later."""
        request, self._waiting = self._waiting, None
        if request is None:
            raise LookupError("nothing waits")
        self._last = request
        self._next_start_ns = now_ns + round(1e9 / self._settings.max_rate)
        return request


@dataclass
class Replay:
    """Runs a predictor over a recording.

    maps, poses, refused: messages counted so far. refusal: one line about the last map that was refused.
    missing: one line on why nothing was predicted lately.
    """

    recording: Recording
    map_topic: str
    source: PoseSource
    predictor: Predictor
    settings: NodeSettings
    maps: int = 0
    poses: int = 0
    refused: int = 0
    refusal: str = ""
    missing: str = ""
    now_ns: int = 0
    _newest: MapUpdate | None = field(default=None, repr=False)

    def run(self) -> Iterator[Replayed]:
        """Predict as the node would whose predictions take no time; the newest map and pose win."""
        slot = Slot(self.settings)
        for recorded in self.recording.messages((self.map_topic, *self.source.topics)):
            while (start_ns := slot.start_ns()) is not None and start_ns < recorded.time_ns:
                yield self._predict(slot.take(start_ns), start_ns)
            self.now_ns = recorded.time_ns
            if self._receive(recorded):
                self._consider(slot)
            if (start_ns := slot.start_ns()) is not None and start_ns <= recorded.time_ns:
                yield self._predict(slot.take(recorded.time_ns), recorded.time_ns)
        if (start_ns := slot.start_ns()) is not None:
            yield self._predict(slot.take(start_ns), start_ns)

    def _receive(self, recorded: Recorded) -> bool:
        """Take a message; whether map or pose may have changed."""
        if recorded.topic != self.map_topic:
            self.poses += 1
            return self.source.receive(recorded)
        self.maps += 1
        message = recorded.message
        try:
            grid = occupancy_map(message)
        except MapError as error:
            self.refused += 1
            self.missing = self.refusal = f"map on {self.map_topic} refused: {error}"
            return False
        frame = clean_frame(message.header.frame_id)
        stamp, load_time = message.header.stamp, message.info.map_load_time
        self._newest = MapUpdate(grid, frame, stamp, load_time, recorded.time_ns, identity(grid, frame))
        return True

    def _consider(self, slot: Slot) -> None:
        if self._newest is None:
            self.missing = self.missing or f"no map yet on {self.map_topic}"
            return
        pose = self.source.pose_in(self._newest.frame, self.now_ns)
        if isinstance(pose, str):
            self.missing = pose
        else:
            slot.offer(self._newest, pose)

    def _predict(self, request: Request, at_ns: int) -> Replayed:
        begun = time.monotonic()
        prediction = self.predictor.predict(request.map.grid, (request.pose.x, request.pose.y))
        return Replayed(request, prediction, at_ns, time.monotonic() - begun)
