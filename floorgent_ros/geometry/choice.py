"""Choosing completions: those few of many whose median is expected to err least.

A median of eight drawn completions is noisy: whether a wall counts at a point is decided by four of them. Of
a larger number those are kept that stand for what is known of the distances together. Nothing is averaged
or moved: what is kept was drawn, and the published distance is the plain median of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.assumptions import SATURATION_M
from floorgent_ros.geometry.compiled import compiled

STEP_M = 0.5  # of the tables of expected errors
SWEEPS = 4  # through all that is kept; later ones hardly change anything


def choose(
    fields: NDArray[np.float32], count: int, detours: NDArray[np.float64], odds: NDArray[np.float32]
) -> NDArray[np.int64]:
    """Indices (count,), in order, of those of M completions whose median has the least expected error.

    fields: (M, C) distances at C points, m, +inf where a completion reaches none. detours: (K, C) distances
    that may be true, m; odds: (K, C) of each, which may add up to less than 1 where a point may not count.
    They are added one by one, and exchanged one at a time as long as that helps.
    """
    total = len(fields)
    if total <= count:
        return np.arange(total)
    varied = (fields != fields[0]).any(0)
    errors = expected_errors(np.minimum(detours[:, varied], SATURATION_M), odds[:, varied])
    return np.sort(_chosen(np.ascontiguousarray(fields[:, varied]), errors, count, SWEEPS))


def expected_errors(distances: NDArray[np.float64], odds: NDArray[np.float32]) -> NDArray[np.float32]:
    """Σ_k odds_k · |x − distances_k| at x = 0, `STEP_M`, … `SATURATION_M`: (K, C) each → (C, T), m."""
    guesses = np.arange(0.0, SATURATION_M + STEP_M / 2, STEP_M)
    errors = np.zeros((distances.shape[1], len(guesses)), np.float32)
    for distance, odd in zip(distances, odds, strict=True):
        errors += odd[:, None] * np.abs(guesses - distance[:, None])
    return errors


@compiled
def _chosen(
    fields: NDArray[np.float32], errors: NDArray[np.float32], count: int, sweeps: int
) -> NDArray[np.int64]:
    """Add the one of all (M, C) that errs least beside those before it, then exchange one at a time."""
    total = fields.shape[0]
    used = np.zeros(total, np.bool_)
    chosen = np.full(count, -1, np.int64)
    for sweep in range(sweeps + 1):
        changed = False
        for place in range(count):
            bounds = _bounds(fields, chosen if sweep else chosen[: place + 1], place)
            before = best = chosen[place]
            least = _error(fields[before], bounds, errors) if sweep else np.inf
            for candidate in range(total):
                if not used[candidate]:
                    found = _error(fields[candidate], bounds, errors)
                    if found < least - 1e-6:
                        best, least = candidate, found
            if sweep:
                used[before] = False
            used[best] = True
            chosen[place] = best
            changed |= best != before
        if not changed:
            break
    return chosen


@compiled
def _bounds(fields: NDArray[np.float32], chosen: NDArray[np.int64], place: int) -> NDArray[np.float32]:
    """Between which values the two middle ones lie at each point, whoever takes the place: (C, 4), m."""
    count, points = chosen.shape[0], fields.shape[1]
    lower, upper = (count + 1) // 2 - 1, count // 2
    bounds = np.empty((points, 4), np.float32)
    others = np.empty(count + 1, np.float32)  # sorted
    for point in range(points):
        others[0], filled = -np.inf, 1
        for other in range(count):
            if other == place:
                continue
            value, at = fields[chosen[other], point], filled
            while others[at - 1] > value:
                others[at] = others[at - 1]
                at -= 1
            others[at] = value
            filled += 1
        others[count] = np.inf
        bounds[point, 0], bounds[point, 1] = others[lower], others[lower + 1]
        bounds[point, 2], bounds[point, 3] = others[upper], others[upper + 1]
    return bounds


@compiled
def _error(field: NDArray[np.float32], bounds: NDArray[np.float32], errors: NDArray[np.float32]) -> float:
    """Summed expected error of the medians with this field among them (method decision 5)."""
    last = errors.shape[1] - 1
    summed = 0.0
    for point in range(field.shape[0]):
        value = field[point]
        first = min(max(value, bounds[point, 0]), bounds[point, 1])
        second = min(max(value, bounds[point, 2]), bounds[point, 3])
        median = (first + second) / 2 if np.isfinite(second) else first
        place = min(median / STEP_M, np.float32(last))
        below = min(int(place), last - 1)
        share = place - below
        summed += (1 - share) * errors[point, below] + share * errors[point, below + 1]
    return summed
