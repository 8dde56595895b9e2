"""Walls → shortest-path distances, and what many completions say together: method decisions 3 to 6."""

from __future__ import annotations

import math
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, WINDOW_CELLS
from floorgent_ros.geometry.threads import in_threads

SOURCE = (WINDOW_CELLS // 2, WINDOW_CELLS // 2)  # (row, column) of the viewpoint
START_RADIUS_M = 1.0  # a search that cannot start at the source starts at most this far away
SPREAD_SHARES = (0.1, 0.9)
SUMMARY_PARTS = 8  # of the cells, shared among threads

DIAGONAL = math.sqrt(2.0)
WALL = -1.0  # marks blocked cells inside the search: no distance is below it


def dilate(walls: NDArray[np.bool_], radius_m: float, cell_m: float = CELL_M) -> NDArray[np.bool_]:
    """Walls (H, W) grown by OpenCV's MORPH_ELLIPSE of radius ceil(radius / cell) cells, at least 1.

    One cell is the least that keeps 8-connected paths from slipping through a diagonal wall.
    """
    radius = max(1, math.ceil(radius_m / cell_m - 1e-9))
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    grown: NDArray[np.uint8] = np.asarray(cv2.dilate(walls.astype(np.uint8), disc), np.uint8)
    return grown.view(np.bool_)


def blocked(
    observed: NDArray[np.int8],
    predicted: NDArray[np.bool_],
    inflation_radius_m: float,
    cell_m: float = CELL_M,
) -> NDArray[np.bool_]:
    """Cells (H, W) that one completion's search cannot enter: method decision 3.

    observed: states −1, 0, 100; predicted: the completion's rasterised walls. What is observed wins: a
    predicted wall, its dilation included, blocks no cell that was seen free, and no observed wall is lost.
    """
    seen = dilate(observed == OCCUPIED, inflation_radius_m, cell_m)
    guessed = dilate(predicted, inflation_radius_m, cell_m)
    guessed[observed == FREE] = False
    return np.logical_or(seen, guessed)


def start_cell(
    blocked: NDArray[np.bool_], source: tuple[int, int] = SOURCE, cell_m: float = CELL_M
) -> tuple[int, int] | None:
    """The unblocked cell (row, column) nearest to the source, at most 1 m away; None when there is none.

    Distances are those of cell centres; of equally near cells the lowest row, then column, is taken.
    """
    row, column = source
    reach = int(START_RADIUS_M / cell_m)
    top, left = max(row - reach, 0), max(column - reach, 0)
    rows, columns = np.nonzero(~blocked[top : max(row + reach + 1, 0), left : max(column + reach + 1, 0)])
    if rows.size == 0:
        return None
    squares = (rows + top - row) ** 2 + (columns + left - column) ** 2
    nearest = int(np.argmin(squares))
    if squares[nearest] * cell_m**2 > START_RADIUS_M**2:
        return None
    return int(rows[nearest]) + top, int(columns[nearest]) + left


def distance_field(
    blocked: NDArray[np.bool_], source: tuple[int, int] = SOURCE, cell_m: float = CELL_M
) -> NDArray[np.float64]:
    """Shortest-path distance (H, W), m, from the source (row, column) to every cell's centre.

    8-connected steps of Euclidean cost between unblocked cells, as in the paper; +inf where blocked or
    unreachable, everywhere when the source itself is blocked or outside.
    """
    height, width = blocked.shape
    # A rim of walls spares the search the test for the grid's edge.
    steps = np.full((height + 2, width + 2), WALL)
    steps[1:-1, 1:-1] = np.where(blocked, WALL, np.inf)
    row, column = source
    if 0 <= row < height and 0 <= column < width and not blocked[row, column]:
        _search(steps.reshape(-1), width + 2, (row + 1) * (width + 2) + column + 1)
    field = steps[1:-1, 1:-1] * cell_m
    field[blocked] = np.inf
    return field


def distance_fields(
    blocked_stack: NDArray[np.bool_], source: tuple[int, int] = SOURCE, cell_m: float = CELL_M
) -> NDArray[np.float64]:
    """`distance_field` of each of N completions, (N, H, W) → (N, H, W), m, in threads.

    Each search begins at its completion's `start_cell`; a completion without one is +inf everywhere.
    """

    def search(cells: NDArray[np.bool_]) -> NDArray[np.float64]:
        start = start_cell(cells, source, cell_m)
        return np.full(cells.shape, np.inf) if start is None else distance_field(cells, start, cell_m)

    fields = in_threads(search, list(blocked_stack))
    return np.stack(fields) if fields else np.empty(blocked_stack.shape)


def median(fields: NDArray[np.float64]) -> NDArray[np.float64]:
    """The median over the first axis, (N, …) → (…), that half of the values make finite: method decision 5.

    Of the sorted values, elements ⌈N/2⌉ and ⌊N/2⌋ + 1 (counted from 1): their mean when both are finite,
    the first when only it is, else +inf.
    """
    count = len(fields)
    lower, upper = (count + 1) // 2 - 1, count // 2
    ordered = np.partition(fields, (lower, upper), axis=0)
    first, second = ordered[lower], ordered[upper]
    return np.asarray(np.where(np.isfinite(second), (first + second) / 2, first))


def spread(fields: NDArray[np.float64]) -> NDArray[np.float64]:
    """Half the 10 to 90 % interval of the first axis, +inf where its upper end is: method decision 6."""
    ordered = np.sort(fields, axis=0)
    low, high = (_quantile(ordered, share) for share in SPREAD_SHARES)
    with np.errstate(invalid="ignore"):  # inf − inf, replaced below
        half = np.maximum((high - low) / 2, 0.0)  # interpolation between equal values may fall below
    return np.where(np.isfinite(high), half, np.inf)


def reach_probability(fields: NDArray[np.float64]) -> NDArray[np.float64]:
    """Share of the N completions that reach a cell, (N, …) → (…)."""
    return np.asarray(np.isfinite(fields).mean(axis=0))


class Summary(NamedTuple):
    """Of N completions: `median`, `spread` and `reach_probability`, (…) each."""

    median: NDArray[np.float64]
    spread: NDArray[np.float64]
    reach: NDArray[np.float64]


def summarise(fields: NDArray[np.float64]) -> Summary:
    """`median`, `spread` and `reach_probability` of (N, …) fields, all from one sorting, in threads."""
    rows = np.ascontiguousarray(fields).reshape(len(fields), -1)
    out = np.empty((3, rows.shape[1]))
    bounds = np.linspace(0, rows.shape[1], SUMMARY_PARTS + 1).astype(np.int64).tolist()
    places = np.array([share * (len(rows) - 1) for share in SPREAD_SHARES])
    in_threads(
        lambda part: _summarise(rows, places, bounds[part], bounds[part + 1], out), range(SUMMARY_PARTS)
    )
    return Summary(*out.reshape(3, *fields.shape[1:]))


def _quantile(ordered: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    """Linear interpolation in (N, …) sorted values, in which +inf may stand at the end."""
    place = share * (len(ordered) - 1)
    below = min(int(place + 1e-9), len(ordered) - 1)
    weight = place - below
    if weight < 1e-9:  # on an element: the next one, perhaps +inf, has no say
        return np.asarray(ordered[below])
    return np.asarray((1 - weight) * ordered[below] + weight * ordered[below + 1])


@compiled
def _summarise(
    rows: NDArray[np.float64], places: NDArray[np.float64], first: int, last: int, out: NDArray[np.float64]
) -> None:
    """Columns first … last − 1 of (N, C) values into out (3, C); places: of the quantiles, sorted."""
    count = rows.shape[0]
    ordered = np.empty(count)
    lower, upper = (count + 1) // 2 - 1, count // 2
    ends = np.empty(2)
    for column in range(first, last):
        reached = 0
        for n in range(count):  # insertion: few values, and most are in order already
            value = rows[n, column]
            reached += np.isfinite(value)
            place = n
            while place > 0 and ordered[place - 1] > value:
                ordered[place] = ordered[place - 1]
                place -= 1
            ordered[place] = value
        for end in range(2):  # as `_quantile`
            below = min(int(places[end] + 1e-9), count - 1)
            weight = places[end] - below
            ends[end] = ordered[below]
            if weight >= 1e-9:
                ends[end] = (1 - weight) * ordered[below] + weight * ordered[below + 1]
        middle = ordered[lower]
        out[0, column] = (middle + ordered[upper]) / 2 if np.isfinite(ordered[upper]) else middle
        out[1, column] = max((ends[1] - ends[0]) / 2, 0.0) if np.isfinite(ends[1]) else np.inf
        out[2, column] = reached / count


@compiled
def _search(steps: NDArray[np.float64], stride: int, source: int) -> None:
    """Dijkstra's search in place on a flat grid of +inf (open) and WALL, rim included, in units of cells.

    No step is shorter than 1, so every cell whose distance lies in [k, k + 1) is final once all cells
    below k are done: three lists of cells, taken in turn, replace the heap, and the result is the same.
    """
    neighbours = (1, -1, stride, -stride, stride + 1, stride - 1, -stride + 1, -stride - 1)
    lists = np.empty((3, steps.size), np.int32)
    lengths = np.zeros(3, np.int64)
    steps[source] = 0.0
    lists[0, 0] = source
    lengths[0] = 1
    level = 0
    while lengths[0] + lengths[1] + lengths[2] > 0:
        now = level % 3
        for place in range(lengths[now]):
            cell = lists[now, place]
            here = steps[cell]
            if here < level:  # a shorter way was found after it was listed here: done already
                continue
            for n in range(8):
                there = cell + neighbours[n]
                reached = here + (1.0 if n < 4 else DIAGONAL)
                before = steps[there]
                if reached < before:
                    steps[there] = reached
                    list_level = int(reached)
                    if before >= list_level + 1:  # not listed there yet
                        into = list_level % 3
                        lists[into, lengths[into]] = there
                        lengths[into] += 1
        lengths[now] = 0
        level += 1
