"""What the order of the segments and the corners so far say of the next segment.

Segments come nearest first (III-E), so the next one is nowhere nearer to the viewpoint than the last one, and
mostly hardly farther: with the first end's x drawn, that leaves a few levels of y on either side. A network
has to learn circles for that, level by level; here they are given. With d(l) the distance of what level l
would make of the segment minus the last segment's, and a table u that the state makes,

    p(l) ∝ (what `copying` gives) · exp(u[d(l)]).

An earlier end's score knows the same of itself; how many segments end there and in which directions they
leave; and how it lies to the own first end. With the first end drawn, `Pen` says what stands there.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.paper.corners import DIRECTIONS, Before, distance, radius
from floorgent_ros.model.paper.vocabulary import STEPS

_WIDTHS = (0.5,) * 8 + (1,) * 8 + (2, 3, 3, 5, 7, 8, 15, 25)  # of the bins of d from 0 outwards, levels
_EDGES = (*accumulate(_WIDTHS),)
BINS = 2 * (len(_EDGES) + 1)  # on both sides of 0; the last ones are open
FINE = 2  # parts of a level in which the bins' edges lie
ROUNDING = 1e-3  # levels; segments equally far are in the bin from 0 on
USES = 4  # of a corner: 1, 2, 3, more ends stand there
RELATIONS = 5  # of an end to the own first end: the same, above or below, beside, slanted, out of reach


@cache
def bins(count: int, device: torch.device) -> Tensor:
    """(2 · FINE · count,) int64: bin of every difference of distances, in parts of a level from −count on."""
    parts = torch.arange(-count * FINE, count * FINE, device=device) + 0.5
    outwards = torch.bucketize(parts.abs() / FINE, torch.tensor(_EDGES, device=device), right=True)
    half = BINS // 2
    return torch.where(parts < 0, half - 1 - outwards, half + outwards)


def binned(near: Tensor, last: Tensor, count: int) -> Tensor:
    """Bin of distances (B, n, …) from that of the segment before, (B, n), on `count` levels."""
    every = bins(count, near.device)
    index = ((near - last[..., None] + ROUNDING) * FINE).floor().long() + len(every) // 2
    return every[index.clamp(0, len(every) - 1)]


def distances(drawn: Tensor, count: int) -> Tensor:
    """(B, n, k) coordinates → (B, n, `count`) distance of what each level of the next one would make."""
    step = drawn.shape[-1]
    level = torch.arange(count, device=drawn.device).expand(*drawn.shape[:2], -1)
    known = drawn[:, :, None].expand(-1, -1, count, -1)
    segment = torch.cat([known, level[..., None]], -1)
    if step == 0:
        return (level - (count - 1) / 2).abs()
    if step == 1:
        return radius(segment, count)
    if step == 2:  # y1 is unknown: as if it were y0
        segment = torch.cat([segment, segment[..., 1:2]], -1)
    return distance(segment, count)


class Ordering(nn.Module):
    """Logits from distances and corners."""

    def __init__(self, width: int, count: int, reach: int) -> None:
        super().__init__()
        self.count, self.reach = count, reach
        self.levels = nn.ModuleList(nn.Linear(width, BINS) for _ in range(STEPS))
        self.ends = nn.ModuleList(nn.Linear(width, BINS) for _ in range(2))  # of x0 and x1
        self.uses = nn.ModuleList(nn.Linear(width, USES) for _ in range(STEPS))
        self.leaving = nn.ModuleList(nn.Linear(width, DIRECTIONS) for _ in range(STEPS))
        self.relation = nn.Linear(width, RELATIONS)
        for linear in (*self.levels, *self.ends, *self.uses, *self.leaving, self.relation):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)

    def of_levels(self, state: Tensor, drawn: Tensor, last: Tensor) -> Tensor:
        """(B, n, L) logits of the levels of coordinate number drawn.shape[-1].

        state (B, n, E), drawn (B, n, k), last (B, n) distance of the segment before.
        """
        near = distances(drawn, self.count)
        return self.levels[drawn.shape[-1]](state).gather(-1, binned(near, last, self.count))

    def of_ends(self, state: Tensor, drawn: Tensor, before: Before) -> Tensor:
        """(B, n, m) logits of earlier ends for coordinate number drawn.shape[-1]."""
        step, places = drawn.shape[-1], before.ends.levels[:, None]
        score: Tensor = self.uses[step](state).gather(-1, (before.uses - 1).clamp(0, USES - 1))
        direction = before.direction[:, None].expand_as(score)
        score = score + (self.leaving[step](state).gather(-1, direction) * before.earlier) @ before.same
        if step == 0:
            near = radius(places, self.count).expand_as(score)
            score = score + self.ends[0](state).gather(-1, binned(near, before.last, self.count))
        elif step == 2:
            first = drawn[:, :, None]
            shape = (*score.shape, 2)
            near = distance(torch.cat([first.expand(shape), places.expand(shape)], -1), self.count)
            score = score + self.ends[1](state).gather(-1, binned(near, before.last, self.count))
            score = score + self.relation(state).gather(-1, self._related(places - first))
        return score

    def _related(self, apart: Tensor) -> Tensor:
        """(…, 2) → (…) which of `RELATIONS`."""
        x, y = apart.abs().unbind(-1)
        kind = torch.where(x == 0, torch.where(y == 0, 0, 1), torch.where(y == 0, 2, 3))
        return kind.masked_fill(torch.maximum(x, y) > self.reach, 4)


class Pen(nn.Module):
    """What stands at the first end already: directions in which segments leave it, and what they know."""

    def __init__(self, width: int, key: int) -> None:
        super().__init__()
        self.value = nn.Linear(width, 2 * key)
        self.out = nn.Linear(key + DIRECTIONS, width)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)

    def values(self, state: Tensor) -> Tensor:
        """(B, n, 2, K) of both ends of segments; state (B, n, E): the trunk's after each."""
        both: Tensor = self.value(state)
        return both.unflatten(-1, (2, both.shape[-1] // 2))

    def forward(self, first: Tensor, before: Before) -> Tensor:
        """(B, n, E) of what stands at first ends (B, n, 2)."""
        values = before.ends.values
        here = (before.ends.levels[:, None] == first[:, :, None]).all(-1) * before.earlier  # (B, n, m)
        directions = functional.one_hot(before.direction, DIRECTIONS).to(values.dtype)
        out: Tensor = self.out(here.to(values.dtype) @ torch.cat([values, directions], -1))
        return out
