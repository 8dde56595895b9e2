"""What is told of an observation, and asked, as one sequence: the walls seen, a mark, the walls unseen.

What a robot has seen is no prefix of the paper's order (III-E), since it sees far walls and misses near ones.
Here it is made one. Both parts stand nearest first.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import ObservationSettings
from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS, WINDOW_M, Window
from floorgent_ros.geometry.segments import canonical_walls, grown
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
JOIN_CELLS = 6  # an unseen wall begins so far from the end of the seen one that it goes on
ASIDE_CELLS = 1  # and so far beside it, by rounding
MEET_CELLS = (
    2  # an unseen wall ends so far from another one across that it meets: the faces of a wall are fused
)


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
    near = grown(image == OCCUPIED, TOUCH_CELLS)
    found: NDArray[np.bool_] = near[walls[:, 1], walls[:, 0]] | near[walls[:, 3], walls[:, 2]]
    return found


def joined(walls: Levels, seen: Levels) -> Levels:
    """(n, 4) unseen walls made to reach the seen walls (k, 4), and each other, where they go on or meet.

    What is unseen begins some cells from what was seen. Here an end that lies near the end of a seen wall on
    the same line moves there, and the whole wall onto that line; one that lies near a seen wall across moves
    onto it. Drawn walls are cut to the unseen afterwards, so nothing is added. Then an end within
    `MEET_CELLS` of another unseen wall across moves onto that: no robot passes through such a gap, but a
    network can copy a coordinate and cannot guess by how much a rounding changed it.
    """
    out = walls.copy()
    ends = out.reshape(-1, 2, 2)
    _join(ends, np.ascontiguousarray(seen).reshape(-1, 2, 2))
    _meet(ends, ends.copy())
    return out


@compiled
def _join(walls: Levels, seen: Levels) -> None:
    """`joined` in place, (n, 2, 2) and (k, 2, 2): [wall, end, (x, y)]."""
    for i in range(walls.shape[0]):
        wall = walls[i]
        for axis in range(2):  # along which it runs
            if wall[0, 1 - axis] != wall[1, 1 - axis] or wall[0, axis] == wall[1, axis]:
                continue
            for end in range(2):
                line, place = _joint(wall, end, axis, seen)
                if line < 0:
                    continue
                if (wall[1 - end, axis] - place) * (wall[1 - end, axis] - wall[end, axis]) <= 0:
                    continue  # it would turn round
                wall[end, axis] = place
                if seen[line, 0, 1 - axis] == seen[line, 1, 1 - axis]:
                    wall[:, 1 - axis] = seen[line, 0, 1 - axis]


@compiled
def _joint(wall: Levels, end: int, axis: int, seen: Levels) -> tuple[int, int]:
    """Which seen wall an end goes on, or else meets, and the place along the axis; −1: none."""
    own, other, across = wall[end, axis], wall[1 - end, axis], wall[end, 1 - axis]
    line, place, nearest = -1, 0, 2 * JOIN_CELLS + 1
    for j in range(seen.shape[0]):
        low = min(seen[j, 0, 1 - axis], seen[j, 1, 1 - axis])
        high = max(seen[j, 0, 1 - axis], seen[j, 1, 1 - axis])
        for f in range(2):
            there, beyond_it = seen[j, f, axis], seen[j, 1 - f, axis]
            apart = abs(own - there)
            goes_on = low == high and abs(low - across) <= ASIDE_CELLS
            goes_on = goes_on and (beyond_it - there) * (other - own) < 0
            meets = there == beyond_it and low - TOUCH_CELLS <= across <= high + TOUCH_CELLS
            rank = apart if goes_on else apart + JOIN_CELLS
            if apart <= JOIN_CELLS and (goes_on or meets) and rank < nearest:
                line, place, nearest = j, there, rank
    return line, place


@compiled
def _meet(walls: Levels, before: Levels) -> None:
    """Move ends of straight walls (n, 2, 2), in place, onto the nearest ones across, as they were before."""
    for i in range(walls.shape[0]):
        for axis in range(2):
            across = before[i, 0, 1 - axis]
            if across != before[i, 1, 1 - axis] or before[i, 0, axis] == before[i, 1, axis]:
                continue
            for end in range(2):
                own, other = before[i, end, axis], before[i, 1 - end, axis]
                nearest, place = MEET_CELLS + 1, own
                for j in range(walls.shape[0]):
                    there = before[j, 0, axis]
                    low = min(before[j, 0, 1 - axis], before[j, 1, 1 - axis]) - MEET_CELLS
                    high = max(before[j, 0, 1 - axis], before[j, 1, 1 - axis]) + MEET_CELLS
                    crosses = j != i and there == before[j, 1, axis] and low <= across <= high
                    if crosses and abs(there - own) < nearest:
                        nearest, place = abs(there - own), there
                if (other - place) * (other - own) > 0:
                    walls[i, end, axis] = place
