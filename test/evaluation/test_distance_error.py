"""Protocol E3: what counts, and the figures on cases whose answers are known."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from floorgent_ros.evaluation import figures
from floorgent_ros.evaluation.calibration import PLACES, Calibration
from floorgent_ros.evaluation.distance_error import (
    COMPLETIONS,
    OBSERVED,
    PAPER,
    SATURATION_M,
    TRUTHS,
    Case,
    complete,
    errors,
    judge,
    summarise,
    table,
)
from floorgent_ros.geometry.canonical import SequenceFrame
from floorgent_ros.geometry.grid import WINDOW_CELLS
from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.network import SequenceNet

FRAME = SequenceFrame()


def room(width=60):
    """Levels of a room in short segments, nearest first; more than are observed."""
    low, high = 128 - width, 127 + width
    steps = np.linspace(low, high, 9).astype(int)
    sides = [
        [[a, low, b, low], [a, high, b, high], [low, a, low, b], [high, a, high, b]]
        for a, b in pairwise(steps)
    ]
    levels = FRAME.ordered(np.array(sides).reshape(-1, 4))
    return levels[(levels[:, 0] < high) | (levels[:, 3] < 150)]  # wide open at the upper right


LEVELS = room()
PLAN = FRAME.to_metres(LEVELS)


def fields(prediction, null, true):
    def field(value):
        grid = np.full((WINDOW_CELLS, WINDOW_CELLS), np.inf)
        grid[0, : len(value)] = value
        return grid

    none = np.zeros((0, 2, 2))
    truth = dict.fromkeys(TRUTHS, field(true))
    return Case(none, [], none, field(prediction), field(null), truth)


def test_the_truth_as_completion_has_no_error_and_less_than_the_null():
    assert len(LEVELS) > OBSERVED
    case = judge([LEVELS] * COMPLETIONS, LEVELS, PLAN, FRAME)
    found = summarise([case], "sample")
    assert found["ratio"] == found["mae_m"] == found["unreached"] == 0
    assert found["null_mae_m"] >= 0
    assert (case.null <= case.truth["sample"] + 1e-9).all()  # fewer walls, shorter ways
    assert found["null_bias_m"] <= 0
    assert case.observed.shape == (OBSERVED, 2, 2)


def test_no_completion_is_the_null():
    case = judge([LEVELS[:0]] * COMPLETIONS, LEVELS, PLAN, FRAME)
    np.testing.assert_array_equal(case.prediction, case.null)


def test_cells_that_count():
    case = fields([1, 2, 9, np.inf, 5], [1, 2.5, 3, 4, 5], [1, 3, np.inf, 5, 5])
    ours, null, true, shares = errors(case, "plan")
    np.testing.assert_allclose(ours, [-1, np.inf])
    np.testing.assert_allclose(null, [-0.5, -1])
    np.testing.assert_allclose(true, [3, 5])
    assert shares["trivial"] == pytest.approx(2 / WINDOW_CELLS**2)
    assert shares["truth_unreachable"] == pytest.approx(1 - 4 / WINDOW_CELLS**2)


def test_figures_are_over_all_cases_together():
    cases = [fields([2, 4], [1, 1], [3, 3]), fields([np.inf], [2], [4])]
    found = summarise(cases, "sample")
    assert found["mae_m"] == 1
    assert found["null_mae_m"] == 2
    assert found["ratio"] == 0.5
    assert found["bias_m"] == 0
    assert found["unreached"] == pytest.approx(1 / 3)
    assert found["saturated_ratio"] == pytest.approx((1 + 1 + SATURATION_M - 4) / 6)
    assert found["cells"] == 2
    report = dict.fromkeys(TRUTHS, found) | {"samples": 2, "split": "test", "seed": 0}
    text = table(report)
    assert f"{PAPER['ratio']:.3f}" in text
    assert "0.500" in text


@pytest.mark.parametrize("observation", ["none", "nearest"])
def test_completions_start_from_what_is_observed(observation):
    config = SequenceConfig(
        observation=observation,
        width=16,
        layers=1,
        heads=2,
        feed=16,
        max_segments=OBSERVED + 2,
        encoder_widths=(4, 16),
        encoder_blocks=(1, 1),
    )
    drawn = complete(SequenceNet(config).eval(), LEVELS, seed=0, count=2)
    assert len(drawn) == 2
    if observation == "none":
        assert all((levels[:OBSERVED] == LEVELS[:OBSERVED]).all() for levels in drawn)


def test_pictures_are_drawn(tmp_path):
    case = judge([LEVELS[:30]] * 2, LEVELS, PLAN, FRAME)
    count = np.ones((len(PLACES), 6), np.int64)
    found = Calibration(count * 0.5, count * 0.4, count)
    for path in (
        figures.distance_errors([case], tmp_path),
        figures.distance_example(case, tmp_path),
        figures.calibration(found, 2, tmp_path),
    ):
        assert path.stat().st_size > 5000
