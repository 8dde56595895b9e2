"""The segment decoder's draw loop, compiled: one call draws walls for some sequences without Python.

The same walls from the same uniforms as `paper.sampling.Drawing`, up to rounding. What the arrays mean stands
in `packed_segments`; n sequences are drawn together, of at most T walls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.model.compiled_corners import (
    direction_of,
    keep_corner,
    keep_order,
    near,
    score_of_corner,
    weigh_distances,
)
from floorgent_ros.model.compiled_starts import temper
from floorgent_ros.model.compiled_trunk import Ints, trunk
from floorgent_ros.model.kernels import (
    FAR_BELOW,
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
from floorgent_ros.model.packed_segments import ASKED, SegmentMemory, SegmentWeights
from floorgent_ros.model.paper.vocabulary import STEPS

QUERY, BIAS, DISTANCES = ASKED["query"], ASKED["bias"].start, ASKED["levels"]
USES, LEAVING, ENDS, RELATION = ASKED["uses"], ASKED["leaving"], ASKED["ends"], ASKED["relation"]
STRIDE, STRIDE_BIAS = ASKED["stride_query"], ASKED["stride_bias"].start


class SegmentSlots(NamedTuple):
    """What a sequence carries from wall to wall, by slot."""

    keys: Floats  # (N, layers, H, d, T + 1) of the self-attention
    values: Floats  # (N, layers, H, T + 1, d)
    following: Floats  # (N, D): the trunk's next input
    end_levels: Ints  # (N, 2 T, 2)
    end_keys: Floats  # (N, 2 T, K)
    end_strides: Floats  # (N, 2 T, K)
    end_values: Floats  # (N, 2 T, K)
    end_direction: Ints  # (N, 2 T)
    end_uses: Ints  # (N, 2 T)
    end_leaving: Floats  # (N, 2 T, directions)
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
    powers: NDArray[np.int32]  # (max(S, T + 1, 4 T, L),)
    hidden: Floats  # (n, F)
    plain: Floats  # (n, L) logits, then weights
    near: Floats  # (n, 2 R + 1)
    asked: Floats  # (n, C)
    told: Floats  # (n, 6 K)
    pen: Floats  # (n, K + directions)
    copied: Floats  # (4 T,): of ends, then of ways
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
    ends = m.end_levels.shape[0]
    s.end_levels[slot, :ends] = m.end_levels
    s.end_keys[slot, :ends] = m.end_keys
    s.end_strides[slot, :ends] = m.end_strides
    s.end_values[slot, :ends] = m.end_values
    s.end_direction[slot, :ends] = m.end_direction
    s.end_uses[slot, :ends] = m.end_uses
    s.end_leaving[slot, :ends] = m.end_leaving
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
    far = w.distance[int(near(levels[0], levels[1], levels[2], levels[3], w.coordinates.shape[1]))]
    place = w.position[min(s.drawn[slot] - 1, w.position.shape[0] - 1)]
    for j in range(following.shape[0]):
        following[j] = far[j] + place[j]
    for axis in range(STEPS):
        table = w.coordinates[axis, levels[axis]]
        for j in range(following.shape[0]):
            following[j] += table[j]


@compiled
def _keep_ends(w: SegmentWeights, s: SegmentSlots, t: SegmentScratch, slots: Ints) -> None:
    """The last wall's ends, with what the state after it says of them, and their corners."""
    n, width = slots.shape[0], w.radius.shape[1]
    linear(t.state[:n], w.told, w.told_bias, t.told[:n])
    for r in range(n):
        slot, told = slots[r], t.told[r].reshape(6, width)
        for end in range(2):
            place = 2 * (s.drawn[slot] - 1) + end
            _keep_key(w, s, slot, place, end, told[end])
            _keep_stride(w, s, slot, place, end, told[2 + end])
            s.end_values[slot, place] = told[4 + end]


@compiled
def _keep_key(w: SegmentWeights, s: SegmentSlots, slot: int, place: int, end: int, told: Floats) -> None:
    x, y = s.last[slot, 2 * end], s.last[slot, 2 * end + 1]
    key, radius = s.end_keys[slot, place], w.radius[int(near(x, y, x, y, w.point.shape[1]))]
    for j in range(key.shape[0]):
        key[j] = told[j] + radius[j] + w.point[0, x, j] + w.point[1, y, j]
    s.end_levels[slot, place, 0], s.end_levels[slot, place, 1] = x, y


@compiled
def _keep_stride(w: SegmentWeights, s: SegmentSlots, slot: int, place: int, end: int, told: Floats) -> None:
    dx, dy = _way(s.last[slot], end)
    key, reach = s.end_strides[slot, place], w.stride_size.shape[1] // 2
    column, row = min(max(dx + reach, 0), 2 * reach), min(max(dy + reach, 0), 2 * reach)
    for j in range(key.shape[0]):
        key[j] = told[j] + w.stride_size[0, column, j] + w.stride_size[1, row, j]
    s.end_direction[slot, place] = direction_of(-dx, -dy)
    keep_corner(s.end_levels[slot], s.end_direction[slot], s.end_uses[slot], s.end_leaving[slot], place)


