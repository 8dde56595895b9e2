"""Protocol E4's test cases: what a simulated robot saw, from where, and the true distances."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.plans.plan import Plan, turned
from floorgent_ros.plans.split import FloorFile
from floorgent_ros.simulation.lidar import Scene
from floorgent_ros.simulation.site import Site, WalkSettings, map_from, walk
from floorgent_ros.simulation.truth import Truth

KINDS = {"scan": 1, "walk": 6}  # scans of each kind of case
VIEWPOINTS = 4  # a floor


@dataclass(frozen=True, eq=False)
class Case:
    """What a robot saw, and the truth.

    grid and viewpoint: the robot's. truth: (256, 256) m in the published window. counted: (256, 256) bool,
    indoor cells with a finite truth. segments: (N, 2, 2) the plan's walls and windows, m. shut: (256, 256)
    bool, indoor cells off the walls that no way leads to.
    """

    kind: str
    building: str
    floor: str
    grid: OccupancyMap
    viewpoint: tuple[float, float]
    truth: NDArray[np.float64]
    counted: NDArray[np.bool_]
    segments: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2, 2)))
    shut: NDArray[np.bool_] = field(default_factory=lambda: np.zeros((256, 256), bool))


def cases(
    floor: FloorFile, seed: int = 0, viewpoints: int = VIEWPOINTS, turn_rad: float = 0.0
) -> Iterator[Case]:
    """Yield a floor's cases: `viewpoints` single scans and as many walks, the same for the same seed.

    turn_rad: the building is turned by so much in the map frame; the robot scans at the same places in it.
    """
    site = Site.of(floor.read())
    plan = site.plan.turned(turn_rad) if turn_rad else site.plan
    scene = Scene.from_segments(plan.segments) if turn_rad else site.scene
    rng = np.random.default_rng((seed, zlib.crc32(f"{floor.building}/{floor.path.name}".encode())))
    for _ in range(viewpoints):
        start = site.draw_viewpoint(rng)
        for kind, scans in KINDS.items():
            settings = WalkSettings(scans=scans)
            grid, places = walk(site, start, settings, rng)
            if turn_rad:
                places = [_turned(place, turn_rad) for place in places]
                grid = map_from(scene, places, settings, rng)
            yield _case(kind, floor, plan, grid, places[-1])


def _case(
    kind: str, floor: FloorFile, plan: Plan, grid: OccupancyMap, viewpoint: tuple[float, float]
) -> Case:
    truth = Truth.of(plan, viewpoint)
    return Case(
        kind,
        floor.building,
        floor.path.stem,
        grid,
        viewpoint,
        truth.distance,
        truth.counted,
        segments=plan.segments,
        shut=truth.shut,
    )


def _turned(place: tuple[float, float], angle: float) -> tuple[float, float]:
    x, y = turned(np.array(place), angle)
    return float(x), float(y)
