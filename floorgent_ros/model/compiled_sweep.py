"""The decode loop of `sampling.Sweep`, compiled: one call draws walls for some sequences without Python.

A wall's five integers are drawn in turn, each for all sequences of the call. What the arrays mean stands in
`packed` and `compiled_trunk`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.model.compiled_starts import hazard_logits, start_probabilities, temper
from floorgent_ros.model.compiled_trunk import Ints, Scratch, Slots, trunk
from floorgent_ros.model.decoder import CELL_KEY
from floorgent_ros.model.encoder import UNSHUFFLE
from floorgent_ros.model.kernels import (
    HALF,
    ONE,
    ZERO,
    Floats,
    accumulate,
    add_scaled,
    dot,
    draw,
    exponentials,
    linear,
    rectify,
)
from floorgent_ros.model.packed import Memory, Weights
from floorgent_ros.model.sequence import DOWN, FIELDS, FREE, LEFT, RIGHT, UP


@compiled
def _draw_allowed(t: Scratch, count: int, top_p: float, temperature: float, uniform: float) -> int:
    """Draw an index of the logits t.some[:count], which are lost, among those of t.allowed."""
    logits, allowed = t.some[:count], t.allowed[:count]
    highest = -np.inf
    for i in range(count):
        if allowed[i] and logits[i] > highest:
            highest = logits[i]
    for i in range(count):
        logits[i] = (logits[i] - highest) / temperature
    exponentials(logits, t.powers[:count])
    for i in range(count):
        if not allowed[i]:
            logits[i] = ZERO
    return draw(logits, top_p, uniform, t.values, t.index)


@compiled
def look_up(pen: Floats, levels: int, x: int, y: int, out: Floats) -> None:
    """The fine features (W, W, C) at a level, bilinear, the rim's beyond the rim; out (C,)."""
    size = pen.shape[0]
    per_level, last = np.float32(size) / np.float32(levels), np.float32(size - 1)
    column = min(max((np.float32(x) + HALF) * per_level - HALF, ZERO), last)
    row = min(max((np.float32(y) + HALF) * per_level - HALF, ZERO), last)
    left, low = int(column), int(row)
    right, high = min(left + 1, size - 1), min(low + 1, size - 1)
    across, up = column - np.float32(left), row - np.float32(low)
    for c in range(out.shape[0]):
        lower = pen[low, left, c] * (ONE - across) + pen[low, right, c] * across
        upper = pen[high, left, c] * (ONE - across) + pen[high, right, c] * across
        out[c] = lower * (ONE - up) + upper * up


@compiled
def cell_logits(w: Weights, m: Memory, t: Scratch, r: int, which: int, patch: int) -> None:
    """Logits of the patch's cells into t.some[:P²], from t.cells[r]; which: 0 first ends, 1 last ends.

    The cell keys are linear in the fine features, so the query goes through their weights first, and the
    keys, 64 to a patch, are never made.
    """
    cells, features = w.cell_embed.shape[0], m.pen.shape[2]
    size, side = int(np.sqrt(cells)), w.lines.shape[2]
    query = t.cells[r, cells:].reshape(1, CELL_KEY)
    t.cell_map[:] = ZERO
    accumulate(query, w.cell_keys[which], t.cell_map.reshape(1, features * UNSHUFFLE**2))
    weight = t.cell_map.reshape(features, UNSHUFFLE**2)
    bias = w.cell_key_biases[which]
    across = size // UNSHUFFLE
    top, left = patch // side * across, patch % side * across
    for y in range(across):
        for x in range(across):
            t.block[:] = ZERO
            accumulate(query, bias, t.block)
            accumulate(m.pen[top + y, left + x].reshape(1, features), weight, t.block)
            for i in range(UNSHUFFLE):
                for j in range(UNSHUFFLE):
                    cell = (y * UNSHUFFLE + i) * size + x * UNSHUFFLE + j
                    t.some[cell] = t.cells[r, cell] + t.block[0, i * UNSHUFFLE + j]


@compiled
def _with_patch(m: Memory, t: Scratch, patch: int, r: int) -> None:
    """t.both[r] becomes the row's state and its patch's features."""
    width = t.state.shape[1]
    t.both[r, :width] = t.state[r]
    t.both[r, width:] = m.patches[patch]


