"""Doors in completions: ways that a wall drawn a cell off would shut are kept open.

Rooms of a building can be reached, and without going round the block. A sampled wall that stands a cell in
a door's way says nothing true about the room behind it, and costs more than all its neighbours gain. So
each completion is made consistent with that: where its walls cut a region off, or make the way to it longer
by more than a bound, the cheapest way is opened, crossing as few predicted walls as it must. What is
observed is never opened, and the walls themselves are cut, so that distances follow from walls alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.distance import DIAGONAL, dilate, distance_field, start_cell
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, Window
from floorgent_ros.geometry.raster import ROUNDING_CELLS, rasterise_metres

ROUNDS = 4  # a door may open the view of another; later ones hardly matter
REGION_M2 = 2.0  # ways to smaller regions stay shut: closets, rounding
MARGIN_COST = 4.0  # a step beside a predicted wall counts as so many: doors are opened where walls leave room


@dataclass(frozen=True, eq=False)
class Ways:
    """What an observation says about doors, the same for each of its completions.

    fixed (H, W) bool: cells that observed walls block. unseen (H, W) bool: cells that predicted walls can
    block. start (row, column): of the search where no predicted wall stands near it; None where there is no
    open cell. distance (H, W), m: from there, without predicted walls.
    """

    fixed: NDArray[np.bool_]
    unseen: NDArray[np.bool_]
    start: tuple[int, int] | None
    distance: NDArray[np.float64]
    inflation_radius_m: float

    @classmethod
    def of(cls, states: NDArray[np.int8], inflation_radius_m: float) -> Ways:
        """states: the window's (256, 256) of −1/0/100."""
        fixed = dilate(states == OCCUPIED, inflation_radius_m)
        start = start_cell(fixed)
        distance = np.full(fixed.shape, np.inf) if start is None else distance_field(fixed, start)
        return cls(fixed, (states != FREE) & ~fixed, start, distance, inflation_radius_m)

    def distance_from(self, start: tuple[int, int]) -> NDArray[np.float64]:
        """Distances (H, W), m, without predicted walls, from a start that they may have moved."""
        return self.distance if start == self.start else distance_field(self.fixed, start)


def open_doors(
    walls: NDArray[np.float32], ways: Ways, window: Window, detour_m: float
) -> NDArray[np.float32]:
    """Cut (K, 2, 2) predicted walls, metres, map frame, where they shut ways; returns (M, 2, 2).

    detour_m: a way through a wall counts as this much longer, so that only detours above it are spared. Walls
    are cut, never moved or added; with no wall in the way they are returned as they are.
    """
    predicted = rasterise_metres(walls, window)
    opened = door_cells(ways, predicted, detour_m)
    if not opened.any():
        return walls
    # A slanted wall passes through more cells than it is drawn in; those beside a door belong to it.
    opened |= ~predicted & dilate(opened, CELL_M)
    ends = window.to_cell(np.asarray(walls, np.float64)) + ROUNDING_CELLS
    return window.to_frame(_cut(ends, opened) - ROUNDING_CELLS).astype(np.float32)


def door_cells(ways: Ways, predicted: NDArray[np.bool_], detour_m: float) -> NDArray[np.bool_]:
    """Cells (H, W) of predicted walls (H, W) that doors take: in each round one for every region."""
    fixed, left = ways.fixed, predicted.copy()
    unhindered: NDArray[np.float64] | None = None
    for _ in range(ROUNDS):
        margin = dilate(left, ways.inflation_radius_m) & ways.unseen
        if not margin.any():
            break  # nothing stands in the way
        start = start_cell(fixed | margin)
        if start is None:
            break
        if unhindered is None:
            unhindered = ways.distance_from(start)
        plain = distance_field(fixed | margin, start)
        longer = np.isfinite(unhindered) & ~margin & (plain > unhindered + detour_m)
        if longer.sum() < REGION_M2 / CELL_M**2:
            break  # no crossing can pay: spares the dearer search
        found = _ways(fixed, margin, left, plain / CELL_M, start, detour_m / CELL_M)
        if not found.any():
            break
        left &= ~dilate(found & margin, ways.inflation_radius_m)
    return predicted & ~left


def _ways(
    fixed: NDArray[np.bool_],
    margin: NDArray[np.bool_],
    predicted: NDArray[np.bool_],
    plain: NDArray[np.float64],
    start: tuple[int, int],
    detour: float,
) -> NDArray[np.bool_]:
    """The cheapest way (H, W) to each region of the size that is spared a detour of so many cells."""
    cost = np.ones(fixed.shape)
    cost[margin] = MARGIN_COST
    cost[margin & predicted] = dearest = max(detour, MARGIN_COST)
    cost[fixed] = np.inf
    total, previous = _cheapest(cost, start[0], start[1], dearest)
    spared = np.isfinite(total) & ~margin & (plain > total + 1e-6)
    _, labels, stats, _ = cv2.connectedComponentsWithStats(spared.astype(np.uint8), connectivity=8)
    large = stats[:, cv2.CC_STAT_AREA] >= REGION_M2 / CELL_M**2
    large[0] = False  # the rest of the window
    ways = np.zeros(fixed.size, np.bool_)
    _mark(ways, labels.ravel(), large, total.ravel(), previous)
    return ways.reshape(fixed.shape)


