"""The paper's canonical segments: a floor once (section III-D), then as seen from a viewpoint (III-E).

Once a floor: coordinates are rounded to 0.20 m, which fuses the two faces of a thin wall; overlapping or
touching collinear segments become their union; each is broken at its crossings with others and cut into
equal parts of at most 2.5 m. From a viewpoint: the nearest segments, relative to it, on 256 levels.

The wide form that the node's own model draws is `geometry.segments`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.geometry.symmetry import turn_levels

Segments = NDArray[np.float64]
Levels = NDArray[np.int64]

GRID_M = 0.20  # coordinates are rounded to it before merging
LONGEST_M = 2.5  # section IV
_SHARE = 1e-9  # cuts closer than this share of a segment are one


@dataclass(frozen=True)
class SequenceFrame:
    """The paper's setting around a viewpoint (section IV): quantisation, horizon, length of a sequence.

    extent_m is one factor for all data, 2 (1 + 1/255) times the largest coordinate, which is at most
    horizon plus the longest segment. Level q spans extent / levels metres; the viewpoint is the corner
    between the two middle levels, so the eight symmetries map levels onto levels.
    """

    levels: int = 256
    horizon_m: float = 7.5
    extent_m: float = 2 * (1 + 1 / 255) * (7.5 + LONGEST_M)
    max_segments: int = 100

    def quantise(self, points: NDArray[np.float64]) -> Levels:
        """(…) metres relative to the viewpoint → levels; what lies outside is moved to the rim."""
        cells = np.floor((points / self.extent_m + 0.5) * self.levels)
        return np.clip(cells, 0, self.levels - 1).astype(np.int64)

    def to_metres(self, levels: Levels) -> Segments:
        """(N, 4) levels → (N, 2, 2) metres relative to the viewpoint, through the levels' centres."""
        points = ((levels + 0.5) / self.levels - 0.5) * self.extent_m
        return points.reshape(-1, 2, 2)

    def sequence(self, segments: Segments, viewpoint: tuple[float, float]) -> Levels:
        """(N, 2, 2) canonical segments, m → (K, 4) levels as seen from viewpoint, nearest first (III-E)."""
        near = distance_to(segments, viewpoint)
        chosen = np.argsort(near, kind="stable")[: self.max_segments]
        chosen = chosen[near[chosen] <= self.horizon_m]
        return self.ordered(self.quantise(segments[chosen] - viewpoint).reshape(-1, 4))

    def ordered(self, levels: Levels) -> Levels:
        """(N, 4) levels → canonical order: ends left to right, or upwards; segments by distance (III-D, E).

        Distance and ties, which go by coordinates, are those of the levels themselves, so a set of segments
        is one sequence whatever symmetry it came through. Points and repetitions are dropped.
        """
        levels = oriented(levels)
        levels = np.unique(levels[(levels[:, :2] != levels[:, 2:]).any(1)], axis=0)
        ends = (2 * levels - (self.levels - 1)).reshape(-1, 2, 2).astype(float)  # half levels, centred
        near = np.round(distance_to(ends, (0.0, 0.0)), 6)  # equal for mirrored segments
        return levels[np.argsort(near, kind="stable")]

    def turned(self, levels: Levels, symmetry: int) -> Levels:
        """One of the eight signed permutations (IV-A1), 0 ≤ symmetry < 8, in canonical order again."""
        return self.ordered(turn_levels(levels, symmetry, self.levels - 1))

    def image(self, levels: Levels, cells: int = 128) -> NDArray[np.bool_]:
        """Draw (N, 4) levels into (cells, cells), row 0 = lowest y, without antialiasing (III-F)."""
        return rasterise(levels.reshape(-1, 2, 2) * (cells / self.levels), cells)


def oriented(levels: Levels) -> Levels:
    """(N, 4) with ends such that x0 < x1, or x0 = x1 and y0 ≤ y1 (III-D)."""
    swap = (levels[:, 0] > levels[:, 2]) | ((levels[:, 0] == levels[:, 2]) & (levels[:, 1] > levels[:, 3]))
    return np.where(swap[:, None], levels[:, [2, 3, 0, 1]], levels)