@compiled
def _draw_starts(
    w: Weights, m: Memory, s: Slots, t: Scratch, slots: Ints, uniforms: Floats, nucleus: NDArray[np.float64]
) -> bool:
    """The first end's patch of each row's wall; True when one stops instead."""
    patches, stopped = m.start_keys.shape[1], False
    hazard_logits(w, m, s, t, slots)
    for r in range(slots.shape[0]):
        slot = slots[r]
        start_probabilities(t.hazards[r], s.current[slot], np.float32(nucleus[2]), t.starts, t.powers)
        temper(t.starts, nucleus[1])
        uniform = uniforms[s.name[slot], s.drawn[slot], 0]
        rank = draw(t.starts, nucleus[0], uniform, t.values, t.index)
        t.wall[r, 0] = rank
        stopped = stopped or rank == patches
    return stopped


@compiled
def _draw_cells(
    w: Weights, m: Memory, s: Slots, t: Scratch, slots: Ints, uniforms: Floats, nucleus: NDArray[np.float64]
) -> None:
    """The first end's cell, and with it the first end."""
    n, cells, side = slots.shape[0], w.cell_embed.shape[0], w.lines.shape[2]
    size = int(np.sqrt(cells))
    for r in range(n):
        _with_patch(m, t, _patch(w, t, r), r)
    hidden = t.hidden[:n]
    linear(t.both[:n], w.cell_in, w.cell_in_bias, hidden)
    rectify(hidden)
    linear(hidden, w.cell_out, w.cell_out_bias, t.cells[:n])
    for r in range(n):
        slot, patch = slots[r], _patch(w, t, r)
        cell_logits(w, m, t, r, 0, patch)
        again = t.wall[r, 0] == s.current[slot]
        for cell in range(cells):
            t.allowed[cell] = not (again and cell < s.cell[slot])
        uniform = uniforms[s.name[slot], s.drawn[slot], 1]
        cell = _draw_allowed(t, cells, nucleus[0], nucleus[1], uniform)
        t.wall[r, 1] = cell
        t.levels[r, 0] = patch % side * size + cell % size
        t.levels[r, 1] = patch // side * size + cell // size


@compiled
def _patch(w: Weights, t: Scratch, r: int) -> int:
    """The first end's patch; of a row that stops, any."""
    return w.patch_of_rank[min(t.wall[r, 0], w.patch_of_rank.shape[0] - 1)]


@compiled
def _draw_kinds(
    w: Weights, m: Memory, s: Slots, t: Scratch, slots: Ints, uniforms: Floats, nucleus: NDArray[np.float64]
) -> None:
    """The direction; t.state becomes the state after it."""
    n, levels = slots.shape[0], w.coordinates.shape[1]
    state, mixed = t.state[:n], t.branch[:n]
    for r in range(n):
        look_up(m.pen, levels, t.levels[r, 0], t.levels[r, 1], t.place[r])
    linear(t.place[:n], w.kind_pen, w.kind_pen_bias, state)
    for r in range(n):
        embedded = w.cell_embed[t.wall[r, 1]]
        for j in range(state.shape[1]):
            state[r, j] = t.hidden[r, j] + embedded[j] + state[r, j]
    linear(state, w.kind_mix, w.kind_mix_bias, mixed)
    rectify(mixed)
    add_scaled(state, ONE, mixed)
    linear(state, w.kind_out, w.kind_out_bias, t.kinds[:n])
    kinds = t.kinds.shape[1]
    for r in range(n):
        slot, x, y = slots[r], t.levels[r, 0], t.levels[r, 1]
        for kind in range(kinds):
            t.some[kind] = t.kinds[r, kind]
            t.allowed[kind] = True
        t.allowed[RIGHT], t.allowed[LEFT] = x < levels - 1, x > 0
        t.allowed[UP], t.allowed[DOWN] = y < levels - 1, y > 0
        uniform = uniforms[s.name[slot], s.drawn[slot], 2]
        kind = _draw_allowed(t, kinds, nucleus[0], nucleus[1], uniform)
        t.wall[r, 2] = kind
        for j in range(state.shape[1]):
            state[r, j] += w.kind_embed[kind, j]


@compiled
def _along(t: Scratch, r: int, size: int) -> int:
    """Where in its patch a straight wall's first end lies along the wall."""
    return t.levels[r, 0 if t.wall[r, 2] in (RIGHT, LEFT) else 1] % size


