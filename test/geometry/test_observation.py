"""What the network sees: one function for training and robot, whatever axes and cells the map has."""

from __future__ import annotations

import math

import numpy as np
import pytest

from floorgent_ros.config import ObservationSettings
from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import (
    CELL_M,
    FREE,
    OCCUPIED,
    UNKNOWN,
    WINDOW_CELLS,
    OccupancyMap,
    Window,
    crop,
)
from floorgent_ros.geometry.observation import observe
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.simulation.lidar import Scene, scan
from floorgent_ros.simulation.mapper import Mapper

VIEWPOINT = (13.6, 3.2)
PLACES = [(2.5, 3.0), (7.0, 7.1), (13.5, 7.0), VIEWPOINT, (22.0, 7.0), (9.0, 11.0)]


def building():
    """24 m x 14 m: seven rooms with doors of 1 m along a corridor of 2 m; (N, 2, 2) metres."""
    across = {
        0: (0, 24),
        14: (0, 24),
        6: (0, 2, 3, 8, 9, 15, 16, 20, 21, 24),
        8: (0, 3, 4, 10, 11, 17, 18, 24),
    }
    along = {
        0: (0, 14),
        24: (0, 14),
        **dict.fromkeys((5, 11, 18), (0, 6)),
        **dict.fromkeys((6, 14, 20), (8, 14)),
    }
    walls = [[(a, y), (b, y)] for y, xs in across.items() for a, b in zip(xs[::2], xs[1::2], strict=True)]
    walls += [[(x, a), (x, b)] for x, ys in along.items() for a, b in zip(ys[::2], ys[1::2], strict=True)]
    return np.array(walls, float)


def turned(points, angle):
    """Points turned counter-clockwise around (0, 0)."""
    cos, sin = math.cos(angle), math.sin(angle)
    return np.asarray(points, float) @ np.array([[cos, sin], [-sin, cos]])


def explored(angle=0.0, map_yaw=0.0, resolution=0.05):
    """The building, itself turned by angle, mapped from six places, and the viewpoint in it."""
    scene = Scene.from_segments(turned(building(), angle))
    mapper = Mapper(resolution, map_yaw)
    for place in turned(PLACES, angle):
        mapper.insert(scan(scene, (*place, 0.0)))
    x, y = turned(VIEWPOINT, angle)
    return mapper.map(), (float(x), float(y))


@pytest.fixture(scope="module")
def straight():
    return observe(*explored())


def grown(mask):
    """Cells next to a set one, and those."""
    padded = np.pad(mask, 1)
    rows, columns = mask.shape
    return np.any([padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3)], axis=0)


def assert_nearly_equal(image, expected):
    """Few cells differ, and nearly all walls are at most a cell off."""
    assert (image != expected).mean() < 0.015
    walls, wanted = image == OCCUPIED, expected == OCCUPIED
    assert (walls & ~grown(wanted)).sum() <= 0.03 * wanted.sum()
    assert (wanted & ~grown(walls)).sum() <= 0.03 * wanted.sum()
    # free against free: cells at the rim of what is seen fall to either side
    assert ((image == FREE) != (expected == FREE)).sum() < 0.08 * (expected == FREE).sum()


def test_shapes_types_and_states(straight):
    for states in (straight.states, straight.image):
        assert states.shape == (WINDOW_CELLS, WINDOW_CELLS)
        assert states.dtype == np.int8
        assert set(np.unique(states)) == {UNKNOWN, FREE, OCCUPIED}
    assert straight.window == straight.frame == Window(VIEWPOINT)
    assert straight.walls.shape[1:] == (2, 2)


def test_states_are_the_published_windows_crop():
    grid, viewpoint = explored(math.radians(30))
    observation = observe(grid, viewpoint)
    assert np.array_equal(observation.states, crop(grid, Window(viewpoint), ObservationSettings()))
    assert observation.window.angle == 0.0


def test_the_image_is_the_crop_with_the_traced_walls_as_its_only_walls():
    grid, viewpoint = explored(math.radians(30))
    observation = observe(grid, viewpoint)
    drawn = rasterise_metres(observation.walls, observation.frame)
    known = crop(grid, observation.frame, ObservationSettings())
    assert np.array_equal(observation.image == OCCUPIED, drawn)
    assert np.array_equal((observation.image == FREE) & ~drawn, (known == FREE) & ~drawn)


def test_traced_walls_lie_on_the_walls(straight):
    walls = building()
    ends = straight.walls.reshape(-1, 1, 2)
    along = walls[:, 1] - walls[:, 0]
    share = np.clip(((ends - walls[:, 0]) * along).sum(-1) / (along**2).sum(-1), 0, 1)
    off = np.hypot(*np.moveaxis(walls[:, 0] + share[..., None] * along - ends, -1, 0)).min(1)
    assert len(straight.walls) >= 15
    assert off.max() < 0.12


