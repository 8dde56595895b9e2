"""Copying: a coordinate is mostly one that an earlier end has, or as far from the own first end as others.

What the segment decoder adds to a softmax over levels (a pointer beside it, Vinyals et al. 2015; all share
one normalisation): with g the plain logits, r those of the offset from l₀, the own first end, s_i the score
of earlier end i with coordinate c_i, and t_i the score of the way to it from its segment's other end, v_i,

    p(l) ∝ exp(g(l) + r(l − l₀)) + Σ_i [c_i = l] exp(s_i) + Σ_i [l₀ + v_i = l] exp(t_i).

A first end has no l₀, only the first and the second term. `ordering` adds to s_i and to the whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.corners import Before, Ends, farthest, radius
from floorgent_ros.model.paper.embedding import start_as_waves
from floorgent_ros.model.paper.ordering import Ordering, Pen
from floorgent_ros.model.paper.vocabulary import STEPS

KEY = 32  # width of an end's key
_LEAST = 1e-30  # of a weight; float32 holds its logarithm


def reach_of(config: SequenceConfig) -> int:
    """How many levels the ends of a segment can be apart along an axis, rounding included."""
    return math.ceil(config.longest_m / config.extent_m * config.levels) + 1


def near_own(offsets: Tensor, origin: Tensor, reach: int, count: int) -> Tensor:
    """(B, n, 2 `reach` + 1) logits of offsets from (B, n) levels → (B, n, `count`), zero beyond."""
    level = torch.arange(count, device=origin.device)
    index = level - origin[..., None] + reach + 1
    padded = functional.pad(offsets, (1, 1))
    return padded.gather(-1, index.clamp(0, padded.shape[-1] - 1))


class Copying(nn.Module):
    """Scores of earlier ends, and logits of offsets."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.count = config.levels
        self.reach = reach_of(config)
        self.point = nn.ModuleList(nn.Embedding(config.levels, KEY) for _ in range(2))
        self.radius = nn.Embedding(farthest(config.levels), KEY)
        self.key = nn.Linear(config.width, 2 * KEY)
        self.query = nn.ModuleList(nn.Linear(config.width, KEY) for _ in range(STEPS))
        self.bias = nn.ModuleList(nn.Linear(config.width, 1) for _ in range(STEPS))
        self.same = nn.Parameter(torch.ones(STEPS // 2))  # for an end that has the x just drawn
        self.offset = nn.ModuleList(nn.Linear(config.width, 2 * self.reach + 1) for _ in range(2))
        self.stride = Strides(config.width, self.reach)
        self.ordering = Ordering(config.width, self.count, self.reach)
        self.pen = Pen(config.width, KEY)
        _start([*self.point, self.radius], [*self.bias, *self.offset])

    def ends(self, levels: Tensor, state: Tensor) -> Ends:
        """Ends of (B, n, 4) segments; state (B, n, E): the trunk's after each of them."""
        points = levels.unflatten(-1, (2, 2))  # (B, n, 2, 2)
        keys = self.key(state).unflatten(-1, (2, KEY)) + self.radius(radius(points, self.count).long())
        for axis, embedding in enumerate(self.point):
            keys = keys + embedding(points[..., axis])
        strides = self.stride.keys(state, points - points.flip(2))
        values = self.pen.values(state)
        return Ends(*(part.flatten(1, 2) for part in (points, keys, strides, values)))

    def forward(self, plain: Tensor, state: Tensor, drawn: Tensor, before: Before) -> Tensor:
        """Logits (B, n, L) of coordinate number drawn.shape[-1] from the plain ones.

        state (B, n, E), drawn (B, n, k) the segment's coordinates before it.
        """
        step, ends = drawn.shape[-1], before.ends
        scores = self.query[step](state) @ ends.keys.mT * KEY**-0.5 + self.bias[step](state)  # (B, n, m)
        if step % 2:
            same = ends.levels[:, None, :, 0] == drawn[..., None, -1]
            scores = scores + self.same[step // 2] * same
        scores = scores + self.ordering.of_ends(state, drawn, before)
        levels = ends.levels[:, None, :, step % 2].expand_as(scores)
        there = before.earlier.bool().expand_as(scores)
        if step >= 2:
            origin = drawn[..., step - 2]
            plain = plain + near_own(self.offset[step - 2](state), origin, self.reach, self.count)
            reached = origin[..., None] + before.stride[:, None, :, step % 2]
            inside = (reached >= 0) & (reached < self.count)
            scores = torch.cat([scores, self.stride(state, drawn, before)], -1)
            levels = torch.cat([levels, reached.clamp(0, self.count - 1)], -1)
            there = torch.cat([there, there & inside], -1)
        mixed = _mixed(plain, scores.masked_fill(~there, -torch.inf), levels)
        return mixed + self.ordering.of_levels(state, drawn, before.last)


class Strides(nn.Module):
    """Scores of the ways that earlier segments went, there and back, for a second end.

    Parts of a wall are equally long (III-D), and so are doors, desks' bays and the sides of a room.
    """

    def __init__(self, width: int, reach: int) -> None:
        super().__init__()
        self.reach = reach
        self.key = nn.Linear(width, 2 * KEY)
        self.query = nn.ModuleList(nn.Linear(width, KEY) for _ in range(2))
        self.bias = nn.ModuleList(nn.Linear(width, 1) for _ in range(2))
        self.size = nn.ModuleList(nn.Embedding(2 * reach + 1, KEY) for _ in range(2))
        self.same = nn.Parameter(torch.ones(1))  # for a way that has the x just drawn
        _start(self.size, self.bias)

    def keys(self, state: Tensor, ways: Tensor) -> Tensor:
        """(B, n, 2, K) of ways (B, n, 2, 2) to both ends; state (B, n, E)."""
        keys: Tensor = self.key(state).unflatten(-1, (2, KEY))
        for axis, embedding in enumerate(self.size):
            keys = keys + embedding((ways[..., axis] + self.reach).clamp(0, 2 * self.reach))
        return keys

    def forward(self, state: Tensor, drawn: Tensor, before: Before) -> Tensor:
        """(B, n, m) scores for the second end's x or, where drawn (B, n, 3) has it, y."""
        axis = drawn.shape[-1] - 2
        asked = self.query[axis](state)
        scores: Tensor = asked @ before.ends.strides.mT * KEY**-0.5 + self.bias[axis](state)
        if axis:
            along = drawn[..., 2] - drawn[..., 0]
            scores = scores + self.same * (before.stride[:, None, :, 0] == along[..., None])
        return scores


def _start(embeddings: Iterable[nn.Module], linears: Iterable[nn.Module]) -> None:
    """Let entries resemble their neighbours, and nothing be likelier than anything else."""
    for embedding in embeddings:
        assert isinstance(embedding, nn.Embedding)  # noqa: S101 (for the type checker)
        start_as_waves(embedding)
    for linear in linears:
        nn.init.zeros_(linear.get_parameter("weight"))
        nn.init.zeros_(linear.get_parameter("bias"))


def _mixed(plain: Tensor, scores: Tensor, levels: Tensor) -> Tensor:
    """Plain logits (B, n, L) and scores of levels, both (B, n, m) → logits of their sum, float32."""
    plain, scores = plain.float(), scores.float()  # half precision would lose the smaller weights
    top = plain.amax(-1, keepdim=True)
    if scores.shape[-1]:
        top = torch.maximum(top, scores.amax(-1, keepdim=True))
    top = top.detach()
    copied = (scores - top).exp()
    weight = (plain - top).exp().scatter_add(-1, levels, copied)
    out: Tensor = weight.clamp(min=_LEAST).log() + top
    return out
