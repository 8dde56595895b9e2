"""Line segments → cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.grid import WINDOW_CELLS, Window

# float32 metres some hundred metres from the map's origin are this coarse in window cells: an end that
# stands on a cell's lower edge must not fall into the cell below when it comes back from metres.
ROUNDING_CELLS = 1e-3
FARTHEST_CELL = 10**9  # the integers of the line drawing cannot overflow up to here


def rasterise(segments_cells: ArrayLike, size: int = WINDOW_CELLS) -> NDArray[np.bool_]:
    """Draw (N, 2, 2) segments [segment, end, (column, row)], in cell coordinates, into (size, size) cells.

    Each end is floored to its cell; between them runs Bresenham's line, the same cells as OpenCV's
    8-connected `line` draws on a canvas that holds both ends. What lies outside is left out without
    bending the rest. A segment and its reverse give the same cells.
    """
    ends = np.asarray(segments_cells, np.float64).reshape(-1, 2, 2)
    drawn = np.zeros((size, size), np.bool_)
    _draw(drawn, np.clip(np.floor(ends), -FARTHEST_CELL, FARTHEST_CELL).astype(np.int64))
    return drawn


def rasterise_metres(segments: ArrayLike, window: Window) -> NDArray[np.bool_]:
    """Draw (N, 2, 2) segments in map-frame metres into the window's (256, 256) cells."""
    points = np.asarray(segments, np.float64).reshape(-1, 2, 2)
    return rasterise(window.to_cell(points) + ROUNDING_CELLS)


@compiled
def _draw(drawn: NDArray[np.bool_], ends: NDArray[np.int64]) -> None:
    """Mark the cells of each segment of `ends` (N, 2, 2) [segment, end, (column, row)]."""
    size = drawn.shape[0]
    for n in range(ends.shape[0]):
        x0, y0, x1, y1 = ends[n, 0, 0], ends[n, 0, 1], ends[n, 1, 0], ends[n, 1, 1]
        if x1 < x0:  # from left to right, so that ties do not depend on the segment's orientation
            x0, y0, x1, y1 = x1, y1, x0, y0
        step = 1 if y1 >= y0 else -1
        run, rise = x1 - x0, abs(y1 - y0)
        if run >= rise:
            first, last = max(x0, 0), min(x1, size - 1)
            for x in range(first, last + 1):
                y = y0 + step * _rounded_half_down(rise * (x - x0), run)
                if 0 <= y < size:
                    drawn[y, x] = True
        else:
            first, last = max(min(y0, y1), 0), min(max(y0, y1), size - 1)
            for y in range(first, last + 1):
                x = x0 + _rounded_half_down(run * abs(y - y0), rise)
                if 0 <= x < size:
                    drawn[y, x] = True


@compiled
def _rounded_half_down(numerator: int, denominator: int) -> int:
    """The integer next to a fraction ≥ 0, the lower one of two equally near; 0 for a single cell."""
    if denominator == 0:
        return 0
    return (2 * numerator + denominator - 1) // (2 * denominator)
