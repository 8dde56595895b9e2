"""The paper's canonical form (III-D, III-E): properties on random floors, small cases by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.geometry.canonical import (
    LONGEST_M,
    SequenceFrame,
    canonical_segments,
    distance_to,
    oriented,
)
from floorgent_ros.geometry.symmetry import SYMMETRIES, turn_levels

FRAME = SequenceFrame()
HERE = (0.0, 0.0)


def rows(segments):
    return {tuple(np.round(segment.ravel(), 6)) for segment in segments}


def straight(rng, count):
    """Horizontal and vertical walls on a coarse grid, so that they overlap, touch and cross often."""
    start = rng.integers(-8, 8, (count, 2)) * 0.6
    axis = rng.integers(0, 2, count)
    end = start.copy()
    end[np.arange(count), axis] += rng.integers(1, 10, count) * 0.6
    return np.stack([start, end], 1)


def oblique(rng, count):
    return rng.uniform(-6, 6, (count, 2, 2))


def test_overlapping_and_touching_collinear_segments_become_one_and_parallel_ones_stay():
    walls = np.array([[[0, 0], [1, 0]], [[1.6, 0], [0.8, 0]], [[1.6, 0], [2, 0]], [[0, 1], [1, 1]]])
    assert rows(canonical_segments(walls)) == {(0, 0, 2, 0), (0, 1, 1, 1)}


def test_a_gap_stays():
    walls = np.array([[[0, 0], [1, 0]], [[1.2, 0], [2, 0]]])
    assert rows(canonical_segments(walls)) == {(0, 0, 1, 0), (1.2, 0, 2, 0)}


def test_both_faces_of_a_thin_wall_are_one():
    walls = np.array([[[0, 0.03], [2, 0.03]], [[2, -0.07], [0, -0.07]]])
    assert rows(canonical_segments(walls)) == {(0, 0, 2, 0)}


def test_oblique_collinear_segments_are_merged_too():
    walls = np.array([[[0, 0], [0.8, 0.4]], [[1.6, 0.8], [0.4, 0.2]]])
    assert rows(canonical_segments(walls)) == {(0, 0, 1.6, 0.8)}


def test_crossings_and_junctions_break_both():
    cross = np.array([[[-1, 0], [1, 0]], [[0, -1], [0, 1]]])
    assert rows(canonical_segments(cross)) == {(-1, 0, 0, 0), (0, 0, 1, 0), (0, -1, 0, 0), (0, 0, 0, 1)}
    junction = np.array([[[-1, 0], [1, 0]], [[0.2, 0], [0.2, 1]]])
    assert rows(canonical_segments(junction)) == {(-1, 0, 0.2, 0), (0.2, 0, 1, 0), (0.2, 0, 0.2, 1)}


def test_long_segments_are_cut_into_equal_parts():
    found = canonical_segments(np.array([[[0, 0], [6, 0]]]))
    assert rows(found) == {(0, 0, 2, 0), (2, 0, 4, 0), (4, 0, 6, 0)}


def test_points_and_nothing():
    assert canonical_segments(np.array([[[1, 1], [1.04, 1]]])).shape == (0, 2, 2)
    assert canonical_segments(np.zeros((0, 2, 2))).shape == (0, 2, 2)


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_the_order_of_the_input_does_not_matter(seed):
    rng = np.random.default_rng(seed)
    walls = np.concatenate([straight(rng, 12), oblique(rng, 4)])
    shuffled = rng.permutation(walls)
    flip = rng.random(len(walls)) < 0.5
    shuffled[flip] = shuffled[flip, ::-1]
    assert rows(canonical_segments(shuffled)) == rows(canonical_segments(walls))


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_straight_walls_are_canonical_after_once(seed):
    once = canonical_segments(straight(np.random.default_rng(seed), 15))
    merged = once[np.linalg.norm(once[:, 1] - once[:, 0], axis=1) < LONGEST_M / 2]  # parts of long ones aside
    assert rows(canonical_segments(once)) >= rows(merged)
    twice = canonical_segments(canonical_segments(once))
    assert rows(twice) == rows(canonical_segments(twice))


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_no_two_segments_cross_and_none_is_long_and_the_drawing_stays(seed):
    rng = np.random.default_rng(seed)
    walls = np.concatenate([straight(rng, 10), oblique(rng, 5)])
    found = canonical_segments(walls)
    assert np.linalg.norm(found[:, 1] - found[:, 0], axis=1).max() <= LONGEST_M + 1e-6
    for a, b in itertools.combinations(found, 2):
        assert not cross_inside(a, b)
    for x, y in rng.permutation(walls.reshape(-1, 2))[:8]:  # ends are still on a line
        assert distance_to(found, (np.rint(x / 0.2) * 0.2, np.rint(y / 0.2) * 0.2)).min() < 1e-6 or any(
            np.allclose(np.rint(wall / 0.2)[0], np.rint(wall / 0.2)[1]) for wall in walls
        )


def cross_inside(a, b):
    """Whether two segments meet in the interior of both."""
    d, e = a[1] - a[0], b[1] - b[0]
    cross = d[0] * e[1] - d[1] * e[0]
    if abs(cross) < 1e-9:
        return False
    o = b[0] - a[0]
    t, s = (o[0] * e[1] - o[1] * e[0]) / cross, (o[0] * d[1] - o[1] * d[0]) / cross
    return 1e-6 < t < 1 - 1e-6 and 1e-6 < s < 1 - 1e-6


def test_the_extent_holds_the_farthest_segment_and_is_about_20_m():
    reach = FRAME.horizon_m + LONGEST_M
    assert FRAME.extent_m == pytest.approx(2 * (1 + 1 / 255) * reach)
    found = FRAME.quantise(np.array([-reach, 0.0, reach]))
    assert found.tolist() == [0, 128, 255]
    assert FRAME.quantise(np.array([-99.0, 99.0])).tolist() == [0, 255]


def test_metres_come_back_within_half_a_level():
    points = np.random.default_rng(0).uniform(-9.9, 9.9, (50, 2, 2))
    levels = FRAME.quantise(points).reshape(-1, 4)
    assert np.abs(FRAME.to_metres(levels) - points).max() <= FRAME.extent_m / 512 + 1e-9


@given(st.integers(0, 10_000))
@settings(max_examples=30)
def test_sequences_are_nearest_first_within_the_horizon_and_ordered(seed):
    rng = np.random.default_rng(seed)
    walls = canonical_segments(np.concatenate([straight(rng, 40), oblique(rng, 10)]) * 2)
    viewpoint = tuple(rng.uniform(-3, 3, 2))
    levels = FRAME.sequence(walls, viewpoint)
    near = distance_to(FRAME.to_metres(levels), HERE)
    assert len(levels) <= FRAME.max_segments
    assert (np.diff(near) > -1e-6).all()
    assert near.max() <= FRAME.horizon_m + 0.1
    assert (levels == oriented(levels)).all()
    within = (distance_to(walls, viewpoint) <= FRAME.horizon_m).sum()
    assert len(levels) <= min(within, FRAME.max_segments)


def random_levels(seed, count=30):
    return FRAME.ordered(np.random.default_rng(seed).integers(60, 196, (count, 4)))


@given(st.integers(0, 10_000), st.integers(0, SYMMETRIES - 1))
@settings(max_examples=40)
def test_symmetries_are_canonical_again_and_keep_distances(seed, symmetry):
    levels = random_levels(seed)
    turned = FRAME.turned(levels, symmetry)
    assert (FRAME.ordered(turned) == turned).all()
    near = [np.round(distance_to(FRAME.to_metres(x), HERE), 6) for x in (levels, turned)]
    assert (near[0] == near[1]).all()
    assert {tuple(row) for row in turned} == {
        tuple(row) for row in oriented(turn_levels(levels, symmetry, FRAME.levels - 1))
    }


def test_the_symmetries_are_eight_and_closed():
    levels = random_levels(3)
    images = {FRAME.turned(levels, symmetry).tobytes() for symmetry in range(SYMMETRIES)}
    assert len(images) == SYMMETRIES
    twice = {
        FRAME.turned(FRAME.turned(levels, a), b).tobytes()
        for a, b in itertools.product(range(SYMMETRIES), repeat=2)
    }
    assert twice == images


def test_an_image_turns_with_its_segments():
    levels = random_levels(5)
    straight_only = levels[(levels[:, 0] == levels[:, 2]) | (levels[:, 1] == levels[:, 3])]
    levels = np.concatenate([straight_only, [[100, 50, 140, 50], [60, 60, 60, 160]]])
    image = FRAME.image(levels)
    assert image.shape == (128, 128)
    assert image[25, 50:71].all()  # row 0 is the lowest y, two levels a cell
    mirrored = FRAME.image(turn_levels(levels, 1, 255))
    assert (mirrored == image[:, ::-1]).all()


def test_repetitions_and_points_are_dropped():
    levels = np.array([[10, 20, 30, 20], [30, 20, 10, 20], [5, 5, 5, 5]])
    assert FRAME.ordered(levels).tolist() == [[10, 20, 30, 20]]