@compiled
def _mark(
    ways: NDArray[np.bool_],
    labels: NDArray[np.int32],
    large: NDArray[np.bool_],
    total: NDArray[np.float64],
    previous: NDArray[np.int32],
) -> None:
    """Mark the way to the cheapest cell of each large region."""
    best = np.full(large.shape[0], -1, np.int64)
    for cell in range(labels.shape[0]):
        region = labels[cell]
        if large[region] and (best[region] < 0 or total[cell] < total[best[region]]):
            best[region] = cell
    for region in range(best.shape[0]):
        cell = best[region]
        while cell >= 0 and not ways[cell]:
            ways[cell] = True
            cell = previous[cell]


@compiled
def _cheapest(
    cost: NDArray[np.float64], row: int, column: int, dearest: float
) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Dijkstra's search over the 8 neighbours; a step costs its length × the entered cell's cost.

    A cost is at least 1, at most dearest, or +inf where no step leads.

    Returns the totals (H, W), +inf where nothing leads, and the flat index of the cell before (H·W,), −1 at
    the start. As in `distance._search` all cells of a level [k, k + 1) are final once those below are done;
    the levels are linked lists in a ring.
    """
    height, width = cost.shape
    # a rim that no step leads into spares the search the test for the grid's edge
    stride = width + 2
    costs = np.full((height + 2) * stride, np.inf)
    for r in range(height):
        costs[(r + 1) * stride + 1 : (r + 2) * stride - 1] = cost[r]
    totals = np.full(costs.size, np.inf)
    came = np.full(costs.size, -1, np.int8)  # by which of the steps
    around = (-stride - 1, -stride, -stride + 1, -1, 1, stride - 1, stride, stride + 1)
    lengths = (DIAGONAL, 1.0, DIAGONAL, 1.0, 1.0, DIAGONAL, 1.0, DIAGONAL)
    # at least all levels that a step can reach; a power of 2, so that a level's place is a matter of bits
    ring = 1 << int(np.ceil(np.log2(dearest * DIAGONAL + 3)))
    heads = np.full(ring, -1, np.int32)
    cells = np.empty(8 * height * width + 1, np.int32)
    nexts = np.empty(8 * height * width + 1, np.int32)
    source = (row + 1) * stride + column + 1
    totals[source] = 0.0
    cells[0], nexts[0], heads[0] = source, -1, 0
    entries, waiting, level = 1, 1, 0
    while waiting > 0:
        entry = heads[level & (ring - 1)]
        heads[level & (ring - 1)] = -1
        while entry >= 0:
            cell = cells[entry]
            entry = nexts[entry]
            waiting -= 1
            here = totals[cell]
            if here < level:  # a cheaper way was found after it was listed here
                continue
            for n in range(8):
                there = cell + around[n]
                reached = here + costs[there] * lengths[n]
                known = totals[there]
                if reached < known:
                    totals[there] = reached
                    came[there] = n
                    if known >= int(reached) + 1:  # not listed in that level yet
                        place = int(reached) & (ring - 1)
                        cells[entries], nexts[entries] = there, heads[place]
                        heads[place] = entries
                        entries += 1
                        waiting += 1
        level += 1
    total = np.empty((height, width))
    previous = np.empty(height * width, np.int32)
    moved = (-width - 1, -width, -width + 1, -1, 1, width - 1, width, width + 1)
    for r in range(height):
        for c in range(width):
            there, cell = (r + 1) * stride + c + 1, r * width + c
            total[r, c] = totals[there]
            previous[cell] = cell - moved[came[there]] if came[there] >= 0 else -1
    return total, previous


@compiled
def _cut(ends: NDArray[np.float64], opened: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The parts of (K, 2, 2) segments, cell coordinates, that lie outside the opened cells."""
    height, width = opened.shape
    out = np.empty((ends.shape[0] * 8 + 8, 2, 2))
    count = 0
    for k in range(ends.shape[0]):
        dx, dy = ends[k, 1, 0] - ends[k, 0, 0], ends[k, 1, 1] - ends[k, 0, 1]
        steps = max(1, int(np.ceil(4 * max(abs(dx), abs(dy)))))
        first = -1
        for t in range(steps + 2):
            kept = False
            if t <= steps:
                x = int(np.floor(ends[k, 0, 0] + dx * t / steps))
                y = int(np.floor(ends[k, 0, 1] + dy * t / steps))
                kept = not (0 <= x < width and 0 <= y < height and opened[y, x])
            if kept and first < 0:
                first = t
            if not kept and first >= 0:
                if count < out.shape[0]:
                    for end, share in ((0, first / steps), (1, (t - 1) / steps)):
                        out[count, end, 0] = ends[k, 0, 0] + dx * share
                        out[count, end, 1] = ends[k, 0, 1] + dy * share
                    count += 1
                first = -1
    return out[:count]