@compiled
def _draw_end_patches(
    w: Weights, m: Memory, s: Slots, t: Scratch, slots: Ints, uniforms: Floats, nucleus: NDArray[np.float64]
) -> None:
    """The last end's patch."""
    n = slots.shape[0]
    linear(t.state[:n], w.end_query, w.end_query_bias, t.end_query[:n])
    for r in range(n):
        slot = slots[r]
        if t.wall[r, 2] == FREE:
            _end_logits_anywhere(m, t, r)
            count = m.end_keys.shape[0]
        else:
            _end_logits_along(w, m, s, t, slot, r)
            count = w.lines.shape[2]
        uniform = uniforms[s.name[slot], s.drawn[slot], 3]
        t.wall[r, 3] = _draw_allowed(t, count, nucleus[0], nucleus[1], uniform)


@compiled
def _end_logits_anywhere(m: Memory, t: Scratch, r: int) -> None:
    """Of a free wall's last patch, grid order."""
    query = t.end_query[r, : m.end_keys.shape[1]]
    for patch in range(m.end_keys.shape[0]):
        t.some[patch] = dot(query, m.end_keys[patch])
        t.allowed[patch] = True


@compiled
def _end_logits_along(w: Weights, m: Memory, s: Slots, t: Scratch, slot: int, r: int) -> None:
    """Of a straight wall's last patch, by steps along its direction."""
    keys, size = m.end_keys.shape[1], int(np.sqrt(w.cell_embed.shape[0]))
    query, kind = t.end_query[r], t.wall[r, 2]
    line = w.lines[kind, _patch(w, t, r)]
    for step in range(line.shape[0]):
        patch = line[step]
        t.allowed[step] = patch >= 0
        if patch < 0:
            continue
        logit = dot(query[:keys], m.end_keys[patch]) + w.step_bias[kind, step]
        rank = w.rank_of_patch[patch]
        for mark in range(m.end_marks.shape[1]):
            logit += s.canvas[slot, mark, rank] * (query[keys + mark] + m.end_marks[patch, mark])
        t.some[step] = logit
    backward = kind in (LEFT, DOWN)
    if _along(t, r, size) == (0 if backward else size - 1):
        t.allowed[0] = False  # nothing of its own patch lies ahead


@compiled
def _end_patch(w: Weights, t: Scratch, r: int) -> int:
    kind, step = t.wall[r, 2], t.wall[r, 3]
    return step if kind == FREE else max(w.lines[kind, _patch(w, t, r), step], 0)


@compiled
def _draw_ends(
    w: Weights, m: Memory, s: Slots, t: Scratch, slots: Ints, uniforms: Floats, nucleus: NDArray[np.float64]
) -> None:
    """The last end's cell, and with it the last end."""
    n, cells, side = slots.shape[0], w.cell_embed.shape[0], w.lines.shape[2]
    size = int(np.sqrt(cells))
    for r in range(n):
        _with_patch(m, t, _end_patch(w, t, r), r)
    hidden = t.hidden[:n]
    linear(t.both[:n], w.end_in, w.end_in_bias, hidden)
    rectify(hidden)
    linear(hidden, w.end_out, w.end_out_bias, t.cells[:n])
    for r in range(n):
        slot, patch = slots[r], _end_patch(w, t, r)
        left, low = patch % side * size, patch // side * size
        cell_logits(w, m, t, r, 1, patch)
        kind, x, y = t.wall[r, 2], t.levels[r, 0], t.levels[r, 1]
        count = cells if kind == FREE else _keep_line(t, r, size)
        if kind == FREE:  # neither a point nor straight
            for cell in range(cells):
                t.allowed[cell] = left + cell % size != x and low + cell // size != y
        uniform = uniforms[s.name[slot], s.drawn[slot], 4]
        cell = _draw_allowed(t, count, nucleus[0], nucleus[1], uniform)
        t.wall[r, 4] = cell
        if kind == FREE:
            t.levels[r, 2], t.levels[r, 3] = left + cell % size, low + cell // size
        elif kind in (RIGHT, LEFT):
            t.levels[r, 2], t.levels[r, 3] = left + cell, y
        else:
            t.levels[r, 2], t.levels[r, 3] = x, low + cell


