"""A simulated 2-D LIDAR in a scene of occupied cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled

Pose = tuple[float, float, float]  # x (m), y (m), yaw (rad)

_MARGIN_M = 1.0  # free border, so that a ray that leaves the building ends outside the scene


@dataclass(frozen=True)
class Scene:
    """What a LIDAR can hit: cells (H, W) bool, row 0 = lowest y, in a frame without yaw."""

    cells: NDArray[np.bool_]
    resolution: float
    origin: tuple[float, float]

    @classmethod
    def from_segments(
        cls, segments: NDArray[np.float64], resolution: float = 0.05, thickness_m: float = 0.0
    ) -> Scene:
        """Draw (N, 2, 2) segments in metres; thickness_m 0 draws walls one cell thick."""
        points = segments.reshape(-1, 2)
        low = np.floor((points.min(0) - _MARGIN_M) / resolution) * resolution
        size = np.ceil((points.max(0) + _MARGIN_M - low) / resolution).astype(int)
        empty = cls(np.zeros((size[1], size[0]), bool), resolution, (float(low[0]), float(low[1])))
        return empty.with_segments(segments, thickness_m)

    def with_segments(self, segments: NDArray[np.float64], thickness_m: float = 0.0) -> Scene:
        """Return the same place with these walls alone, (N, 2, 2) metres; what lies outside is left out."""
        cells = np.zeros(self.cells.shape, np.uint8)
        for start, end in np.floor(self.to_cell(segments)).astype(np.int32).tolist():
            cv2.line(cells, start, end, 1)
        thickness = max(1, round(thickness_m / self.resolution))
        if thickness > 1:  # OpenCV draws lines of an odd number of cells only
            cells = np.asarray(cv2.dilate(cells, np.ones((thickness, thickness), np.uint8)), np.uint8)
        return self.with_cells(cells.astype(bool))

    def with_cells(self, cells: NDArray[np.bool_]) -> Scene:
        """Return the same place with other occupied cells (H, W)."""
        return Scene(cells, self.resolution, self.origin)

    def to_cell(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Map (…, 2) metres to (…, 2) cell coordinates (column, row)."""
        return (np.asarray(points, float) - self.origin) / self.resolution


@dataclass(frozen=True)
class LidarSettings:
    """The sensor: rays around the full circle, range in metres, noise (σ, m), share of rays lost."""

    rays: int = 1440
    range_m: float = 10.0
    noise_m: float = 0.0
    dropout: float = 0.0


@dataclass(frozen=True)
class Scan:
    """One turn of the sensor.

    pose: where the robot was. angles (R,): ray directions in the scene's frame, rad. ranges (R,): metres,
    NaN where the ray was lost. hits (R,): whether the ray met something within the sensor's range.
    """

    pose: Pose
    angles: NDArray[np.float64]
    ranges: NDArray[np.float64]
    hits: NDArray[np.bool_]
    range_m: float


def scan(
    scene: Scene, pose: Pose, settings: LidarSettings | None = None, rng: np.random.Generator | None = None
) -> Scan:
    """Scan the scene from a pose; rng is needed only for noise and drop-outs (seeded 0 by default)."""
    settings = settings or LidarSettings()
    angles = pose[2] + 2 * math.pi * (np.arange(settings.rays) + 0.5) / settings.rays
    column, row = scene.to_cell(np.array(pose[:2]))
    reach = settings.range_m / scene.resolution
    distances = _cast(scene.cells, column, row, np.cos(angles), np.sin(angles), reach)
    hits = distances < reach
    ranges = np.minimum(distances, reach) * scene.resolution
    if settings.noise_m > 0 or settings.dropout > 0:
        rng = rng or np.random.default_rng(0)
        ranges = np.where(hits, ranges + rng.normal(0.0, settings.noise_m, ranges.shape), ranges)
        ranges[rng.random(ranges.shape) < settings.dropout] = np.nan
    return Scan(pose, angles, ranges, hits, settings.range_m)


@compiled
def _cast(
    cells: NDArray[np.bool_],
    column: float,
    row: float,
    dx: NDArray[np.float64],
    dy: NDArray[np.float64],
    reach: float,
) -> NDArray[np.float64]:
    """Return for each direction the distance in cells to the middle of the chord in the first occupied cell.

    Cells are visited one by one across shared sides (Amanatides and Woo, 1987), so a ray never slips
    between two diagonal neighbours. The start cell itself never stops a ray.
    """
    height, width = cells.shape
    out = np.full(dx.shape[0], np.inf)
    for ray in range(dx.shape[0]):
        c, r = int(math.floor(column)), int(math.floor(row))
        step_c, step_r = (1 if dx[ray] > 0 else -1), (1 if dy[ray] > 0 else -1)
        delta_c = 1.0 / abs(dx[ray]) if dx[ray] != 0.0 else np.inf
        delta_r = 1.0 / abs(dy[ray]) if dy[ray] != 0.0 else np.inf
        next_c = ((c + 1 - column) if step_c > 0 else (column - c)) * delta_c if dx[ray] != 0.0 else np.inf
        next_r = ((r + 1 - row) if step_r > 0 else (row - r)) * delta_r if dy[ray] != 0.0 else np.inf
        while True:
            if next_c < next_r:
                entered = next_c
                next_c += delta_c
                c += step_c
            else:
                entered = next_r
                next_r += delta_r
                r += step_r
            if entered > reach or c < 0 or r < 0 or c >= width or r >= height:
                break
            if cells[r, c]:
                out[ray] = 0.5 * (entered + min(next_c, next_r))
                break
    return out
