"""Detours: shares of ways that are longer than with the unseen taken for free, true and drawn."""

from __future__ import annotations

import numpy as np
import pytest

from floorgent_ros.evaluation.detours import ABOVE_M, AWAY_M, Detours, shares, table
from floorgent_ros.geometry.distance import distance_field

NOTHING = np.zeros((256, 256), np.bool_)
WALL = NOTHING.copy()
WALL[60:200, 180] = True  # 8.1 m to the right of the viewpoint, 11 m each way


def judged(true, *drawn):
    """Detours of completions whose blocked cells are `drawn`, where `true` are."""
    truth = distance_field(true)
    counted = np.isfinite(truth)
    return Detours.of(distance_field(NOTHING)[counted], truth[counted], np.stack(drawn), counted)


def test_where_truth_and_completions_are_the_null_there_are_none():
    found = judged(NOTHING, NOTHING, NOTHING)
    assert found.cells.min() > 0
    assert found.true.sum() == found.drawn.sum() == 0


def test_a_completion_that_is_true_has_the_true_detours_and_half_of_two_half_of_them():
    free = distance_field(NOTHING)
    longer = distance_field(WALL) - free
    found = judged(WALL, WALL)
    np.testing.assert_array_equal(found.true, found.drawn)
    for row, (low, high) in enumerate(AWAY_M):
        ring = (free >= low) & (free < high) & ~WALL
        assert found.cells[row] == ring.sum()
        for column, above in enumerate(ABOVE_M):
            assert found.true[row, column] == (longer[ring] > above).sum()
    assert found.true[1, 0] > 0
    np.testing.assert_allclose(judged(WALL, WALL, NOTHING).drawn, found.true / 2)


def test_what_a_completion_shuts_is_a_detour_to_forty_metres():
    shut = NOTHING.copy()
    shut[:, 180] = True
    found = judged(NOTHING, shut)
    behind = distance_field(NOTHING)
    behind[:, :180] = np.nan
    ring = (behind >= 10) & (behind < 15)
    assert found.drawn[1].tolist() == [ring.sum()] * len(ABOVE_M)


def test_cases_are_weighed_by_their_cells_and_shown():
    both = [judged(WALL, NOTHING), judged(NOTHING, WALL)]
    found = {"scan": shares(both)}
    (first, second) = both
    middle = found["scan"]["10-15 m"]
    expected = first.true[1] / (first.cells + second.cells)[1]
    assert middle["true"] == pytest.approx(expected.tolist())
    lines = table(found, 40)
    assert len(lines) == 1 + 2 * len(AWAY_M)
    assert f"{expected[0]:.3f}" in next(line for line in lines if "10-15 m away, true" in line)
