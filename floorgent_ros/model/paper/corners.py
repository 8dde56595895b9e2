"""What the segments so far leave behind: their ends, the corners where these meet, how far they have come."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

DIRECTIONS = 9  # signs of x and y


@dataclass
class Ends:
    """Ends of the segments so far, two each.

    levels (B, m, 2). keys, strides, values (B, m, K): of the end, of the way to it from its segment's other
    end, and of what stands there, as `copying` and `ordering` ask for them.
    """

    levels: Tensor
    keys: Tensor
    strides: Tensor
    values: Tensor

    def added(self, other: Ends) -> Ends:
        """These and then the others."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Ends(*(torch.cat(pair, 1) for pair in pairs))

    def changed(self, change: Callable[[Tensor], Tensor]) -> Ends:
        """Of other sequences, which `change` takes from tensors (B, …)."""
        return Ends(*map(change, vars(self).values()))


@dataclass
class Before:
    """What there is before each of n segments.

    earlier (n, m) float, 0 or 1: which of the ends. same (B, m, m) float, 0 or 1: which ends stand at one
    place. uses (B, n, m) int64: how many ends stand where each does. stride (B, m, 2) int64: to each end from
    its segment's other one. direction (B, m) int64, below `DIRECTIONS`: from each end into its segment. last
    (B, n): distance of the segment before, levels; 0 before the first.
    """

    ends: Ends
    earlier: Tensor
    same: Tensor
    uses: Tensor
    stride: Tensor
    direction: Tensor
    last: Tensor


def before_each(ends: Ends, count: int) -> Before:
    """Of the m / 2 segments whose ends these are, on `count` levels."""
    index = torch.arange(ends.levels.shape[1] // 2, device=ends.levels.device)
    earlier = index.repeat_interleave(2) < index[:, None]
    return _before(ends, count, earlier, slice(None, -1))


def before_next(ends: Ends, count: int) -> Before:
    """Of one segment that comes after all these."""
    earlier = torch.ones(1, ends.levels.shape[1], dtype=torch.bool, device=ends.levels.device)
    return _before(ends, count, earlier, slice(-1, None))


def _before(ends: Ends, count: int, earlier: Tensor, chosen: slice) -> Before:
    levels = ends.levels
    pairs = levels.unflatten(1, (levels.shape[1] // 2, 2))
    name = levels[..., 0] * count + levels[..., 1]
    same = (name[:, :, None] == name[:, None]).to(ends.keys.dtype)
    there = earlier.to(same.dtype)
    stride = (pairs - pairs.flip(2)).flatten(1, 2)
    away = 1 - stride.sign()
    last = torch.nn.functional.pad(distance(pairs.flatten(2), count), (1, 0))
    return Before(
        ends=ends,
        earlier=there,
        same=same,
        uses=(there @ same).round().long(),
        stride=stride,
        direction=away[..., 0] * 3 + away[..., 1],
        last=last[:, chosen],
    )


def distance(levels: Tensor, count: int) -> Tensor:
    """(…, 4) segments → (…) their distance from the viewpoint in levels (III-E).

    `count` levels a side, the viewpoint between the middle ones.
    """
    ends = (levels - (count - 1) / 2).unflatten(-1, (2, 2))
    start, along = ends[..., 0, :], ends[..., 1, :] - ends[..., 0, :]
    length = (along**2).sum(-1).clamp(min=1e-6)
    share = (-(start * along).sum(-1) / length).clamp(0, 1)
    near: Tensor = (start + share[..., None] * along).norm(dim=-1)
    return near


def radius(points: Tensor, count: int) -> Tensor:
    """(…, 2) points → (…) their distance from the viewpoint in levels."""
    far: Tensor = (points - (count - 1) / 2).norm(dim=-1)
    return far


def farthest(count: int) -> int:
    """More than the largest distance in whole levels."""
    return math.ceil(count / 2 * math.sqrt(2)) + 1
