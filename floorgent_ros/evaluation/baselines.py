"""The best constant multiple of the null hypothesis."""

from __future__ import annotations

import numpy as np

from floorgent_ros.geometry.assumptions import SATURATION_M, Field


def best_multiple(nulls: list[Field], truths: list[Field]) -> float:
    """The constant c ≥ 1 that makes Σ |min(c · d_0, 40 m) − d| smallest; cells of all cases, flat arrays."""
    null, truth = np.concatenate(nulls), np.concatenate(truths)
    candidates = np.arange(1.0, 3.01, 0.02)
    errors = [np.abs(np.minimum(c * null, SATURATION_M) - truth).sum() for c in candidates]
    return float(candidates[int(np.argmin(errors))])