def test_doors_that_were_seen_are_free_in_the_image(straight):
    for door in ((8.5, 6.0), (15.5, 6.0), (10.5, 8.0)):
        column, row = np.floor(straight.frame.to_cell(door)).astype(int)
        assert straight.image[row, column] == FREE


@pytest.mark.parametrize("degrees", [30, 10, -20, 44])
def test_a_building_at_an_angle_looks_the_same_in_the_frames_axes(straight, degrees):
    observation = observe(*explored(math.radians(degrees)))
    assert math.degrees(observation.frame.angle) == pytest.approx(degrees, abs=0.3)
    assert_nearly_equal(observation.image, straight.image)


def test_a_building_turned_by_more_than_an_eighth_looks_the_same_but_for_quarter_turns(straight):
    observation = observe(*explored(math.radians(120)))
    assert math.degrees(observation.frame.angle) == pytest.approx(30, abs=0.3)
    assert_nearly_equal(observation.image, np.rot90(straight.image, -1))  # row 0 is the lowest y


@pytest.mark.parametrize("map_yaw", [0.3, 1.0, -2.0])
def test_a_map_with_turned_axes_gives_the_same_image(straight, map_yaw):
    observation = observe(*explored(map_yaw=map_yaw))
    assert observation.frame.angle == 0.0
    assert_nearly_equal(observation.image, straight.image)
    assert_nearly_equal(observation.states, straight.states)


@pytest.mark.parametrize("resolution", [0.025, 0.1])
def test_a_finer_or_coarser_map_gives_the_same_image(straight, resolution):
    assert_nearly_equal(observe(*explored(resolution=resolution)).image, straight.image)


def test_a_direction_off_by_less_than_a_cell_in_the_window_leaves_the_axes():
    assert observe(*explored(math.radians(0.25))).frame.angle == 0.0
    assert observe(*explored(math.radians(2.0))).frame.angle != 0.0


def test_the_place_of_the_maps_frame_does_not_matter(straight):
    grid, viewpoint = explored()
    x, y = 1000 * CELL_M, -2000 * CELL_M  # exact in binary
    moved = OccupancyMap(grid.cells, grid.resolution, (grid.origin[0] + x, grid.origin[1] + y))
    observation = observe(moved, (viewpoint[0] + x, viewpoint[1] + y))
    assert (observation.image != straight.image).mean() < 1e-3
    assert np.allclose(observation.walls, straight.walls + np.array([x, y]), atol=1e-6)


def as_message_and_back(grid):
    """What nav_msgs/OccupancyGrid keeps: a list of int8, a float32 resolution, a quaternion."""
    data, (height, width) = [int(value) for value in grid.cells.ravel()], grid.cells.shape
    resolution = np.float32(grid.resolution)
    z, w = math.sin(grid.yaw / 2), math.cos(grid.yaw / 2)
    cells = np.array(data, np.int8).reshape(height, width)
    return OccupancyMap(cells, float(str(resolution)), grid.origin, math.atan2(2 * w * z, 1 - 2 * z * z))


@pytest.mark.parametrize("map_yaw", [0.0, 0.6])
def test_a_map_that_was_a_message_gives_the_same_tensor(map_yaw):
    """Training observes the simulated map, the robot the same map out of a message."""
    grid, viewpoint = explored(math.radians(30), map_yaw)
    trained, robot = observe(grid, viewpoint), observe(as_message_and_back(grid), viewpoint)
    assert robot.frame.angle == pytest.approx(trained.frame.angle, abs=1e-9)
    assert np.array_equal(robot.image, trained.image)
    assert np.array_equal(robot.states, trained.states)
    assert np.allclose(robot.walls, trained.walls, atol=1e-9)


def test_a_map_that_was_a_file_gives_the_same_tensor(tmp_path):
    grid, viewpoint = explored(math.radians(30))
    grid.save(tmp_path / "map.yaml")
    read = observe(OccupancyMap.from_file(tmp_path / "map.yaml"), viewpoint)
    assert np.array_equal(read.image, observe(grid, viewpoint).image)


def test_observing_leaves_the_map_alone_and_repeats_itself(straight):
    grid, viewpoint = explored()
    cells = grid.cells.copy()
    cells.setflags(write=False)
    again = observe(OccupancyMap(cells, grid.resolution, grid.origin), viewpoint)
    assert np.array_equal(again.image, straight.image)
    assert np.array_equal(again.walls, straight.walls)
    assert np.array_equal(again.frame.viewpoint, straight.frame.viewpoint)


# --- little or nothing to see ---


def assert_blank(observation):
    assert observation.walls.shape == (0, 2, 2)
    assert observation.frame.angle == 0.0
    assert OCCUPIED not in observation.image


