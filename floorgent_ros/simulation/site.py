"""A floor plan made ready for simulated robots, and the scans and walks through it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import cv2
import numpy as np
from numpy.typing import NDArray

from floorgent_ros.errors import PlanError
from floorgent_ros.geometry.grid import FREE, OccupancyMap
from floorgent_ros.plans.plan import Plan
from floorgent_ros.simulation.lidar import LidarSettings, Pose, Scene, scan
from floorgent_ros.simulation.mapper import Mapper

VIEWPOINT_CLEARANCE_M = 0.6  # protocol E4
STEP_CLEARANCE_M = 0.5
STEP_M = (1.5, 5.0)
_TRIES = 400  # draws of a next pose before a walk counts as stuck


@dataclass(frozen=True)
class Site:
    """A plan with its scene at full detail (walls and windows, 0.05 m cells) and what a robot needs of it.

    indoor (H, W) bool: cells inside a space. clearance_m (H, W): distance to the nearest wall.
    """

    plan: Plan
    scene: Scene
    indoor: NDArray[np.bool_]
    clearance_m: NDArray[np.float32]

    @classmethod
    def of(cls, plan: Plan) -> Site:
        """Rasterise a plan."""
        scene = Scene.from_segments(plan.segments)
        free = (~scene.cells).astype(np.uint8)
        clearance = cv2.distanceTransform(free, cv2.DIST_L2, cv2.DIST_MASK_PRECISE) * scene.resolution
        return cls(plan, scene, plan.indoor(scene.to_cell, scene.cells.shape), clearance.astype(np.float32))

    def clearance_at(self, point: NDArray[np.float64]) -> float:
        """Distance of (x, y) to the nearest wall, m; 0 outside the scene."""
        column, row = np.floor(self.scene.to_cell(point)).astype(int)
        height, width = self.clearance_m.shape
        return float(self.clearance_m[row, column]) if 0 <= row < height and 0 <= column < width else 0.0

    def draw_viewpoint(self, rng: np.random.Generator) -> tuple[float, float]:
        """Draw a point inside a space with more than `VIEWPOINT_CLEARANCE_M` to every wall, uniformly.

        Raises `PlanError` when the plan has no such point.
        """
        rows, columns = np.nonzero(self.indoor & (self.clearance_m > VIEWPOINT_CLEARANCE_M))
        if len(rows) == 0:
            raise PlanError(
                f"{self.plan.name}: no place with {VIEWPOINT_CLEARANCE_M} m clearance in its spaces"
            )
        chosen = rng.integers(len(rows))
        cell = np.array([columns[chosen], rows[chosen]]) + 0.5
        x, y = cell * self.scene.resolution + self.scene.origin
        return float(x), float(y)


@dataclass(frozen=True)
class WalkSettings:
    """How a simulated robot observes: scans in all, sensor, map, and the errors of its localisation.

    map_yaw: direction of the map's axes, rad. jitter_m and jitter_rad: σ of the believed pose's error.
    """

    scans: int = 1
    lidar: LidarSettings = field(default_factory=LidarSettings)
    resolution: float = 0.05
    map_yaw: float = 0.0
    jitter_m: float = 0.0
    jitter_rad: float = 0.0


def walk(
    site: Site,
    start: tuple[float, float],
    settings: WalkSettings,
    rng: np.random.Generator,
    scene: Scene | None = None,
) -> tuple[OccupancyMap, list[tuple[float, float]]]:
    """Scan at start and at further free places seen from the last; return the map and the places.

    Each further place was seen free, lies `STEP_M` from the last and keeps `STEP_CLEARANCE_M` (protocol
    E4). A robot that finds none stays where it is. scene: what the LIDAR hits if it is not the site's
    own (clutter, unseen glass).
    """
    mapper = Mapper(settings.resolution, settings.map_yaw)
    places = [start]
    for index in range(settings.scans):
        if index > 0:
            following = _next_place(site, mapper.map(), places[-1], rng)
            if following is None:
                break
            places.append(following)
        _scan_into(mapper, scene or site.scene, places[-1], settings, rng)
    return mapper.map(), places


def map_from(
    scene: Scene, places: list[tuple[float, float]], settings: WalkSettings, rng: np.random.Generator
) -> OccupancyMap:
    """The map of a robot that scans the scene at these places."""
    mapper = Mapper(settings.resolution, settings.map_yaw)
    for place in places:
        _scan_into(mapper, scene, place, settings, rng)
    return mapper.map()


def _scan_into(
    mapper: Mapper, scene: Scene, place: tuple[float, float], settings: WalkSettings, rng: np.random.Generator
) -> None:
    pose: Pose = (*place, 0.0)
    mapper.insert(scan(scene, pose, settings.lidar, rng), _believed(pose, settings, rng))


def _believed(pose: Pose, settings: WalkSettings, rng: np.random.Generator) -> Pose:
    if settings.jitter_m == 0 and settings.jitter_rad == 0:
        return pose
    x, y, yaw = rng.normal(pose, (settings.jitter_m, settings.jitter_m, settings.jitter_rad))
    return float(x), float(y), float(yaw)


def _next_place(
    site: Site, grid: OccupancyMap, place: tuple[float, float], rng: np.random.Generator
) -> tuple[float, float] | None:
    height, width = grid.cells.shape
    low, high = STEP_M
    for _ in range(_TRIES):
        distance = math.sqrt(rng.uniform(low**2, high**2))  # uniform over the ring's area
        bearing = rng.uniform(0, 2 * math.pi)
        point = np.array(place) + distance * np.array([math.cos(bearing), math.sin(bearing)])
        column, row = np.floor(grid.to_cell(point)).astype(int)
        seen = 0 <= row < height and 0 <= column < width and grid.cells[row, column] == FREE
        if seen and site.clearance_at(point) > STEP_CLEARANCE_M:
            return float(point[0]), float(point[1])
    return None


def with_clutter(
    scene: Scene,
    indoor: NDArray[np.bool_],
    pieces: int,
    rng: np.random.Generator,
    keep_free: tuple[float, float] | None = None,
) -> Scene:
    """Put furniture-like boxes of 0.2 to 1.2 m, axis-aligned, on free indoor cells.

    None comes within `STEP_CLEARANCE_M` of keep_free (x, y), m: where the robot stands.
    """
    rows, columns = np.nonzero(indoor & ~scene.cells)
    cells = scene.cells.copy()
    if len(rows) == 0:
        return scene
    robot = scene.to_cell(np.array(keep_free))[::-1] if keep_free is not None else None
    for chosen in rng.integers(len(rows), size=pieces):
        half = (rng.uniform(0.1, 0.6, 2) / scene.resolution).astype(int)
        centre = np.array([rows[chosen], columns[chosen]])
        low, high = np.maximum(centre - half, 0), centre + half + 1
        if robot is not None:
            away = np.linalg.norm(robot - np.clip(robot, low, high)) * scene.resolution
            if away < STEP_CLEARANCE_M:
                continue
        cells[low[0] : high[0], low[1] : high[1]] = True
    return replace(scene, cells=cells)
