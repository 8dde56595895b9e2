"""Where the demo's robot walks: the invented floor, or the user's own map."""

from __future__ import annotations

from pathlib import Path

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import FREE, OccupancyMap
from floorgent_ros.plans.example import example_plan
from floorgent_ros.simulation.world import World


def building(map_path: Path | None, seed: int) -> World:
    """Read the map, or build the floor of this seed; raises `MapError`."""
    if map_path is not None:
        return World.from_map(OccupancyMap.from_file(map_path))
    return World.from_plan(example_plan(seed))


def first_place(
    world: World, start: tuple[float, float] | None, map_path: Path | None, seed: int
) -> tuple[float, float]:
    """Return where the walk begins, map frame: the given place, the main corridor, or a place in a map."""
    if start is not None:
        column, row = world.truth.to_cell(start).astype(int)
        height, width = world.truth.cells.shape
        if not (0 <= row < height and 0 <= column < width and world.truth.cells[row, column] == FREE):
            raise MapError(f"--start {start[0]:g} {start[1]:g}: not a free place; choose another")
        return start
    if map_path is not None:
        return world.start()
    x, y = example_plan(seed).spaces[0].mean(0)
    return float(x), float(y)
