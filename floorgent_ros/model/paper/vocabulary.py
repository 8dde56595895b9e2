"""Segments as tokens and back (section III, equation 2), and which token may follow.

``stop`` = 0, ``move`` = 1, ``line`` = 2, coordinate q → 3 + q. A segment is ``move x0 y0 line x1 y1``; a
sequence ends with ``stop``, which also fills batches up. One encoded example: the segment from level
(10, 20) to (10, 30) alone is 1 13 23 2 13 33 0. Without opcodes (section IV-B5) it is 13 23 13 33 0.

Of a segment's ends the left one comes first (III-D), or the one nearer to the viewpoint: then x0, y0 are
mostly an end that is there already, and x1, y1 lie farther out. Either way levels in and out of here are
canonical, and a segment has one form, so likelihoods are of the same sequences.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

STOP, MOVE, LINE, FIRST = 0, 1, 2, 3
OPCODE, X, Y = range(3)  # places in a triplet
LENGTH = 6  # tokens of a segment, whatever a model leaves out: likelihoods are counted in them
COORDINATES = (1, 2, 4, 5)  # places of a segment that hold x0, y0, x1, y1
STEPS = len(COORDINATES)


@dataclass(frozen=True)
class Vocabulary:
    """The tokens of a model with `levels` coordinates, with or without opcodes."""

    levels: int = 256
    opcodes: bool = True
    near_first: bool = False

    @property
    def size(self) -> int:
        """Tokens in all."""
        return FIRST + self.levels

    @property
    def per_segment(self) -> int:
        """Tokens of one segment."""
        return LENGTH if self.opcodes else len(COORDINATES)

    def encode(self, levels: Tensor, lengths: Tensor) -> Tensor:
        """(B, n, 4) levels, of which the first `lengths` (B,) count → (B, per_segment · n + 1) tokens."""
        batch = len(levels)
        if self.near_first:
            levels = _swapped(levels, ~self._outwards(levels))
        x0, y0, x1, y1 = (levels + FIRST).unbind(-1)
        move, line = torch.full_like(x0, MOVE), torch.full_like(x0, LINE)
        parts = [move, x0, y0, line, x1, y1] if self.opcodes else [x0, y0, x1, y1]
        tokens = torch.stack(parts, -1).flatten(1)
        index = torch.arange(tokens.shape[1], device=tokens.device)
        tokens = tokens.masked_fill(index >= self.per_segment * lengths[:, None], STOP)
        return torch.cat([tokens, tokens.new_full((batch, 1), STOP)], 1)

    def decode(self, tokens: Tensor) -> Tensor:
        """(T,) tokens, cut at the first stop → (n, 4) levels; an unfinished last segment is left out."""
        stops = torch.nonzero(tokens == STOP)
        end = int(stops[0]) if len(stops) else len(tokens)
        rows = tokens[: end // self.per_segment * self.per_segment].view(-1, self.per_segment)
        levels = (rows[:, list(COORDINATES)] if self.opcodes else rows) - FIRST
        return _swapped(levels, ~_in_order(levels)) if self.near_first else levels

    def place(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Token indices → place in the triplet (opcode, x, y) and the triplet's position."""
        size = 3 if self.opcodes else 2
        return index % size + (3 - size), torch.div(index, size, rounding_mode="floor")

    def foreseen(self, index: int) -> int | None:
        """The token that stands at `index` for certain (line), or unless the sequence is over (move)."""
        return {0: MOVE, 3: LINE}.get(index % LENGTH) if self.opcodes else None

    def may_stop(self, index: int) -> bool:
        """Whether a sequence may end at `index`."""
        return index % self.per_segment == 0

    def allowed(self, index: int, before: Tensor) -> Tensor:
        """(N, size) bool: what may stand at `index` after the (N, index) tokens before it.

        The grammar of triplets, and the order of a segment's ends: no point, and either no segment from
        right to left, nor from top to bottom (III-D), or none towards the viewpoint.
        """
        within = index % self.per_segment
        step = within if self.opcodes else COORDINATES[within]
        token = torch.arange(self.size, device=before.device)
        coordinate = token >= FIRST
        if step == 0:
            mask = (token == STOP) | (token == MOVE)
        elif step == 3:
            mask = token == LINE
        elif step == 1:
            mask = coordinate if self.opcodes else coordinate | (token == STOP)
        else:
            return coordinate & self._follows(step, before[:, index - within :], token)
        return mask.expand(len(before), -1)

    def _follows(self, step: int, segment: Tensor, token: Tensor) -> Tensor:
        """(N, size): keeps room for, or keeps to, ends in order; segment: its tokens so far."""
        top = self.size - 1
        x0 = segment[:, 1 if self.opcodes else 0, None]
        if step == 2:
            return (x0 < top) | (token < top)
        y0 = segment[:, 2 if self.opcodes else 1, None]
        if self.near_first:
            ends = [x0, y0, token, token.new_tensor(top)]  # what is farthest with this x1
            if step == 5:
                ends[2:] = segment[:, 4 if self.opcodes else 2, None], token
            shape = torch.broadcast_shapes(*(end.shape for end in ends))
            return self._outwards(torch.stack([end.expand(shape) for end in ends], -1) - FIRST)
        if step == 4:
            return (token > x0) | ((token == x0) & (y0 < top))
        x1 = segment[:, 4 if self.opcodes else 2, None]
        return (x1 > x0) | (token > y0)

    def _outwards(self, levels: Tensor) -> Tensor:
        """(…, 4) → (…) whether the first end is the nearer one, or as near and first in canonical order."""
        near, far = ((2 * levels - (self.levels - 1)) ** 2).unflatten(-1, (2, 2)).sum(-1).unbind(-1)
        return (near < far) | ((near == far) & _in_order(levels))


def _swapped(levels: Tensor, where: Tensor) -> Tensor:
    return torch.where(where[..., None], levels.roll(2, -1), levels)


def _in_order(levels: Tensor) -> Tensor:
    """(…, 4) → (…) whether the ends go from left to right, or straight up (III-D)."""
    x0, y0, x1, y1 = levels.unbind(-1)
    return (x0 < x1) | ((x0 == x1) & (y0 < y1))
