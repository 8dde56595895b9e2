"""The segment-factorised decoder in the paper's frame: one trunk step a segment, six times fewer than tokens.

A trunk over segments, each the sum of its four coordinates' embeddings, ends in a small head that draws
stop or not, then x0, y0, x1, y1 in turn. It is an exact distribution over the same sequences as the token
decoder's; tokens that it does not spend probability on (``move`` once it is not ``stop``, ``line``) have
probability one, so bits per token can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.paper.config import SequenceConfig, UnseenConfig
from floorgent_ros.model.paper.copying import Copying
from floorgent_ros.model.paper.corners import Before, Ends, before_each, before_next, distance, farthest
from floorgent_ros.model.paper.coverage import Coverage, View, slipped
from floorgent_ros.model.paper.embedding import START_STD, start_as_waves
from floorgent_ros.model.paper.image import Memory, Shown, cross_of, remembered
from floorgent_ros.model.paper.sight import Sight
from floorgent_ros.model.paper.tokens import trunk_of
from floorgent_ros.model.paper.unseen import CLASSES, NOT_TOLD
from floorgent_ros.model.paper.vocabulary import COORDINATES, FIRST, LENGTH, LINE, MOVE, STOP
from floorgent_ros.model.trunk import Cache, KeyValue, TrunkState

NEVER = -1e4  # logit of what cannot be; float16 holds it


@dataclass
class SegmentState(TrunkState):
    """What sampling keeps: the head's state (N, E), this segment's tokens, earlier ends, how many went in.

    coverage: of the image by the segments so far, where the network has sight. beyond: as in `Shown`. before,
    view: what the ends and the image say of the next segment, once they were asked for.
    """

    head: Tensor
    tokens: Tensor
    ends: Ends
    coverage: Coverage | None = None
    beyond: Tensor | None = None
    index: int = 0
    before: Before | None = None
    view: View | None = None

    def spread(self, times: int) -> None:
        """Go on with `times` copies of each sequence, side by side."""
        super().spread(times)
        self._own(lambda kept: kept.repeat_interleave(times, 0))

    def keep(self, rows: list[int]) -> None:
        """Go on with sequences `rows` alone, as `Cache.keep`."""
        super().keep(rows)
        self._own(lambda kept: kept[rows])

    def reorder(self, rows: Tensor) -> None:
        """Go on with sequences `rows` (N,) of the N, each any number of times: beam search."""
        super().reorder(rows)
        self._own(lambda kept: kept[rows])

    def _own(self, change: Callable[[Tensor], Tensor]) -> None:
        self.head, self.tokens = change(self.head), change(self.tokens)
        self.ends, self.before = self.ends.changed(change), None
        self.coverage, self.view = self.coverage.changed(change) if self.coverage else None, None


def segment_levels(tokens: Tensor) -> Tensor:
    """(B, 6 n) tokens of n whole segments → (B, n, 4) levels; of stops, which fill up, zeros."""
    rows = tokens.reshape(len(tokens), tokens.shape[1] // LENGTH, LENGTH)
    return (rows[..., list(COORDINATES)] - FIRST).clamp(min=0)


class SegmentDecoder(nn.Module):
    """Takes and gives tokens like `TokenDecoder`, so that sampling and scores are shared."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        width = config.width
        self.config, self.size = config, config.vocabulary
        self.trunk = trunk_of(config)
        self.start = nn.Parameter(torch.empty(width).normal_(std=START_STD))
        self.coordinates = nn.ModuleList(nn.Embedding(config.levels, width) for _ in range(4))
        self.position = nn.Embedding(config.max_segments + 1, width) if config.positions else None
        self.distance = nn.Embedding(farthest(config.levels), width)
        self.copying = Copying(config)
        self.sight = Sight(config) if config.sight else None
        self.beyond = _beyond(config)
        self.stop = nn.Linear(width, 1)
        self.drawn = nn.ModuleList(nn.Embedding(config.levels, width) for _ in range(3))
        self.mix = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width), nn.Linear(width, config.feed), nn.ReLU(), nn.Linear(config.feed, width)
            )
            for _ in range(4)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.out = nn.ModuleList(nn.Linear(width, config.levels) for _ in range(4))
        for linear in (self.stop, *self.out):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)
        for embedding in (*self.coordinates, *self.drawn, self.position, self.distance):
            if embedding is not None:
                start_as_waves(embedding)

    def forward(self, tokens: Tensor, shown: Shown | None) -> Tensor:
        """(B, 6 n + 1) tokens and B images → (B, 6 n + 1, V) logits, as `TokenDecoder`'s."""
        cross = cross_of(self.trunk, shown)
        levels = segment_levels(tokens[:, :-1])
        head = self.states(levels, cross, beyond=shown.beyond if shown else None)
        logits = tokens.new_full((*tokens.shape, self.size), NEVER, dtype=head.dtype)
        coverage = self._coverage(shown)
        numbers = torch.arange(head.shape[1], device=head.device)
        view = View(self._covered(coverage, levels), numbers) if coverage else None
        logits[:, ::LENGTH, STOP] = self._stop(head, view)
        logits[:, ::LENGTH, MOVE] = 0.0
        logits[:, 3::LENGTH, LINE] = 0.0
        before = before_each(self.copying.ends(levels, head[:, 1:]), self.copying.count)
        head = head[:, :-1]
        view = View(view.coverage, numbers[:-1]) if view else None
        for step, place in enumerate(COORDINATES):
            head, found = self._draw(head, levels[..., :step], before, view)
            logits[:, place::LENGTH, FIRST:] = found
        return logits

    def states(
        self,
        levels: Tensor,
        cross: list[KeyValue] | None,
        cache: Cache | None = None,
        beyond: Tensor | None = None,
    ) -> Tensor:
        """(B, n, 4) levels → trunk states (B, n + 1, E) before the first segment and after each.

        beyond: as in `Shown`, of at least n segments.
        """
        embedded = self._embed(levels, 0)
        if self.beyond is not None and beyond is not None:
            classes = beyond[:, : levels.shape[1]]
            for embedding, of_end in zip(self.beyond, classes.unbind(-1), strict=True):
                known = (of_end != NOT_TOLD)[..., None]
                embedded = embedded + known * embedding(of_end.clamp(max=CLASSES - 1))
        x = torch.cat([self.start.expand(len(levels), 1, -1), embedded], 1)
        states: Tensor = self.trunk(x, cross, cache)
        return states

    def remember(self, shown: Shown | None) -> Memory | None:
        """What drawing needs of images, once an image."""
        return remembered(self.trunk, shown)

    def begin(self, count: int, length: int, memory: Memory | None) -> SegmentState:
        """Room for `count` sequences of at most `length` tokens; memory: of each, or of one image for all."""
        cache = self.trunk.cache(count, length // LENGTH + 2)
        none = torch.zeros(count, 0, dtype=torch.int64, device=self.start.device)
        ends = self.copying.ends(none.view(count, 0, 4), self.start.new_zeros(count, 0, len(self.start)))
        cross = memory.cross if memory else None
        coverage = self._coverage(memory)
        if coverage and len(coverage.first) < count:
            coverage = coverage.changed(lambda kept: kept.expand(count, -1, -1))
        beyond = memory.beyond if memory else None
        return SegmentState(cross, cache, self.start.expand(count, -1), none, ends, coverage, beyond)

    def extend(self, tokens: Tensor, state: SegmentState, last: int) -> Tensor:
        """Put the next (N, k) tokens in → (N, last, V) logits, as `TokenDecoder.extend`.

        Opcodes cost nothing here.
        """
        found = []
        if state.cache.filled == 0:
            whole = tokens.shape[1] // LENGTH * LENGTH
            levels = segment_levels(tokens[:, :whole])
            heads = self.states(levels, state.cross, state.cache, state.beyond)
            state.head, state.ends = heads[:, -1], self.copying.ends(levels, heads[:, 1:])
            state.index, tokens = whole, tokens[:, whole:]
            state.coverage = state.coverage.added(levels, 0) if state.coverage else None
            found.append(self._next(state))
        found += [self._advance_one(token, state) for token in tokens.unbind(1)]
        return torch.stack(found[-last:], 1)

    def _advance_one(self, token: Tensor, state: SegmentState) -> Tensor:
        state.tokens = torch.cat([state.tokens, token[:, None]], 1)
        state.index += 1
        if state.index % LENGTH == 0:
            levels = segment_levels(state.tokens)
            number = state.index // LENGTH - 1
            x = self._embed(levels, number)
            state.coverage = state.coverage.added(levels, number) if state.coverage else None
            state.view = None
            head = self.trunk(x, state.cross, state.cache)
            state.ends, state.before = state.ends.added(self.copying.ends(levels, head)), None
            state.head = head[:, -1]
            state.tokens = state.tokens[:, :0]
        return self._next(state)

    def _next(self, state: SegmentState) -> Tensor:
        """(N, V) logits at the state's place."""
        place = state.index % LENGTH
        logits = state.head.new_full((len(state.head), self.size), NEVER)
        if state.coverage and state.view is None:
            state.view = View(state.coverage, torch.tensor([state.index // LENGTH], device=logits.device))
        if place == 0:
            logits[:, STOP], logits[:, MOVE] = self._stop(state.head[:, None], state.view)[:, 0], 0.0
        elif place == 3:
            logits[:, LINE] = 0.0
        else:
            places = COORDINATES[: COORDINATES.index(place)]
            drawn = (state.tokens[:, None, list(places)] - FIRST).clamp(min=0)
            if state.before is None:
                state.before = before_next(state.ends, self.copying.count)
            head, found = self._draw(state.head[:, None], drawn, state.before, state.view)
            state.head, logits[:, FIRST:] = head[:, 0], found[:, 0]
        return logits

    def _embed(self, levels: Tensor, first: int) -> Tensor:
        """(B, n, 4) levels of segments that stand at `first` and after → (B, n, E)."""
        x = self.distance(distance(levels, self.copying.count).long())
        for index, embedding in enumerate(self.coordinates):
            x = x + embedding(levels[..., index])
        if self.position is not None:
            x = x + self.position(torch.arange(first, first + levels.shape[1], device=levels.device))
        out: Tensor = x
        return out

    def _coverage(self, shown: Shown | Memory | None) -> Coverage | None:
        return Coverage.of(shown.image, self.config) if shown and self.sight else None

    def _covered(self, coverage: Coverage, levels: Tensor) -> Coverage:
        if self.training:
            levels = slipped(levels, coverage.levels, coverage.size)
        return coverage.added(levels, 0)

    def _stop(self, head: Tensor, view: View | None) -> Tensor:
        """(B, n) logits of stop."""
        logit: Tensor = self.stop(head)[..., 0]
        return logit + self.sight.stops(head, view) if self.sight and view else logit

    def _draw(self, head: Tensor, drawn: Tensor, before: Before, view: View | None) -> tuple[Tensor, Tensor]:
        """Head states (B, n, E) after the coordinates drawn (B, n, k), and logits (B, n, L) of the next."""
        step = drawn.shape[-1]
        if step:
            head = head + self.drawn[step - 1](drawn[..., -1])
        if step == 2:
            head = head + self.copying.pen(drawn, before)
        if self.sight and view and step in (0, 2):
            head = head + self.sight.pens(drawn, view)
        head = head + self.mix[step](head)
        state = functional.relu(self.norms[step](head))
        logits = self.copying(self.out[step](state), state, drawn, before)
        if self.sight and view:
            logits = logits + self.sight(state, drawn, view)
        return head, logits


def _beyond(config: SequenceConfig) -> nn.ModuleList | None:
    """What a class of `unseen.beyond` adds to a told segment, of its first and of its second end."""
    if not isinstance(config, UnseenConfig) or not config.beyond:
        return None
    embeddings = nn.ModuleList(nn.Embedding(CLASSES, config.width) for _ in range(2))
    for embedding in embeddings:
        nn.init.zeros_(embedding.get_parameter("weight"))
    return embeddings
