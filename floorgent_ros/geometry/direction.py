"""The dominant wall direction of a building (method decision 7)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_BINS = 180  # of half a degree over a quarter turn
_WIDTH_RAD = math.radians(3.0)  # walls this near to the peak vote in its refinement


def dominant_direction(segments: NDArray[np.float64]) -> float:
    """Direction of most wall length modulo 90°, in rad in [−π/4, π/4); 0.0 when there is no wall.

    ``segments`` is (N, 2, 2), [segment, end, xy], in any unit. The peak of a smoothed, length-weighted
    histogram of angles, refined by the circular mean of 4θ around it: walls of another wing do not pull.
    """
    along = np.asarray(segments, dtype=np.float64).reshape(-1, 2, 2)
    dx, dy = (along[:, 1] - along[:, 0]).T
    lengths = np.hypot(dx, dy)
    total = lengths.sum()
    if not total > 0:
        return 0.0
    turns = np.arctan2(dy, dx) / (math.pi / 2) % 1.0  # quarter turns
    centres = (np.arange(_BINS) + 0.0) / _BINS
    off = (turns[None, :] - centres[:, None] + 0.5) % 1.0 - 0.5
    width = _WIDTH_RAD / (math.pi / 2)
    votes = np.exp(-0.5 * (off / (0.5 * width)) ** 2) @ lengths
    peak = centres[int(np.argmax(votes))]
    for _ in range(3):
        near = np.abs((turns - peak + 0.5) % 1.0 - 0.5) <= width
        if not near.any():
            break
        shift = (turns[near] - peak + 0.5) % 1.0 - 0.5
        peak = (peak + np.average(shift, weights=lengths[near])) % 1.0
    angle = ((peak + 0.5) % 1.0 - 0.5) * (math.pi / 2)
    return float(angle) if angle < math.pi / 4 else -math.pi / 4
