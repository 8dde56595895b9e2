"""Straight lines through the skeleton of a grid: seed, grow along the line, refit, claim.

A seed cell votes for the direction in which most skeleton cells lie; the line then grows from it while
gaps stay small, and is refitted by total least squares every time that its length has doubled. So a
noisy wall is one line, whatever its skeleton's spurs and breaks do. Long and dense walls are taken first,
scattered hits last; a claimed cell still supports later lines (corners, crossings) but cannot start one.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.evidence import (
    SPARSE_M,
    Scale,
    along,
    dense_part,
    is_far_wall,
    is_wall,
    scale_at,
    tail,
)
from floorgent_ros.geometry.strip import Grid, Line, claim, middle, overhang, support, trends, walk

LOOK_M = 1.0  # a seed looks this far both ways for its direction
ROUNDS_M = (2.5, 1.0, 0.0)  # each round of dense lines takes only those at least this long
SLENDER = 2.0  # a solid block, shorter than this many thicknesses, is furniture
_DIRECTIONS = 36


def fit_lines(
    mask: Grid, skeleton: Grid, cells: NDArray[np.int64], weak: Grid, resolution: float, min_wall_m: float
) -> NDArray[np.float64]:
    """Lines of a closed grid as (N, 5): x0, y0, x1, y1 and thickness in cells, centre of cell (0, 0) at 0.

    ``mask``, its ``skeleton`` and ``weak`` (1 on cells of blobs too small to be walls by themselves) are
    (H, W) uint8 with an empty border; ``cells`` are the flat indices of the skeleton.
    """
    scale = scale_at(resolution)
    look = max(LOOK_M / resolution, 4.0)
    near = _near(skeleton, cells)
    field = trends(skeleton, cells, scale.trend)
    claimed = np.zeros_like(skeleton)
    stride = max(1, int(0.2 / resolution))  # a long wall is sure to be met by a few of its cells
    rounds = [(least, stride if least else 1, True) for least in ROUNDS_M] + [(SPARSE_M, 1, False)]
    lines = []
    for metres, every, dense in rounds:
        least = max(metres, min_wall_m) / resolution
        grids = (mask, skeleton, near, field, weak, claimed)
        lines.append(_fit_round(cells, *grids, scale, look, least, every, dense))
    return np.concatenate(lines)


@compiled
def _near(skeleton: Grid, cells: NDArray[np.int64]) -> Grid:
    """2 on the skeleton, 1 beside it."""
    near = np.zeros_like(skeleton)
    width = skeleton.shape[1]
    for cell in cells:
        _stamp(near, cell // width, cell % width)
    for cell in cells:
        near[cell // width, cell % width] = 2
    return near


@compiled
def _stamp(grid: Grid, row: int, column: int) -> None:
    """Set a cell and its eight neighbours; a slice assignment takes seconds to compile."""
    for r in range(row - 1, row + 2):
        for c in range(column - 1, column + 2):
            grid[r, c] = 1


@compiled
def _fit_round(
    cells: NDArray[np.int64],
    mask: Grid,
    skeleton: Grid,
    near: Grid,
    field: NDArray[np.float32],
    weak: Grid,
    claimed: Grid,
    scale: Scale,
    look: float,
    least: float,
    stride: int,
    dense: bool,
) -> NDArray[np.float64]:
    """Lines of at least ``least`` cells through cells that no line has claimed yet."""
    width = skeleton.shape[1]
    lines = np.empty((cells.size, 5))
    found = 0
    tried = np.zeros_like(skeleton)
    strip = scale.strip if dense else scale.narrow
    for cell in cells:
        row, column = cell // width, cell % width
        if claimed[row, column] or tried[row, column] or (row + column) % stride:
            continue
        _stamp(tried, row, column)
        dx, dy = _direction(near, row, column, look)
        line, ok = _grow(skeleton, (float(column), float(row), dx, dy), look, strip, scale.gap)
        if not ok:
            continue
        line, low, high, ok = _stretch(skeleton, field, claimed, weak, line, scale, strip, dense)
        if not ok:
            claim(skeleton, tried, line, low, high, 1.0)  # its other cells would only grow it again
            continue
        line, low, high, thickness = _settled(mask, skeleton, line, low, high, scale, dense)
        if high - low + 1.0 < max(least, SLENDER * thickness):
            continue
        x, y, dx, dy = line
        lines[found] = (x + low * dx, y + low * dy, x + high * dx, y + high * dy, thickness)
        found += 1
        claim(skeleton, claimed, line, low, high, max(scale.strip, 0.5 * thickness + 1.0))
    return lines[:found]


@compiled
def _stretch(
    skeleton: Grid,
    field: NDArray[np.float32],
    claimed: Grid,
    weak: Grid,
    line: Line,
    scale: Scale,
    strip: float,
    dense: bool,
) -> tuple[Line, float, float, bool]:
    """The line, refitted where part of it fell away, the ends of its wall along it, and if it is one."""
    steps = np.empty(skeleton.shape[0] + skeleton.shape[1], np.uint8)
    aligned = np.empty(steps.size)
    low = walk(skeleton, line, -1.0, math.inf, strip, scale.gap)[0]
    high = walk(skeleton, line, 1.0, math.inf, strip, scale.gap)[0]
    first, count = support(skeleton, field, claimed, weak, line, low, high, strip, steps, aligned)
    if not dense:
        return line, low, high, is_far_wall(skeleton, line, first, steps[:count], scale)
    a, b = dense_part(steps[:count], aligned[:count], scale.trend)
    if b - a < 0.8 * count:  # what was cut off may have bent the line
        line = _refit(skeleton, line, first + 0.5 * (a + b - 1), 0.5 * (b - a), strip)
        low, high = along(line, first + a), along(line, first + b - 1)
        first, count = support(skeleton, field, claimed, weak, line, low, high, strip, steps, aligned)
        a, b = dense_part(steps[:count], aligned[:count], scale.trend)
    low, high = along(line, first + a), along(line, first + b - 1)
    return line, min(low, high), max(low, high), is_wall(steps[a:b], scale.sparse)


@compiled
def _settled(
    mask: Grid, skeleton: Grid, line: Line, low: float, high: float, scale: Scale, dense: bool
) -> tuple[Line, float, float, float]:
    """The line moved to the middle of its wall and prolonged to the wall's ends; and the thickness."""
    shift, thickness = middle(mask, line, low, high)
    x, y, dx, dy = line
    line = (x + shift, y, dx, dy) if abs(dy) > abs(dx) else (x, y + shift, dx, dy)
    if dense:
        low -= tail(skeleton, line, low, -1.0, scale)
        high += tail(skeleton, line, high, 1.0, scale)
    most = 0.5 * thickness + 2.0  # thinning takes half the thickness off each end
    low -= overhang(mask, line, low, -1.0, most)
    high += overhang(mask, line, high, 1.0, most)
    return line, low, high, thickness


