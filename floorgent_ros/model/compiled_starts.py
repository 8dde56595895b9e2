"""Where the next wall starts, in the compiled decode loop: `decoder.Decoder.start` and what follows it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled, compiled_with
from floorgent_ros.model.compiled_trunk import Ints, Scratch, Slots
from floorgent_ros.model.kernels import ZERO, Floats, exponentials, linear
from floorgent_ros.model.packed import Memory, Weights


@compiled
def hazard_logits(w: Weights, m: Memory, s: Slots, t: Scratch, slots: Ints) -> None:
    """Logits that the next wall starts in a patch, into t.hazards; void before the current."""
    n, keys = slots.shape[0], m.start_keys.shape[0]
    query, narrow = t.start_query[:n], t.narrow[:n]
    linear(t.state[:n], w.start_query, w.start_query_bias, query)
    for r in range(n):
        for k in range(keys):
            narrow[r, k] = query[r, k]
    linear(narrow, m.start_keys, m.start_bias, t.hazards[:n])
    for r in range(n):
        canvas, hazards, current = s.canvas[slots[r]], t.hazards[r], s.current[slots[r]]
        for mark in range(canvas.shape[0]):
            _add_marks(hazards, canvas[mark], query[r, 2 * keys + mark], m.start_marks[mark])
        if current >= 0:
            again = w.again_bias[0]
            for k in range(keys):
                again += query[r, keys + k] * m.start_keys[k, current]
            hazards[current] = again


@compiled_with("contract")
def _add_marks(logits: Floats, canvas: Floats, common: np.float32, own: Floats) -> None:
    for i in range(logits.shape[0]):
        logits[i] += canvas[i] * (common + own[i])


@compiled
def start_probabilities(
    hazards: Floats, current: int, log_odds: np.float32, starts: Floats, powers: NDArray[np.int32]
) -> None:
    """Logits of the hazards (G,) → probabilities (G + 1,) of each rank as the next start, the stop last."""
    patches, first = hazards.shape[0], max(current, 0)
    for i in range(first):
        starts[i] = ZERO
    odds = starts[first:patches]
    for i in range(first, patches):
        starts[i] = hazards[i] + log_odds
    exponentials(odds, powers[: patches - first])
    left = 1.0
    for i in range(first, patches):
        passed = 1.0 / (1.0 + starts[i])
        starts[i] = left * starts[i] * passed
        left *= passed
    starts[patches] = left


@compiled
def temper(weights: Floats, temperature: float) -> None:
    """Weights become their power 1 / temperature, the largest 1."""
    if temperature == 1.0:
        return
    highest = ZERO
    for i in range(weights.shape[0]):
        highest = max(highest, weights[i])
    for i in range(weights.shape[0]):
        weights[i] = (weights[i] / highest) ** (1.0 / temperature)
