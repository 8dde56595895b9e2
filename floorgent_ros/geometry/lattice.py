"""One point in each block of 4 × 4 cells of the network's image: where a critic looks at distances."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.grid import WINDOW_CELLS, Window

BLOCK_CELLS = 4
POINTS = WINDOW_CELLS // BLOCK_CELLS  # a side
OUTSIDE = -1  # a point of the turned image that the published window does not hold


def lattice(frame: Window, window: Window) -> NDArray[np.int64]:
    """Flat indices (P, P) of the window's cells at the frame's points, `OUTSIDE` where it has none.

    Points are the centres of blocks, so that turning the image by a right angle or mirroring it turns them.
    """
    centres = (np.arange(POINTS) + 0.5) * BLOCK_CELLS
    points = np.stack(np.meshgrid(centres, centres), -1)  # (row, column, xy)
    column, row = np.moveaxis(np.floor(window.to_cell(frame.to_frame(points)) + 1e-6).astype(np.int64), -1, 0)
    inside = (row >= 0) & (row < WINDOW_CELLS) & (column >= 0) & (column < WINDOW_CELLS)
    return np.where(inside, row * WINDOW_CELLS + column, OUTSIDE)
