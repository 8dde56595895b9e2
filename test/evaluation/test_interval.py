"""How sure a ratio is: properties of the bootstrap over buildings."""

from __future__ import annotations

import math

import numpy as np
import pytest

from floorgent_ros.evaluation.interval import ratio_interval


def made(buildings, cases, spread, seed=0):
    rng = np.random.default_rng(seed)
    groups = np.repeat([f"b{index}" for index in range(buildings)], cases)
    null = rng.uniform(1.0, 3.0, len(groups))
    share = np.repeat(rng.normal(0.9, spread, buildings), cases)
    return share * null, null, groups.tolist()


def test_the_interval_holds_the_ratio_and_narrows_with_buildings():
    widths = []
    for buildings in (5, 20, 80):
        errors, null, groups = made(buildings, 4, 0.1)
        low, high = ratio_interval(errors, null, groups)
        assert low < errors.sum() / null.sum() < high
        widths.append(high - low)
    assert widths[0] > widths[1] > widths[2]


def test_it_covers_the_truth_about_nine_times_in_ten():
    intervals = [ratio_interval(*made(20, 4, 0.1, seed)) for seed in range(200)]
    assert 0.8 < np.mean([low <= 0.9 <= high for low, high in intervals]) < 0.97


def test_cases_of_one_building_count_as_one():
    errors, null, groups = made(6, 1, 0.2)
    repeated = ratio_interval(np.repeat(errors, 9), np.repeat(null, 9), list(np.repeat(groups, 9)))
    assert repeated == pytest.approx(ratio_interval(errors, null, groups))


def test_equal_shares_are_certain_and_the_same_seed_gives_the_same():
    errors, null, groups = made(5, 3, 0.0)
    assert ratio_interval(errors, null, groups) == pytest.approx((0.9, 0.9))
    case = made(5, 3, 0.3)
    assert ratio_interval(*case, seed=1) == ratio_interval(*case, seed=1)


@pytest.mark.parametrize(
    ("errors", "null", "groups"), [([1, 2], [1, 1], ["a", "a"]), ([1, 1], [0, 0], ["a", "b"])]
)
def test_what_says_nothing_of_others_has_no_interval(errors, null, groups):
    assert all(math.isnan(bound) for bound in ratio_interval(errors, null, groups))
