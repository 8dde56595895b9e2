"""The mapper: what a LIDAR saw of a known room stands in the map at its place, and nothing else does."""

from __future__ import annotations

import math

import numpy as np
import pytest

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN
from floorgent_ros.simulation.lidar import LidarSettings, Scan, Scene, scan
from floorgent_ros.simulation.mapper import Mapper

CELL = 0.05


def rectangle(x0, y0, x1, y1):
    corners = np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], float)
    return np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)


# 6 m x 4 m, its lines through the middles of cells, so that rounding cannot move one into the next cell
ROOM = rectangle(0.025, 0.025, 6.025, 4.025)


def mapped(scene, poses, believed=None, lidar=None, **options):
    mapper = Mapper(**options)
    for index, pose in enumerate(poses):
        mapper.insert(scan(scene, pose, lidar or LidarSettings()), believed[index] if believed else None)
    return mapper.map()


def places(grid, state):
    """Centres (N, 2), in the map frame, of the map's cells in a state."""
    rows, columns = np.nonzero(grid.cells == state)
    return grid.to_frame(np.stack([columns + 0.5, rows + 0.5], 1))


def distance_to(segments, points):
    """Distance (N,) of points to the nearest of the segments."""
    start, along = segments[:, 0], segments[:, 1] - segments[:, 0]
    off = points[:, None] - start
    share = np.clip((off * along).sum(-1) / (along**2).sum(-1), 0, 1)
    return np.hypot(*np.moveaxis(off - share[..., None] * along, -1, 0)).min(1)


def along(segments, step=0.02):
    """Points (N, 2) along the segments."""
    return np.concatenate(
        [
            a + np.linspace(0, 1, max(2, int(np.hypot(*(b - a)) / step)))[:, None] * (b - a)
            for a, b in segments
        ]
    )


def states_at(grid, points):
    column, row = np.floor(grid.to_cell(points)).astype(int).T
    return grid.cells[row, column]


def test_a_scan_reproduces_exactly_the_wall_cells_that_it_saw():
    scene = Scene.from_segments(ROOM, CELL)
    grid = mapped(scene, [(3.0, 2.0, 0.0)])
    seen = places(grid, OCCUPIED)
    assert scene.cells[tuple(np.floor(scene.to_cell(seen)).astype(int).T[::-1])].all()
    # all of them but the four corner cells, which no ray reaches first
    assert len(seen) == scene.cells.sum() - 4


def test_cells_seen_through_are_free_and_all_else_is_unknown():
    scene = Scene.from_segments(ROOM, CELL)
    grid = mapped(scene, [(3.0, 2.0, 0.0)])
    assert set(np.unique(grid.cells)) == {UNKNOWN, FREE, OCCUPIED}
    free = places(grid, FREE)
    assert ((free > 0.05) & (free < (6.0, 4.0))).all()
    x, y = np.meshgrid(np.arange(0.3, 5.8, 0.05) + 0.01, np.arange(0.3, 3.8, 0.05) + 0.01)
    assert (states_at(grid, np.stack([x.ravel(), y.ravel()], 1)) == FREE).all()
    outside = places(grid, UNKNOWN)
    within = ((outside > 0.1) & (outside < (5.95, 3.95))).all(1)
    assert not within.any()


def test_what_stands_behind_a_wall_is_not_seen():
    box = rectangle(4.025, 1.525, 4.525, 2.525)
    grid = mapped(Scene.from_segments(np.concatenate([ROOM, box]), CELL), [(2.0, 2.0, 0.0)])
    behind = np.stack([np.linspace(4.7, 5.5, 20), np.full(20, 2.02)], 1)
    assert (states_at(grid, behind) == UNKNOWN).all()
    assert (states_at(grid, along(box[[3]], 0.05)[2:-2]) == OCCUPIED).all()  # its near side
    assert (states_at(grid, along(box[[1]], 0.05)[2:-2]) == UNKNOWN).all()


def test_rays_that_met_nothing_free_the_cells_up_to_the_range():
    scene = Scene.from_segments(ROOM, CELL)
    grid = mapped(scene, [(3.0, 2.0, 0.0)], lidar=LidarSettings(rays=1440, range_m=1.0))
    assert OCCUPIED not in grid.cells
    radius = np.hypot(*(places(grid, FREE) - (3.0, 2.0)).T)
    assert radius.max() < 1.0 + CELL
    disc = places(grid, UNKNOWN)
    assert np.hypot(*(disc - (3.0, 2.0)).T).min() > 1.0 - 2 * CELL


