"""A floor's walls as the integer sequence that the decoder models, and back.

The window of L × L levels (one level = one cell) is divided into patches of P × P levels. A wall, as four
levels (x0, y0, x1, y1), becomes five integers:

    start_rank   rank of the patch that holds the wall's first end; ranks grow with the patch's distance
                 from the viewpoint, so a sequence draws from the robot outwards (section III-E)
    start_cell   cell in that patch, y · P + x
    kind         direction from the first end: right, up, left, down, or free (any other)
    end_step     patches from the first end's patch to the last end's along the kind's direction;
                 for free walls the last end's patch, py · (L / P) + px
    end_cell     cell in the last end's patch: along the direction for straight walls, y · P + x for free

The first end is the one nearer to the viewpoint: what is unseen grows out of what is seen. A sequence is
sorted by these integers, so equal sets of walls are equal sequences (section III-D). Example with L = 256,
P = 8: the wall from (128, 128) to (152, 128) starts in a patch of lowest rank, cell 0, kind right, 3 patches
on, cell 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

RIGHT, UP, LEFT, DOWN, FREE = range(5)
KINDS = 5
DIRECTIONS = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
FIELDS = 5


@dataclass(frozen=True)
class Layout:
    """The quantised window: levels a side, levels a patch side."""

    levels: int = 256
    patch: int = 8

    @property
    def side(self) -> int:
        """Patches a side."""
        return self.levels // self.patch

    @property
    def patches(self) -> int:
        """Patches in the window."""
        return self.side**2

    @cached_property
    def patch_of_rank(self) -> Ints:
        """(patches,) patch index py · side + px by rank: nearest to the viewpoint first, then by bearing."""
        centre = (self.side - 1) / 2
        y, x = np.divmod(np.arange(self.patches), self.side)
        bearing = np.arctan2(y - centre, x - centre)
        return np.lexsort((bearing, (x - centre) ** 2 + (y - centre) ** 2))

    @cached_property
    def rank_of_patch(self) -> Ints:
        """(patches,) the inverse of `patch_of_rank`."""
        return np.argsort(self.patch_of_rank)

    @cached_property
    def lines(self) -> Ints:
        """(4, patches, side) patch indices met from a patch along a direction, itself first; −1 outside."""
        y, x = np.divmod(np.arange(self.patches), self.side)
        steps = np.arange(self.side)
        px = x[None, :, None] + DIRECTIONS[:, None, None, 0] * steps
        py = y[None, :, None] + DIRECTIONS[:, None, None, 1] * steps
        inside = (px >= 0) & (px < self.side) & (py >= 0) & (py < self.side)
        return np.where(inside, py * self.side + px, -1)

    def encode(self, walls: Ints) -> Ints:
        """(N, 4) levels x0, y0, x1, y1 in any order → (N, 5) integers in canonical order."""
        walls = np.asarray(walls, np.int64).reshape(-1, 4)
        start, end = self._orient(walls)
        delta = end - start
        kind = np.full(len(walls), FREE)
        kind[delta[:, 1] == 0] = np.where(delta[delta[:, 1] == 0, 0] >= 0, RIGHT, LEFT)
        vertical = (delta[:, 0] == 0) & (delta[:, 1] != 0)
        kind[vertical] = np.where(delta[vertical, 1] > 0, UP, DOWN)
        start_patch, start_inside = np.divmod(start, self.patch)
        end_patch, end_inside = np.divmod(end, self.patch)
        straight = kind != FREE
        end_step = np.where(
            straight, np.abs(end_patch - start_patch).sum(1), end_patch[:, 1] * self.side + end_patch[:, 0]
        )
        along = np.where(np.isin(kind, (RIGHT, LEFT)), end_inside[:, 0], end_inside[:, 1])
        end_cell = np.where(straight, along, end_inside[:, 1] * self.patch + end_inside[:, 0])
        rank = self.rank_of_patch[start_patch[:, 1] * self.side + start_patch[:, 0]]
        rows = np.stack(
            [rank, start_inside[:, 1] * self.patch + start_inside[:, 0], kind, end_step, end_cell], 1
        )
        return np.unique(rows, axis=0)

    def decode(self, rows: Ints) -> Ints:
        """(N, 5) integers → (N, 4) levels, first end first."""
        rows = np.asarray(rows, np.int64).reshape(-1, FIELDS)
        rank, start_cell, kind, end_step, end_cell = rows.T
        patch = self.patch_of_rank[rank]
        start = self._corner(patch) + self._inside(start_cell)
        straight = kind != FREE
        line_end = self.lines[np.where(straight, kind, 0), patch, np.where(straight, end_step, 0)]
        end_corner = self._corner(np.where(straight, line_end, end_step))
        horizontal = np.isin(kind, (RIGHT, LEFT))
        end = end_corner + np.where(straight, 0, 1)[:, None] * self._inside(end_cell)
        end[straight & horizontal, 0] += end_cell[straight & horizontal]
        end[straight & ~horizontal, 1] += end_cell[straight & ~horizontal]
        end[straight & horizontal, 1] = start[straight & horizontal, 1]
        end[straight & ~horizontal, 0] = start[straight & ~horizontal, 0]
        return np.concatenate([start, end], 1)

    def _orient(self, walls: Ints) -> tuple[Ints, Ints]:
        """Return first ends, the nearer to the viewpoint, and last ends; ties: the paper's order (III-D)."""
        first, last = walls[:, :2], walls[:, 2:]
        centre = (self.levels - 1) / 2
        near_first = ((first - centre) ** 2).sum(1)
        near_last = ((last - centre) ** 2).sum(1)
        lower = (first[:, 0] > last[:, 0]) | ((first[:, 0] == last[:, 0]) & (first[:, 1] > last[:, 1]))
        swap = ((near_last < near_first) | ((near_last == near_first) & lower))[:, None]
        return np.where(swap, last, first), np.where(swap, first, last)

    def _corner(self, patch: Ints) -> Ints:
        return np.stack([patch % self.side, patch // self.side], 1) * self.patch

    def _inside(self, cell: Ints) -> Ints:
        return np.stack([cell % self.patch, cell // self.patch], 1)
