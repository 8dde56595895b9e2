"""The place that a simulated robot walks in: a floor plan, or an occupancy grid that somebody else mapped."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import ObservationSettings
from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.plans.plan import Plan
from floorgent_ros.simulation.lidar import LidarSettings, Pose, Scan, Scene, scan


@dataclass(frozen=True)
class World:
    """What the robot's LIDAR meets, and where a robot can stand.

    truth: the whole floor as an occupancy grid, 0 where a robot could be, 100 walls, −1 outside. A ray ends
    at anything but free; it reports a hit only at a wall, so the rim of somebody's map is no wall.
    """

    truth: OccupancyMap

    @classmethod
    def from_plan(cls, plan: Plan, resolution: float = 0.05) -> World:
        """Draw a plan's walls and windows; free are the spaces, and doorways within walls up to 1 m thick."""
        scene = Scene.from_segments(plan.segments, resolution)
        indoor = plan.indoor(scene.to_cell, (scene.cells.shape[0], scene.cells.shape[1])).astype(np.uint8)
        cells = np.full(scene.cells.shape, UNKNOWN, np.int8)
        cells[cv2.dilate(indoor, _square(0.5 / resolution)) > 0] = FREE
        cells[scene.cells] = OCCUPIED
        return cls(OccupancyMap(cells, resolution, scene.origin))

    @classmethod
    def from_map(cls, grid: OccupancyMap, settings: ObservationSettings | None = None) -> World:
        """Take a map's occupied and free cells by the thresholds of the observation."""
        settings = settings or ObservationSettings()
        cells = np.full(grid.cells.shape, UNKNOWN, np.int8)
        cells[(grid.cells >= 0) & (grid.cells <= settings.free_threshold)] = FREE
        cells[grid.cells >= settings.occupied_threshold] = OCCUPIED
        return cls(dataclasses.replace(grid, cells=cells))

    def scan(self, pose: Pose, settings: LidarSettings, rng: np.random.Generator) -> Scan:
        """Scan from a pose in the grid's own axes: metres from the outer corner of its cell (0, 0)."""
        reading = scan(self._opaque, pose, settings, rng)
        directions = np.stack([np.cos(reading.angles), np.sin(reading.angles)], axis=1)
        ends = pose[:2] + np.nan_to_num(reading.ranges)[:, None] * directions
        column, row = np.floor(self._opaque.to_cell(ends)).astype(int).T
        height, width = self.truth.cells.shape
        wall = self._near_wall[np.clip(row, 0, height - 1), np.clip(column, 0, width - 1)]
        return dataclasses.replace(reading, hits=reading.hits & wall)

    @cached_property
    def _opaque(self) -> Scene:
        return Scene(self.truth.cells != FREE, self.truth.resolution, (0.0, 0.0))

    @cached_property
    def _near_wall(self) -> NDArray[np.bool_]:
        """Walls, a little thicker, since the sensor's noise moves a hit by a few cells."""
        walls = (self.truth.cells == OCCUPIED).astype(np.uint8)
        return cv2.dilate(walls, _square(0.1 / self.truth.resolution)).astype(bool)

    def start(self, clearance_m: float = 0.3) -> tuple[float, float]:
        """Return a place to begin, map frame: where most wall stands within about 6 m, in the largest region.

        Raises `MapError` where no free cell keeps the clearance.
        """
        resolution = self.truth.resolution
        clearance = cv2.distanceTransform(
            (self.truth.cells == FREE).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE
        )
        roomy = (clearance * resolution > clearance_m).astype(np.uint8)
        if not roomy.any():
            raise MapError(
                f"the map has no free cell {clearance_m} m from every wall; give one in which a robot fits"
            )
        _, labels, sizes, _ = cv2.connectedComponentsWithStats(roomy, connectivity=8)
        region = labels == 1 + int(np.argmax(sizes[1:, cv2.CC_STAT_AREA]))
        side = 2 * round(6.0 / resolution) + 1
        walls = (self.truth.cells == OCCUPIED).astype(np.float32)
        walls = cv2.boxFilter(walls, -1, (side, side), borderType=cv2.BORDER_CONSTANT)
        row, column = np.unravel_index(np.argmax(np.where(region, walls, -1)), walls.shape)
        x, y, _ = self.to_frame(((float(column) + 0.5) * resolution, (float(row) + 0.5) * resolution, 0.0))
        return (x, y)

    def to_own(self, point: tuple[float, float]) -> tuple[float, float]:
        """Map-frame metres → metres in the grid's own axes."""
        column, row = self.truth.to_cell(np.array(point, float)) * self.truth.resolution
        return (float(column), float(row))

    def to_frame(self, pose: Pose) -> Pose:
        """Pose in the grid's own axes → pose in the map frame."""
        x, y = self.truth.to_frame(np.array(pose[:2]) / self.truth.resolution)
        return (float(x), float(y), pose[2] + self.truth.yaw)

    def map_to_frame(self, grid: OccupancyMap) -> OccupancyMap:
        """Place a map whose origin is in the grid's own axes in the map frame."""
        x, y, _ = self.to_frame((*grid.origin, 0.0))
        return dataclasses.replace(grid, origin=(x, y), yaw=math.remainder(self.truth.yaw, 2 * math.pi))


def _square(half_side: float) -> NDArray[np.uint8]:
    side = 2 * max(1, round(half_side)) + 1
    return np.ones((side, side), np.uint8)
