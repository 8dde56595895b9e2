"""The dominant wall direction of a building (method decision 7)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

_BINS = 180  # of half a degree over a quarter turn
_NEAR = 3.0 / 90.0  # in quarter turns: walls this near to the peak refine it
_TIE = 0.95  # of directions with nearly as many votes, the one that turns the window least


def dominant_direction(segments: NDArray[np.float64]) -> float:
    """Direction of most wall length modulo 90°, in rad in [−π/4, π/4); 0.0 when there is no wall.

    ``segments`` is (N, 2, 2), [segment, end, xy], in any unit. The peak of a smoothed, length-weighted
    histogram of angles, refined by the circular mean of 4θ of the walls near it, so that the walls of
    another wing do not pull. Of peaks within 5 % the one nearest to 0 counts: where two wings are equally
    long, the answer does not jump from map to map.
    """
    ends = np.asarray(segments, dtype=np.float64).reshape(-1, 2, 2)
    dx, dy = (ends[:, 1] - ends[:, 0]).T
    lengths = np.hypot(dx, dy)
    if not lengths.sum() > 0:
        return 0.0
    turns = np.arctan2(dy, dx) / (math.pi / 2)  # quarter turns
    centres = (np.arange(_BINS) - _BINS // 2) / _BINS
    votes = np.exp(-0.5 * (_apart(turns, centres[:, None]) / (0.5 * _NEAR)) ** 2) @ lengths
    ties = centres[votes >= _TIE * votes.max()]
    peak = float(ties[np.argmin(np.abs(ties))])
    for _ in range(10):  # mean shift: walk up to the peak's own top
        off = _apart(turns, peak)
        # fading out, so that a wall at the edge does not enter or leave by a rounding error
        weights = lengths * np.maximum(0.0, 1.0 - (off / _NEAR) ** 2)
        if not weights.sum() > 0:
            break
        quarter = 2 * math.pi * off  # 4θ relative to the peak
        peak += math.atan2(weights @ np.sin(quarter), weights @ np.cos(quarter)) / (2 * math.pi)
    angle = (peak + 0.5) % 1.0 * (math.pi / 2) - math.pi / 4
    return angle if angle < math.pi / 4 else -math.pi / 4


def _apart(turns: NDArray[np.float64], other: NDArray[np.float64] | float) -> NDArray[np.float64]:
    """Signed difference of quarter turns modulo 1, in [−1/2, 1/2)."""
    return np.asarray((turns - other + 0.5) % 1.0 - 0.5)
