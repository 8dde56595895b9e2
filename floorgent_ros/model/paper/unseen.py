"""What is told of an observation, and asked, as one sequence: the walls seen, a mark, the walls unseen.

What a robot has seen is no prefix of the paper's order (III-E), since it sees far walls and misses near ones.
Here it is made one. Both parts stand nearest first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import ObservationSettings
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, WINDOW_CELLS, WINDOW_M, Window
from floorgent_ros.geometry.segments import canonical_walls
from floorgent_ros.geometry.tracing import trace_walls
from floorgent_ros.model.paper.config import UnseenConfig

Levels = NDArray[np.int64]

_MIDDLE = WINDOW_CELLS // 2
MARK = np.array([[_MIDDLE - 1, _MIDDLE - 1, _MIDDLE, _MIDDLE]])  # through the viewpoint, where no wall can be


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
