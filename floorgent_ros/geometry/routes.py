"""Distances between many places over the same completions: what an exploration planner asks for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from floorgent_ros.errors import MapError
from floorgent_ros.geometry import distance as distances
from floorgent_ros.geometry.grid import OCCUPIED, WINDOW_CELLS, Window


@dataclass(frozen=True, eq=False)
class Routes:
    """Shortest-path distances from S sources to T targets, (S, T) float32 each.

    distance: m, median over the completions, +inf not reached, NaN target in an observed wall. spread: m.
    reach_probability: share of the completions. outside: how many sources and targets lie outside the
    window, about which nothing is known: their distances are +inf, their probabilities 0.
    """

    distance: NDArray[np.float32]
    spread: NDArray[np.float32]
    reach_probability: NDArray[np.float32]
    outside: int


def routes(
    blocked: NDArray[np.bool_],
    states: NDArray[np.int8],
    window: Window,
    sources: ArrayLike,
    targets: ArrayLike,
) -> Routes:
    """Distances between points (S, 2) and (T, 2), map frame, m, by one search a source and completion.

    blocked: (N, 256, 256), each completion's cells that no path enters; states: (256, 256) of −1/0/100.
    Both stand in the window. The rules are those of the distance grid, so that a row whose source is the
    viewpoint repeats the grid's values: a source in a blocked cell starts in the nearest open cell within
    1 m, a target is the cell that contains it. Raises `MapError` for points that are not finite.
    """
    starts, starts_inside = _cells(window, sources)
    ends, ends_inside = _cells(window, targets)
    walls = states[ends[:, 0], ends[:, 1]] == OCCUPIED
    grids = np.full((3, len(starts), len(ends)), np.inf, np.float32)
    grids[2] = 0.0
    for row in np.flatnonzero(starts_inside):
        row_column = (int(starts[row, 0]), int(starts[row, 1]))
        fields = distances.distance_fields(blocked, row_column)[:, ends[:, 0], ends[:, 1]]
        fields[:, ~ends_inside] = np.inf
        grids[0, row] = np.where(walls & ends_inside, np.nan, distances.median(fields))
        grids[1, row] = distances.spread(fields)
        grids[2, row] = distances.reach_probability(fields)
    outside = int((~starts_inside).sum() + (~ends_inside).sum())
    return Routes(grids[0], grids[1], grids[2], outside)


def _cells(window: Window, points: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """(P, 2) points → their cells (row, column), and which of them lie in the window; others get cell 0."""
    places = np.asarray(points, np.float64).reshape(-1, 2)
    if not np.isfinite(places).all():
        raise MapError("a point is not finite: give x and y in metres")
    cells = np.floor(window.to_cell(places))[:, ::-1]
    inside: NDArray[np.bool_] = np.all((cells >= 0) & (cells < WINDOW_CELLS), axis=1)
    cells[~inside] = 0
    return cells.astype(np.int64), inside
