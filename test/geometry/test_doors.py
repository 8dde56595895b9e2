"""Doors: predicted walls give way where they shut regions off, observed ones never, none for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.ndimage import binary_dilation
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

from floorgent_ros.geometry.distance import DIAGONAL, blocked, dilate, distance_field, start_cell
from floorgent_ros.geometry.doors import REGION_M2, ROUNDS, Ways, _cheapest, _ways, door_cells, open_doors
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
    opened = open_doors(walls, Ways.of(states, RADIUS), WINDOW, 20.0)
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
    kept = open_doors(walls, Ways.of(states, RADIUS), WINDOW, detour + 3.0)
    assert np.array_equal(kept, walls)
    opened = open_doors(walls, Ways.of(states, RADIUS), WINDOW, detour - 4.0)
    assert at(distances(opened, states), 4.0, 0.0) < 5.0


def test_what_is_observed_stays_shut():
    states = unseen()
    states[rasterise_metres(box(-5.0, 5.0), WINDOW)] = OCCUPIED
    walls = box(-3.0, 3.0)
    opened = open_doors(walls, Ways.of(states, RADIUS), WINDOW, 20.0)
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
    opened = open_doors(walls, Ways.of(states, RADIUS), WINDOW, 30.0)
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
    assert open_doors(walls, Ways.of(unseen(), RADIUS), WINDOW, 20.0) is walls


@pytest.mark.parametrize("walls", [NOWHERE, metres((3.0, 3.0, 6.0, 3.0))])
def test_walls_in_nobodys_way_are_returned_as_they_are(walls):
    assert open_doors(walls, Ways.of(unseen(), RADIUS), WINDOW, 20.0) is walls


def test_a_robot_without_an_open_cell_opens_nothing():
    states = np.full((256, 256), OCCUPIED, np.int8)
    assert open_doors(box(-5.0, 5.0), Ways.of(states, RADIUS), WINDOW, 20.0).shape == (4, 2, 2)


def turned(walls, degrees):
    """The walls turned about the viewpoint."""
    c, s = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return (walls @ np.array([[c, s], [-s, c]])).astype(np.float32)


@pytest.mark.parametrize("degrees", [0, 1, 3, 5, 10, 20, 30, 40, 45, 60, 85])
@pytest.mark.parametrize("size", [3.3, 5.0, 6.7])
def test_slanted_walls_give_way_as_straight_ones_do(degrees, size):
    walls, states = turned(box(-size, size), degrees), unseen()
    assert np.isinf(at(distances(walls, states), 12.0, 0.0))
    opened = open_doors(walls, Ways.of(states, RADIUS), WINDOW, 20.0)
    assert np.isfinite(at(distances(opened, states), 12.0, 0.0))
    # cut ends are drawn in other steps, so what is left may lie a cell beside where it was
    lost = rasterise_metres(walls, WINDOW) & ~dilate(rasterise_metres(opened, WINDOW), CELL_M)
    assert 0 < lost.sum() * CELL_M < 2.0


@example(seed=140, count=8)  # a piece of a cut wall is drawn a cell beside the whole one, in x and in y
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 8))
def test_no_region_is_left_by_slanted_walls_either(seed, count):
    rng = np.random.default_rng(seed)
    walls = WINDOW.to_frame(rng.uniform(0, 256, (count, 2, 2))).astype(np.float32)
    states = unseen()
    opened = open_doors(walls, Ways.of(states, RADIUS), WINDOW, 20.0)
    before, after = rasterise_metres(walls, WINDOW), rasterise_metres(opened, WINDOW)
    assert not (after & door_cells(Ways.of(states, RADIUS), before, 20.0)).any()
    around = binary_dilation(before, np.ones((3, 3), np.bool_))
    assert not (after & ~around).any()  # what is left lies where it was, to a cell


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), count=st.integers(1, 8))
def test_no_region_is_left_that_only_predicted_walls_shut_off(seed, count):
    rng = np.random.default_rng(seed)
    ends = rng.integers(0, 256, (count, 4))
    ends[::2, 3], ends[1::2, 2] = ends[::2, 1], ends[1::2, 0]
    walls = WINDOW.to_frame(ends.reshape(-1, 2, 2) + 0.5).astype(np.float32)
    states = unseen()
    opened = open_doors(walls, Ways.of(states, RADIUS), WINDOW, 20.0)
    before, after = rasterise_metres(walls, WINDOW), rasterise_metres(opened, WINDOW)
    assert np.array_equal(after, before & ~door_cells(Ways.of(states, RADIUS), before, 20.0))
    assert door_cells(Ways.of(states, RADIUS), after, 20.0).sum() == 0  # nothing is left to open


def plain_door_cells(states, predicted, inflation_radius_m, detour_m):
    """`door_cells` as it reads: everything computed anew for every completion and in every round."""
    fixed, left = dilate(states == OCCUPIED, inflation_radius_m), predicted.copy()
    open_ways = None
    for _ in range(ROUNDS):
        margin = dilate(left, inflation_radius_m) & (states != FREE) & ~fixed
        start = start_cell(fixed | margin)
        if start is None:
            break
        if open_ways is None:
            open_ways = distance_field(fixed, start)
        plain = distance_field(fixed | margin, start)
        longer = np.isfinite(open_ways) & ~margin & (plain > open_ways + detour_m)
        if longer.sum() < REGION_M2 / CELL_M**2:
            break
        ways = _ways(fixed, margin, left, plain / CELL_M, start, detour_m / CELL_M)
        if not ways.any():
            break
        left &= ~dilate(ways & margin, inflation_radius_m)
    return predicted & ~left


def scene(seed):
    """Observed walls in a seen disc, free but for them, and several completions, one over the viewpoint."""
    rng = np.random.default_rng(seed)

    def walls(count):
        ends = rng.integers(40, 216, (count, 4))
        ends[::2, 3], ends[1::2, 2] = ends[::2, 1], ends[1::2, 0]
        return rasterise_metres(WINDOW.to_frame(ends.reshape(-1, 2, 2) + 0.5), WINDOW)

    rows, columns = np.indices((256, 256)) - 128
    disc = rows**2 + columns**2 < rng.integers(2, 60) ** 2
    states = np.where(disc, FREE, UNKNOWN).astype(np.int8)
    states[disc & walls(4)] = OCCUPIED
    if seed % 4 == 3:
        states[:] = UNKNOWN  # predicted walls may stand on the viewpoint, so that the search starts beside it
    completions = [walls(count) for count in (0, 3, 8, 14)]
    completions[-1] |= rasterise_metres(box(-1.0, 0.0), WINDOW)
    return states, completions


@pytest.mark.parametrize("seed", range(8))
def test_what_all_completions_share_is_computed_once_and_changes_nothing(seed):
    states, completions = scene(seed)
    ways = Ways.of(states, RADIUS)
    found = [door_cells(ways, predicted, 5.0) for predicted in completions]
    expected = [plain_door_cells(states, predicted, RADIUS, 5.0) for predicted in completions]
    assert all(map(np.array_equal, found, expected))
    assert any(cells.any() for cells in found) or seed not in (3, 7)


def slow_cheapest(cost, row, column, dearest):
    """`_cheapest` cell by cell, its levels plain lists: among equals the order of finding counts."""
    total, previous = np.full(cost.shape, np.inf), np.full(cost.size, -1)
    total[row, column] = 0.0
    levels, level = {0: [(row, column)]}, 0
    while levels:
        for r, c in reversed(levels.pop(level, [])):
            here = total[r, c]
            if here < level:
                continue
            for dr, dc in np.ndindex(3, 3):
                y, x = r + dr - 1, c + dc - 1
                if (dr, dc) == (1, 1) or not (0 <= y < cost.shape[0] and 0 <= x < cost.shape[1]):
                    continue
                reached = here + cost[y, x] * (DIAGONAL if dr != 1 and dc != 1 else 1.0)
                before = total[y, x]
                if reached < before:
                    total[y, x], previous[y * cost.shape[1] + x] = reached, r * cost.shape[1] + c
                    if before >= int(reached) + 1:
                        levels.setdefault(int(reached), []).append((y, x))
        level += 1
    return total, previous


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_cheapest_ways_are_those_found_cell_by_cell_also_among_equals(seed):
    rng = np.random.default_rng(seed)
    cost = np.where(rng.random((17, 12)) < 0.2, np.inf, rng.choice([1.0, 4.0, 64.0], (17, 12)))
    found, expected = _cheapest(cost, 8, 5, 64.0), slow_cheapest(cost, 8, 5, 64.0)
    assert np.array_equal(found[0], expected[0])
    assert np.array_equal(found[1], expected[1])


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
