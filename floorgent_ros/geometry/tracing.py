"""From occupied cells to straight walls: close → skeleton → fit lines → join corners.

The best measured recipe for wall segments from occupancy grids: a line detector on the raw cells
returns both faces of every wall. All tolerances are metres, so that maps of different resolution give
the same walls. Both training and the robot trace walls with this one function.
"""

from __future__ import annotations

import math

import cv2
import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import ObservationSettings
from floorgent_ros.errors import MapError
from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.fitting import fit_lines
from floorgent_ros.geometry.joining import join_lines

_FINE_M = 0.05  # finer grids are traced at about this resolution: their noise is no finer than a LIDAR's
_MARGIN_CELLS = 2  # empty frame that spares the neighbourhood look-ups their bounds checks


def trace_walls(
    occupied: NDArray[np.bool_], resolution: float, settings: ObservationSettings
) -> NDArray[np.float64]:
    """Straight wall segments of a grid, one for each wall however thick it is drawn.

    ``occupied`` is (H, W) bool and ``resolution`` its cell side in metres. Returns (N, 2, 2) float64,
    [segment, end, xy], in metres along the grid's own axes: x along columns, y along rows, the outer
    corner of cell (0, 0) at 0. Raises `MapError` for another shape or a useless resolution.
    """
    if occupied.ndim != 2:
        raise MapError(f"walls are traced in a 2-D grid, not in shape {occupied.shape}: pass (rows, columns)")
    if not (math.isfinite(resolution) and resolution > 0):
        raise MapError(f"grid resolution {resolution} m: use a positive number of metres per cell")
    grid = np.ascontiguousarray(occupied, dtype=np.bool_).view(np.uint8)
    found = cv2.findNonZero(grid) if grid.size else None
    if found is None:
        return np.empty((0, 2, 2))
    x, y, width, height = cv2.boundingRect(found)
    fold = max(1, math.floor(_FINE_M / resolution + 1e-6))
    cell_m = resolution * fold
    gap = round(settings.close_m / cell_m)
    pad = _MARGIN_CELLS + gap
    mask = _close(np.pad(_folded(grid[y : y + height, x : x + width], fold), pad), gap)
    cells = np.flatnonzero(mask.view(np.bool_))
    skeleton, thinned = thin(mask, cells)
    weak = _small_blobs(mask, cells, settings.min_blob_m / cell_m)
    lines = fit_lines(mask, skeleton, thinned, weak, cell_m, settings.min_wall_m)
    segments = join_lines(lines, cell_m, settings.min_wall_m)
    return np.asarray((segments + 0.5 - pad) * cell_m + np.array([x, y]) * resolution)


def _folded(cells: NDArray[np.uint8], fold: int) -> NDArray[np.uint8]:
    """A grid ``fold`` times coarser, set where any of its cells is."""
    rows, columns = (-(-side // fold) for side in cells.shape)
    coarse = np.zeros((rows, columns), np.uint8)
    for i in range(fold):
        for j in range(fold):
            part = cells[i::fold, j::fold]
            coarse[: part.shape[0], : part.shape[1]] |= part
    return coarse


def _close(cells: NDArray[np.uint8], gap: int) -> NDArray[np.uint8]:
    """Fill gaps of up to ``gap`` cells. An even kernel needs mirrored anchors, or the walls shift."""
    if gap < 1:
        return cells
    kernel = np.ones((gap + 1, gap + 1), np.uint8)
    near, far = gap // 2, gap - gap // 2
    grown = cv2.dilate(cells, kernel, anchor=(near, near))
    return np.asarray(cv2.erode(grown, kernel, anchor=(far, far)), np.uint8)


def thin(mask: NDArray[np.uint8], cells: NDArray[np.int64]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Skeleton of a (H, W) mask of 0 and 1 whose border cells are 0 (Guo and Hall, 1989).

    ``cells`` are the flat indices of its set cells. Returns the skeleton like the mask, and the flat
    indices of its cells in ascending order. Works along the list of set cells, on sparse grids many times
    faster than `skimage.morphology.skeletonize`, which passes over the whole image; and the latter's
    scheme (Zhang and Suen, 1984) wipes out thick diagonals.
    """
    skeleton = mask.copy()
    return skeleton, _thin(skeleton.reshape(-1), cells.copy(), mask.shape[1], _REMOVABLE)


def _removable_neighbourhoods() -> NDArray[np.uint8]:
    """For each 8-neighbourhood (bit 0 north, then clockwise): bit k set if half-step k removes the cell."""
    table = np.zeros(256, np.uint8)
    for code in range(256):
        n, ne, e, se, s, sw, w, nw = (bool(code >> bit & 1) for bit in range(8))
        pieces = (not n and (ne or e)) + (not e and (se or s)) + (not s and (sw or w)) + (not w and (nw or n))
        before = (nw or n) + (ne or e) + (se or s) + (sw or w)
        after = (n or ne) + (e or se) + (s or sw) + (w or nw)
        if pieces == 1 and 2 <= min(before, after) <= 3:
            table[code] = (not (w and (s or sw or not nw))) + 2 * (not (e and (n or ne or not se)))
    return table


_REMOVABLE = _removable_neighbourhoods()


@compiled
def _thin(
    cells: NDArray[np.uint8], live: NDArray[np.int64], width: int, removable: NDArray[np.uint8]
) -> NDArray[np.int64]:
    """Thin flat ``cells`` in place, whose set ones are ``live``; returns those that stay."""
    ring = np.array([-width, 1 - width, 1, width + 1, width, width - 1, -1, -width - 1])
    gone = np.empty(live.size, np.int64)
    count, idle, half = live.size, 0, 0
    while idle < 2:
        removed = 0
        for i in range(count):
            code = 0
            for bit in range(8):
                code |= cells[live[i] + ring[bit]] << bit
            if removable[code] >> half & 1:
                gone[removed] = live[i]
                removed += 1
        for i in range(removed):
            cells[gone[i]] = 0
        kept = 0
        for i in range(count):
            if cells[live[i]]:
                live[kept] = live[i]
                kept += 1
        count = kept
        idle = 0 if removed else idle + 1
        half = 1 - half
    return live[:count]


@compiled
def _small_blobs(mask: NDArray[np.uint8], cells: NDArray[np.int64], side: float) -> NDArray[np.uint8]:
    """1 where a cell belongs to an 8-connected blob whose larger side is below ``side`` cells."""
    width = mask.shape[1]
    weak, seen = np.zeros_like(mask), np.zeros_like(mask)
    queue = np.empty(cells.size, np.int64)
    for cell in cells:
        row, column = cell // width, cell % width
        if seen[row, column]:
            continue
        queue[0] = cell
        seen[row, column] = 1
        done, size = 0, 1
        low_r, high_r, low_c, high_c = row, row, column, column
        while done < size:
            r, c = queue[done] // width, queue[done] % width
            done += 1
            low_r, high_r, low_c, high_c = min(low_r, r), max(high_r, r), min(low_c, c), max(high_c, c)
            for i in range(r - 1, r + 2):
                for j in range(c - 1, c + 2):
                    if mask[i, j] and not seen[i, j]:
                        seen[i, j] = 1
                        queue[size] = i * width + j
                        size += 1
        if max(high_r - low_r, high_c - low_c) + 1 < side:
            for i in range(size):
                weak[queue[i] // width, queue[i] % width] = 1
    return weak