@compiled
def _direction(near: Grid, row: int, column: int, look: float) -> tuple[float, float]:
    """Direction in which most skeleton cells lie on the line through a cell or, half a vote, beside it."""
    height, width = near.shape
    best, best_x, best_y = -1.0, 1.0, 0.0
    for k in range(_DIRECTIONS):
        angle = k * math.pi / _DIRECTIONS
        dx, dy = math.cos(angle), math.sin(angle)
        longer = max(abs(dx), abs(dy))
        sx, sy = 2 * dx / longer, 2 * dy / longer  # every other cell will do: `near` is three wide
        votes = 0
        for sign in (-1, 1):
            x, y = column + 0.5, row + 0.5
            for _ in range(int(0.5 * look * longer)):
                x, y = x + sign * sx, y + sign * sy
                if x < 0 or y < 0 or x >= width or y >= height:
                    break
                votes += near[int(y), int(x)]
        if votes / longer > best:  # a step is longer on a slant than along an axis
            best, best_x, best_y = votes / longer, dx, dy
    return best_x, best_y


@compiled
def _grow(skeleton: Grid, line: Line, look: float, strip: float, gap: float) -> tuple[Line, bool]:
    """Refit by total least squares, twice as far each time, until the line stops growing."""
    limit, previous = look, 0.0
    for _ in range(14):
        line, span, count = _fitted(skeleton, line, limit, strip, gap)
        if count < 3:
            return line, False
        if abs(span - previous) < 1.0 and span < 2 * limit - 1.0:
            break
        previous, limit = span, max(look, span)
    return line, True


@compiled
def _fitted(skeleton: Grid, line: Line, limit: float, strip: float, gap: float) -> tuple[Line, float, int]:
    """The total least squares line of what `walk` meets both ways, its span and the number of cells."""
    low, n, sx, sy, sxx, syy, sxy = walk(skeleton, line, -1.0, limit, strip, gap)
    high, m, a, b, aa, bb, ab = walk(skeleton, line, 1.0, limit, strip, gap)
    n, sx, sy, sxx, syy, sxy = n + m, sx + a, sy + b, sxx + aa, syy + bb, sxy + ab
    x, y, dx, dy = line
    if n < 2:
        return line, high - low, n
    mx, my = sx / n, sy / n
    angle = 0.5 * math.atan2(2 * (sxy / n - mx * my), sxx / n - mx * mx - syy / n + my * my)
    nx, ny = math.cos(angle), math.sin(angle)
    if nx * dx + ny * dy < 0:
        nx, ny = -nx, -ny
    return (x + mx, y + my, nx, ny), high - low, n


@compiled
def _refit(skeleton: Grid, line: Line, centre: float, reach: float, strip: float) -> Line:
    """Total least squares over the stretch of ``reach`` steps both ways from row or column ``centre``."""
    x, y, dx, dy = line
    t = along(line, centre)
    line = (x + t * dx, y + t * dy, dx, dy)
    limit = reach / max(abs(dx), abs(dy))
    return _fitted(skeleton, line, limit, strip, 2 * limit)[0]
