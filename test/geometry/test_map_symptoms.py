"""Faults that users of mapping and navigation packages report, each by its symptom, on maps alone.

What shows only in a running node stands in test/ros/test_field_symptoms.py.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from floorgent_ros.config import ObservationSettings
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, WINDOW_M, OccupancyMap, Window, crop
from floorgent_ros.geometry.observation import observe

HERE = (4.0, 3.0)


def house(rows: int = 160, columns: int = 200) -> np.ndarray:
    """Unknown around two rooms of 5 x 4 m side by side, at 0.05 m."""
    cells = np.full((rows, columns), UNKNOWN, np.int8)
    cells[20:102, 20:182] = OCCUPIED
    cells[23:99, 23:99] = cells[23:99, 102:179] = FREE
    cells[50:70, 99:102] = FREE
    return cells


MAP = OccupancyMap(house(), 0.05)


def test_costmap_is_corrupt_as_the_map_grows() -> None:
    """Cells added on all four sides, the origin moved along: the same place shows the same."""
    grown = np.full((160 + 70, 200 + 90), UNKNOWN, np.int8)
    grown[30:190, 50:250] = house()
    after = OccupancyMap(grown, 0.05, (-50 * 0.05, -30 * 0.05))
    assert np.array_equal(crop(MAP, Window(HERE)), crop(after, Window(HERE)))


def test_walls_shift_when_the_origin_moves_by_parts_of_a_cell() -> None:
    """A wall stands where its metres say, to within a cell, whatever the fraction of a cell in the origin."""
    for shift in (0.0, 0.011, 0.023, 0.049, -0.317):
        moved = OccupancyMap(house(), 0.05, (shift, -shift))
        walls = np.argwhere(crop(moved, Window(HERE)) == OCCUPIED)[:, ::-1] + 0.5
        left, bottom = Window(HERE).to_frame(walls).min(0)
        assert left == pytest.approx(20 * 0.05 + shift, abs=CELL_M)
        assert bottom == pytest.approx(20 * 0.05 - shift, abs=CELL_M)


def test_yaw_of_the_map_origin_is_ignored() -> None:
    """A map turned by 30° about its origin shows its walls turned by 30°."""
    yaw = math.radians(30)
    turned = OccupancyMap(house(), 0.05, (1.0, 2.0), yaw)
    corner = turned.to_frame((21.5, 21.5))
    states = crop(turned, Window(HERE))
    column, row = np.floor(Window(HERE).to_cell(corner)).astype(int)
    assert states[row, column] == OCCUPIED
    walls = observe(turned, HERE).walls
    along = np.degrees(np.arctan2(*(walls[:, 1] - walls[:, 0]).T[::-1])) % 90
    lengths = np.hypot(*(walls[:, 1] - walls[:, 0]).T)
    assert np.average(np.abs(along - 30), weights=lengths) < 2


def test_continuous_occupancy_shows_no_frontiers() -> None:
    """Cartographer's 0…100: what is nearly free is free, what is nearly occupied a wall, the rest unknown."""
    random = np.random.default_rng(0)
    cells = house()
    cells[cells == FREE] = random.integers(0, 25, (cells == FREE).sum())
    cells[cells == OCCUPIED] = random.integers(65, 101, (cells == OCCUPIED).sum())
    assert np.array_equal(crop(OccupancyMap(cells, 0.05), Window(HERE)), crop(MAP, Window(HERE)))
    doubtful = OccupancyMap(np.full((400, 400), 45, np.int8), 0.05, (-6.0, -6.0))
    assert set(np.unique(crop(doubtful, Window(HERE)))) == {UNKNOWN}


def test_thresholds_of_the_map_saver_and_ours_disagree() -> None:
    cells = np.full((400, 400), 45, np.int8)
    grid = OccupancyMap(cells, 0.05, (-6.0, -6.0))
    assert OCCUPIED in crop(grid, Window(HERE), ObservationSettings(occupied_threshold=45))
    assert FREE in crop(grid, Window(HERE), ObservationSettings(free_threshold=45))


@pytest.mark.parametrize("resolution", [0.01, 0.05, 0.2])
def test_walls_vanish_in_fine_and_coarse_maps(resolution: float) -> None:
    side = round(8.0 / resolution)
    cells = np.zeros((side, side), np.int8)
    cells[0] = cells[-1] = cells[:, 0] = cells[:, -1] = OCCUPIED
    states = crop(OccupancyMap(cells, resolution), Window(HERE))
    low, high = resolution / 2, 8.0 - resolution / 2  # where the cells of the walls have their centres
    (left, bottom), (right, top) = np.floor(Window(HERE).to_cell([(low, low), (high, high)])).astype(int)
    for wall in (states[bottom : top + 1, [left, right]], states[[bottom, top], left : right + 1]):
        assert (wall == OCCUPIED).all()
    assert (states[bottom + 2 : top - 2, left + 2 : right - 2] == FREE).all()


def test_viewer_freezes_on_a_map_of_5222_x_51118_cells() -> None:
    """Nothing as large as the map is made from it: its 267 million cells exist as one."""
    grid = OccupancyMap(np.broadcast_to(np.int8(FREE), (5222, 51118)), 0.05)
    seen = observe(grid, (1000.0, 100.0))
    assert seen.states.shape == seen.image.shape == (256, 256)
    assert (seen.states == FREE).all()


def test_speckle_becomes_walls() -> None:
    cells = np.zeros((400, 400), np.int8)
    cells[np.random.default_rng(1).random(cells.shape) < 0.005] = OCCUPIED
    assert len(observe(OccupancyMap(cells, 0.05), (10.0, 10.0)).walls) == 0


def test_exploration_ends_at_the_edge_of_the_map() -> None:
    """The window is whole at the edge of the map and beyond it, and unknown where there is no map."""
    for x in (0.1, 9.9, -5.0, 500.0):
        states = crop(MAP, Window((x, 3.0)))
        assert states.shape == (256, 256)
        assert UNKNOWN in states
    assert set(np.unique(crop(MAP, Window((500.0, 3.0))))) == {UNKNOWN}


def test_unknown_everywhere_is_a_map_like_another() -> None:
    nothing = OccupancyMap(np.full((50, 50), UNKNOWN, np.int8), 0.05)
    seen = observe(nothing, (1.0, 1.0))
    assert len(seen.walls) == 0
    assert set(np.unique(seen.image)) == {UNKNOWN}


def test_slice_is_off_by_one_cell() -> None:
    """World → cell → world: a cell's centre lies in it, at both ends of the window and of the map."""
    window = Window((3.3, -7.7))
    cells = np.array([(0, 0), (0, 255), (255, 0), (255, 255), (128, 128), (127, 128)])
    centres = window.to_frame(cells + 0.5)
    assert np.array_equal(np.floor(window.to_cell(centres)), cells)
    np.testing.assert_allclose(window.to_frame((0.0, 0.0)), window.origin)
    np.testing.assert_allclose(window.origin, np.array(window.viewpoint) - WINDOW_M / 2)
    for grid in (MAP, OccupancyMap(house(), 0.05, (1.0, 2.0), 0.7)):
        places = np.array([(0, 0), (199, 159), (20, 99)])
        assert np.array_equal(np.floor(grid.to_cell(grid.to_frame(places + 0.5))), places)
