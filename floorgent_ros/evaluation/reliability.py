"""What reach probability and spread are worth: how often and how far the truth differs from them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from floorgent_ros.evaluation.cases import Case
from floorgent_ros.geometry.assumptions import saturated
from floorgent_ros.geometry.grid import UNKNOWN
from floorgent_ros.plots import new_figure
from floorgent_ros.predictor import DistanceField

SPREAD_EDGES_M = (0.0, 0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, np.inf)  # the last bin holds +inf too
REACH_BINS = 8


@dataclass(frozen=True, eq=False)
class Claims:
    """What a prediction claims of one case's unseen indoor cells, and what is true there.

    reach (C,): probabilities. reachable (C,) bool. spread (D,), error (D,): m, at the reachable ones.
    """

    reach: NDArray[np.float32]
    reachable: NDArray[np.bool_]
    spread: NDArray[np.float32]
    error: NDArray[np.float64]

    @classmethod
    def of(cls, case: Case, field: DistanceField) -> Claims:
        """Cells in true walls and beside them are left out: inflation decides whether they can be reached."""
        unseen = field.observation.states == UNKNOWN
        asked, counted = (case.counted | case.shut) & unseen, case.counted & unseen
        error = np.abs(saturated(field.distance.astype(float)) - saturated(case.truth))
        return cls(field.reach_probability[asked], case.counted[asked], field.spread[counted], error[counted])


def reliability(claims: list[Claims]) -> dict[str, Any]:
    """Bins of reach probability and spread over all cases.

    reach: per bin the mean probability, the share of its cells that can be reached, their number. spread:
    per bin its edges (m), the mean and the median absolute error (m) of its cells, their number.
    """
    reach, reachable, spread, error = (
        np.concatenate([getattr(claim, name) for claim in claims])
        for name in ("reach", "reachable", "spread", "error")
    )
    place = np.minimum(
        (reach * REACH_BINS + 1e-6).astype(int), REACH_BINS
    )  # the certain are a bin of their own
    by_reach = [
        {
            "probability": float(reach[place == index].mean()),
            "reachable": float(reachable[place == index].mean()),
            "cells": int((place == index).sum()),
        }
        for index in range(REACH_BINS + 1)
        if (place == index).any()
    ]
    place = np.clip(np.searchsorted(SPREAD_EDGES_M, spread, "right") - 1, 0, len(SPREAD_EDGES_M) - 2)
    by_spread = [
        {
            "low_m": SPREAD_EDGES_M[index],
            "high_m": min(SPREAD_EDGES_M[index + 1], 1e9),
            "mean_error_m": float(error[place == index].mean()),
            "median_error_m": float(np.median(error[place == index])),
            "cells": int((place == index).sum()),
        }
        for index in range(len(SPREAD_EDGES_M) - 1)
        if (place == index).any()
    ]
    return {"reach": by_reach, "spread": by_spread}


def reliability_figure(found: dict[str, dict[str, Any]]) -> Figure:
    """`reliability` of each kind side by side: reach on the left, spread on the right."""
    figure = new_figure(10.0, 4.4)
    left, right = figure.subplots(1, 2)
    lows = list(SPREAD_EDGES_M[:-1])
    left.plot([0, 1], [0, 1], color="0.6", linestyle=":", label="as claimed")
    for colour, (kind, bins) in zip(("C0", "C1", "C2"), found.items(), strict=False):
        reach, spread = bins["reach"], bins["spread"]
        left.plot(
            [b["probability"] for b in reach], [b["reachable"] for b in reach], "o-", color=colour, label=kind
        )
        places = [lows.index(b["low_m"]) for b in spread]  # an empty bin leaves its place empty
        right.plot(places, [b["mean_error_m"] for b in spread], "o-", color=colour, label=f"{kind}, mean")
        right.plot(
            places,
            [b["median_error_m"] for b in spread],
            "x:",
            color=colour,
            label=f"{kind}, median",
        )
    right.set_xticks(range(len(lows)), [_bin_name(*edges) for edges in pairwise(SPREAD_EDGES_M)])
    left.set(xlabel="reach probability", ylabel="share that can be reached", title="Reach")
    right.set(xlabel="spread [m]", ylabel="error of the distance [m]", title="Spread")
    for axes in (left, right):
        axes.legend()
        axes.grid(alpha=0.3)
    figure.tight_layout()
    return figure


def _bin_name(low_m: float, high_m: float) -> str:
    return f"{low_m:g}–{high_m:g}" if high_m < 1e9 else f"> {low_m:g}"
