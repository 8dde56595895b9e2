"""What is told of an observation, and asked, as one sequence: the walls seen, a mark, the walls unseen.

What a robot has seen is no prefix of the paper's order (III-E), since it sees far walls and misses near ones.
Here it is made one. Both parts stand nearest first.
"""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import ObservationSettings
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS, WINDOW_M, Window
from floorgent_ros.geometry.segments import canonical_walls
from floorgent_ros.geometry.tracing import trace_walls
from floorgent_ros.model.paper.config import UnseenConfig

Levels = NDArray[np.int64]
Classes = NDArray[np.int64]

_MIDDLE = WINDOW_CELLS // 2
MARK = np.array([[_MIDDLE - 1, _MIDDLE - 1, _MIDDLE, _MIDDLE]])  # through the viewpoint, where no wall can be

RUNS = (1, 4, 12, 32)  # cells of unknown beyond an end from which on it is one class more open
CLASSES = len(RUNS) + 1
NOT_TOLD = CLASSES  # of what was not seen
_OWN_CELLS = 3  # a seen wall may go on so far beyond the end that was traced
TOUCH_CELLS = 3


def told(image: NDArray[np.int8], config: UnseenConfig) -> Levels:
    """(L, L) observation → (k, 4) levels: the nearest of the walls seen, and the mark.

    The walls are traced in the image itself, in which the node has drawn what it traced in the map, so that
    training and robot give the same.
    """
    traced = trace_walls(image == OCCUPIED, CELL_M, ObservationSettings())
    seen = canonical_walls(traced - WINDOW_M / 2, Window((0.0, 0.0)), config.horizon_m)
    return np.concatenate([config.frame.ordered(seen)[: config.observed_segments], MARK])


def free_image(image: NDArray[np.int8], config: UnseenConfig) -> NDArray[np.bool_]:
    """(L, L) observation → (C, C): where most of the cells were seen free."""
    size = len(image) // config.image_cells
    blocks = (image == FREE).reshape(config.image_cells, size, config.image_cells, size)
    free: NDArray[np.bool_] = blocks.sum((1, 3)) > size**2 // 2
    return free


def beyond(walls: Levels, image: NDArray[np.int8]) -> Classes:
    """(k, 4) walls seen and the mark, (L, L) observation → (k, 2) class of each end, below `CLASSES`.

    How many cells in a row are unknown from the end on, along the wall: one that ends at seen free space, at
    another wall or at the window's edge is of class 0, one that nobody saw end is of the last. A wall that
    turns a corner counts as open, since corners are known from the walls. The mark is `NOT_TOLD`.
    """
    ends = walls.reshape(-1, 2, 2)
    away = ends - ends[:, ::-1]
    longest = np.maximum(np.abs(away).max(-1, keepdims=True), 1)
    steps = np.arange(1, _OWN_CELLS + RUNS[-1] + 1)
    points = np.rint(ends[:, :, None] + steps[:, None] * (away / longest)[:, :, None]).astype(np.int64)
    inside = ((points >= 0) & (points < len(image))).all(-1)
    x, y = np.clip(points, 0, len(image) - 1).transpose(3, 0, 1, 2)
    own = np.cumprod(image[y, x] == OCCUPIED, -1) * (steps <= _OWN_CELLS)
    unknown = inside & (image[y, x] == UNKNOWN)
    run = np.cumprod(unknown | (own > 0), -1).sum(-1) - own.sum(-1)
    classes = np.searchsorted(RUNS, run, side="right")
    classes[(walls == MARK).all(1)] = NOT_TOLD
    return classes


def touching(walls: Levels, image: NDArray[np.int8]) -> NDArray[np.bool_]:
    """(n, 4) walls → (n,) whether an end lies within `TOUCH_CELLS` of an observed occupied cell."""
    side = 2 * TOUCH_CELLS + 1
    near = cv2.dilate((image == OCCUPIED).astype(np.uint8), np.ones((side, side), np.uint8)) > 0
    found: NDArray[np.bool_] = near[walls[:, 1], walls[:, 0]] | near[walls[:, 3], walls[:, 2]]
    return found