def distance_to(segments: Segments, point: tuple[float, float]) -> NDArray[np.float64]:
    """(N,) distance of a point to the nearest point of each (N, 2, 2) segment."""
    start, along = segments[:, 0] - point, segments[:, 1] - segments[:, 0]
    length = np.maximum((along**2).sum(1), 1e-12)
    share = np.clip(-(start * along).sum(1) / length, 0, 1)
    return np.sqrt(((start + share[:, None] * along) ** 2).sum(1))


def canonical_segments(segments: Segments) -> Segments:
    """(N, 2, 2) metres in any order → (M, 2, 2) metres: rounded, merged, split, subdivided (III-D)."""
    grid = np.rint(np.asarray(segments, float) / GRID_M).astype(np.int64).reshape(-1, 4)
    pieces = _subdivide(_split(_merge(grid)) * GRID_M)
    return pieces[np.lexsort(pieces.reshape(-1, 4).T[::-1])]


def _merge(grid: Levels) -> Levels:
    """(N, 4) integers → the unions of collinear segments that overlap or touch."""
    grid = oriented(grid[(grid[:, :2] != grid[:, 2:]).any(1)])
    delta = grid[:, 2:] - grid[:, :2]
    step = delta // np.gcd(delta[:, 0], delta[:, 1])[:, None]  # of one line all have the same
    offset = grid[:, 0] * step[:, 1] - grid[:, 1] * step[:, 0]
    axis = (step[:, 0] == 0).astype(int)  # x counts along a line, or y where the line is vertical
    rows = np.arange(len(grid))
    first = grid[rows, axis] // step[rows, axis]
    last = first + delta[rows, axis] // step[rows, axis]
    order = np.lexsort((first, offset, step[:, 1], step[:, 0]))
    united: list[list[int]] = []  # row of the first segment, steps from its start to the union's end
    line, reach = None, 0
    for row in order.tolist():
        this = (int(step[row, 0]), int(step[row, 1]), int(offset[row]))
        if this == line and first[row] <= reach:
            reach = max(reach, int(last[row]))
            united[-1][1] = reach - int(first[united[-1][0]])
        else:
            line, reach = this, int(last[row])
            united.append([row, reach - int(first[row])])
    chosen = np.array(united, np.int64).reshape(-1, 2)
    start, along = grid[chosen[:, 0], :2], step[chosen[:, 0]]
    return np.concatenate([start, start + chosen[:, 1:] * along], 1)


def _split(grid: Levels) -> Segments:
    """(N, 4) merged segments → (M, 2, 2), broken wherever another one meets them."""
    start, along = grid[:, :2], grid[:, 2:] - grid[:, :2]
    pieces = []
    for a, d in zip(start, along, strict=True):
        cross = d[0] * along[:, 1] - d[1] * along[:, 0]
        offset = start - a
        here = offset[:, 0] * along[:, 1] - offset[:, 1] * along[:, 0]  # along d, in units of 1 / cross
        there = offset[:, 0] * d[1] - offset[:, 1] * d[0]  # along the other one
        sign = np.sign(cross)
        bound = np.abs(cross)
        here, there = here * sign, there * sign
        meets = (bound > 0) & (here > 0) & (here < bound) & (there >= 0) & (there <= bound)
        cuts = np.unique(np.concatenate([[0.0, 1.0], here[meets] / bound[meets]]))
        cuts = cuts[np.concatenate([[True], np.diff(cuts) > _SHARE])]
        ends = a + cuts[:, None] * d
        pieces.append(np.stack([ends[:-1], ends[1:]], 1))
    return np.concatenate([*pieces, np.zeros((0, 2, 2))])


def _subdivide(segments: Segments) -> Segments:
    """Cut (N, 2, 2) into equal parts of at most `LONGEST_M`."""
    along = segments[:, 1] - segments[:, 0]
    parts = np.maximum(1, np.ceil(np.linalg.norm(along, axis=1) / LONGEST_M - 1e-6).astype(np.int64))
    index = np.repeat(np.arange(len(segments)), parts)
    part = np.arange(len(index)) - np.repeat(np.cumsum(parts) - parts, parts)
    shares = np.stack([part, part + 1], 1) / parts[index, None]
    return segments[index, None, 0] + shares[..., None] * along[index, None]
