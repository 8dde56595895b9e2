from __future__ import annotations

import math

import numpy as np
import pytest

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.plans.plan import Plan
from floorgent_ros.simulation.lidar import LidarSettings
from floorgent_ros.simulation.world import World

LIDAR = LidarSettings(rays=360, range_m=8.0)


def room_map(resolution=0.1, origin=(0.0, 0.0), yaw=0.0):
    """6 m x 4 m, walls around, but the right side is where somebody stopped mapping."""
    cells = np.zeros((40, 60), np.int8)
    cells[0], cells[-1], cells[:, 0] = 100, 100, 100
    return OccupancyMap(np.pad(cells, 10, constant_values=-1), resolution, origin, yaw)


def room_plan():
    corners = np.array([[0, 0], [5, 0], [5, 4], [0, 4]], float)
    walls = np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)
    return Plan(walls=walls, spaces=(corners,))


def test_a_plan_is_free_inside_and_unknown_outside():
    world = World.from_plan(room_plan())
    assert state(world, (2.5, 2.0)) == FREE
    assert state(world, (5.0, 2.0)) == OCCUPIED
    assert state(world, (-0.8, 2.0)) == UNKNOWN


def test_the_rim_of_a_map_stops_rays_but_is_no_wall():
    world = World.from_map(room_map())
    reading = world.scan((4.0, 3.0, 0.0), LIDAR, np.random.default_rng(0))
    right, left = np.abs(reading.angles) < 0.3, np.abs(reading.angles - math.pi) < 0.3
    assert not reading.hits[right].any()
    assert reading.ranges[right].max() < 3.3  # 7 m is where the map ends
    assert reading.hits[left].all()
    assert reading.ranges[left].min() == pytest.approx(2.95, abs=0.1)


def test_cells_between_the_thresholds_are_unknown():
    cells = np.array([[0, 25, 26, 64, 65, 100, -1]], np.int8)
    world = World.from_map(OccupancyMap(cells, 1.0))
    assert world.truth.cells.tolist() == [[0, 0, -1, -1, 100, 100, -1]]


@pytest.mark.parametrize("yaw", [0.0, 0.7, -2.0])
def test_frame_and_own_axes_are_inverse_and_agree_with_the_map(yaw):
    world = World.from_map(room_map(origin=(3.0, -2.0), yaw=yaw))
    x, y = world.to_own((4.0, 1.0))
    back = world.to_frame((x, y, 0.1))
    assert back == pytest.approx((4.0, 1.0, 0.1 + yaw))
    assert np.allclose(world.truth.to_cell((4.0, 1.0)) * 0.1, (x, y))
    grown = OccupancyMap(np.zeros((3, 3), np.int8), 0.05, (x, y), 0.0)
    placed = world.map_to_frame(grown)
    assert placed.origin == pytest.approx((4.0, 1.0))
    assert placed.yaw == pytest.approx(yaw)


def test_starts_in_the_largest_region_and_not_at_a_wall():
    cells = np.zeros((100, 200), np.int8)
    cells[:, 150:155] = 100  # the right part is the smaller one
    cells[:3] = 100
    world = World.from_map(OccupancyMap(cells, 0.1, (10.0, 0.0)))
    x, y = world.start(0.3)
    assert 10.0 < x < 25.0
    column, row = world.truth.to_cell((x, y)).astype(int)
    assert (cells[row - 2 : row + 3, column - 2 : column + 3] == 0).all()


def test_a_map_without_room_is_refused_in_one_line():
    world = World.from_map(OccupancyMap(np.full((30, 30), 100, np.int8), 0.05))
    with pytest.raises(MapError, match="robot") as caught:
        world.start()
    assert "\n" not in str(caught.value)


def state(world, point):
    column, row = np.floor(world.truth.to_cell(point)).astype(int)
    return world.truth.cells[row, column]
