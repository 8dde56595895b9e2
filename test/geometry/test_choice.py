"""Which completions are kept: the expected error of the plain median, held against writing it out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.geometry.assumptions import SATURATION_M
from floorgent_ros.geometry.choice import STEP_M, choose, expected_errors
from floorgent_ros.geometry.distance import median

POINTS = 60


def example(seed, total, guesses=5):
    """Fields with unreached points, and what may be true at each."""
    rng = np.random.default_rng(seed)
    fields = rng.choice(np.arange(0.0, 45.0, STEP_M), (total, POINTS)).astype(np.float32)
    fields[rng.random(fields.shape) < 0.2] = np.inf
    odds = rng.dirichlet(np.ones(guesses + 1), POINTS)[:, 1:].T.astype(np.float32)
    return fields, rng.choice(np.arange(0.0, 40.5, STEP_M), (guesses, POINTS)), odds


def expected(fields, chosen, detours, odds):
    """Summed expected error of the published median; with all distances whole steps the tables are exact."""
    published = np.minimum(median(fields[list(chosen)].astype(float)), SATURATION_M)
    return float((odds * np.abs(published - detours)).sum())


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 9), st.integers(0, 12))
def test_no_exchange_of_one_completion_would_help(seed, count, more):
    fields, detours, odds = example(seed, count + more)
    chosen = choose(fields, count, detours, odds)
    assert len(set(chosen.tolist())) == count
    assert np.all(np.diff(chosen) > 0)
    reached = expected(fields, chosen, detours, odds)
    if count > 4:  # many places may need more sweeps than are made
        assert reached <= expected(fields, range(count), detours, odds) + 1e-3
        return
    for place in range(count):
        for other in set(range(len(fields))) - set(chosen.tolist()):
            tried = [*chosen[:place], other, *chosen[place + 1 :]]
            assert expected(fields, tried, detours, odds) > reached - 1e-3


def test_those_that_agree_with_what_is_certain_are_kept():
    rng = np.random.default_rng(0)
    truth = rng.uniform(5, 30, POINTS)
    fields = np.repeat(truth[None] + 6.0, 24, 0).astype(np.float32)
    right = [3, 7, 8, 12, 15, 19, 20, 23]
    fields[right] = truth
    odds = np.ones((1, POINTS), np.float32)
    chosen = choose(fields, 8, truth[None], odds)
    assert np.allclose(median(fields[chosen]), truth)  # five of them are enough


def test_points_that_may_not_count_weigh_less():
    """Half of the points ask for one kind of completion, half for the other: the surer half decides."""
    fields = np.zeros((8, POINTS), np.float32)
    fields[4:] = 10.0
    wanted = np.where(np.arange(POINTS) < POINTS // 2, 0.0, 10.0)[None]
    for surer, kept in ((slice(None, POINTS // 2), [0, 1, 2]), (slice(POINTS // 2, None), [4, 5, 6])):
        odds = np.full((1, POINTS), 0.1, np.float32)
        odds[:, surer] = 0.9
        assert set(choose(fields, 3, wanted, odds)) & set(kept) >= set(kept[:2])


@pytest.mark.parametrize("total", [1, 5, 8])
def test_all_are_kept_where_there_are_no_more(total):
    fields, detours, odds = example(0, total)
    assert choose(fields, 8, detours, odds).tolist() == list(range(total))


def test_completions_that_are_all_alike_leave_nothing_to_choose():
    fields = np.repeat(example(0, 1)[0], 12, 0)
    assert choose(fields, 4, *example(0, 1)[1:]).tolist() == [0, 1, 2, 3]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000))
def test_expected_errors_are_sums_over_what_may_be_true(seed):
    _, detours, odds = example(seed, 1)
    errors = expected_errors(detours, odds)
    for guess in (0, 7, errors.shape[1] - 1):
        assert errors[:, guess] == pytest.approx((odds * np.abs(guess * STEP_M - detours)).sum(0), abs=1e-3)
    assert (errors.shape[1] - 1) * STEP_M == SATURATION_M
