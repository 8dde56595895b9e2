"""What a grid holds along a line: the numba loops under `fitting`.

A line is a point (x, y) and a unit direction (dx, dy) in cells, cell centres at whole numbers. It is
walked one row or column at a time along its longer axis, so that every cell of the strip around it is
met exactly once. ``steep`` lines are walked by rows, others by columns; grids are (rows, columns).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled

Grid = NDArray[np.uint8]
Line = tuple[float, float, float, float]
Frame = tuple[bool, float, float, float, float]

EMPTY, OLD, WEAK, NEW = 0, 1, 2, 3  # a step holds nothing, claimed cells only, cells of specks, a wall


@compiled
def frame(line: Line) -> Frame:
    """steep, then of the walk: start along the walk, start across, direction along, direction across."""
    x, y, dx, dy = line
    if abs(dy) > abs(dx):
        return True, y, x, dy, dx
    return False, x, y, dx, dy


@compiled
def at(grid: Grid, steep: bool, along: int, across: int) -> int:
    """The cell, or 0 beyond the grid."""
    row, column = (along, across) if steep else (across, along)
    if row < 0 or column < 0 or row >= grid.shape[0] or column >= grid.shape[1]:
        return 0
    return int(grid[row, column])


@compiled
def walk(
    skeleton: Grid, line: Line, sign: float, limit: float, strip: float, gap: float
) -> tuple[float, int, float, float, float, float, float]:
    """Follow a line one way, to ``limit`` at most, while gaps stay below ``gap``.

    Returns how far along the last cell lies, and count and moments (x, y, xx, yy, xy) of the cells within
    ``strip``, relative to the line's point.
    """
    steep, start, across, main, cross = frame(line)
    step = 1 if main * sign > 0 else -1
    half = strip / abs(main)
    k = round(start) if sign > 0 else round(start) + step
    n, sx, sy, sxx, syy, sxy, last = 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    while True:
        t = (k - start) / main
        if abs(t) > limit or abs(t - last) > gap:
            break
        centre = across + t * cross
        for j in range(math.ceil(centre - half), math.floor(centre + half) + 1):
            if at(skeleton, steep, k, j):
                a, b = k - start, j - across
                u, v = (b, a) if steep else (a, b)
                n, sx, sy = n + 1, sx + u, sy + v
                sxx, syy, sxy = sxx + u * u, syy + v * v, sxy + u * v
                last = t
        k += step
    return last, n, sx, sy, sxx, syy, sxy


@compiled
def trends(skeleton: Grid, cells: NDArray[np.int64], reach: int) -> NDArray[np.float32]:
    """(H, W, 2): which way the skeleton runs around each of its ``cells``, within ``reach`` cells.

    The vector (cos 2θ, sin 2θ), as long as the neighbourhood is straight: 1 on a line, 0 on a blob.
    """
    height, width = skeleton.shape
    field = np.zeros((height, width, 2), np.float32)
    for cell in cells:
        row, column = cell // width, cell % width
        n, sx, sy, sxx, syy, sxy = 0, 0.0, 0.0, 0.0, 0.0, 0.0
        for v in range(-reach, reach + 1):
            r = row + v
            if r < 0 or r >= height:
                continue
            for c in range(max(0, column - reach), min(width, column + reach + 1)):
                if skeleton[r, c]:
                    u = c - column
                    n, sx, sy = n + 1, sx + u, sy + v
                    sxx, syy, sxy = sxx + u * u, syy + v * v, sxy + u * v
        cxx, cyy, cxy = sxx / n - (sx / n) ** 2, syy / n - (sy / n) ** 2, sxy / n - sx * sy / n / n
        if cxx + cyy > 0:
            field[row, column, 0] = (cxx - cyy) / (cxx + cyy)
            field[row, column, 1] = 2 * cxy / (cxx + cyy)
    return field


@compiled
def support(
    skeleton: Grid,
    field: NDArray[np.float32],
    claimed: Grid,
    weak: Grid,
    line: Line,
    low: float,
    high: float,
    strip: float,
    steps: Grid,
    aligned: NDArray[np.float64],
) -> tuple[int, int]:
    """Describe each step from ``low`` to ``high`` along the line.

    ``steps`` gets EMPTY, OLD, WEAK or NEW, ``aligned`` how well the cells there run along the line, 1 to
    -1 (see `trends`). Returns the first step's row or column and the number of steps.
    """
    steep, start, across, main, cross = frame(line)
    a, b = start + low * main, start + high * main
    first = round(min(a, b))
    count = round(max(a, b)) - first + 1
    half = strip / abs(main)
    cosine, sine = line[2] ** 2 - line[3] ** 2, 2 * line[2] * line[3]
    for i in range(count):
        k = first + i
        centre = across + (k - start) / main * cross
        steps[i], aligned[i] = EMPTY, -1.0
        for j in range(math.ceil(centre - half), math.floor(centre + half) + 1):
            if at(skeleton, steep, k, j):
                r, c = (k, j) if steep else (j, k)
                steps[i] = max(steps[i], OLD if claimed[r, c] else WEAK if weak[r, c] else NEW)
                aligned[i] = max(aligned[i], cosine * field[r, c, 0] + sine * field[r, c, 1])
    return first, count


@compiled
def beside(skeleton: Grid, line: Line, step: int, strip: float, wide: float) -> bool:
    """Whether a row or column has skeleton cells within ``wide`` of the line, but outside its strip."""
    steep, start, across, main, cross = frame(line)
    centre = across + (step - start) / main * cross
    half, reach = strip / abs(main), wide / abs(main)
    for j in range(math.ceil(centre - reach), math.floor(centre + reach) + 1):
        if abs(j - centre) > half and at(skeleton, steep, step, j):
            return True
    return False


@compiled
def middle(mask: Grid, line: Line, low: float, high: float) -> tuple[float, float]:
    """How far across the walk the mask's middle lies from the line, and the wall's thickness in cells.

    Thinning leaves a skeleton half a cell off in walls of even width, and bent near corners.
    """
    steep, start, across, main, cross = frame(line)
    a, b = start + low * main, start + high * main
    first, last = round(min(a, b)), round(max(a, b))
    runs, middles = np.empty(last - first + 1, np.int64), np.empty(last - first + 1)
    count = 0
    for k in range(first, last + 1):
        centre = across + (k - start) / main * cross
        near = round(centre)
        for j in (near, near + 1, near - 1):
            if at(mask, steep, k, j):
                bottom, top = j, j
                while at(mask, steep, k, bottom - 1):
                    bottom -= 1
                while at(mask, steep, k, top + 1):
                    top += 1
                runs[count], middles[count] = top - bottom + 1, 0.5 * (bottom + top) - centre
                count += 1
                break
    if count == 0:
        return 0.0, 1.0
    typical = _median(runs[:count])
    shift, used = 0.0, 0
    for i in range(count):
        if runs[i] <= 1.5 * typical + 1:  # not where another wall comes in
            shift, used = shift + middles[i], used + 1
    return shift / max(used, 1), typical * abs(main)


@compiled
def _median(counts: NDArray[np.int64]) -> int:
    """The (lower) median of small whole numbers; `numpy.median` takes seconds to compile."""
    most = 0
    for count in counts:
        most = max(most, count)
    tally = np.zeros(most + 1, np.int64)
    for count in counts:
        tally[count] += 1
    below, median = 0, 0
    while 2 * (below + tally[median]) < counts.size:
        below += tally[median]
        median += 1
    return median


@compiled
def overhang(mask: Grid, line: Line, end: float, sign: float, most: float) -> float:
    """How far the mask goes on past an end, up to ``most``."""
    x, y, dx, dy = line
    reach = 0.0
    while reach < most:
        t = end + sign * (reach + 1.0)
        if not at(mask, True, round(y + t * dy), round(x + t * dx)):
            break
        reach += 1.0
    return reach


@compiled
def claim(skeleton: Grid, claimed: Grid, line: Line, low: float, high: float, strip: float) -> None:
    """Mark the skeleton cells within ``strip`` of the line in ``claimed``."""
    steep, start, across, main, cross = frame(line)
    a, b = start + low * main, start + high * main
    half = strip / abs(main)
    for k in range(round(min(a, b)), round(max(a, b)) + 1):
        centre = across + (k - start) / main * cross
        for j in range(math.ceil(centre - half), math.floor(centre + half) + 1):
            if at(skeleton, steep, k, j):
                if steep:
                    claimed[k, j] = 1
                else:
                    claimed[j, k] = 1
