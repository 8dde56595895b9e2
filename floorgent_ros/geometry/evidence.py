"""Which stretch of a line is a wall: filled, hit now and then from far away, or clutter that lines up."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.strip import EMPTY, NEW, OLD, Grid, Line, at, beside, frame

GAP_M = 0.40  # a far wall at a grazing angle is hit this sparsely; the narrowest door is 0.7 m
STRIP_M = 0.10  # skeleton cells this far from a line support it
NARROW_M = 0.075  # … and this far where they are scattered
BESIDE_M = 0.25  # scattered hits count as a wall only if little else lies this near
SPARSE_M = 1.0  # a line of scattered hits needs this length …
SPARSE_HITS = 5  # … and this many of them
HOLE = 0.7  # an empty step weighs this much against one that is hit
ALIGNED = 0.4  # a step counts if its cells run within some 33° of the line: cos 2θ
TREND_M = 0.25  # … judged within this far of each cell


class Scale(NamedTuple):
    """The lengths above, in cells."""

    strip: float
    narrow: float
    beside: float
    gap: float
    sparse: float
    trend: int


def scale_at(resolution: float) -> Scale:
    """The lengths at a resolution in metres; on coarse grids some cells at least."""
    return Scale(
        strip=max(STRIP_M / resolution, 2.0),
        narrow=max(NARROW_M / resolution, 1.5),
        beside=max(BESIDE_M / resolution, 3.0),
        gap=GAP_M / resolution + 1.0,  # between the centres of the cells on both sides
        sparse=SPARSE_M / resolution,
        trend=round(max(TREND_M / resolution, 4.0)),
    )


@compiled
def along(line: Line, step: float) -> float:
    """How far along the line a row (steep lines) or column is."""
    x, y, dx, dy = line
    return (step - y) / dy if abs(dy) > abs(dx) else (step - x) / dx


@compiled
def dense_part(steps: Grid, aligned: NDArray[np.float64], reach: int) -> tuple[int, int]:
    """The stretch [a, b) of steps that a wall fills: hits that run along the line weigh against holes."""
    best, value, a, b, begin = 0.0, 0.0, 0, 0, 0
    for i in range(steps.size):  # the largest sum
        value += -HOLE if not steps[i] else 1.0 if aligned[i] > ALIGNED else 0.0
        if value <= 0:
            value, begin = 0.0, i + 1
        elif value > best:
            best, a, b = value, begin, i + 1
    # near a corner the cells run both ways
    return a - _further(steps[:a][::-1], reach), b + _further(steps[b:], reach)


@compiled
def _further(steps: Grid, reach: int) -> int:
    """How many of the next steps, ``reach`` at most, belong to a wall whatever way their cells run."""
    value, best, length = 0.0, 0.0, 0
    for i in range(min(reach, steps.size)):
        value += 1.0 if steps[i] else -HOLE
        if value > best:
            best, length = value, i + 1
    return length


@compiled
def is_wall(steps: Grid, sparse: float) -> bool:
    """Whether most of a stretch is new, and more than a short row of specks (a long one is a noisy wall)."""
    new, strong, hits = 0, 0, 0
    for step in steps:
        hits += step != EMPTY
        new += step > OLD
        strong += step in (NEW, OLD)
    return 2 * new > hits and (2 * strong > hits or steps.size >= sparse)


@compiled
def tail(skeleton: Grid, line: Line, end: float, sign: float, scale: Scale) -> float:
    """How much further a wall goes in scattered hits, as it does seen at a grazing angle.

    They lie on the line with nothing beside them, ever sparser, never suddenly.
    """
    steep, start, across, main, cross = frame(line)
    step = 1 if main * sign > 0 else -1
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
def is_far_wall(skeleton: Grid, line: Line, first: int, steps: Grid, scale: Scale) -> bool:
    """Whether scattered hits look like a wall seen from far away, not like clutter that lines up.

    Its hits lie evenly, with nothing beside them.
    """
    runs, hits, new, lonely, last, widest, total = 0, 0, 0, 0, 0, 0, 0
    for i in range(steps.size):
        lonely += not beside(skeleton, line, first + i, scale.narrow, 1.6 * scale.beside)
        if not steps[i]:
            continue
        hits += 1
        new += steps[i] > OLD
        if i == 0 or not steps[i - 1]:
            if runs:
                widest, total = max(widest, i - last), total + i - last
            runs, last = runs + 1, i
    if 2 * new < hits or runs < SPARSE_HITS or lonely < 0.8 * steps.size:
        return False
    return widest * (runs - 1) <= 2.5 * total  # no gap far wider than the mean
