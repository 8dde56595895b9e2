"""The benchmark's input: what a simulated robot has mapped of the invented building, the same every time."""

from __future__ import annotations

import dataclasses
from itertools import islice

import numpy as np

from floorgent_ros.geometry.grid import UNKNOWN, OccupancyMap
from floorgent_ros.plans.example import example_plan
from floorgent_ros.simulation.robot import explore
from floorgent_ros.simulation.world import World

SEED = 0  # of the building and of the LIDAR's noise
SCANS = 24  # about 6 m of way: some rooms seen, most of the floor not


def standard_case() -> tuple[OccupancyMap, tuple[float, float]]:
    """The robot's map and where it stands, map frame, m."""
    plan = example_plan(SEED)
    x, y = plan.spaces[0].mean(0)
    steps = islice(explore(World.from_plan(plan), (float(x), float(y)), seed=SEED), SCANS)
    *_, last = steps
    return last.map, (last.pose[0], last.pose[1])


def enlarged(grid: OccupancyMap, side: int) -> OccupancyMap:
    """The same map in the middle of side × side cells, or cut to them; the rest is unknown."""
    cells = np.full((side, side), UNKNOWN, np.int8)
    offsets = [(side - size) // 2 for size in grid.cells.shape]
    source = tuple(
        slice(max(0, -o), max(0, -o) + min(side, n)) for o, n in zip(offsets, grid.cells.shape, strict=True)
    )
    target = tuple(
        slice(max(0, o), max(0, o) + min(side, n)) for o, n in zip(offsets, grid.cells.shape, strict=True)
    )
    cells[target] = grid.cells[source]
    corner = grid.to_frame((-offsets[1], -offsets[0]))
    return dataclasses.replace(grid, cells=cells, origin=(float(corner[0]), float(corner[1])))