@compiled
def _way(levels: Ints, end: int) -> tuple[int, int]:
    """From the other end of a wall to this one."""
    dx, dy = levels[2] - levels[0], levels[3] - levels[1]
    return (dx, dy) if end == 1 else (-dx, -dy)


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
    if step == 2:
        for r in range(n):
            _look_at_pen(s, t, slots[r], r)
        linear(t.pen[:n], w.pen, w.pen_bias, branch)
        add_scaled(state, ONE, branch)
    normalise(state, w.mix_norm[step], w.mix_norm_bias[step], normed)
    linear(normed, w.mix_in[step], w.mix_in_bias[step], hidden[:, :feed])
    rectify(hidden)
    linear(hidden, w.mix_out[step], w.mix_out_bias[step], branch)
    add_scaled(state, ONE, branch)
    normalise(state, w.out_norm[step], w.out_norm_bias[step], normed)
    rectify(normed)
    linear(normed, w.out[step], w.out_bias[step], t.plain[:n])
    linear(normed, w.asked[step], w.asked_bias[step], t.asked[:n])
    if step >= 2:
        linear(normed, w.offset[step - 2], w.offset_bias[step - 2], t.near[:n])
    for r in range(n):
        slot = slots[r]
        if s.drawn[slot] < 0:
            t.drawing[r, step] = 0
            continue
        if step >= 2:
            _add_offsets(t, r, t.drawing[r, step - 2])
        levels, weights = s.last[slot], t.plain[r]
        last = near(levels[0], levels[1], levels[2], levels[3], weights.shape[0])
        _weigh(w, s, t, slot, r, step, last)
        weigh_distances(weights, w.bins, t.drawing[r], step, last, t.asked[r, DISTANCES], t.powers)
        keep_order(weights, t.drawing[r], step)
        temper(weights, nucleus[1])
        uniform = uniforms[s.name[slot], s.drawn[slot], _place(step)]
        t.drawing[r, step] = draw(weights, nucleus[0], uniform, t.values, t.index)


@compiled
def _look_at_pen(s: SegmentSlots, t: SegmentScratch, slot: int, r: int) -> None:
    """What stands at the first end drawn: its ends' values, and directions."""
    found, width = t.pen[r], s.end_values.shape[2]
    found[:] = ZERO
    for end in range(2 * s.drawn[slot]):
        if s.end_levels[slot, end, 0] == t.drawing[r, 0] and s.end_levels[slot, end, 1] == t.drawing[r, 1]:
            for j in range(width):
                found[j] += s.end_values[slot, end, j]
            found[width + s.end_direction[slot, end]] += ONE


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
    w: SegmentWeights, s: SegmentSlots, t: SegmentScratch, slot: int, r: int, step: int, last: np.float32
) -> None:
    """Logits of levels, scores of earlier ends and of ways → weights of levels."""
    plain, drawing, asked, ends = t.plain[r], t.drawing[r], t.asked[r], 2 * s.drawn[slot]
    count = 2 * ends if step >= 2 else ends
    copied = t.copied[:count]
    _score_ends(w, s, t, slot, r, step, last)
    if step >= 2:
        _score_ways(w, s, slot, drawing, step, asked, t.copied)
    top = plain[0]
    for level in range(plain.shape[0]):
        top = max(top, plain[level])
    for i in range(count):
        top = max(top, copied[i])
    for level in range(plain.shape[0]):
        plain[level] -= top
    for i in range(count):
        copied[i] -= top
    exponentials(plain, t.powers[: plain.shape[0]])
    exponentials(copied, t.powers[:count])
    for end in range(ends):
        plain[s.end_levels[slot, end, step % 2]] += copied[end]
    for end in range(count - ends):
        level = _reached(s, slot, end, drawing, step)
        if 0 <= level < plain.shape[0]:
            plain[level] += copied[ends + end]


@compiled
def _score_ends(
    w: SegmentWeights, s: SegmentSlots, t: SegmentScratch, slot: int, r: int, step: int, last: np.float32
) -> None:
    """Into t.copied, from 0 on."""
    drawing, asked = t.drawing[r], t.asked[r]
    count, reach = t.plain.shape[1], w.offset.shape[2] // 2
    parts = asked[USES], asked[LEAVING], asked[ENDS], asked[RELATION]
    for end in range(2 * s.drawn[slot]):
        levels = s.end_levels[slot, end]
        score = dot(asked[QUERY], s.end_keys[slot, end]) + asked[BIAS]
        if step % 2 == 1 and levels[0] == drawing[step - 1]:
            score += w.same[step // 2]
        uses, leaving = s.end_uses[slot, end], s.end_leaving[slot, end]
        t.copied[end] = score + score_of_corner(
            w.bins, drawing, step, levels, uses, leaving, last, parts, reach, count
        )


@compiled
def _score_ways(
    w: SegmentWeights, s: SegmentSlots, slot: int, drawing: Ints, step: int, asked: Floats, copied: Floats
) -> None:
    """Into `copied`, behind the ends' scores; a way from the first end that leaves the levels gets none."""
    ends, count = 2 * s.drawn[slot], w.coordinates.shape[1]
    for end in range(ends):
        score = dot(asked[STRIDE], s.end_strides[slot, end]) + asked[STRIDE_BIAS]
        if step == 3 and _reached(s, slot, end, drawing, 2) == drawing[2]:
            score += w.stride_same[0]
        level = _reached(s, slot, end, drawing, step)
        copied[ends + end] = score if 0 <= level < count else -FAR_BELOW


@compiled
def _reached(s: SegmentSlots, slot: int, end: int, drawing: Ints, step: int) -> int:
    """Level of coordinate number `step` where the way to an end is gone from the first end drawn."""
    axis = step % 2
    return drawing[axis] + s.end_levels[slot, end, axis] - s.end_levels[slot, end ^ 1, axis]