@compiled
def _keep_line(t: Scratch, r: int, size: int) -> int:
    """Move the cells that a straight wall can end in to the front of t.some; how many."""
    horizontal = t.wall[r, 2] in (RIGHT, LEFT)
    backward = t.wall[r, 2] in (LEFT, DOWN)
    row, column = t.wall[r, 1] // size, t.wall[r, 1] % size
    along, own = _along(t, r, size), t.wall[r, 3] == 0
    for i in range(size):  # the cell's own place is never before the one that it moves to
        t.some[i] = t.some[row * size + i] if horizontal else t.some[i * size + column]
        behind = i >= along if backward else i <= along
        t.allowed[i] = not (own and behind)
    return size


@compiled
def _remember(w: Weights, m: Memory, s: Slots, t: Scratch, slots: Ints) -> None:
    """The walls just drawn become the trunk's next inputs and marks on the canvases."""
    n, levels, features = slots.shape[0], w.coordinates.shape[1], m.pen.shape[2]
    for r in range(n):
        place = t.levels[r]
        look_up(m.pen, levels, place[0], place[1], t.pens[r, :features])
        look_up(m.pen, levels, place[2], place[3], t.pens[r, features:])
    linear(t.pens[:n], w.pen_in, w.pen_in_bias, t.branch[:n])
    for r in range(n):
        slot, kind = slots[r], t.wall[r, 2]
        following = s.following[slot]
        for j in range(following.shape[0]):
            following[j] = t.branch[r, j] + w.kind_in[kind, j]
        for axis in range(4):
            table = w.coordinates[axis, t.levels[r, axis]]
            for j in range(following.shape[0]):
                following[j] += table[j]
        s.current[slot], s.cell[slot] = t.wall[r, 0], t.wall[r, 1]
        s.drawn[slot] += 1
        _mark(w, s.canvas[slot], t.levels[r], kind)


@compiled
def _mark(w: Weights, canvas: Floats, levels: Ints, kind: int) -> None:
    """Mark both ends' patches, and those that a straight wall covers; canvas (M, G)."""
    side = w.lines.shape[2]
    size = w.coordinates.shape[1] // side
    x0, y0, x1, y1 = levels[0] // size, levels[1] // size, levels[2] // size, levels[3] // size
    canvas[0, w.rank_of_patch[y0 * side + x0]] = ONE
    canvas[0, w.rank_of_patch[y1 * side + x1]] = ONE
    if kind == FREE:
        return
    channel = 1 if kind in (RIGHT, LEFT) else 2
    for y in range(min(y0, y1), max(y0, y1) + 1):
        for x in range(min(x0, x1), max(x0, x1) + 1):
            canvas[channel, w.rank_of_patch[y * side + x]] = ONE


@compiled
def advance(
    w: Weights,
    m: Memory,
    s: Slots,
    t: Scratch,
    slots: Ints,
    uniforms: Floats,
    nucleus: NDArray[np.float64],
    rows: Ints,
    steps: int,
) -> None:
    """Draw `steps` walls of each sequence in `slots`, or fewer: return as soon as one of them is finished.

    uniforms: (completions, T, FIELDS) in [0, 1). nucleus: (3,) top_p, temperature, wall_log_odds. rows:
    (completions, T, FIELDS) is filled. A finished sequence's `current` is G afterwards.
    """
    patches, finished = m.start_keys.shape[1], False
    for _ in range(steps):
        trunk(w.trunk, m, s, t, slots)
        finished = _draw_starts(w, m, s, t, slots, uniforms, nucleus)
        _draw_cells(w, m, s, t, slots, uniforms, nucleus)
        _draw_kinds(w, m, s, t, slots, uniforms, nucleus)
        _draw_end_patches(w, m, s, t, slots, uniforms, nucleus)
        _draw_ends(w, m, s, t, slots, uniforms, nucleus)
        for r in range(slots.shape[0]):
            slot = slots[r]
            if t.wall[r, 0] < patches:
                for i in range(FIELDS):
                    rows[s.name[slot], s.drawn[slot], i] = t.wall[r, i]
        _remember(w, m, s, t, slots)  # of a row that stops, too: nobody reads it
        for r in range(slots.shape[0]):
            slot = slots[r]
            if t.wall[r, 0] == patches:
                s.drawn[slot] -= 1
            elif s.drawn[slot] == rows.shape[1]:
                s.current[slot], finished = patches, True
        if finished:
            return
