"""From scans to an occupancy grid that grows, as slam_toolbox's does."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.simulation.lidar import Pose, Scan

_OCCUPIED_SHARE = 0.25  # a cell is occupied when at least this share of the rays that met it ended there
_GROWTH_M = 2.0  # the map grows in steps, so that not every scan changes its size


class Mapper:
    """Counts hits and passes in each cell; the map's cells are −1 (never met), 0 or 100."""

    def __init__(self, resolution: float = 0.05, yaw: float = 0.0) -> None:
        """Start an empty map of cells of `resolution` m, its axes turned by `yaw` rad in the scans' frame."""
        self.resolution = resolution
        self.yaw = yaw
        self._corner = np.zeros(2, int)  # cell index of the grid's cell (0, 0)
        self._hits = np.zeros((0, 0), np.int32)
        self._passes = np.zeros((0, 0), np.int32)

    def insert(self, scan: Scan, believed: Pose | None = None) -> None:
        """Add a scan as taken from the believed pose (localisation error); by default the true one."""
        x, y, yaw = believed or scan.pose
        angles = scan.angles + (yaw - scan.pose[2]) - self.yaw
        position = self._turn(np.array([x, y])) / self.resolution
        self._grow(position, scan.range_m / self.resolution + 2)
        column, row = position - self._corner
        reach = scan.ranges / self.resolution
        _mark(self._hits, self._passes, column, row, np.cos(angles), np.sin(angles), reach, scan.hits)

    def map(self) -> OccupancyMap:
        """Return the map so far."""
        met = self._hits + self._passes
        cells = np.full(met.shape, UNKNOWN, np.int8)
        cells[met > 0] = FREE
        cells[(self._hits > 0) & (self._hits >= _OCCUPIED_SHARE * met)] = OCCUPIED
        corner = self._turn(self._corner * self.resolution, back=True)
        return OccupancyMap(cells, self.resolution, (float(corner[0]), float(corner[1])), self.yaw)

    def _turn(self, point: NDArray[np.float64], back: bool = False) -> NDArray[np.float64]:
        """Scans' frame → the map's axes, or back."""
        cos, sin = math.cos(self.yaw), math.sin(self.yaw) * (-1 if back else 1)
        return np.array([cos * point[0] + sin * point[1], -sin * point[0] + cos * point[1]])

    def _grow(self, position: NDArray[np.float64], reach: float) -> None:
        """Make room for a scan: reach in cells around the position in cells."""
        step = max(1, round(_GROWTH_M / self.resolution))
        low = np.floor((position - reach) / step).astype(int) * step
        high = np.ceil((position + reach) / step).astype(int) * step
        if self._hits.size:
            low = np.minimum(low, self._corner)
            high = np.maximum(high, self._corner + self._hits.shape[::-1])
        before, after = self._corner - low, high - self._corner - self._hits.shape[::-1]
        if self._hits.size == 0:
            self._hits = np.zeros((high - low)[::-1], np.int32)
            self._passes = np.zeros_like(self._hits)
        elif before.any() or after.any():
            margin = ((before[1], after[1]), (before[0], after[0]))
            self._hits, self._passes = np.pad(self._hits, margin), np.pad(self._passes, margin)
        self._corner = low


@compiled
def _mark(
    hits: NDArray[np.int32],
    passes: NDArray[np.int32],
    column: float,
    row: float,
    dx: NDArray[np.float64],
    dy: NDArray[np.float64],
    reach: NDArray[np.float64],
    hit: NDArray[np.bool_],
) -> None:
    """Count a pass in each cell before a ray's end, and a hit in the cell of an end that met something."""
    height, width = hits.shape
    for ray in range(dx.shape[0]):
        if math.isnan(reach[ray]):
            continue
        end_c = int(math.floor(column + reach[ray] * dx[ray]))
        end_r = int(math.floor(row + reach[ray] * dy[ray]))
        c, r = int(math.floor(column)), int(math.floor(row))
        step_c, step_r = (1 if dx[ray] > 0 else -1), (1 if dy[ray] > 0 else -1)
        delta_c = 1.0 / abs(dx[ray]) if dx[ray] != 0.0 else np.inf
        delta_r = 1.0 / abs(dy[ray]) if dy[ray] != 0.0 else np.inf
        next_c = ((c + 1 - column) if step_c > 0 else (column - c)) * delta_c if dx[ray] != 0.0 else np.inf
        next_r = ((r + 1 - row) if step_r > 0 else (row - r)) * delta_r if dy[ray] != 0.0 else np.inf
        for _ in range(abs(end_c - c) + abs(end_r - r)):
            if c < 0 or r < 0 or c >= width or r >= height:
                break
            passes[r, c] += 1
            if next_c < next_r:
                next_c += delta_c
                c += step_c
            else:
                next_r += delta_r
                r += step_r
        if hit[ray] and 0 <= end_c < width and 0 <= end_r < height:
            hits[end_r, end_c] += 1
