"""What the tests of walls share: their canonical form, how it is drawn, and walls of any kind."""

from __future__ import annotations

import cv2
import numpy as np
from hypothesis import settings
from hypothesis import strategies as st

from floorgent_ros.geometry.grid import Window
from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.geometry.segments import canonical_walls

unhurried = settings(deadline=None, max_examples=60)
FRAME = Window((0.0, 0.0))
HORIZON_M = 14.0
coordinate = st.floats(-9, 9)
any_wall = st.tuples(coordinate, coordinate, coordinate, coordinate)


def canonical(walls, frame=FRAME, horizon_m=HORIZON_M):
    """walls: x0, y0, x1, y1 in metres each."""
    return canonical_walls(np.array(walls, float).reshape(-1, 2, 2), frame, horizon_m)


def drawn(levels):
    return rasterise(levels.reshape(-1, 2, 2) + 0.5)


def grown(mask, cells):
    """Cells at most so many rows and columns away from a set one."""
    kernel = np.ones((2 * cells + 1, 2 * cells + 1), np.uint8)
    return cv2.dilate(mask.astype(np.uint8), kernel).astype(bool)