def test_no_wall_in_sight():
    open_space = OccupancyMap(np.zeros((900, 900), np.int8), 0.05, (-22.5, -22.5))
    observation = observe(open_space, (0.0, 0.0))
    assert_blank(observation)
    assert (observation.image == FREE).all()


def test_nothing_known_at_all():
    observation = observe(OccupancyMap(np.full((100, 80), UNKNOWN, np.int8), 0.05), (2.0, 2.0))
    assert_blank(observation)
    assert (observation.image == UNKNOWN).all()


@pytest.mark.parametrize("viewpoint", [(60.0, 3.0), (-40.0, -40.0), (13.0, 1000.0), (-25.0, 3.0)])
def test_a_viewpoint_far_outside_the_map_sees_nothing(viewpoint):
    observation = observe(explored()[0], viewpoint)
    assert_blank(observation)
    assert (observation.image == UNKNOWN).all()
    assert (observation.states == UNKNOWN).all()


def test_a_viewpoint_outside_the_map_sees_what_its_window_holds(straight):
    """30 m to the left of the other, 16.4 m before the building."""
    shift = 192  # cells
    observation = observe(explored()[0], (VIEWPOINT[0] - shift * CELL_M, VIEWPOINT[1]))
    walls, wanted = observation.image[:, shift:] == OCCUPIED, straight.image[:, :-shift] == OCCUPIED
    rim = slice(None), slice(None, -4)  # where the window cuts the walls
    assert wanted[rim].sum() > 50
    assert (walls & ~grown(wanted))[rim].sum() <= 3
    assert (wanted & ~grown(walls))[rim].sum() <= 3
    assert (observation.image[:, :shift] == UNKNOWN).all()


def square_room(viewpoint):
    """A fully known room of 10 m from (0, 0), its map ending with its walls."""
    cells = np.zeros((200, 200), np.int8)
    cells[[0, -1]], cells[:, [0, -1]] = OCCUPIED, OCCUPIED
    return observe(OccupancyMap(cells, 0.05), viewpoint)


@pytest.mark.parametrize("corner", [(0.0, 0.0), (10.0, 0.0), (0.0, 10.0), (10.0, 10.0), (0.06, 9.9)])
def test_a_viewpoint_in_the_corner_of_the_map_sees_the_whole_room(corner):
    observation = square_room(corner)
    middle = square_room((5.0, 5.0))
    assert len(observation.walls) == len(middle.walls) == 4
    assert np.allclose(observation.walls, middle.walls, atol=1e-6)
    known = observation.states != UNKNOWN
    assert known.sum() == pytest.approx((10 / CELL_M) ** 2, rel=0.04)
    column, row = np.floor(observation.window.to_cell((5.0, 5.0))).astype(int)
    assert observation.image[row, column] == FREE
    rows, columns = np.nonzero(known)
    left, bottom = observation.window.to_frame((columns.min(), rows.min()))
    assert (left, bottom) == pytest.approx((0, 0), abs=CELL_M)


def test_furniture_is_neither_wall_nor_free():
    cells = np.zeros((200, 200), np.int8)
    cells[[0, -1]], cells[:, [0, -1]] = OCCUPIED, OCCUPIED
    cells[100:103, 60:63] = OCCUPIED  # a leg of 0.15 m
    observation = observe(OccupancyMap(cells, 0.05), (5.0, 5.0))
    column, row = np.floor(observation.window.to_cell((3.075, 5.075))).astype(int)
    assert observation.states[row, column] == OCCUPIED
    assert observation.image[row, column] == UNKNOWN
    assert len(observation.walls) == 4


def test_walls_beyond_the_window_are_not_traced():
    cells = np.zeros((100, 1400), np.int8)  # 70 m of corridor
    cells[[0, -1]] = OCCUPIED
    observation = observe(OccupancyMap(cells, 0.05), (35.0, 2.5))
    assert len(observation.walls) == 2
    assert observation.walls[..., 0].min() == pytest.approx(15.0, abs=0.2)
    assert observation.walls[..., 0].max() == pytest.approx(55.0, abs=0.2)


def test_thresholds_come_from_the_settings():
    cells = np.full((200, 200), 40, np.int8)
    cells[[0, -1]], cells[:, [0, -1]] = 60, 60
    grid = OccupancyMap(cells, 0.05)
    assert len(observe(grid, (5.0, 5.0)).walls) == 0
    settings = ObservationSettings(occupied_threshold=60, free_threshold=45)
    observation = observe(grid, (5.0, 5.0), settings)
    assert len(observation.walls) == 4
    assert FREE in observation.image


@pytest.mark.parametrize("viewpoint", [(math.nan, 0.0), (0.0, math.inf)])
def test_a_viewpoint_that_is_no_place_is_refused(viewpoint):
    with pytest.raises(MapError, match="viewpoint"):
        observe(OccupancyMap(np.zeros((10, 10), np.int8), 0.05), viewpoint)