@pytest.mark.parametrize("yaw", [0.5, -2.0, math.pi / 2])
@pytest.mark.parametrize("resolution", [0.05, 0.1, 0.025])
def test_a_map_with_turned_axes_has_the_walls_at_the_same_places(yaw, resolution):
    scene = Scene.from_segments(ROOM, CELL)
    grid = mapped(scene, [(3.0, 2.0, 0.0)], resolution=resolution, yaw=yaw)
    assert grid.yaw == yaw
    assert grid.resolution == resolution
    reach = resolution + CELL
    assert distance_to(ROOM, places(grid, OCCUPIED)).max() < reach
    inside = along(ROOM, 0.1)
    seen = places(grid, OCCUPIED)
    gaps = np.hypot(*np.moveaxis(inside[:, None] - seen, -1, 0)).min(1)
    assert gaps.max() < 2 * reach
    free = places(grid, FREE)
    assert ((free > -reach) & (free < np.array([6.05, 4.05]) + reach)).all()


@pytest.mark.parametrize("yaw", [0.0, 0.7])
def test_the_map_grows_and_keeps_what_it_has(yaw):
    far = rectangle(30.025, 20.025, 34.025, 24.025)
    scene = Scene.from_segments(np.concatenate([ROOM, far]), CELL)
    lidar = LidarSettings(range_m=6.0)
    mapper = Mapper(yaw=yaw)
    mapper.insert(scan(scene, (3.0, 2.0, 0.0), lidar))
    before = mapper.map()
    mapper.insert(scan(scene, (3.1, 2.0, 0.0), lidar))
    assert mapper.map().cells.shape == before.cells.shape  # it grows in steps
    mapper.insert(scan(scene, (-8.0, 2.0, 0.0), lidar))
    mapper.insert(scan(scene, (32.0, 22.0, 0.0), lidar))
    after = mapper.map()
    assert (np.array(after.cells.shape) > before.cells.shape).all()
    assert np.allclose(np.array(after.cells.shape) * CELL % 2.0, 0)
    column, row = np.round(after.to_cell(before.origin)).astype(int)
    assert np.allclose(after.to_cell(before.origin), (column, row))  # the cells have not moved
    height, width = before.cells.shape
    kept = after.cells[row : row + height, column : column + width]
    seen = before.cells != UNKNOWN
    assert (kept[seen] != UNKNOWN).all()
    occupied = places(after, OCCUPIED)
    assert distance_to(np.concatenate([ROOM, far]), occupied).max() < 2 * CELL
    assert (occupied > (29, 19)).all(1).any()
    assert (distance_to(ROOM, occupied) < 2 * CELL).any()


def test_the_map_does_not_depend_on_the_order_of_the_scans():
    scene = Scene.from_segments(ROOM, CELL)
    poses = [(1.0, 1.0, 0.3), (5.0, 3.0, 2.0), (15.0, 3.0, 0.0)]
    first, second = mapped(scene, poses), mapped(scene, poses[::-1])
    assert np.array_equal(first.cells, second.cells)
    assert first.origin == second.origin


def test_a_believed_pose_moves_what_was_seen_with_it():
    scene = Scene.from_segments(ROOM, CELL)
    turn, shift = 0.5, np.array([10.0, -4.0])
    true, believed = (3.0, 2.0, 0.2), (10.0, -4.0, 0.2 + turn)
    grid = mapped(scene, [true], [believed])
    spin = np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]])
    moved = (ROOM - true[:2]) @ spin.T + shift
    seen = places(grid, OCCUPIED)
    assert distance_to(moved, seen).max() < 2 * CELL
    assert len(seen) > 0.9 * len(places(mapped(scene, [true]), OCCUPIED))


def reading(ranges, hits, pose=(0.025, 0.025, 0.0)):
    """Rays along +x."""
    ranges, hits = np.asarray(ranges, float), np.asarray(hits, bool)
    return Scan(pose, np.zeros(len(ranges)), ranges, hits, 5.0)


def test_lost_rays_leave_no_trace():
    mapper = Mapper(CELL)
    mapper.insert(reading([math.nan, math.nan], [True, False]))
    assert (mapper.map().cells == UNKNOWN).all()


def test_a_cell_is_occupied_when_a_quarter_of_its_rays_ended_there():
    def state(passing):
        mapper = Mapper(CELL)
        mapper.insert(reading([1.0] + [2.0] * passing, [True] * (1 + passing)))
        return states_at(mapper.map(), np.array([[1.025, 0.025]]))[0]

    assert state(0) == state(3) == OCCUPIED
    assert state(4) == FREE


def test_a_ray_frees_the_cells_before_its_end_only():
    mapper = Mapper(CELL)
    mapper.insert(reading([1.0], [True]))
    grid = mapper.map()
    assert (grid.cells == FREE).sum() == 20
    assert (grid.cells == OCCUPIED).sum() == 1
    line = np.stack([np.arange(0.025, 1.0, CELL), np.full(20, 0.025)], 1)
    assert (states_at(grid, line) == FREE).all()


def test_an_end_beyond_the_grid_by_noise_is_left_out():
    mapper = Mapper(CELL)
    mapper.insert(reading([50.0], [True]))
    assert OCCUPIED not in mapper.map().cells
    assert FREE in mapper.map().cells


def test_without_a_scan_there_is_no_map():
    with pytest.raises(MapError):
        Mapper().map()
