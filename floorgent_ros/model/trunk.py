"""The causal transformer, over segments or tokens, with a key/value cache for sampling."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

KeyValue = tuple[Tensor, Tensor]  # each (B, heads, length, D / heads)


@dataclass
class Cache:
    """Keys and values of the positions so far, for every layer, in room for all that may come.

    room: per layer a pair of (B, heads, length, D / heads). filled: positions in use.
    """

    room: list[KeyValue]
    filled: int = 0

    def spread(self, times: int) -> None:
        """Go on with `times` copies of each sequence, side by side."""
        self.room = [(self._copies(keys, times), self._copies(values, times)) for keys, values in self.room]

    def keep(self, rows: list[int]) -> None:
        """Go on with sequences `rows` alone, in place: row k moves up to place k, or is there already."""
        for kept in (kept for pair in self.room for kept in pair):
            for place, row in enumerate(rows):
                if row != place:
                    kept[place, :, : self.filled].copy_(kept[row, :, : self.filled])
        self.room = [(keys[: len(rows)], values[: len(rows)]) for keys, values in self.room]

    def _copies(self, kept: Tensor, times: int) -> Tensor:
        room = kept.new_empty(times * len(kept), *kept.shape[1:])
        room[:, :, : self.filled] = kept[:, :, : self.filled].repeat_interleave(times, 0)
        return room


@dataclass
class TrunkState:
    """What sampling keeps of N sequences: cross-attention and the cache.

    cross: per layer keys and values, (N, heads, S, D / heads), or (1, …) where all look at one image.
    """

    cross: list[KeyValue] | None
    cache: Cache

    def spread(self, times: int) -> None:
        """Go on with `times` copies of each sequence, side by side."""
        self.cache.spread(times)
        self._look(lambda kept: kept.repeat_interleave(times, 0))

    def keep(self, rows: list[int]) -> None:
        """Go on with sequences `rows` alone, as `Cache.keep`."""
        self.cache.keep(rows)
        self._look(lambda kept: kept[rows])

    def reorder(self, rows: Tensor) -> None:
        """Go on with sequences `rows` (N,) of the N, each any number of times: beam search."""
        self.cache.room = [(keys[rows], values[rows]) for keys, values in self.cache.room]
        self._look(lambda kept: kept[rows])

    def _look(self, change: Callable[[Tensor], Tensor]) -> None:
        if self.cross is not None and len(self.cross[0][0]) > 1:
            self.cross = [(change(keys), change(values)) for keys, values in self.cross]


class TrunkLayer(nn.Module):
    """Self-attention, cross-attention (where there is an image) and a perceptron: appendix A.

    As there, layer norm stands inside each branch and each branch is gated by ReZero.
    """

    def __init__(
        self, width: int, heads: int, feed: int, dropout: float, *, cross: bool = True, gate: float = 0.3
    ) -> None:
        """cross: whether there is a context to look at. gate: where the ReZero coefficients start."""
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if cross else 2))
        self.self_qkv = nn.Linear(width, 3 * width)
        self.self_out = nn.Linear(width, width)
        if cross:
            self.cross_q = nn.Linear(width, width)
            self.cross_kv = nn.Linear(width, 2 * width)
            self.cross_out = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, feed), nn.ReLU(), nn.Linear(feed, width))
        self.drop = nn.Dropout(dropout)
        self.gates = nn.Parameter(torch.full((len(self.norms),), gate))

    def context(self, context: Tensor) -> KeyValue:
        """(B, S, D) context vectors → this layer's cross-attention keys and values, once an image."""
        k, v = self.cross_kv(context).chunk(2, -1)
        return self._split(k), self._split(v)

    def forward(
        self,
        x: Tensor,
        cross: KeyValue | None,
        room: KeyValue | None = None,
        filled: int = 0,
        seen: Tensor | None = None,
    ) -> Tensor:
        """x: (B, n, D) all positions, or the next ones with a cache's room, of which `filled` are in use.

        seen: (n, filled + n) bool, which positions each of several next ones looks at. cross: of each
        sequence, or of one image for all.
        """
        q, k, v = (self._split(part) for part in self.self_qkv(self.norms[0](x)).chunk(3, -1))
        if room is not None:
            for kept, new in zip(room, (k, v), strict=True):
                kept[:, :, filled : filled + x.shape[1]] = new
            k, v = (kept[:, :, : filled + x.shape[1]] for kept in room)
        y = functional.scaled_dot_product_attention(q, k, v, seen, is_causal=filled == 0)
        x = x + self.gates[0] * self.drop(self.self_out(self._join(y)))
        if cross is not None:
            # sequences that look at one image are further queries of one attention
            asked = self.norms[1](x).reshape(len(cross[0]), -1, x.shape[-1])
            y = functional.scaled_dot_product_attention(self._split(self.cross_q(asked)), *cross)
            x = x + self.gates[1] * self.drop(self.cross_out(self._join(y))).view_as(x)
        return x + self.gates[-1] * self.drop(self.feed(self.norms[-1](x)))

    def _split(self, x: Tensor) -> Tensor:  # (B, n, D) → (B, heads, n, D / heads)
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def _join(self, x: Tensor) -> Tensor:  # (B, heads, n, D / heads) → (B, n, D)
        return x.transpose(1, 2).flatten(2)


class Trunk(nn.Module):
    """A stack of `TrunkLayer`; state t depends on the image and on inputs up to t only."""

    def __init__(
        self,
        width: int,
        layers: int,
        heads: int,
        feed: int,
        dropout: float,
        *,
        cross: bool = True,
        gate: float = 0.3,
    ) -> None:
        """Cross and gate: as of `TrunkLayer`."""
        super().__init__()
        self.heads = heads
        self.layers = nn.ModuleList(
            TrunkLayer(width, heads, feed, dropout, cross=cross, gate=gate) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width)

    def context(self, context: Tensor) -> list[KeyValue]:
        """Cross-attention keys and values of every layer."""
        return [layer.context(context) for layer in self.layers]  # type: ignore[operator]

    def cache(self, count: int, length: int) -> Cache:
        """An empty cache for `count` sequences of at most `length` positions."""
        weight = self.norm.weight
        shape = (count, self.heads, length, len(weight) // self.heads)
        return Cache([(weight.new_empty(shape), weight.new_empty(shape)) for _ in self.layers])

    def forward(self, x: Tensor, cross: list[KeyValue] | None, cache: Cache | None = None) -> Tensor:
        """(B, n, D) → states (B, n, D); with a cache, which is filled on, x is what comes next."""
        causal = None
        if cache and cache.filled and x.shape[1] > 1:  # SDPA's own mask is for the first positions only
            total = cache.filled + x.shape[1]
            causal = x.new_ones(x.shape[1], total, dtype=torch.bool).tril(cache.filled)
        for index, layer in enumerate(self.layers):
            image = cross[index] if cross is not None else None
            x = layer(x, image, cache.room[index], cache.filled, causal) if cache else layer(x, image)
        if cache:
            cache.filled += x.shape[1]
        out: Tensor = self.norm(x)
        return out
