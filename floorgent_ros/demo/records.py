"""What the demo's planner heard, on disk: one file a prediction."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.plots import Snapshot

if TYPE_CHECKING:  # the drawing process has no use for rclpy
    from floorgent_ros.ros.demo_planner import Heard


@dataclass(frozen=True, eq=False)
class Record:
    """A prediction and the moment it was heard.

    path: (K, 2) m, the robot's way so far. latency_s: map or pose in the node → distances published.
    age_s: the map's stamp → distances here. maps: heard until then.
    """

    snapshot: Snapshot
    path: NDArray[np.float64]
    latency_s: float
    age_s: float
    maps: int

    @staticmethod
    def save(heard: Heard, path: Path) -> None:
        """Write it whole or not at all, so that a reader never meets half a file."""
        sizes = [len(walls) for walls in heard.completions]
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.savez_compressed(
                file,
                cells=heard.grid.cells,
                placement=np.array([heard.grid.resolution, *heard.grid.origin, heard.grid.yaw]),
                source=np.array(heard.source),
                origin=np.array(heard.origin),
                distance=heard.distance,
                walls=heard.walls,
                predicted=np.concatenate([*heard.completions, np.zeros((0, 2, 2), np.float32)]),
                sizes=np.array(sizes, int),
                path=heard.path,
                numbers=np.array([heard.latency_s, heard.age_s, heard.maps]),
            )
        part.rename(path)

    @classmethod
    def load(cls, path: Path) -> Record:
        """Read what `save` wrote."""
        with np.load(path) as data:
            resolution, x, y, yaw = data["placement"].tolist()
            latency_s, age_s, maps = data["numbers"].tolist()
            snapshot = Snapshot(
                grid=OccupancyMap(data["cells"], resolution, (x, y), yaw),
                source=_pair(data["source"]),
                origin=_pair(data["origin"]),
                distance=data["distance"],
                walls=data["walls"],
                completions=np.split(data["predicted"], np.cumsum(data["sizes"])[:-1]),
            )
            return cls(snapshot, data["path"], latency_s, age_s, int(maps))


def _pair(values: NDArray[np.float64]) -> tuple[float, float]:
    x, y = values.tolist()
    return x, y
