"""Reliability: bins hold what they say, on claims whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from floorgent_ros.evaluation.reliability import Claims, reliability, reliability_figure
from floorgent_ros.plots import pixels


def claims(reach, reachable, spread, error):
    return Claims(
        np.asarray(reach, np.float32),
        np.asarray(reachable, bool),
        np.asarray(spread, np.float32),
        np.asarray(error, float),
    )


def honest(seed=0, cells=40_000):
    """A predictor that knows how little it knows: shares and errors are as claimed."""
    rng = np.random.default_rng(seed)
    reach = rng.integers(0, 9, cells) / 8
    spread = rng.uniform(0, 20, cells)
    return claims(reach, rng.random(cells) < reach, spread, np.abs(rng.normal(0, spread + 1e-9)))


def test_honest_claims_lie_on_the_diagonal():
    found = reliability([honest(0), honest(1)])
    assert len(found["reach"]) == 9
    for group in found["reach"]:
        assert group["reachable"] == pytest.approx(group["probability"], abs=0.03)
    assert sum(group["cells"] for group in found["reach"]) == 80_000
    errors = [group["mean_error_m"] for group in found["spread"]]
    assert errors == sorted(errors)
    assert sum(group["cells"] for group in found["spread"]) == 80_000


def test_boasting_is_seen():
    found = reliability([claims([1.0] * 10, [True] * 6 + [False] * 4, [0.0] * 6, [3.0] * 5 + [9.0])])
    assert found["reach"] == [{"probability": 1.0, "reachable": pytest.approx(0.6), "cells": 10}]
    (group,) = found["spread"]
    assert (group["low_m"], group["mean_error_m"], group["median_error_m"], group["cells"]) == (
        0.0,
        4.0,
        3.0,
        6,
    )


def test_infinite_spread_has_the_last_bin():
    (group,) = reliability([claims([0.5], [True], [np.inf], [7.0])])["spread"]
    assert (group["low_m"], group["mean_error_m"]) == (16.0, 7.0)


def test_the_picture_shows_both_kinds():
    found = {kind: reliability([honest(seed)]) for seed, kind in enumerate(("scan", "walk"))}
    drawn = pixels(reliability_figure(found))
    assert drawn.shape[2] == 3
    assert len(np.unique(drawn.reshape(-1, 3), axis=0)) > 20


def test_a_bin_stands_at_its_place_whether_or_not_others_are_empty():
    def bins(*edges):
        return [
            {"low_m": low, "high_m": high, "mean_error_m": low, "median_error_m": low, "cells": 1}
            for low, high in edges
        ]

    found = {
        "scan": {"reach": [], "spread": bins((0.0, 0.1), (2.0, 4.0))},
        "walk": {"reach": [], "spread": bins((16.0, np.inf))},
    }
    right = reliability_figure(found).axes[1]
    labels = [label.get_text() for label in right.get_xticklabels()]
    drawn = {line.get_label(): [labels[int(x)] for x in line.get_xdata()] for line in right.lines}
    assert drawn["scan, mean"] == ["0–0.1", "2–4"]
    assert drawn["walk, mean"] == ["> 16"]
