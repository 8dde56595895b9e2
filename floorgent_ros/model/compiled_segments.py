"""The segment decoder's draw loop, compiled: one call draws walls for some sequences without Python.

The same walls from the same uniforms as `paper.sampling.Drawing`, up to rounding. What the arrays mean stands
in `packed_segments`; n sequences are drawn together, of at most T walls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.model.compiled_starts import temper
from floorgent_ros.model.compiled_trunk import Ints, trunk
from floorgent_ros.model.kernels import (
    ONE,
    ZERO,
    Floats,
    add_scaled,
    dot,
    draw,
    exponentials,
    linear,
    normalise,
    rectify,
)
from floorgent_ros.model.packed_segments import SegmentMemory, SegmentWeights
from floorgent_ros.model.paper.vocabulary import COORDINATES

STEPS = len(COORDINATES)


class SegmentSlots(NamedTuple):
    """What a sequence carries from wall to wall, by slot."""

    keys: Floats  # (N, layers, H, d, T + 1) of the self-attention
    values: Floats  # (N, layers, H, T + 1, d)
    following: Floats  # (N, D): the trunk's next input
    end_keys: Floats  # (N, 2 T, K)
    end_levels: Ints  # (N, 2 T, 2)
    last: Ints  # (N, 4) levels of the last wall
    drawn: Ints  # (N,) walls so far, told ones included; −1: stopped
    name: Ints  # (N,) which completion it is


class SegmentScratch(NamedTuple):
    """Room for a call's intermediate values, one row a sequence; the trunk's as `compiled_trunk.Scratch`."""

    x: Floats  # (n, D)
    normed: Floats  # (n, D)
    wide: Floats  # (n, max(3 D, F))
    branch: Floats  # (n, D)
    head_in: Floats  # (n, d)
    head_out: Floats  # (n, d)
    scores: Floats  # (n, S)
    own_scores: Floats  # (T + 1,)
    state: Floats  # (n, D): the wall's state after each coordinate
    powers: NDArray[np.int32]  # (max(S, T + 1, 2 T, L),)
    hidden: Floats  # (n, F)
    plain: Floats  # (n, L) logits, then weights
    near: Floats  # (n, 2 R + 1)
    asked: Floats  # (n, K)
    told: Floats  # (n, 2 K)
    copied: Floats  # (2 T,)
    pair: Floats  # (2,)
    drawing: Ints  # (n, 4) levels of the wall that is drawn
    values: NDArray[np.float64]  # (L,)
    index: Ints  # type: ignore[assignment]  # (L,); hides tuple.index


@compiled
def begin_segments(m: SegmentMemory, w: SegmentWeights, s: SegmentSlots, slot: int, name: int) -> None:
    """Let a slot begin a completion: what was told is in its cache, the last wall of it comes next."""
    told = m.own_keys.shape[3]
    s.keys[slot, :, :, :, :told] = m.own_keys
    s.values[slot, :, :, :told] = m.own_values
    s.end_keys[slot, : m.end_keys.shape[0]] = m.end_keys
    s.end_levels[slot, : m.end_levels.shape[0]] = m.end_levels
    s.last[slot] = m.last
    s.drawn[slot], s.name[slot] = told, name
    _embed(w, s, slot)


@compiled
def advance_segments(
    w: SegmentWeights,
    m: SegmentMemory,
    s: SegmentSlots,
    t: SegmentScratch,
    slots: Ints,
    uniforms: Floats,
    nucleus: NDArray[np.float64],
    rows: Ints,
    steps: int,
) -> None:
    """Draw `steps` walls of each sequence in `slots`, or fewer: return as soon as one of them is finished.

    uniforms: (completions, T, LENGTH) in [0, 1). nucleus: (3,) top_p, temperature, wall_log_odds. rows:
    (completions, T, 4) is filled. A finished sequence has drawn −1 afterwards.
    """
    n, finished = slots.shape[0], False
    for _ in range(steps):
        trunk(w.trunk, m, s, t, slots)  # type: ignore[arg-type]  # fields of the same names
        _keep_ends(w, s, t, slots)
        for r in range(n):
            slot = slots[r]
            uniform = uniforms[s.name[slot], s.drawn[slot], 0]
            if _stops(w, t, r, uniform, np.float32(nucleus[2])):
                s.drawn[slot], finished = -1, True
        for step in range(STEPS):
            _draw_coordinate(w, s, t, slots, step, uniforms, nucleus)
        for r in range(n):
            slot = slots[r]
            if s.drawn[slot] >= 0:
                rows[s.name[slot], s.drawn[slot]] = t.drawing[r]
                s.last[slot] = t.drawing[r]
                s.drawn[slot] += 1
                _embed(w, s, slot)
                if s.drawn[slot] == rows.shape[1]:
                    s.drawn[slot], finished = -1, True
        if finished:
            return


@compiled
def _embed(w: SegmentWeights, s: SegmentSlots, slot: int) -> None:
    """The last wall becomes the trunk's next input."""
    following, levels = s.following[slot], s.last[slot]
    far = w.distance[_distance(levels, w.coordinates.shape[1])]
    place = w.position[min(s.drawn[slot] - 1, w.position.shape[0] - 1)]
    for j in range(following.shape[0]):
        following[j] = far[j] + place[j]
    for axis in range(STEPS):
        table = w.coordinates[axis, levels[axis]]
        for j in range(following.shape[0]):
            following[j] += table[j]


