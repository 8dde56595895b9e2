"""Corners and distances of the segment decoder's draw loop, compiled.

The same numbers as `paper.corners` and `paper.ordering`, in their number format; what the arrays mean stands
in `packed_segments` and `compiled_segments`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.model.compiled_trunk import Ints
from floorgent_ros.model.kernels import HALF, ONE, ZERO, Floats, dot, exponentials
from floorgent_ros.model.paper import ordering
from floorgent_ros.model.paper.vocabulary import STEPS

BINS, USES, FINE = ordering.BINS, ordering.USES, np.float32(ordering.FINE)
ROUNDING = np.float32(ordering.ROUNDING)
SAME, UPRIGHT, LEVEL, SLANTED, AWAY = range(ordering.RELATIONS)


@compiled
def near(x0: int, y0: int, x1: int, y1: int, count: int) -> np.float32:
    """Distance of a segment from the viewpoint, levels, as `paper.corners.distance`."""
    middle = np.float32(count - 1) * HALF
    x, y = np.float32(x0) - middle, np.float32(y0) - middle
    dx, dy = np.float32(x1 - x0), np.float32(y1 - y0)
    share = -(x * dx + y * dy) / max(dx * dx + dy * dy, np.float32(1e-6))
    share = min(max(share, ZERO), ONE)
    x, y = x + share * dx, y + share * dy
    return np.sqrt(x * x + y * y)


@compiled
def bin_of(bins: Ints, distance: np.float32, last: np.float32) -> int:
    """As `Ordering._bin`."""
    index = int(np.floor((distance - last + ROUNDING) * FINE)) + bins.shape[0] // 2
    return bins[min(max(index, 0), bins.shape[0] - 1)]


@compiled
def keep_corner(levels: Ints, directions: Ints, uses: Ints, leaving: Floats, place: int) -> None:
    """Count end number `place`, whose level and direction are there, at its corner and all others'."""
    x, y, direction = levels[place, 0], levels[place, 1], directions[place]
    uses[place] = 1
    leaving[place] = ZERO
    leaving[place, direction] = ONE
    for other in range(place):
        if levels[other, 0] == x and levels[other, 1] == y:
            uses[other] += 1
            leaving[other, direction] += ONE
            uses[place] = uses[other]
            leaving[place] = leaving[other]


@compiled
def direction_of(dx: int, dy: int) -> int:
    """Of a way from an end into its segment, as `Before.direction`."""
    return (np.sign(dx) + 1) * 3 + np.sign(dy) + 1


@compiled
def score_of_corner(
    bins: Ints,
    drawing: Ints,
    step: int,
    end: Ints,
    uses: int,
    leaving: Floats,
    last: np.float32,
    asked: tuple[Floats, Floats, Floats, Floats],
    reach: int,
    count: int,
) -> np.float32:
    """What `Ordering.of_ends` says of an end; asked: of uses, leaving, ends and relation."""
    score = asked[0][min(uses, USES) - 1] + dot(asked[1], leaving)
    x0, y0, x, y = drawing[0], drawing[1], end[0], end[1]
    if step == 0:
        score += asked[2][bin_of(bins, near(x, y, x, y, count), last)]
    elif step == 2:
        score += asked[2][bin_of(bins, near(x0, y0, x, y, count), last)]
        score += asked[3][_relation(x - x0, y - y0, reach)]
    return score


@compiled
def _relation(dx: int, dy: int, reach: int) -> int:
    """As `Ordering._related`."""
    if max(abs(dx), abs(dy)) > reach:
        return AWAY
    if dx == 0:
        return SAME if dy == 0 else UPRIGHT
    return LEVEL if dy == 0 else SLANTED


@compiled
def weigh_distances(
    weights: Floats,
    bins: Ints,
    drawing: Ints,
    step: int,
    last: np.float32,
    asked: Floats,
    powers: NDArray[np.int32],
) -> None:
    """Multiply weights of levels by the exponentials of `Ordering.of_levels`; asked (BINS,) is used up."""
    count = weights.shape[0]
    top = asked[0]
    for j in range(BINS):
        top = max(top, asked[j])
    for j in range(BINS):
        asked[j] -= top
    exponentials(asked, powers[:BINS])
    middle = np.float32(count - 1) * HALF
    x0, y0, x1 = drawing[0], drawing[1], drawing[2]
    for level in range(count):
        if step == 0:
            distance = abs(np.float32(level) - middle)
        elif step == 1:
            distance = near(x0, level, x0, level, count)
        elif step == 2:
            distance = near(x0, y0, level, y0, count)
        else:
            distance = near(x0, y0, x1, level, count)
        weights[level] *= asked[bin_of(bins, distance, last)]


@compiled
def keep_order(weights: Floats, drawing: Ints, step: int) -> None:
    """No weight for what the order of a wall's ends forbids (`paper.vocabulary`, nearer end first)."""
    top, x0, y0, x1 = weights.shape[0] - 1, drawing[0], drawing[1], drawing[2]
    if step == 1 and x0 == top:
        weights[top] = ZERO
    elif step == 2:
        for level in range(top + 1):
            if not _outwards(x0, y0, level, top, top):
                weights[level] = ZERO
    elif step == STEPS - 1:
        for level in range(top + 1):
            if not _outwards(x0, y0, x1, level, top):
                weights[level] = ZERO


@compiled
def _outwards(x0: int, y0: int, x1: int, y1: int, top: int) -> bool:
    """As `Vocabulary._outwards`."""
    first = (2 * x0 - top) ** 2 + (2 * y0 - top) ** 2
    second = (2 * x1 - top) ** 2 + (2 * y1 - top) ** 2
    return first < second or (first == second and (x0 < x1 or (x0 == x1 and y0 < y1)))
