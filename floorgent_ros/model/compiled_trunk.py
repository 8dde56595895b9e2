"""The trunk of the compiled decode loop, and what the loop's functions share.

Rows r of all scratch arrays are the sequences of a call; slots[r] says where a sequence keeps its state, so
that a finished one makes room for another and costs nothing. Letters as in `packed`; N slots, T walls at
most.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.model.kernels import (
    ONE,
    Floats,
    add_scaled,
    attend,
    attend_first,
    linear,
    normalise,
    rectify,
)
from floorgent_ros.model.packed import Memory, TrunkWeights

Ints = NDArray[np.int64]


class Slots(NamedTuple):
    """What a sequence carries from wall to wall, by slot."""

    keys: Floats  # (N, layers, H, d, T) of the self-attention
    values: Floats  # (N, layers, H, T, d)
    following: Floats  # (N, D): the trunk's next input
    canvas: Floats  # (N, M, G): marks of the walls drawn, 0 or 1, rank order
    current: Ints  # (N,) rank of the last wall's patch, −1 before the first
    cell: Ints  # (N,) the last wall's first cell
    drawn: Ints  # (N,) walls so far
    name: Ints  # (N,) which completion it is


class Scratch(NamedTuple):
    """Room for a call's intermediate values, one row a sequence, so that the loop allocates nothing."""

    x: Floats  # (n, D) the trunk's stream
    normed: Floats  # (n, D)
    wide: Floats  # (n, max(3 D, F))
    branch: Floats  # (n, D)
    head_in: Floats  # (n, d)
    head_out: Floats  # (n, d)
    scores: Floats  # (n, S)
    own_scores: Floats  # (T,)
    state: Floats  # (n, D) the wall's state after each of its integers
    start_query: Floats  # (n, 2 K + M)
    narrow: Floats  # (n, K) its first part alone
    hazards: Floats  # (n, G)
    starts: Floats  # (G + 1,)
    both: Floats  # (n, D + E) state and patch
    hidden: Floats  # (n, D)
    cells: Floats  # (n, P² + Q)
    place: Floats  # (n, C) features at a first end
    pens: Floats  # (n, 2 C) features at both ends
    kinds: Floats  # (n, KINDS)
    end_query: Floats  # (n, K + M)
    some: Floats  # (max(G, P²),) logits of one row
    cell_map: Floats  # (C · UNSHUFFLE²,)
    block: Floats  # (1, UNSHUFFLE²)
    allowed: NDArray[np.bool_]  # (max(G, P²),)
    powers: NDArray[np.int32]  # (max(G + 1, S, T),)
    values: NDArray[np.float64]  # (G + 1,)
    index: Ints  # type: ignore[assignment]  # (G + 1,); hides tuple.index
    wall: Ints  # (n, FIELDS)
    levels: Ints  # (n, 4)


def trunk_widths(width: int, heads: int, feed: int, places: int) -> dict[str, int]:
    """Row lengths of the scratch that the trunk needs; places: of the image that it looks at."""
    size = width // heads
    return {
        "x": width,
        "normed": width,
        "wide": max(3 * width, feed),
        "branch": width,
        "head_in": size,
        "head_out": size,
        "scores": places,
        "state": width,
    }


@compiled
def trunk(w: TrunkWeights, m: Memory, s: Slots, t: Scratch, slots: Ints) -> None:
    """The next position's state of each sequence into t.state."""
    n, width = slots.shape[0], s.following.shape[1]
    heads, size = m.keys.shape[1], m.keys.shape[2]
    x, normed, branch = t.x[:n], t.normed[:n], t.branch[:n]
    scale = ONE / np.sqrt(np.float32(size))
    for r in range(n):
        x[r] = s.following[slots[r]]
    for layer in range(w.qkv.shape[0]):
        gates = w.gates[layer]
        normalise(x, w.norms[layer, 0], w.norm_biases[layer, 0], normed)
        qkv = t.wide[: 3 * n].reshape(-1)[: 3 * n * width].reshape(n, 3 * width)
        linear(normed, w.qkv[layer], w.qkv_bias[layer], qkv)
        for r in range(n):
            _attend_own(s, t, slots[r], layer, qkv[r], normed[r], scale)
        linear(normed, w.self_out[layer], w.self_out_bias[layer], branch)
        add_scaled(x, gates[0], branch)
        normalise(x, w.norms[layer, 1], w.norm_biases[layer, 1], normed)
        linear(normed, w.cross_q[layer], w.cross_q_bias[layer], branch)
        for head in range(heads):
            for r in range(n):
                for d in range(size):
                    t.head_in[r, d] = branch[r, head * size + d] * scale
            keys, values = m.keys[layer, head], m.values[layer, head]
            powers = t.powers[: keys.shape[1]]
            attend(t.head_in[:n], keys, values, t.scores[:n], powers, t.head_out[:n])
            for r in range(n):
                for d in range(size):
                    normed[r, head * size + d] = t.head_out[r, d]
        linear(normed, w.cross_out[layer], w.cross_out_bias[layer], branch)
        add_scaled(x, gates[1], branch)
        normalise(x, w.norms[layer, 2], w.norm_biases[layer, 2], normed)
        feed = w.feed_in.shape[2]
        hidden = t.wide[: 3 * n].reshape(-1)[: n * feed].reshape(n, feed)
        linear(normed, w.feed_in[layer], w.feed_in_bias[layer], hidden)
        rectify(hidden)
        linear(hidden, w.feed_out[layer], w.feed_out_bias[layer], branch)
        add_scaled(x, gates[2], branch)
    normalise(x, w.norm, w.norm_bias, t.state[:n])


@compiled
def _attend_own(
    s: Slots, t: Scratch, slot: int, layer: int, qkv: Floats, out: Floats, scale: np.float32
) -> None:
    """Keep a sequence's new keys and values, and attend to all it has so far; out (D,)."""
    width, place = out.shape[0], s.drawn[slot]
    size = s.values.shape[4]
    for head in range(s.keys.shape[2]):
        keys, values = s.keys[slot, layer, head], s.values[slot, layer, head]
        first = head * size
        for d in range(size):
            t.head_in[0, d] = qkv[first + d] * scale
            keys[d, place] = qkv[width + first + d]
            values[place, d] = qkv[2 * width + first + d]
        attend_first(t.head_in[:1], keys, values, place + 1, t.own_scores, t.powers, t.head_out[:1])
        for d in range(size):
            out[first + d] = t.head_out[0, d]
