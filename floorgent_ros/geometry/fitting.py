"""Straight lines through the skeleton of a grid: seed, grow along the line, refit, claim.

A seed cell votes for the direction in which most skeleton cells lie; the line then grows from it while
gaps stay small, and is refitted by total least squares every time that its length has doubled. So a
noisy wall is one line, whatever its skeleton's spurs and breaks do. Long and dense walls are taken first,
scattered hits last; a claimed cell still supports later lines (corners, crossings) but cannot start one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.strip import (
    EMPTY,
    NEW,
    OLD,
    Grid,
    Line,
    at,
    beside,
    claim,
    frame,
    middle,
    overhang,
    support,
    trends,
    walk,
)

GAP_M = 0.40  # a far wall at a grazing angle is hit this sparsely; the narrowest door is 0.7 m
STRIP_M = 0.10  # skeleton cells this far from a line support it
NARROW_M = 0.075  # … and this far where they are scattered
BESIDE_M = 0.25  # scattered hits count as a wall only if little else lies this near
LOOK_M = 1.0  # a seed looks this far both ways for its direction
ROUNDS_M = (2.5, 1.0, 0.0)  # each round of dense lines takes only those at least this long
SPARSE_M = 1.0  # a line of scattered hits needs this length …
SPARSE_HITS = 5  # … and this many of them
HOLE = 0.7  # an empty step weighs this much against one that is hit
ALIGNED = 0.35  # a step counts if its cells run within some 35° of the line: cos 2θ
TREND_M = 0.25  # … judged within this far of each cell
SLENDER = 2.0  # a solid block, shorter than this many thicknesses, is furniture
_DIRECTIONS = 48


class Scale(NamedTuple):
    """The lengths above, in cells."""

    look: float
    strip: float
    narrow: float
    beside: float
    gap: float
    sparse: float
    trend: int


def fit_lines(
    mask: Grid, skeleton: Grid, cells: NDArray[np.int64], weak: Grid, resolution: float, min_wall_m: float
) -> NDArray[np.float64]:
    """Lines of a closed grid as (N, 5): x0, y0, x1, y1 and thickness in cells, centre of cell (0, 0) at 0.

    ``mask``, its ``skeleton`` and ``weak`` (1 on cells of blobs too small to be walls by themselves) are
    (H, W) uint8 with an empty border; ``cells`` are the flat indices of the skeleton.
    """
    scale = Scale(
        look=max(LOOK_M / resolution, 4.0),
        strip=max(STRIP_M / resolution, 2.0),
        narrow=max(NARROW_M / resolution, 1.5),
        beside=max(BESIDE_M / resolution, 3.0),
        gap=GAP_M / resolution + 1.0,  # between the centres of the cells on both sides
        sparse=SPARSE_M / resolution,
        trend=round(max(TREND_M / resolution, 4.0)),
    )
    near = _near(skeleton, cells)
    field = trends(skeleton, cells, scale.trend)
    claimed = np.zeros_like(skeleton)
    stride = max(1, int(0.2 / resolution))  # a long wall is sure to be met by a few of its cells
    lines = [
        _fit_round(cells, mask, skeleton, near, field, weak, claimed, scale, max(least, min_wall_m) / resolution, every, dense)
        for least, every, dense in (*((m, stride if m else 1, True) for m in ROUNDS_M), (SPARSE_M, 1, False))
    ]
    return np.concatenate(lines)


@compiled
def _near(skeleton: Grid, cells: NDArray[np.int64]) -> Grid:
    """2 on the skeleton, 1 beside it."""
    near = np.zeros_like(skeleton)
    width = skeleton.shape[1]
    for cell in cells:
        row, column = cell // width, cell % width
        near[row - 1 : row + 2, column - 1 : column + 2] = 1
    for cell in cells:
        near[cell // width, cell % width] = 2
    return near


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
    least: float,
    stride: int,
    dense: bool,
) -> NDArray[np.float64]:
    """Lines of at least ``least`` cells through cells that no line has claimed yet."""
    height, width = skeleton.shape
    lines = np.empty((cells.size, 5))
    found = 0
    tried = np.zeros_like(skeleton)
    steps = np.empty(2 * (height + width), np.uint8)
    aligned = np.empty(2 * (height + width))
    strip = scale.strip if dense else scale.narrow
    for cell in cells:
        row, column = cell // width, cell % width
        if claimed[row, column] or tried[row, column] or (row + column) % stride:
            continue
        tried[row - 1 : row + 2, column - 1 : column + 2] = 1
        dx, dy = _direction(near, row, column, scale.look)
        line, ok = _grow(skeleton, (float(column), float(row), dx, dy), scale.look, strip, scale.gap)
        if not ok:
            continue
        low = walk(skeleton, line, -1, 1e9, strip, scale.gap)[0]
        high = walk(skeleton, line, 1, 1e9, strip, scale.gap)[0]
        first, count = support(skeleton, field, claimed, weak, line, low, high, strip, steps, aligned)
        if dense:
            a, b = _dense_part(steps[:count], aligned[:count], scale.trend)
            if b - a < 0.8 * count:  # what was cut off may have bent the line
                line = _refit(skeleton, line, first + 0.5 * (a + b - 1), 0.5 * (b - a), strip)
                low, high = _along(line, first + a), _along(line, first + b - 1)
                first, count = support(skeleton, field, claimed, weak, line, low, high, strip, steps, aligned)
                a, b = _dense_part(steps[:count], aligned[:count], scale.trend)
            good = _is_wall(steps[a:b], scale.sparse)
        else:
            a, b, good = 0, count, _is_far_wall(skeleton, line, first, steps[:count], scale)
        if not good:
            claim(skeleton, tried, line, low, high, 1.0)  # its other cells would only grow it again
            continue
        low, high = _along(line, first + a), _along(line, first + b - 1)
        shift, thickness = middle(mask, line, low, high)
        x, y, dx, dy = line
        line = (x + shift, y, dx, dy) if abs(dy) > abs(dx) else (x, y + shift, dx, dy)
        low, high = min(low, high), max(low, high)
        if dense:
            low -= _tail(skeleton, line, low, -1, scale)
            high += _tail(skeleton, line, high, 1, scale)
        # thinning takes half the thickness off each end
        low -= overhang(mask, line, low, -1.0, 0.5 * thickness + 2.0)
        high += overhang(mask, line, high, 1.0, 0.5 * thickness + 2.0)
        if high - low + 1.0 < max(least, SLENDER * thickness):
            continue
        x, y = line[0], line[1]
        lines[found] = (x + low * dx, y + low * dy, x + high * dx, y + high * dy, thickness)
        found += 1
        claim(skeleton, claimed, line, low, high, max(scale.strip, 0.5 * thickness + 1.0))
    return lines[:found]


@compiled
def _direction(near: Grid, row: int, column: int, look: float) -> tuple[float, float]:
    """Direction in which most skeleton cells lie on the line through a cell or, for half a vote, beside it."""
    height, width = near.shape
    best, best_x, best_y = -1.0, 1.0, 0.0
    for k in range(_DIRECTIONS):
        angle = k * math.pi / _DIRECTIONS
        dx, dy = math.cos(angle), math.sin(angle)
        longer = max(abs(dx), abs(dy))
        sx, sy = dx / longer, dy / longer
        votes = 0
        for sign in (-1, 1):
            x, y = column + 0.5, row + 0.5
            for _ in range(int(look * longer)):
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
    low, n, sx, sy, sxx, syy, sxy = walk(skeleton, line, -1, limit, strip, gap)
    high, m, a, b, aa, bb, ab = walk(skeleton, line, 1, limit, strip, gap)
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
    t = _along(line, centre)
    line = (x + t * dx, y + t * dy, dx, dy)
    limit = reach / max(abs(dx), abs(dy))
    return _fitted(skeleton, line, limit, strip, 2 * limit)[0]


@compiled
def _along(line: Line, step: float) -> float:
    """How far along the line a row (steep lines) or column is."""
    x, y, dx, dy = line
    return (step - y) / dy if abs(dy) > abs(dx) else (step - x) / dx


@compiled
def _dense_part(steps: Grid, aligned: NDArray[np.float64], reach: int) -> tuple[int, int]:
    """The stretch [a, b) of steps that a wall fills: hits that run along the line weigh against holes."""
    best, value, a, b, begin = 0.0, 0.0, 0, 0, 0
    for i in range(steps.size):  # the largest sum
        value += -HOLE if not steps[i] else 1.0 if aligned[i] > ALIGNED else 0.0
        if value <= 0:
            value, begin = 0.0, i + 1
        elif value > best:
            best, a, b = value, begin, i + 1
    # near a corner the cells run both ways
    for _ in range(reach):
        a -= a > 0 and steps[a - 1] != EMPTY
        b += b < steps.size and steps[b] != EMPTY
    return a, b


@compiled
def _is_wall(steps: Grid, sparse: float) -> bool:
    """Whether most of a stretch is new, and more than a short row of specks (a long one is a noisy wall)."""
    new, strong, hits = 0, 0, 0
    for step in steps:
        hits += step != EMPTY
        new += step > OLD
        strong += step == NEW or step == OLD
    return 2 * new > hits and (2 * strong > hits or steps.size >= sparse)


@compiled
def _tail(skeleton: Grid, line: Line, end: float, sign: int, scale: Scale) -> float:
    """How much further a wall goes in scattered hits, as it does seen at a grazing angle.

    They lie on the line with nothing beside them, ever sparser, never suddenly.
    """
    steep, start, across, main, cross = frame(line)
    step = sign if main > 0 else -sign
    half = scale.narrow / abs(main)
    last, spacing = end, 0.3 * scale.gap
    k = round(start + end * main) + step
    while True:
        t = (k - start) / main
        if abs(t - last) > min(scale.gap, 3.0 * spacing):
            return abs(last - end)
        if beside(skeleton, line, k, scale.narrow, scale.beside):
            return abs(last - end)
        centre = across + t * cross
        hit = False
        for j in range(math.ceil(centre - half), math.floor(centre + half) + 1):
            hit = hit or at(skeleton, steep, k, j) > 0
        if hit:
            spacing = max(spacing, 0.5 * (spacing + abs(t - last)))
            last = t
        k += step


@compiled
def _is_far_wall(skeleton: Grid, line: Line, first: int, steps: Grid, scale: Scale) -> bool:
    """Whether scattered hits look like a wall seen from far away, not like clutter that lines up."""
    runs, hits, new, lonely = 0, 0, 0, 0
    for i in range(steps.size):
        if steps[i]:
            hits += 1
            new += steps[i] > OLD
            runs += i == 0 or not steps[i - 1]
        lonely += not beside(skeleton, line, first + i, scale.narrow, scale.beside)
    return 2 * new > hits and runs >= SPARSE_HITS and lonely > 0.75 * steps.size
