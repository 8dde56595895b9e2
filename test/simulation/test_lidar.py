"""The simulated LIDAR against the geometry that it measures."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.simulation.lidar import LidarSettings, Scene, scan

CELL = 0.05
WIDTH, HEIGHT = 6.0, 4.0  # of the room, from (0, 0)
RAYS_360 = LidarSettings(rays=360)


def polygon(*corners):
    """Segments (N, 2, 2) around the corners."""
    corners = np.array(corners, float)
    return np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)


def room():
    return Scene.from_segments(polygon((0, 0), (WIDTH, 0), (WIDTH, HEIGHT), (0, HEIGHT)), CELL)


def ends(reading):
    """Where the rays that met something end, (N, 2) metres."""
    along = np.stack([np.cos(reading.angles), np.sin(reading.angles)], 1)
    return (np.array(reading.pose[:2]) + reading.ranges[:, None] * along)[reading.hits]


def cells_of(scene, points):
    column, row = np.floor(scene.to_cell(points)).astype(int).T
    return scene.cells[row, column]


@settings(deadline=None, max_examples=40)
@given(st.floats(0.5, WIDTH - 0.5), st.floats(0.5, HEIGHT - 0.5), st.floats(-4, 4))
def test_ranges_are_the_distances_to_the_walls(x, y, yaw):
    reading = scan(room(), (x, y, yaw), RAYS_360)
    assert reading.hits.all()
    dx, dy = np.cos(reading.angles), np.sin(reading.angles)
    with np.errstate(divide="ignore"):
        to_side = np.where(dx > 0, WIDTH - x, x) / np.abs(dx)
        to_end = np.where(dy > 0, HEIGHT - y, y) / np.abs(dy)
        # walls are a cell thick, so across a wall a range is off by at most a cell
        side_error, end_error = CELL / np.abs(dx), CELL / np.abs(dy)
    assert (reading.ranges >= np.minimum(to_side - side_error, to_end - end_error) - 1e-9).all()
    assert (reading.ranges <= np.minimum(to_side + side_error, to_end + end_error) + 1e-9).all()


@settings(deadline=None, max_examples=40)
@given(st.floats(0.5, WIDTH - 0.5), st.floats(0.5, HEIGHT - 0.5), st.floats(-4, 4))
def test_rays_end_inside_the_cell_that_stopped_them(x, y, yaw):
    scene = room()
    assert cells_of(scene, ends(scan(scene, (x, y, yaw), RAYS_360))).all()


def test_ray_directions_are_spread_over_the_circle_and_turn_with_the_robot():
    turned = scan(room(), (3.0, 2.0, 1.0), RAYS_360)
    straight = scan(room(), (3.0, 2.0, 0.0), RAYS_360)
    assert np.allclose(turned.angles - straight.angles, 1.0)
    assert np.allclose(np.diff(straight.angles), math.radians(1))
    assert len(straight.angles) == 360


def test_a_ray_straight_at_a_wall_measures_to_the_middle_of_its_cell():
    quarter = LidarSettings(rays=4)
    reading = scan(room(), (3.01, 2.02, -math.pi / 4), quarter)  # rays along the axes
    middles = [6.025 - 3.01, 4.025 - 2.02, 3.01 - 0.025, 2.02 - 0.025]
    assert np.allclose(reading.ranges, middles, atol=1e-9)


def test_walls_beyond_the_range_are_not_met():
    reading = scan(room(), (1.0, 2.0, 0.0), LidarSettings(rays=360, range_m=3.0))
    assert (reading.ranges[~reading.hits] == 3.0).all()
    assert (reading.ranges[reading.hits] < 3.0).all()
    ahead = np.abs(np.cos(reading.angles) - 1) < 0.01
    assert not reading.hits[ahead].any()  # the far side is 5 m away
    assert reading.hits[np.cos(reading.angles) < -0.9].all()


def test_rays_through_a_door_leave_the_scene_unmet():
    walls = polygon((0, 0), (WIDTH, 0), (WIDTH, HEIGHT), (0, HEIGHT))
    scene = Scene.from_segments(walls[[0, 2, 3]])  # no right side
    reading = scan(scene, (3.0, 2.0, 0.0), RAYS_360)
    out = np.abs(np.tan(reading.angles)) < 0.6
    out &= np.cos(reading.angles) > 0
    assert not reading.hits[out].any()
    assert (reading.ranges[out] == 10.0).all()
    assert reading.hits[np.cos(reading.angles) < 0].all()


slopes = st.tuples(st.floats(2.0, 4.0), st.floats(2.0, 4.0), st.floats(2.0, 4.0), st.floats(2.0, 4.0))


@settings(deadline=None, max_examples=60)
@given(slopes, st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(-4, 4))
def test_no_ray_slips_through_slanted_walls(reach, x, y, yaw):
    """Slanted walls are drawn 8-connected: cells that touch at a corner only."""
    right, up, left, down = reach
    scene = Scene.from_segments(polygon((right, 0), (0, up), (-left, 0), (0, -down)))
    reading = scan(scene, (x, y, yaw), LidarSettings(rays=720))
    assert reading.hits.all()
    assert (np.hypot(*ends(reading).T) <= max(reach) + 2 * CELL).all()


@pytest.mark.parametrize("offset", [0.0, 0.5, 0.25])
@pytest.mark.parametrize("flip", [False, True])
def test_no_ray_slips_through_the_corners_of_a_diagonal(offset, flip):
    cells = np.eye(40, dtype=bool)
    place = np.array([28.0, 10.0]) + offset  # below the diagonal, in cells
    if flip:
        cells, place = cells[:, ::-1], np.array([40 - place[0], place[1]])
    scene = Scene(cells, 1.0, (0.0, 0.0))
    for x_corner in range(12, 28):  # aim at each corner that two cells of the diagonal share
        corner = np.array([40 - x_corner if flip else x_corner, x_corner])
        bearing = math.atan2(*(corner - place)[::-1])
        aimed = LidarSettings(rays=1, range_m=100.0)
        assert scan(scene, (*place, bearing - math.pi), aimed).hits.all()
    across = scan(scene, (*place, 0.0), LidarSettings(rays=8, range_m=100.0))  # among them exactly 45°
    exact = scan(scene, (*place, math.pi / 8), LidarSettings(rays=8, range_m=100.0))
    assert across.hits.any()
    assert exact.hits.any()


def test_the_cell_that_the_robot_stands_in_stops_no_ray():
    scene = room()
    cells = scene.cells.copy()
    column, row = np.floor(scene.to_cell(np.array([3.0, 2.0]))).astype(int)
    cells[row, column] = True
    blocked, free = scan(scene.with_cells(cells), (3.01, 2.01, 0.0)), scan(scene, (3.01, 2.01, 0.0))
    assert np.array_equal(blocked.ranges, free.ranges)


def test_a_lost_ray_is_nan_and_the_share_of_them_is_as_asked():
    settings_ = LidarSettings(rays=20000, dropout=0.3)
    reading = scan(room(), (3.0, 2.0, 0.0), settings_, np.random.default_rng(1))
    lost = np.isnan(reading.ranges)
    assert abs(lost.mean() - 0.3) < 0.02
    clean = scan(room(), (3.0, 2.0, 0.0), LidarSettings(rays=20000))
    assert np.array_equal(reading.ranges[~lost], clean.ranges[~lost])
    assert not np.isnan(clean.ranges).any()


def test_noise_is_as_asked_and_only_where_something_was_met():
    settings_ = LidarSettings(rays=20000, range_m=3.0, noise_m=0.02)
    noisy = scan(room(), (3.0, 2.0, 0.0), settings_, np.random.default_rng(1))
    clean = scan(room(), (3.0, 2.0, 0.0), LidarSettings(rays=20000, range_m=3.0))
    error = noisy.ranges - clean.ranges
    assert np.array_equal(noisy.hits, clean.hits)
    assert 0 < (~clean.hits).sum() < 20000
    assert (error[~clean.hits] == 0).all()
    assert abs(error[clean.hits].std() - 0.02) < 0.001
    assert abs(error[clean.hits].mean()) < 0.001


def test_noise_is_seeded():
    settings_ = LidarSettings(rays=100, noise_m=0.02, dropout=0.2)

    def ranges(rng):
        return scan(room(), (3.0, 2.0, 0.0), settings_, rng).ranges

    same = ranges(np.random.default_rng(5))
    assert np.array_equal(ranges(np.random.default_rng(5)), same, equal_nan=True)
    assert not np.array_equal(ranges(np.random.default_rng(6)), same, equal_nan=True)
    assert np.array_equal(ranges(None), ranges(np.random.default_rng(0)), equal_nan=True)


def test_an_exact_sensor_draws_no_random_numbers():
    rng = np.random.default_rng(3)
    scan(room(), (3.0, 2.0, 0.0), LidarSettings(rays=10), rng)
    assert rng.random() == np.random.default_rng(3).random()


def test_a_scene_holds_its_walls_a_cell_thick_with_a_free_border():
    scene = room()
    rows, columns = np.nonzero(scene.cells)
    places = np.stack([columns + 0.5, rows + 0.5], 1) * CELL + scene.origin
    aside = np.minimum(
        np.minimum(np.abs(places[:, 0]), np.abs(places[:, 0] - WIDTH)),
        np.minimum(np.abs(places[:, 1]), np.abs(places[:, 1] - HEIGHT)),
    )
    assert (aside < CELL).all()
    around = round((2 * WIDTH + 2 * HEIGHT) / CELL)
    assert abs(scene.cells.sum() - around) <= 4
    border = scene.cells.copy()
    border[15:-15, 15:-15] = False
    assert not border.any()


@pytest.mark.parametrize("thickness", [0.10, 0.15, 0.20, 0.25])
def test_thick_walls_contain_the_thin_ones_and_have_the_thickness_asked_for(thickness):
    wall = np.array([[[0.0, 0.0], [4.0, 0.0]]])
    thin, thick = (Scene.from_segments(wall, CELL, t) for t in (0.0, thickness))
    assert not (thin.cells & ~thick.cells).any()
    middle = thick.cells.shape[1] // 2
    (row,) = np.flatnonzero(thin.cells[:, middle])
    rows = np.flatnonzero(thick.cells[:, middle])
    assert abs(rows.mean() - row) <= 0.5
    assert len(rows) * CELL == pytest.approx(thickness)
