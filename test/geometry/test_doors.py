"""Doors: predicted walls give way where they shut regions off, observed ones never, none for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from floorgent_ros.geometry.distance import blocked, distance_field
from floorgent_ros.geometry.doors import REGION_M2, _cheapest, door_cells, open_doors
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, Window
from floorgent_ros.geometry.raster import rasterise_metres

RADIUS = 0.3
WINDOW = Window((0.0, 0.0))
NOWHERE = np.zeros((0, 2, 2), np.float32)


def metres(*walls):
    """Walls (x0, y0, x1, y1) in metres around the viewpoint."""
    return np.array(walls, np.float32).reshape(-1, 2, 2)


def box(low, high):
    """The four sides of a square around the viewpoint's diagonal, metres."""
    return metres(
        (low, low, high, low), (low, high, high, high), (low, low, low, high), (high, low, high, high)
    )


def unseen():
    states = np.full((256, 256), UNKNOWN, np.int8)
    states[118:139, 118:139] = FREE
    return states


def distances(walls, states):
    return distance_field(blocked(states, rasterise_metres(walls, WINDOW), RADIUS))


def at(field, x, y):
    column, row = np.floor(WINDOW.to_cell(np.array([x, y]))).astype(int)
    return field[row, column]


def test_a_region_that_predicted_walls_shut_off_is_reached_through_one_door():
    walls, states = box(-5.0, 5.0), unseen()
    assert np.isinf(at(distances(walls, states), 10.0, 0.0))
    opened = open_doors(walls, states, WINDOW, RADIUS, 20.0)
    free = distances(NOWHERE, states)
    field = distances(opened, states)
    assert np.isfinite(at(field, 10.0, 0.0))
    lost = rasterise_metres(walls, WINDOW) & ~rasterise_metres(opened, WINDOW)
    assert 0 < lost.sum() * CELL_M < 2.0  # a door, not a missing wall
    reached = np.isfinite(field)
    assert reached.sum() > 0.9 * np.isfinite(free).sum()
    assert not (rasterise_metres(opened, WINDOW) & ~rasterise_metres(walls, WINDOW)).any()


def test_a_detour_above_the_bound_is_opened_and_a_shorter_one_stays():
    walls, states = metres((3.0, -8.0, 3.0, 8.0)), unseen()
    plain = at(distances(walls, states), 4.0, 0.0)
    detour = plain - 4.0
    kept = open_doors(walls, states, WINDOW, RADIUS, detour + 3.0)
    assert np.array_equal(kept, walls)
    opened = open_doors(walls, states, WINDOW, RADIUS, detour - 4.0)
    assert at(distances(opened, states), 4.0, 0.0) < 5.0


def test_what_is_observed_stays_shut():
    states = unseen()
    states[rasterise_metres(box(-5.0, 5.0), WINDOW)] = OCCUPIED
    walls = box(-3.0, 3.0)
    opened = open_doors(walls, states, WINDOW, RADIUS, 20.0)
    assert len(opened) > len(walls)
    field = distances(opened, states)
    assert np.isfinite(at(field, 4.0, 0.0))
    assert np.isinf(at(field, 10.0, 0.0))


def test_the_way_with_fewer_walls_is_opened():
    states = unseen()
    # to the right three walls stand one behind the other, to the left one
    walls = np.concatenate(
        [box(-5.0, 5.0), metres((6.5, -5.0, 6.5, 5.0), (8.0, -5.0, 8.0, 5.0), (5.0, 5.0, 8.0, 5.0))]
    )
    opened = open_doors(walls, states, WINDOW, RADIUS, 30.0)
    lost = rasterise_metres(walls, WINDOW) & ~rasterise_metres(opened, WINDOW)
    columns = np.flatnonzero(lost.any(0))
    assert (columns < WINDOW.to_cell(np.array([4.0, 0.0]))[0]).all()


def test_a_closet_stays_shut():
    side = 0.9 * np.sqrt(REGION_M2)
    walls = metres(
        (8.0, 0.0, 8.0 + side, 0.0),
        (8.0, side, 8.0 + side, side),
        (8.0, 0.0, 8.0, side),
        (8.0 + side, 0.0, 8.0 + side, side),
    )
    assert open_doors(walls, unseen(), WINDOW, RADIUS, 20.0) is walls


@pytest.mark.parametrize("walls", [NOWHERE, metres((3.0, 3.0, 6.0, 3.0))])
def test_walls_in_nobodys_way_are_returned_as_they_are(walls):
    assert open_doors(walls, unseen(), WINDOW, RADIUS, 20.0) is walls


def test_a_robot_without_an_open_cell_opens_nothing():
    states = np.full((256, 256), OCCUPIED, np.int8)
    assert open_doors(box(-5.0, 5.0), states, WINDOW, RADIUS, 20.0).shape == (4, 2, 2)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 8))
def test_no_region_is_left_that_only_predicted_walls_shut_off(seed, count):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 256, (count, 4))
    ends[::2, 3], ends[1::2, 2] = ends[::2, 1], ends[1::2, 0]
    walls = WINDOW.to_frame(ends.reshape(-1, 2, 2) + 0.5).astype(np.float32)
    states = unseen()
    opened = open_doors(walls, states, WINDOW, RADIUS, 20.0)
    before, after = rasterise_metres(walls, WINDOW), rasterise_metres(opened, WINDOW)
    assert np.array_equal(after, before & ~door_cells(states, before, RADIUS, 20.0))
    assert door_cells(states, after, RADIUS, 20.0).sum() == 0  # nothing is left to open


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_cheapest_ways_are_scipys(seed):
    rng = np.random.default_rng(seed)
    height, width = 14, 11
    cost = np.where(rng.random((height, width)) < 0.2, np.inf, rng.choice([1.0, 4.0, 64.0], (height, width)))
    cost[0, 0] = 1.0
    total, previous = _cheapest(cost, 0, 0, 64.0)
    rows, columns, steps = [], [], []
    for (r, c), here in np.ndenumerate(cost):
        for dr, dc in np.ndindex(3, 3):
            y, x = r + dr - 1, c + dc - 1
            inside = 0 <= y < height and 0 <= x < width and (y, x) != (r, c)
            if inside and np.isfinite(cost[y, x]) and np.isfinite(here):
                rows.append(r * width + c)
                columns.append(y * width + x)
                steps.append(cost[y, x] * np.hypot(dr - 1, dc - 1))
    graph = coo_array((steps, (rows, columns)), shape=(cost.size, cost.size)).tocsr()
    np.testing.assert_allclose(total.ravel(), dijkstra(graph, indices=0))
    assert previous[0] == -1
    for cell in np.flatnonzero(np.isfinite(total))[1:]:
        step = np.hypot(*np.subtract(divmod(cell, width), divmod(previous[cell], width)))
        assert total.flat[cell] == pytest.approx(total.flat[previous[cell]] + cost.flat[cell] * step)
