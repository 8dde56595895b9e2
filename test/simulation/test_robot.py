from __future__ import annotations

import dataclasses
import math
from itertools import islice, pairwise

import cv2
import numpy as np
import pytest

from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.plans.plan import Plan
from floorgent_ros.simulation.lidar import LidarSettings
from floorgent_ros.simulation.robot import RobotSettings, explore, next_route
from floorgent_ros.simulation.world import World

SETTINGS = RobotSettings()
LIDAR = LidarSettings(rays=360, range_m=5.0, noise_m=0.01, dropout=0.01)


def three_rooms():
    """Rooms of 5 m x 5 m in a row, joined by doors of 0.9 m."""
    walls = []
    for x in (0.0, 5.0, 10.0, 15.0):
        has_door = x in (5.0, 10.0)
        walls += [[(x, 0), (x, 2)], [(x, 2.9), (x, 5)]] if has_door else [[(x, 0), (x, 5)]]
    walls += [[(0, y), (15, y)] for y in (0, 5)]
    return Plan(walls=np.array(walls, float), spaces=(np.array([(0, 0), (15, 0), (15, 5), (0, 5)], float),))


@pytest.fixture(scope="module")
def world():
    return World.from_plan(three_rooms())


@pytest.fixture(scope="module")
def walk(world):
    return list(explore(world, (13.5, 1.0), lidar=LIDAR))


def test_explores_until_all_rooms_are_mapped_and_then_stops(walk, world):
    final = walk[-1].map
    for x in (2.5, 7.5, 12.5):
        for y in (1.0, 2.5, 4.0):
            column, row = np.floor(final.to_cell((x, y))).astype(int)
            assert final.cells[row, column] == FREE
    assert len(next_route(final, walk[-1].pose, SETTINGS)) == 0
    assert walk[-1].stamp < 60


def test_never_walks_into_a_wall(walk, world):
    clearance = cv2.distanceTransform(
        (world.truth.cells != OCCUPIED).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE
    )
    cells = np.floor(world.truth.to_cell([step.pose[:2] for step in walk])).astype(int)
    assert clearance[cells[1:, 1], cells[1:, 0]].min() * world.truth.resolution > 0.2


def test_steps_are_short_and_stamps_follow_the_way(walk):
    for before, after in pairwise(walk):
        moved = math.dist(before.pose[:2], after.pose[:2])
        assert 0 < moved <= SETTINGS.step_m + 1e-9
        assert after.stamp - before.stamp == pytest.approx(moved / SETTINGS.speed)


def test_the_map_grows_and_keeps_its_frame(walk):
    known = [int((step.map.cells != UNKNOWN).sum()) for step in walk]
    assert known[-1] > 2 * known[0]
    assert walk[0].map.cells.shape != walk[-1].map.cells.shape
    assert walk[0].map.origin != walk[-1].map.origin
    assert {step.map.resolution for step in walk} == {SETTINGS.map_resolution}


def test_same_seed_same_walk(world, walk):
    again = list(islice(explore(world, (13.5, 1.0), lidar=LIDAR), 20))
    assert [step.pose for step in again] == [step.pose for step in walk[:20]]
    assert np.array_equal(again[-1].map.cells, walk[19].map.cells)


def test_the_same_walk_in_a_turned_map(world, walk):
    """A map with an origin and a yaw is walked in as the same place without them, seen from another frame."""
    yaw = 0.6
    turned = World.from_map(dataclasses.replace(world.truth, origin=(7.0, 3.0), yaw=yaw))
    straight = World.from_map(dataclasses.replace(world.truth, origin=(0.0, 0.0)))
    start = straight.to_frame((2.0, 2.0, 0.0))[:2], turned.to_frame((2.0, 2.0, 0.0))[:2]
    pairs = zip(
        explore(straight, start[0], lidar=LIDAR), explore(turned, start[1], lidar=LIDAR), strict=False
    )
    for one, other in islice(pairs, 30):
        expected = turned.to_frame((*straight.to_own(one.pose[:2]), one.pose[2]))
        assert other.pose == pytest.approx(expected, abs=1e-6)
        assert np.array_equal(one.map.cells, other.map.cells)
        assert other.map.yaw == pytest.approx(yaw)


def test_begins_at_a_place_of_its_own_choice(world):
    first = next(explore(world, lidar=LIDAR))
    column, row = np.floor(world.truth.to_cell(first.pose[:2])).astype(int)
    assert world.truth.cells[row, column] == FREE


def test_no_route_where_everything_is_known_or_nothing_is_open():
    known = OccupancyMap(np.zeros((60, 60), np.int8), 0.05)
    assert len(next_route(known, (1.0, 1.0, 0.0), SETTINGS)) == 0
    shut = OccupancyMap(np.full((60, 60), 100, np.int8), 0.05)
    assert len(next_route(shut, (1.0, 1.0, 0.0), SETTINGS)) == 0


def test_prefers_the_frontier_ahead_to_an_equal_one_behind():
    cells = np.full((100, 400), UNKNOWN, np.int8)
    cells[20:80, 100:300] = FREE
    cells[18:20, 98:302] = cells[80:82, 98:302] = OCCUPIED
    grid = OccupancyMap(cells, 0.05)
    right = next_route(grid, (10.0, 2.5, 0.0), SETTINGS)
    left = next_route(grid, (10.0, 2.5, math.pi), SETTINGS)
    assert right[-1][0] > 13
    assert left[-1][0] < 7


def test_leaves_alone_what_it_has_looked_at_from_its_middle():
    cells = np.full((100, 200), UNKNOWN, np.int8)
    cells[20:80, 20:150] = FREE
    cells[18:20] = cells[80:82] = OCCUPIED
    cells[18:82, 18:20] = OCCUPIED
    grid = OccupancyMap(cells, 0.05)
    route = next_route(grid, (3.0, 2.5, 0.0), SETTINGS)
    goal = (float(route[-1][0]), float(route[-1][1]))
    assert goal[0] > 7
    assert len(next_route(grid, (3.0, 2.5, 0.0), SETTINGS, [goal])) == 0
