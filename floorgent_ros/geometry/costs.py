"""The cheapest ways where some cells cost more than others: what a planner makes of odds instead of walls."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.distance import DIAGONAL, WALL, start_cell
from floorgent_ros.geometry.grid import CELL_M


def cheapest(blocked: NDArray[np.bool_], cost: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cost (H, W) of the cheapest way from the viewpoint to every cell's centre, m.

    cost: (H, W), above 0, of crossing a cell; a step costs its length times the mean of its two cells, so
    that with 1 everywhere this is `distance_field` from the `start_cell`. +inf where blocked or unreachable.
    """
    height, width = blocked.shape
    start = start_cell(blocked)
    if start is None:
        return np.full(blocked.shape, np.inf)
    cells = np.full((height + 2, width + 2), WALL)  # a rim of walls spares the search the grid's edge
    cells[1:-1, 1:-1] = np.where(blocked, WALL, cost)
    found = _search(cells.reshape(-1), width + 2, (start[0] + 1) * (width + 2) + start[1] + 1)
    return np.asarray(found.reshape(cells.shape)[1:-1, 1:-1] * CELL_M)


@compiled
def _search(cost: NDArray[np.float64], stride: int, source: int) -> NDArray[np.float64]:
    """Dijkstra's search with a heap on a flat grid, `WALL` where blocked, in units of cells."""
    neighbours = (1, -1, stride, -stride, stride + 1, stride - 1, -stride + 1, -stride - 1)
    reached = np.full(cost.size, np.inf)
    reached[source] = 0.0
    heap = [(0.0, source)]
    while len(heap) > 0:
        here, cell = heapq.heappop(heap)
        if here > reached[cell]:  # a cheaper way was found after it was pushed
            continue
        for n in range(8):
            there = cell + neighbours[n]
            if cost[there] == WALL:
                continue
            step = (cost[cell] + cost[there]) / 2 * (1.0 if n < 4 else DIAGONAL)
            if here + step < reached[there]:
                reached[there] = here + step
                heapq.heappush(heap, (here + step, there))
    return reached
