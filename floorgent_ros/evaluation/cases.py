"""Protocol E4's test cases: what a simulated robot saw, from where, and the true distances."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import PredictorSettings
from floorgent_ros.geometry.distance import dilate, distance_field
from floorgent_ros.geometry.grid import OccupancyMap, Window
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.plans.split import FloorFile
from floorgent_ros.simulation.site import Site, WalkSettings, walk

KINDS = {"scan": 1, "walk": 6}  # scans of each kind of case
VIEWPOINTS = 4  # a floor


@dataclass(frozen=True, eq=False)
class Case:
    """What a robot saw, and the truth.

    grid and viewpoint: the robot's. truth: (256, 256) m in the published window. counted: (256, 256) bool,
    indoor cells with a finite truth. segments: (N, 2, 2) the plan's walls and windows, m.
    """

    kind: str
    building: str
    floor: str
    grid: OccupancyMap
    viewpoint: tuple[float, float]
    truth: NDArray[np.float64]
    counted: NDArray[np.bool_]
    segments: NDArray[np.float64] = field(default_factory=lambda: np.zeros((0, 2, 2)))


def cases(floor: FloorFile, seed: int = 0, viewpoints: int = VIEWPOINTS) -> Iterator[Case]:
    """Yield a floor's cases: `viewpoints` single scans and as many walks, the same for the same seed."""
    site = Site.of(floor.read())
    rng = np.random.default_rng((seed, zlib.crc32(f"{floor.building}/{floor.path.name}".encode())))
    for _ in range(viewpoints):
        start = site.draw_viewpoint(rng)
        for kind, scans in KINDS.items():
            grid, viewpoint = walk(site, start, WalkSettings(scans=scans), rng)
            truth = true_distance(site, viewpoint)
            indoor = site.plan.indoor(Window(viewpoint).to_cell, truth.shape)
            yield Case(
                kind,
                floor.building,
                floor.path.stem,
                grid,
                viewpoint,
                truth,
                counted=indoor & np.isfinite(truth),
                segments=site.plan.segments,
            )


def true_distance(site: Site, viewpoint: tuple[float, float]) -> NDArray[np.float64]:
    """Distances (256, 256), m, with every wall and window of the plan known."""
    walls = rasterise_metres(site.plan.segments, Window(viewpoint))
    return distance_field(dilate(walls, PredictorSettings.inflation_radius_m))