@compiled
def _distance(levels: Ints, count: int) -> int:
    """As `paper.copying.distance_levels`, in its number format."""
    middle = np.float32((count - 1) / 2)
    x, y = np.float32(levels[0]) - middle, np.float32(levels[1]) - middle
    dx, dy = np.float32(levels[2] - levels[0]), np.float32(levels[3] - levels[1])
    share = -(x * dx + y * dy) / max(dx * dx + dy * dy, np.float32(1e-6))
    share = min(max(share, ZERO), ONE)
    x, y = x + share * dx, y + share * dy
    return int(np.sqrt(x * x + y * y))


@compiled
def _keep_ends(w: SegmentWeights, s: SegmentSlots, t: SegmentScratch, slots: Ints) -> None:
    """Keys of the last wall's ends, from the state after it."""
    n, width = slots.shape[0], w.radius.shape[1]
    linear(t.state[:n], w.key, w.key_bias, t.told[:n])
    middle = np.float32((w.coordinates.shape[1] - 1) / 2)
    for r in range(n):
        slot = slots[r]
        for end in range(2):
            place = 2 * (s.drawn[slot] - 1) + end
            x, y = s.last[slot, 2 * end], s.last[slot, 2 * end + 1]
            dx, dy = np.float32(x) - middle, np.float32(y) - middle
            radius = w.radius[int(np.sqrt(dx * dx + dy * dy))]
            key = s.end_keys[slot, place]
            for j in range(width):
                key[j] = t.told[r, end * width + j] + radius[j] + w.point[0, x, j] + w.point[1, y, j]
            s.end_levels[slot, place, 0], s.end_levels[slot, place, 1] = x, y


@compiled
def _stops(w: SegmentWeights, t: SegmentScratch, r: int, uniform: np.float32, log_odds: np.float32) -> bool:
    """Draw between stop and another wall, as likely as they are but for the wall's further log odds."""
    logit = dot(t.state[r], w.stop) + w.stop_bias[0]
    top = max(logit, log_odds)
    t.pair[0], t.pair[1] = logit - top, log_odds - top
    exponentials(t.pair, t.powers[:2])
    return draw(t.pair, 1.0, float(uniform), t.values, t.index) == 0


