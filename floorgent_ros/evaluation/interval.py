"""How sure a ratio of summed errors is: buildings drawn anew, with replacement."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

RESAMPLES = 2000
LEVEL = 0.9  # of the interval


def ratio_interval(
    errors: ArrayLike, null_errors: ArrayLike, groups: Sequence[str], seed: int = 0
) -> tuple[float, float]:
    """Bootstrap interval of Σ errors / Σ null errors, of cases in groups that are independent of each other.

    errors, null_errors: (N,) summed absolute errors of the cases, groups: N names, the cases' buildings.
    A percentile interval of level `LEVEL` (Efron, 1979), for the same seed the same; NaN where the null has
    no error or there is one group only.
    """
    names, index = np.unique(np.asarray(groups, str), return_inverse=True)
    sums = np.zeros((2, len(names)))
    for row, values in zip(sums, (errors, null_errors), strict=True):
        np.add.at(row, index, np.asarray(values, float))
    if len(names) < 2 or sums[1].sum() <= 0:
        return float("nan"), float("nan")
    chosen = np.random.default_rng(seed).integers(0, len(names), (RESAMPLES, len(names)))
    ours, null = sums[0][chosen].sum(1), sums[1][chosen].sum(1)
    ratios = ours[null > 0] / null[null > 0]
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)
