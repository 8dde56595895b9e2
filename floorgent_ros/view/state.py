"""What the page shows: the newest of each kind, ready to be sent."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.distance_lookup import cell_at
from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.messages import GRIDS, clean_frame

KINDS = ("map", "prediction", "walls", "robot")
MAX_SHOWN_CELLS = 1_000_000  # of a map; a larger one is sent coarser
MAX_SEGMENTS = 20_000  # of each layer of walls


class State:
    """The newest map, prediction, walls and pose, each as one binary frame for the page.

    A frame: the length of its JSON header (uint32, little endian), the header, and the values: int8 cells,
    float32 distances, float32 segments or none. Filled in the ROS thread, read in the server's.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._frames: dict[str, tuple[int, bytes]] = {}
        self._version = 0
        self._message: Any = None
        self._wake: Callable[[], None] = lambda: None

    def notify(self, wake: Callable[[], None]) -> None:
        """Call `wake`, in whatever thread, after each change."""
        self._wake = wake

    def newer(self, than: dict[str, int]) -> dict[str, tuple[int, bytes]]:
        """The frames (version, bytes) of each kind that are newer than the versions given."""
        with self._lock:
            return {kind: frame for kind, frame in self._frames.items() if frame[0] > than.get(kind, 0)}

    def at(self, x: float, y: float) -> dict[str, Any]:
        """What is predicted at (x, y), m; numbers that JSON has no words for are None, `state` says why.

        state: none (no prediction yet), outside (of the window), occupied, unreachable or reached.
        """
        with self._lock:
            message = self._message
        nothing: dict[str, Any] = dict.fromkeys(GRIDS)
        if message is None:
            return {"x": x, "y": y, "state": "none", **nothing}
        try:
            index = cell_at(message, x, y)
        except MapError:
            return {"x": x, "y": y, "state": "outside", **nothing}
        values = {name: float(getattr(message, name)[index]) for name in GRIDS}
        distance = values["distance"]
        state = "occupied" if math.isnan(distance) else "unreachable" if math.isinf(distance) else "reached"
        finite = {name: value if math.isfinite(value) else None for name, value in values.items()}
        return {"x": x, "y": y, "state": state, **finite}

    def on_map(self, grid: OccupancyMap, frame: str) -> None:
        """Take a new map; a large one is reduced, what is occupied staying occupied."""
        cells, factor = reduced(grid.cells)
        header = {
            "frame": frame,
            "height": cells.shape[0],
            "width": cells.shape[1],
            "resolution": grid.resolution * factor,
            "origin": grid.origin,
            "yaw": grid.yaw,
        }
        self._put("map", header, cells)

    def on_prediction(self, message: Any) -> None:
        """Take a new DistanceGrid; one whose arrays do not fit its size is left out."""
        info = message.info
        distance = np.array(message.distance, np.float32)
        if any(len(getattr(message, name)) != info.width * info.height for name in GRIDS):
            return
        corner = info.origin.position
        header = {
            "frame": clean_frame(message.header.frame_id),
            "height": info.height,
            "width": info.width,
            "resolution": float(info.resolution),
            "origin": (corner.x, corner.y),
            "source": (message.source.x, message.source.y),
            "completions": message.completions,
            "seed": str(message.seed),  # a uint64 does not fit JavaScript's numbers
            "horizon_m": round(float(message.horizon_m), 3),
            "latency_s": round(float(message.latency_s), 4),
            "stamp": message.header.stamp.sec + message.header.stamp.nanosec * 1e-9,
            "heard": time.time(),  # a page that is opened later has to know
        }
        self._put("prediction", header, distance, message)

    def on_walls(self, observed: NDArray[Any], completions: list[NDArray[Any]]) -> None:
        """Take the walls (K, 2, 2) of a prediction."""
        layers = [walls[:MAX_SEGMENTS] for walls in (observed, *completions)]
        header = {"counts": [len(walls) for walls in layers]}
        self._put("walls", header, np.concatenate(layers).astype(np.float32))

    def on_pose(self, x: float, y: float, yaw: float) -> None:
        """Take the robot's newest pose."""
        if math.isfinite(x) and math.isfinite(y):
            self._put("robot", {"x": x, "y": y, "yaw": yaw}, np.zeros(0, np.int8))

    def _put(self, kind: str, header: dict[str, Any], values: NDArray[Any], message: Any = None) -> None:
        try:
            text = json.dumps({"kind": kind, **header}, allow_nan=False).encode()
        except ValueError:  # a position that is no number
            return
        text += b" " * (-len(text) % 4)  # the page reads the values as an aligned array
        frame = len(text).to_bytes(4, "little") + text + np.ascontiguousarray(values).tobytes()
        with self._lock:
            self._version += 1
            self._frames[kind] = (self._version, frame)
            if message is not None:
                self._message = message
        self._wake()


def reduced(cells: NDArray[np.int8], limit: int = MAX_SHOWN_CELLS) -> tuple[NDArray[np.int8], int]:
    """Cells in blocks, each the largest of its cells: occupied before free before unknown; and the factor."""
    factor = math.ceil(math.sqrt(cells.size / limit))
    if factor <= 1:
        return cells, 1
    height, width = (-(-side // factor) for side in cells.shape)
    padded = np.full((height * factor, width * factor), -1, np.int8)
    padded[: cells.shape[0], : cells.shape[1]] = cells
    blocks = padded.reshape(height, factor, width, factor)
    return np.asarray(blocks.max(axis=(1, 3))), factor
