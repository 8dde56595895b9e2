"""Distances between many places: the rules of the distance grid, from any source."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.errors import MapError
from floorgent_ros.geometry import distance as distances
from floorgent_ros.geometry.grid import CELL_M, OCCUPIED, Window
from floorgent_ros.geometry.routes import routes

WINDOW = Window((3.0, -2.0))


def completions(seed: int = 0, count: int = 3) -> np.ndarray:
    """Rooms whose doors differ."""
    random = np.random.default_rng(seed)
    blocked = np.zeros((count, 256, 256), bool)
    blocked[:, ::32, :] = blocked[:, :, ::32] = True
    for cells in blocked:
        for _ in range(300):
            row, column = random.integers(1, 255, 2)
            cells[row - 1 : row + 2, column - 1 : column + 2] = False
    return blocked


STATES = np.full((256, 256), -1, np.int8)
STATES[100, 90:120] = OCCUPIED


def centre(row: float, column: float) -> tuple[float, float]:
    x, y = WINDOW.to_frame((column + 0.5, row + 0.5))
    return float(x), float(y)


def test_a_row_from_the_viewpoint_is_the_distance_grid_itself() -> None:
    blocked = completions()
    fields = distances.distance_fields(blocked)
    cells = [(row, column) for row in range(3, 256, 36) for column in range(5, 256, 31)]
    found = routes(blocked, STATES, WINDOW, [WINDOW.viewpoint], [centre(*cell) for cell in cells])
    for place, (row, column) in enumerate(cells):
        wall = STATES[row, column] == OCCUPIED
        expected = math.nan if wall else np.float32(distances.median(fields)[row, column])
        assert np.array_equal(found.distance[0, place], expected, equal_nan=True)
        assert np.array_equal(found.spread[0, place], np.float32(distances.spread(fields)[row, column]))
        assert found.reach_probability[0, place] == np.float32(np.isfinite(fields[:, row, column]).mean())
    assert found.outside == 0
    assert 0 < np.isfinite(found.distance).mean() <= 1


@settings(max_examples=5, deadline=None)  # the first call compiles
@given(st.integers(0, 1000))
def test_there_and_back_are_equally_far(seed: int) -> None:
    blocked = completions(seed, count=2)
    free = np.argwhere(~blocked.any(0))
    points = [centre(*cell) for cell in free[np.random.default_rng(seed).integers(0, len(free), 4)]]
    found = routes(blocked, np.full((256, 256), -1, np.int8), WINDOW, points, points)
    np.testing.assert_allclose(found.distance, found.distance.T, atol=1e-4)
    assert np.all(np.diag(found.distance) == 0)


def test_blocked_source_starts_nearby_and_blocked_target_is_not_reached() -> None:
    blocked = np.zeros((2, 256, 256), bool)
    blocked[:, 50:53, 50:53] = True
    inside, beside = centre(51, 51), centre(51, 60)
    found = routes(blocked, np.full((256, 256), -1, np.int8), WINDOW, [inside, beside], [inside, beside])
    # from (49, 51), of the four nearest open cells the one in the lowest row
    assert found.distance[0, 1] == pytest.approx((7 + 2 * math.sqrt(2)) * CELL_M)
    assert math.isinf(found.distance[1, 0])
    assert found.reach_probability[1, 0] == 0


def test_points_outside_the_window_are_not_reached_and_counted() -> None:
    blocked = np.zeros((1, 256, 256), bool)
    here, away = WINDOW.viewpoint, (WINDOW.viewpoint[0] + 20.01, WINDOW.viewpoint[1])
    found = routes(blocked, STATES, WINDOW, [here, away], [away, here, (-1e9, 1e9)])
    assert found.outside == 3
    assert np.isfinite(found.distance).tolist() == [[False, True, False], [False, False, False]]
    assert found.reach_probability.tolist() == [[0, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_points_that_are_not_finite_are_refused(bad: float) -> None:
    with pytest.raises(MapError, match="not finite"):
        routes(np.zeros((1, 256, 256), bool), STATES, WINDOW, [(0.0, bad)], [(0.0, 0.0)])


def test_what_is_observed_wins_over_what_is_predicted() -> None:
    """A predicted wall across cells that were seen free shuts no way: the blocked cells say so already."""
    states = np.full((256, 256), 0, np.int8)
    wall = np.zeros((256, 256), bool)
    wall[128, :] = True
    blocked = distances.blocked(states, wall, 0.3)[None]
    found = routes(blocked, states, WINDOW, [centre(100, 128)], [centre(150, 128)])
    assert found.distance[0, 0] == pytest.approx(50 * CELL_M)
