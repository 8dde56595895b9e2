"""What the network sees of an occupancy grid from a viewpoint: the same function in node and training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import ObservationSettings
from floorgent_ros.geometry.direction import dominant_direction
from floorgent_ros.geometry.grid import OCCUPIED, UNKNOWN, WINDOW_M, OccupancyMap, Window, crop
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.geometry.tracing import trace_walls

ALIGNED_RAD = math.radians(0.5)  # a smaller turn moves no cell within 20 m by more than one: leave the axes
TRACED_CELL_M = 0.05  # finer maps are reduced to about this before tracing


@dataclass(frozen=True, eq=False)
class Observation:
    """An occupancy grid as seen from a viewpoint.

    window: the published window, axes of the map frame. states: (256, 256) int8 of −1/0/100 in it.
    walls: (N, 2, 2) traced walls, metres, map frame. frame: the window turned into the dominant wall
    direction (method decision 7). image: (256, 256) int8 of −1/0/100 in the frame's axes, its occupied
    cells drawn from the walls: the network's input.
    """

    window: Window
    states: NDArray[np.int8]
    walls: NDArray[np.float64]
    frame: Window
    image: NDArray[np.int8]


def observe(
    grid: OccupancyMap, viewpoint: tuple[float, float], settings: ObservationSettings | None = None
) -> Observation:
    """Crop the window around viewpoint (map frame, m), trace its walls and draw the network's input."""
    settings = settings or ObservationSettings()
    window = Window(viewpoint)
    walls = walls_around(grid, viewpoint, settings)
    angle = dominant_direction(walls)
    frame = Window(viewpoint, angle if abs(angle) > ALIGNED_RAD else 0.0)
    states = crop(grid, window, settings)
    turned = states if frame.angle == 0.0 else crop(grid, frame, settings)
    # what is occupied but no wall (furniture, specks) is neither wall nor free
    image = np.where(turned == OCCUPIED, np.int8(UNKNOWN), turned)
    image[rasterise_metres(walls, frame)] = OCCUPIED
    return Observation(window, states, walls, frame, image)


def walls_around(
    grid: OccupancyMap, viewpoint: tuple[float, float], settings: ObservationSettings
) -> NDArray[np.float64]:
    """Trace the map cells within half a window of the viewpoint; (N, 2, 2) metres, map frame."""
    column, row = grid.to_cell(viewpoint)
    reach = WINDOW_M / 2 / grid.resolution
    height, width = grid.cells.shape
    left, right = (int(np.clip(column + side * reach, 0, width)) for side in (-1, 1))
    low, high = (int(np.clip(row + side * reach, 0, height)) for side in (-1, 1))
    occupied = grid.cells[low:high, left:right] >= settings.occupied_threshold
    if not occupied.any():
        return np.zeros((0, 2, 2))
    occupied, resolution = _reduce(occupied, grid.resolution)
    traced = trace_walls(occupied, resolution, settings)
    return grid.to_frame(traced / grid.resolution + (left, low))


def _reduce(occupied: NDArray[np.bool_], resolution: float) -> tuple[NDArray[np.bool_], float]:
    """Merge blocks of fine cells (any occupied) so that tracing costs the same on every map."""
    factor = max(1, int(TRACED_CELL_M / resolution + 1e-6))
    if factor == 1:
        return occupied, resolution
    height, width = (-(-side // factor) * factor for side in occupied.shape)
    padded = np.zeros((height, width), bool)
    padded[: occupied.shape[0], : occupied.shape[1]] = occupied
    blocks = padded.reshape(height // factor, factor, width // factor, factor)
    return np.logical_or.reduce(blocks, axis=(1, 3)), resolution * factor
