"""Distances against scikit-image and SciPy; decisions 3, 5 and 6 by cases and properties."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra
from skimage.graph import MCP_Geometric

from floorgent_ros.geometry.distance import (
    blocked,
    dilate,
    distance_field,
    distance_fields,
    median,
    reach_probability,
    spread,
    start_cell,
    summarise,
)
from floorgent_ros.geometry.grid import CELL_M
from floorgent_ros.geometry.raster import rasterise

unhurried = settings(deadline=None)  # the first call compiles
INF = math.inf
STEPS = [(0, 1, 1.0), (1, 0, 1.0), (1, 1, math.sqrt(2)), (1, -1, math.sqrt(2))]
small_grids = arrays(np.bool_, st.tuples(st.integers(1, 12), st.integers(1, 12)))


def rooms(seed, count=120):
    """Random axis-parallel walls with gaps, inflated: what the search sees in a building."""
    rng = np.random.default_rng(seed)
    ends = np.repeat(rng.integers(0, 256, (count, 1, 2)), 2, axis=1).astype(float)
    ends[np.arange(count), 1, rng.integers(0, 2, count)] += rng.integers(5, 60, count)
    walls = dilate(rasterise(ends), 0.15)
    walls[126:131, 126:131] = False
    return walls


def noise(seed, share):
    cells = np.random.default_rng(seed).random((256, 256)) < share
    cells[128, 128] = False
    return cells


def pairs(shape):
    """Index arrays of all 8-connected neighbours (first, second) and the cost of the step between them."""
    index = np.arange(shape[0] * shape[1], dtype=np.int32).reshape(shape)
    for down, right, cost in STEPS:
        first = index[: shape[0] - down, max(0, -right) : shape[1] - max(0, right)]
        second = index[down:, max(0, right) : shape[1] + min(0, right)]
        yield first.ravel(), second.ravel(), cost


def scipy_distance(walls, source):
    rows, columns, costs = [], [], []
    open_cell = ~walls.ravel()
    for first, second, cost in pairs(walls.shape):
        both = open_cell[first] & open_cell[second]
        rows.append(first[both])
        columns.append(second[both])
        costs.append(np.full(both.sum(), cost * CELL_M))
    graph = coo_array(
        (np.concatenate(costs), (np.concatenate(rows), np.concatenate(columns))), (walls.size, walls.size)
    ).tocsr()
    field = dijkstra(graph, directed=False, indices=source[0] * walls.shape[1] + source[1])
    return np.where(walls, INF, field.reshape(walls.shape))


@pytest.mark.parametrize(
    "walls",
    [
        np.zeros((256, 256), bool),
        *(rooms(seed) for seed in range(4)),
        *(noise(seed, share) for seed, share in enumerate((0.05, 0.3, 0.5, 0.6))),
    ],
)
def test_same_as_scikit_image(walls):
    costs, _ = MCP_Geometric(np.where(walls, -1.0, 1.0), fully_connected=True).find_costs([(128, 128)])
    field = distance_field(walls)
    assert field.shape == (256, 256)
    assert field.dtype == np.float64
    assert np.array_equal(np.isfinite(field), np.isfinite(costs))
    reached = np.isfinite(field)
    assert reached.sum() > 1
    assert np.abs(field[reached] - costs[reached] * CELL_M).max() < 1e-9


@unhurried
@given(small_grids, st.data())
def test_same_as_scipy_on_any_small_grid(walls, data):
    source = (
        data.draw(st.integers(0, walls.shape[0] - 1)),
        data.draw(st.integers(0, walls.shape[1] - 1)),
    )
    walls[source] = False
    field, wanted = distance_field(walls, source), scipy_distance(walls, source)
    assert np.array_equal(np.isfinite(field), np.isfinite(wanted))
    assert np.allclose(field, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("walls", [rooms(7), noise(8, 0.35)])
def test_triangle_inequality_between_neighbours(walls):
    field = distance_field(walls).ravel()
    open_cell = ~walls.ravel()
    compared = 0
    for first, second, cost in pairs(walls.shape):
        both = open_cell[first] & open_cell[second]
        one, other = field[first[both]], field[second[both]]
        assert np.array_equal(np.isfinite(one), np.isfinite(other))
        one, other = one[np.isfinite(one)], other[np.isfinite(other)]
        assert (np.abs(one - other) <= cost * CELL_M + 1e-9).all()
        compared += one.size
    assert compared > 1000


def test_distances_on_an_open_grid_are_the_octile_metric():
    rows, columns = np.abs(np.indices((256, 256)) - 128)
    long, short = np.maximum(rows, columns), np.minimum(rows, columns)
    wanted = (long - short + short * math.sqrt(2)) * CELL_M
    assert np.allclose(distance_field(np.zeros((256, 256), bool)), wanted, rtol=0, atol=1e-9)


def test_blocked_or_outside_source_reaches_nothing():
    walls = np.zeros((20, 20), bool)
    walls[3, 4] = True
    for source in ((3, 4), (-1, 5), (20, 5), (5, -1), (5, 20)):
        assert np.isinf(distance_field(walls, source)).all()
    field = distance_field(walls, (0, 0))
    assert field[3, 4] == INF
    assert np.isfinite(field).sum() == 399


def test_input_is_left_alone():
    walls = rooms(9)
    kept = walls.copy()
    distance_fields(walls[None])
    assert np.array_equal(walls, kept)


@unhurried
@given(small_grids, small_grids)
def test_more_walls_never_shorten_a_way(one, other):
    shape = (min(one.shape[0], other.shape[0]), min(one.shape[1], other.shape[1]))
    fewer = one[: shape[0], : shape[1]].copy()
    more = fewer | other[: shape[0], : shape[1]]
    assert (distance_field(more, (0, 0)) >= distance_field(fewer, (0, 0))).all()


# Decision 3: dilation, and what is observed wins.


@pytest.mark.parametrize(
    ("radius_m", "cells"), [(0.0, 1), (0.1, 1), (0.15625, 1), (0.16, 2), (0.30, 2), (0.625, 4)]
)
def test_dilation_reaches_its_radius_and_no_further(radius_m, cells):
    walls = np.zeros((256, 256), bool)
    walls[100, 50] = True
    grown = dilate(walls, radius_m)
    assert grown.dtype == np.bool_
    assert grown[100, 50 - cells : 51 + cells].all()
    assert grown[100 - cells : 101 + cells, 50].all()
    rows, columns = np.nonzero(grown)
    assert np.hypot(rows - 100, columns - 50).max() <= cells + 0.6  # OpenCV's discs are a little square
    assert not grown[100 + cells, 50 + cells]


def test_dilated_wall_lets_nobody_slip_through():
    diagonal = [[(0.0, 60.0), (255.0, 190.0)], [(30.0, 255.0), (200.0, 0.0)]]
    walls = dilate(rasterise(diagonal), 0.0)
    field = distance_field(walls, (128, 30))
    assert np.isinf(field[128, 240])  # without the dilation 8-connected steps cross both lines
    assert np.isfinite(field).any()


def test_predicted_wall_never_blocks_free_cells_but_all_others():
    observed = np.full((256, 256), -1, np.int8)
    observed[:, 100:150] = 0
    predicted = np.zeros((256, 256), bool)
    predicted[128, 80:180] = True
    predicted[:, 98] = True  # its dilation touches the free cells
    cells = blocked(observed, predicted, 0.30)
    assert not cells[:, 100:150].any()
    assert np.array_equal(cells[:, 150:], dilate(predicted, 0.30)[:, 150:])
    assert np.array_equal(cells[:, :100], dilate(predicted, 0.30)[:, :100])


def test_observed_wall_and_its_dilation_stand_even_in_free_space():
    observed = np.zeros((256, 256), np.int8)
    observed[50, 20:90] = 100
    nothing = np.zeros((256, 256), bool)
    assert np.array_equal(blocked(observed, nothing, 0.30), dilate(observed == 100, 0.30))


@unhurried
@given(
    arrays(np.int8, (16, 16), elements=st.sampled_from((-1, 0, 100))),
    arrays(np.bool_, (16, 16)),
    st.floats(0, 0.7),
)
def test_what_is_observed_wins(observed, predicted, radius_m):
    cells = blocked(observed, predicted, radius_m)
    seen_only = dilate(observed == 100, radius_m)
    assert cells[observed == 100].all()
    assert np.array_equal(cells[observed == 0], seen_only[observed == 0])
    assert cells[predicted & (observed == -1)].all()


# Decision 5: the start of a search.


def test_search_starts_at_the_source_when_it_can():
    assert start_cell(np.zeros((256, 256), bool), (128, 128)) == (128, 128)


def test_search_starts_from_the_nearest_open_cell_within_a_metre():
    walls = np.ones((256, 256), bool)
    assert start_cell(walls) is None
    walls[128 + 7, 128] = False  # 1.09 m
    assert start_cell(walls) is None
    walls[128 + 5, 128 + 5] = False  # 1.10 m, though within a square of 1 m
    assert start_cell(walls) is None
    walls[128, 128 - 6] = False  # 0.94 m
    assert start_cell(walls) == (128, 122)
    walls[128 + 4, 128 + 4] = False  # 0.88 m
    assert start_cell(walls) == (132, 132)
    walls[128 - 4, 128 - 4] = False  # as near: the lower row
    assert start_cell(walls) == (124, 124)


def test_start_near_the_grids_edge():
    walls = np.ones((30, 30), bool)
    walls[0, 3] = False
    assert start_cell(walls, (0, 0)) == (0, 3)
    assert start_cell(walls, (29, 29)) is None
    assert start_cell(walls, (400, 3)) is None


def test_fields_are_each_completions_own():
    stack = np.stack([rooms(seed) for seed in range(5)])
    stack[1, 120:137, 120:137] = True  # must start elsewhere
    stack[1, 128, 133] = False
    stack[2, 100:156, 100:156] = True  # cannot start
    fields = distance_fields(stack)
    assert fields.shape == (5, 256, 256)
    assert fields.dtype == np.float64
    for n in (0, 3, 4):
        assert np.array_equal(fields[n], distance_field(stack[n]))
    assert fields[1, 128, 133] == 0.0
    assert np.array_equal(fields[1], distance_field(stack[1], (128, 133)))
    assert np.isinf(fields[2]).all()


def test_fields_of_no_completion():
    assert distance_fields(np.zeros((0, 256, 256), bool)).shape == (0, 256, 256)


# Decisions 5 and 6: median, spread, reach.


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([3.0], 3.0),
        ([INF], INF),
        ([1.0, 5.0], 3.0),
        ([INF, 5.0], 5.0),
        ([INF, INF], INF),
        ([9.0, 1.0, 4.0], 4.0),
        ([INF, 1.0, 4.0], 4.0),
        ([INF, 1.0, INF], INF),
        ([8, 7, 6, 5, 4, 3, 2, 1], 4.5),
        ([1, 2, 3, 4, 6, INF, INF, INF], 5.0),
        ([INF, INF, 4, 3, INF, 2, 1, INF], 4.0),  # half the completions reach the cell
        ([INF, INF, INF, 3, INF, 2, 1, INF], INF),
    ],
)
def test_median_is_finite_when_half_the_completions_reach(values, wanted):
    assert median(np.array(values, float)) == wanted
    assert (median(np.array(values, float)[:, None, None] * np.ones((1, 2, 3))) == wanted).all()


@unhurried
@given(arrays(np.float64, st.tuples(st.integers(1, 11), st.just(5)), elements=st.floats(0, 100)))
def test_without_infinities_median_and_spread_are_the_usual_ones(fields):
    assert np.allclose(median(fields), np.median(fields, axis=0))
    low, high = np.percentile(fields, (10, 90), axis=0)
    assert np.allclose(spread(fields), (high - low) / 2)
    assert (reach_probability(fields) == 1).all()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ([2.0], 0.0),
        ([INF], INF),
        ([1.0, INF], INF),
        ([1, 2, 3, 4, 5, 6, 7, INF], INF),  # the 90 % point lies between 7 and +inf
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, INF], (10 - 2) / 2),  # of 11 values it is the 10th
        ([INF] * 8, INF),
    ],
)
def test_spread_is_infinite_where_its_upper_end_is(values, wanted):
    assert spread(np.array(values, float)) == pytest.approx(wanted)


@unhurried
@given(
    arrays(
        np.float64,
        st.tuples(st.integers(1, 13), st.integers(1, 5), st.integers(1, 7)),
        elements=st.one_of(st.floats(0, 50), st.sampled_from((0.0, 1.5, INF))),
    )
)
def test_summarised_at_once_they_are_the_same_to_the_bit(fields):
    found = summarise(fields)
    assert np.array_equal(found.median, median(fields))
    assert np.array_equal(found.spread, spread(fields))
    assert np.array_equal(found.reach, reach_probability(fields))


def test_reach_probability_counts_completions():
    fields = np.array([[1.0, INF, 2.0], [1.0, INF, INF], [3.0, INF, INF], [4.0, INF, INF]])
    assert reach_probability(fields).tolist() == [1.0, 0.0, 0.25]


@unhurried
@given(arrays(np.float64, (6, 4), elements=st.one_of(st.floats(0, 50), st.just(INF))), st.randoms())
def test_order_of_completions_does_not_matter(fields, random):
    order = list(range(6))
    random.shuffle(order)
    for summary in (median, spread, reach_probability):
        assert np.array_equal(summary(fields), summary(fields[order]))