@compiled
def _draw_coordinate(
    w: SegmentWeights,
    s: SegmentSlots,
    t: SegmentScratch,
    slots: Ints,
    step: int,
    uniforms: Floats,
    nucleus: NDArray[np.float64],
) -> None:
    """Coordinate number `step` of each row's wall; of a row that has stopped, any."""
    n, feed = slots.shape[0], w.mix_in.shape[2]
    state, normed, branch, hidden = t.state[:n], t.normed[:n], t.branch[:n], t.hidden[:n]
    if step > 0:
        for r in range(n):
            table = w.drawn[step - 1, t.drawing[r, step - 1]]
            for j in range(state.shape[1]):
                state[r, j] += table[j]
    normalise(state, w.mix_norm[step], w.mix_norm_bias[step], normed)
    linear(normed, w.mix_in[step], w.mix_in_bias[step], hidden[:, :feed])
    rectify(hidden)
    linear(hidden, w.mix_out[step], w.mix_out_bias[step], branch)
    add_scaled(state, ONE, branch)
    normalise(state, w.out_norm[step], w.out_norm_bias[step], normed)
    rectify(normed)
    linear(normed, w.out[step], w.out_bias[step], t.plain[:n])
    linear(normed, w.query[step], w.query_bias[step], t.asked[:n])
    first = STEPS - w.offset.shape[0]
    if step >= first:
        linear(normed, w.offset[step - first], w.offset_bias[step - first], t.near[:n])
    for r in range(n):
        slot = slots[r]
        if s.drawn[slot] < 0:
            t.drawing[r, step] = 0
            continue
        if step >= first:
            _add_offsets(t, r, t.drawing[r, step - 2] if step >= 2 else s.last[slot, step])
        bias = dot(normed[r], w.copy_bias[step]) + w.copy_bias_bias[step]
        _weigh(w, s, t, slot, r, step, bias)
        _keep_order(t, r, step)
        temper(t.plain[r], nucleus[1])
        uniform = uniforms[s.name[slot], s.drawn[slot], _place(step)]
        t.drawing[r, step] = draw(t.plain[r], nucleus[0], uniform, t.values, t.index)


@compiled
def _place(step: int) -> int:
    """Of a coordinate among a segment's tokens."""
    return step + 1 if step < 2 else step + 2


@compiled
def _add_offsets(t: SegmentScratch, r: int, origin: int) -> None:
    """Add the logits of offsets from `origin` to those of the levels."""
    plain, near = t.plain[r], t.near[r]
    reach = near.shape[0] // 2
    for level in range(max(0, origin - reach), min(plain.shape[0], origin + reach + 1)):
        plain[level] += near[level - origin + reach]


@compiled
def _weigh(
    w: SegmentWeights, s: SegmentSlots, t: SegmentScratch, slot: int, r: int, step: int, bias: np.float32
) -> None:
    """Logits of levels and scores of earlier ends → weights of levels."""
    plain, count = t.plain[r], 2 * s.drawn[slot]
    copied, query = t.copied[:count], t.asked[r]
    top = plain[0]
    for level in range(plain.shape[0]):
        top = max(top, plain[level])
    for end in range(count):
        score = dot(query, s.end_keys[slot, end]) + bias
        if step % 2 == 1 and s.end_levels[slot, end, 0] == t.drawing[r, step - 1]:
            score += w.same[step // 2]
        copied[end] = score
        top = max(top, score)
    for level in range(plain.shape[0]):
        plain[level] -= top
    for end in range(count):
        copied[end] -= top
    exponentials(plain, t.powers[: plain.shape[0]])
    exponentials(copied, t.powers[:count])
    for end in range(count):
        plain[s.end_levels[slot, end, step % 2]] += copied[end]


@compiled
def _keep_order(t: SegmentScratch, r: int, step: int) -> None:
    """No weight for what the canonical order of a wall's ends forbids (`paper.vocabulary.Vocabulary`)."""
    weights, x0, y0, x1 = t.plain[r], t.drawing[r, 0], t.drawing[r, 1], t.drawing[r, 2]
    last = weights.shape[0] - 1
    if step == 1 and x0 == last:
        weights[last] = ZERO
    elif step == 2:
        for level in range(x0 + 1 if y0 == last else x0):
            weights[level] = ZERO
    elif step == 3 and x1 == x0:
        for level in range(y0 + 1):
            weights[level] = ZERO
