"""Copying: a wall's coordinate is mostly one that an earlier wall's end has, or near its own first end.

What the segment decoder adds to a softmax over levels (a pointer beside it, Vinyals et al. 2015; both share
one normalisation): with g the plain logits, r those of the offset from l₀ (the own first end; of a first end,
where walls follow each other left to right, the one before), s_i the score of
earlier end i with coordinate c_i,

    p(l) ∝ exp(g(l) + r(l − l₀)) + Σ_i [c_i = l] exp(s_i).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.embedding import start_as_waves

KEY = 32  # width of an end's key
_LEAST = 1e-30  # of a weight; float32 holds its logarithm
STEPS = 4  # coordinates of a segment: x0, y0, x1, y1


@dataclass
class Ends:
    """Ends of the segments so far, two each: keys (B, m, K) and levels (B, m, 2)."""

    keys: Tensor
    levels: Tensor

    def added(self, other: Ends) -> Ends:
        """These and then the others."""
        return Ends(torch.cat([self.keys, other.keys], 1), torch.cat([self.levels, other.levels], 1))

    def changed(self, change: Callable[[Tensor], Tensor]) -> Ends:
        """Of other sequences, which `change` takes from tensors (B, …)."""
        return Ends(change(self.keys), change(self.levels))


def distance_levels(levels: Tensor, count: int) -> Tensor:
    """(…, 4) segments → (…) int64: their distance from the viewpoint in whole levels (III-E).

    `count` levels a side, the viewpoint between the middle ones.
    """
    ends = (levels - (count - 1) / 2).unflatten(-1, (2, 2))
    start, along = ends[..., 0, :], ends[..., 1, :] - ends[..., 0, :]
    length = (along**2).sum(-1).clamp(min=1e-6)
    share = (-(start * along).sum(-1) / length).clamp(0, 1)
    near: Tensor = (start + share[..., None] * along).norm(dim=-1)
    return near.long()


def farthest(count: int) -> int:
    """More than the largest distance in whole levels."""
    return math.ceil(count / 2 * math.sqrt(2)) + 1


class Copying(nn.Module):
    """Scores of earlier ends, and logits of offsets."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.count = config.levels
        self.reach = math.ceil(config.longest_m / config.extent_m * config.levels) + 1
        self.first = 0 if config.chained else 2  # the first step whose offsets count
        self.point = nn.ModuleList(nn.Embedding(config.levels, KEY) for _ in range(2))
        self.radius = nn.Embedding(farthest(config.levels), KEY)
        self.key = nn.Linear(config.width, 2 * KEY)
        self.query = nn.ModuleList(nn.Linear(config.width, KEY) for _ in range(STEPS))
        self.bias = nn.ModuleList(nn.Linear(config.width, 1) for _ in range(STEPS))
        self.same = nn.Parameter(torch.ones(STEPS // 2))  # for an end that has the x just drawn
        self.offset = nn.ModuleList(
            nn.Linear(config.width, 2 * self.reach + 1) for _ in range(STEPS - self.first)
        )
        for embedding in (*self.point, self.radius):
            start_as_waves(embedding)
        for linear in (*self.bias, *self.offset):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)

    def ends(self, levels: Tensor, state: Tensor) -> Ends:
        """Ends of (B, n, 4) segments; state (B, n, E): the trunk's after each of them."""
        points = levels.unflatten(-1, (2, 2))  # (B, n, 2, 2)
        radius = (points - (self.count - 1) / 2).norm(dim=-1).long()
        keys = self.key(state).unflatten(-1, (2, KEY)) + self.radius(radius)
        for axis, embedding in enumerate(self.point):
            keys = keys + embedding(points[..., axis])
        return Ends(keys.flatten(1, 2), points.flatten(1, 2))

    def forward(
        self, plain: Tensor, state: Tensor, drawn: Tensor, ends: Ends, earlier: Tensor | None = None
    ) -> Tensor:
        """Logits (B, n, L) of coordinate number drawn.shape[-1] from the plain ones.

        state (B, n, E), drawn (B, n, k) the segment's coordinates before it, ends of m / 2 segments,
        earlier (n, m) bool: which of them may be copied; all where it is None.
        """
        step = drawn.shape[-1]
        if step >= self.first:
            origin = drawn[..., step - 2] if step >= 2 else self._previous(ends, earlier is None)[..., step]
            plain = plain + self._near(self.offset[step - self.first](state), origin)
        scores = self.query[step](state) @ ends.keys.mT * KEY**-0.5 + self.bias[step](state)  # (B, n, m)
        if step % 2:
            same = ends.levels[:, None, :, 0] == drawn[..., None, -1]
            scores = scores + self.same[step // 2] * same
        if earlier is not None:
            scores = scores.masked_fill(~earlier, -torch.inf)
        return _mixed(plain, scores, ends.levels[..., step % 2])

    def _previous(self, ends: Ends, latest: bool) -> Tensor:
        """(B, n, 2) the first end of the segment before each, or before the next one (n = 1)."""
        firsts = functional.pad(ends.levels[:, ::2], (0, 0, 1, 0), value=self.count // 2)
        return firsts[:, -1:] if latest else firsts[:, :-1]

    def _near(self, offsets: Tensor, origin: Tensor) -> Tensor:
        """(B, n, 2 R + 1) logits of offsets from (B, n) levels → (B, n, L), zero beyond R."""
        level = torch.arange(self.count, device=origin.device)
        index = level - origin[..., None] + self.reach + 1
        padded = functional.pad(offsets, (1, 1))
        return padded.gather(-1, index.clamp(0, padded.shape[-1] - 1))


def _mixed(plain: Tensor, scores: Tensor, levels: Tensor) -> Tensor:
    """Plain logits (B, n, L) and scores (B, n, m) of levels (B, m) → logits of their sum, float32."""
    plain, scores = plain.float(), scores.float()  # half precision would lose the smaller weights
    top = plain.amax(-1, keepdim=True)
    if scores.shape[-1]:
        top = torch.maximum(top, scores.amax(-1, keepdim=True))
    top = top.detach()
    copied = (scores - top).exp()
    weight = (plain - top).exp().scatter_add(-1, levels[:, None].expand_as(copied), copied)
    out: Tensor = weight.clamp(min=_LEAST).log() + top
    return out
