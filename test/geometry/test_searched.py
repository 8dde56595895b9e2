"""Completions in the window: drawn, inflated where nothing was seen, searched one by one."""

from __future__ import annotations

import numpy as np
import pytest

from floorgent_ros.geometry.distance import blocked, distance_field, start_cell
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.geometry.observation import observe
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.geometry.searched import Searched
from floorgent_ros.stopwatch import Stopwatch

INFLATION_M = 0.3
WALLS = [
    np.array([[[8.0, 0.0], [8.0, 6.0]]], np.float32),
    np.array([[[10.0, 1.0], [14.0, 1.0]], [[10.0, 5.0], [14.0, 5.0]]], np.float32),
    np.zeros((0, 2, 2), np.float32),
]


@pytest.fixture(scope="module")
def observation():
    """A room of 6 m × 6 m whose right wall has a wide door; nothing was seen beyond it."""
    cells = np.full((120, 240), UNKNOWN, np.int8)
    cells[:, :120] = FREE
    cells[:2, :120] = cells[-2:, :120] = cells[:, :2] = cells[:40, 118:120] = cells[80:, 118:120] = OCCUPIED
    return observe(OccupancyMap(cells, 0.05), (3.0, 3.0))


@pytest.fixture(scope="module")
def found(observation):
    return Searched.of(observation, WALLS, INFLATION_M, Stopwatch())


def test_each_completion_is_drawn_blocked_and_searched(observation, found):
    assert found.rasters.shape == found.blocked.shape == found.fields.shape == (3, 256, 256)
    for index, walls in enumerate(WALLS):
        drawn = rasterise_metres(walls, observation.window)
        shut = blocked(observation.states, drawn, INFLATION_M)
        assert np.array_equal(found.rasters[index], drawn)
        assert np.array_equal(found.blocked[index], shut)
        assert np.array_equal(found.fields[index], distance_field(shut, start_cell(shut)))
    column, row = observation.window.to_cell((9.0, 3.0)).astype(int)
    behind = found.fields[:, row, column]
    assert behind[0] > behind[2] + 2  # the way around the wall
    assert np.isfinite(behind).all()


def test_rasters_that_are_drawn_already_go_before_the_walls(observation, found):
    again = Searched.of(observation, WALLS[::-1], INFLATION_M, Stopwatch(), found.rasters)
    assert again.rasters is found.rasters
    assert np.array_equal(again.fields, found.fields)


def test_the_stages_are_timed(observation):
    watch = Stopwatch()
    Searched.of(observation, WALLS, INFLATION_M, watch)
    assert list(watch.milliseconds) == ["rasterise", "distance"]


def test_some_alone(found):
    some = found.only(np.array([0, 2]))
    for name in ("rasters", "blocked", "fields"):
        assert np.array_equal(getattr(some, name), getattr(found, name)[[0, 2]])
