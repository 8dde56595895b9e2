"""What planners assume without a prediction, in worlds where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from floorgent_ros.evaluation.baselines import best_multiple
from floorgent_ros.geometry.assumptions import (
    saturated,
    unknown_costs,
    unknown_is_free,
    unknown_is_wall,
    weighted_distance,
)
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN


def octile():
    """Distance from the source over open cells: diagonal steps first."""
    row, column = np.abs(np.mgrid[:256, :256] - 128)
    return CELL_M * (np.maximum(row, column) + (np.sqrt(2) - 1) * np.minimum(row, column))


@pytest.fixture
def states():
    """A free square around the source, a wall to its right, nothing known beyond."""
    states = np.full((256, 256), UNKNOWN, np.int8)
    states[100:157, 100:157] = FREE
    states[100:157, 150] = OCCUPIED
    return states


def test_saturation_takes_what_is_long_unreachable_or_unknown_to_forty_metres():
    assert saturated(np.array([0.0, 39.9, 40.1, np.inf, np.nan])).tolist() == [0.0, 39.9, 40.0, 40.0, 40.0]


def test_null_goes_straight_through_the_unknown():
    assert np.allclose(unknown_is_free(np.full((256, 256), UNKNOWN, np.int8)), octile())


def test_null_goes_around_what_was_seen(states):
    null = unknown_is_free(states)
    assert np.isinf(null[128, 148:153]).all()  # the wall and its inflation of two cells
    assert null[128, 160] > octile()[128, 160] + 2
    assert np.allclose(null[128, :148], octile()[128, :148])
    assert np.isfinite(null).sum() == null.size - (57 + 4) * 5 + 8  # all but the wall's dilation by a disc


def test_the_cautious_planner_stays_in_what_it_has_seen_free(states):
    cautious = unknown_is_wall(states)
    reached = np.isfinite(cautious)
    expected = np.zeros_like(reached)
    expected[100:157, 100:148] = True
    assert np.array_equal(reached, expected)
    assert np.allclose(cautious[reached], octile()[reached])


def test_without_surcharge_a_cost_is_the_null(states):
    assert np.allclose(weighted_distance(states, np.zeros(states.shape)), unknown_is_free(states), atol=1e-6)


def test_unknown_cells_cost_more_and_free_ones_do_not(states):
    found = unknown_costs(states, 0.5)
    assert np.allclose(found[101:156, 101:147], octile()[101:156, 101:147])
    steps = np.diff(found[128, :101]) / -CELL_M  # straight to the left, where the free square begins at 100
    assert steps == pytest.approx([1.5] * 99 + [1.25])  # a step costs the mean of its two cells


def test_a_source_without_an_open_cell_near_it_reaches_nothing():
    assert np.isinf(unknown_costs(np.full((256, 256), OCCUPIED, np.int8))).all()


@pytest.mark.parametrize("factor", [1.0, 1.5, 2.2])
def test_best_multiple_finds_a_known_constant(factor):
    nulls = [np.random.default_rng(seed).uniform(0, 12, 200) for seed in range(3)]
    assert best_multiple(nulls, [factor * null for null in nulls]) == pytest.approx(factor)


def test_best_multiple_weighs_all_cases_together_and_saturates():
    long, short = np.full(100, 20.0), np.full(10, 5.0)
    assert best_multiple([short, long], [3 * short, np.full(100, 26.0)]) == pytest.approx(1.3)
    # beyond 40 m a longer null is no longer wrong, so the short ones decide
    assert best_multiple([short, long], [2.6 * short, np.full(100, 40.0)]) == pytest.approx(2.6)


def test_best_multiple_never_shortens():
    assert best_multiple([np.full(5, 10.0)], [np.full(5, 4.0)]) == 1.0
