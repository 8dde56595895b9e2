"""Frames, windows and the crop, against a slow and plain reading of method decision 2."""

from __future__ import annotations

import math
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.config import ObservationSettings
from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import CELL_M, WINDOW_CELLS, OccupancyMap, Window, crop

unhurried = settings(deadline=None)  # the first call compiles
THIRTY = math.radians(30)
metres = st.floats(-500, 500)
angles = st.floats(-7, 7)


def random_map(seed, shape, resolution, origin, yaw, values=(-1, 0, 100)):
    """Blocks of equal cells with single cells strewn in, so that every rule of the crop gets its turn."""
    rng = np.random.default_rng(seed)
    values = np.array(values, np.int8)
    blocks = rng.choice(values, (shape[0] // 9 + 1, shape[1] // 9 + 1))
    cells = np.kron(blocks, np.ones((9, 9), np.int8))[: shape[0], : shape[1]]
    strewn = rng.random(shape) < 0.05
    cells[strewn] = rng.choice(values, strewn.sum())
    return OccupancyMap(cells, resolution, origin, yaw)


def crop_plainly(grid, window, occupied_threshold=65, free_threshold=25):
    """Decision 2 read aloud, cell by cell of the map, through the public transforms."""
    rows, columns = np.indices(grid.cells.shape)
    centres = grid.to_frame(np.stack([columns + 0.5, rows + 0.5], -1))
    place = np.floor(window.to_cell(centres) + 1e-6).astype(int).reshape(-1, 2)
    value = grid.cells.reshape(-1)
    inside = ((place >= 0) & (place < WINDOW_CELLS)).all(1)
    place, value = place[inside], value[inside]
    held, free, occupied = (np.zeros((WINDOW_CELLS, WINDOW_CELLS), int) for _ in range(3))
    for count, which in (
        (held, value >= -128),
        (free, (value >= 0) & (value <= free_threshold)),
        (occupied, value >= occupied_threshold),
    ):
        np.add.at(count, (place[which, 1], place[which, 0]), 1)

    states = np.full((WINDOW_CELLS, WINDOW_CELLS), -1, np.int8)
    states[(held > 0) & (free >= held / 2)] = 0
    states[occupied > 0] = 100
    bare = np.argwhere(held == 0)
    own = np.floor(grid.to_cell(window.to_frame(bare[:, ::-1] + 0.5)) + 1e-6).astype(int)[:, ::-1]
    within = ((own >= 0) & (own < grid.cells.shape)).all(1)
    for cell, (row, column) in zip(bare[within], own[within], strict=True):
        value = grid.cells[row, column]
        states[tuple(cell)] = (
            100 if value >= occupied_threshold else 0 if 0 <= value <= free_threshold else -1
        )
    return states


@unhurried
@given(metres, metres, st.floats(0.01, 1.0), metres, metres, angles)
def test_map_frame_round_trip(x, y, resolution, origin_x, origin_y, yaw):
    grid = OccupancyMap(np.zeros((2, 3), np.int8), resolution, (origin_x, origin_y), yaw)
    back = grid.to_frame(grid.to_cell((x, y)))
    assert np.allclose(back, (x, y), atol=1e-9, rtol=0)


@unhurried
@given(metres, metres, metres, metres, angles)
def test_window_round_trip(x, y, viewpoint_x, viewpoint_y, angle):
    window = Window((viewpoint_x, viewpoint_y), angle)
    assert np.allclose(window.to_frame(window.to_cell((x, y))), (x, y), atol=1e-9, rtol=0)
    assert np.array_equal(window.to_cell(window.viewpoint), (128, 128))


def test_map_turned_by_30_degrees_places_a_cell_as_worked_out_by_hand():
    grid = OccupancyMap(np.zeros((10, 10), np.int8), 0.1, (1.0, 2.0), THIRTY)
    # Centre of column 3, row 1: (0.35, 0.15) along the map's own axes.
    x = 1.0 + 0.35 * math.sqrt(3) / 2 - 0.15 * 0.5
    y = 2.0 + 0.35 * 0.5 + 0.15 * math.sqrt(3) / 2
    assert np.allclose(grid.to_frame((3.5, 1.5)), (x, y))
    assert np.array_equal(np.floor(grid.to_cell((x, y))), (3, 1))


def test_transforms_keep_leading_axes():
    window, points = Window((3.0, 4.0), 0.3), np.zeros((5, 2, 2))
    assert window.to_cell(points).shape == (5, 2, 2)
    assert OccupancyMap(np.zeros((2, 2), np.int8), 0.1, yaw=1.0).to_frame(points).shape == (5, 2, 2)


@unhurried
@given(metres, metres)
def test_origin_of_the_published_window_is_exact(x, y):
    assert Window((x, y)).origin == (x - 20.0, y - 20.0)


def test_origin_of_a_turned_window():
    x, y = Window((1.0, 2.0), math.pi / 2).origin
    assert (x, y) == pytest.approx((21.0, -18.0))


@pytest.mark.parametrize(
    ("shape", "resolution", "origin", "yaw", "viewpoint", "angle"),
    [
        pytest.param((900, 1000), 0.05, (-21.0, -19.0), 0.0, (0.0, 0.0), 0.0, id="slam_toolbox"),
        pytest.param((700, 700), 0.05, (-17.3, -12.9), 0.0, (0.013, 0.021), 0.0, id="non-integer origin"),
        pytest.param((600, 500), 0.05, (3.2, -20.7), THIRTY, (1.7, 0.3), 0.0, id="map yaw 30 degrees"),
        pytest.param((900, 900), 0.05, (-22.0, -22.0), 0.0, (0.4, 0.2), THIRTY, id="window at 30 degrees"),
        pytest.param((500, 700), 0.05, (9.0, -21.0), 2.5, (0.4, 0.2), -0.7, id="both turned"),
        pytest.param((300, 300), 0.05, (15.0, 12.0), 0.0, (0.0, 0.0), 0.0, id="across the map's corner"),
        pytest.param((150, 250), 0.2, (-23.1, -11.7), 0.0, (0.1, 0.4), 0.0, id="coarse"),
        pytest.param((220, 250), 0.2, (-3.1, -21.7), THIRTY, (0.1, 0.4), 0.2, id="coarse and turned"),
        pytest.param((90, 90), 0.5, (-22.2, -20.3), -0.4, (0.1, 0.4), 0.0, id="very coarse"),
        pytest.param((330, 330), 0.12, (-20.0, -20.0), 0.8, (-5.0, 0.4), 0.0, id="near the window's cells"),
        pytest.param((700, 900), 0.01, (-4.0, -21.5), 0.0, (0.1, 0.4), 0.0, id="fine"),
        pytest.param((600, 700), 0.01, (12.0, 12.5), 0.3, (0.1, 0.4), 0.1, id="fine and turned"),
    ],
)
def test_crop_is_decision_2(shape, resolution, origin, yaw, viewpoint, angle):
    window = Window(viewpoint, angle)
    for seed, values in ((0, (-1, 0, 100)), (1, (-1, 0, 24, 25, 26, 50, 64, 65, 66, 99))):
        grid = random_map(seed, shape, resolution, origin, yaw, values)
        states = crop(grid, window)
        assert states.shape == (256, 256)
        assert states.dtype == np.int8
        assert np.array_equal(states, crop_plainly(grid, window))
        assert set(np.unique(states)) == {-1, 0, 100}


def four_cells(*values):
    """The state of the window cell (128, 128) that holds exactly these four map cells."""
    cells = np.array(values, np.int8).reshape(2, 2)
    return crop(OccupancyMap(cells, CELL_M / 2), Window((0.0, 0.0)))[128, 128]


def test_one_occupied_map_cell_makes_the_window_cell_occupied():
    assert four_cells(0, 0, 0, 65) == 100
    assert four_cells(0, 0, 0, 64) == 0


def test_half_of_the_map_cells_make_the_window_cell_free():
    assert four_cells(0, 25, -1, -1) == 0
    assert four_cells(0, 26, -1, -1) == -1
    assert four_cells(-1, -1, -1, -1) == -1


def test_thresholds_are_those_of_the_settings():
    cells = np.full((400, 400), 40, np.int8)
    grid, window = OccupancyMap(cells, 0.1, (-20.0, -20.0)), Window((0.0, 0.0))
    assert (crop(grid, window) == -1).all()
    assert (crop(grid, window, ObservationSettings(occupied_threshold=40)) == 100).all()
    assert (crop(grid, window, ObservationSettings(free_threshold=40)) == 0).all()


@pytest.mark.parametrize("resolution", [0.2, 0.3, 1.0])
@pytest.mark.parametrize("yaw", [0.0, THIRTY])
def test_coarse_map_leaves_no_holes(resolution, yaw):
    cells = np.zeros((round(60 / resolution),) * 2, np.int8)
    centre = np.array([cells.shape[1] / 2, cells.shape[0] / 2])
    turned = OccupancyMap(cells, resolution, (0.0, 0.0), yaw).to_frame(centre)
    grid = OccupancyMap(cells, resolution, (-turned[0], -turned[1]), yaw)
    assert (crop(grid, Window((0.0, 0.0))) == 0).all()


def test_beyond_the_map_is_unknown():
    grid = OccupancyMap(np.zeros((100, 100), np.int8), 0.05)
    assert (crop(grid, Window((500.0, -300.0), 0.3)) == -1).all()
    assert (crop(grid, Window((1e9, 1e9))) == -1).all()
    states = crop(grid, Window((0.0, 0.0)))
    assert (states[128:160, 128:160] == 0).all()
    assert (states == 0).sum() == 32 * 32  # 5 m of map are 32 cells


def test_states_do_not_change_when_the_map_grows_around_them():
    """slam_toolbox moves origin and size by whole cells; rounding must not move walls to other cells."""
    small = random_map(3, (400, 380), 0.05, (-8.0, -9.0), 0.0)
    for rim in (small.cells[:4], small.cells[-4:], small.cells[:, :4], small.cells[:, -4:]):
        rim[:] = -1  # as beyond it: else cells on the edge would see more of it in the grown map
    window = Window((0.3, -0.7))
    before = crop(small, window)
    for left, below in ((1, 7), (13, 30), (101, 333)):
        cells = np.full((1000, 900), -1, np.int8)
        cells[below : below + 400, left : left + 380] = small.cells
        grown = OccupancyMap(cells, 0.05, (-8.0 - left * 0.05, -9.0 - below * 0.05))
        assert np.array_equal(crop(grown, window), before)


def test_turning_map_and_window_together_changes_nothing():
    grid = random_map(4, (500, 600), 0.05, (-14.987, -11.973), 0.0)
    straight = crop(grid, Window((0.0, 0.0)))
    x, y = grid.origin
    cos, sin = math.cos(0.9), math.sin(0.9)
    turned = OccupancyMap(grid.cells, 0.05, (cos * x - sin * y, sin * x + cos * y), 0.9)
    assert np.array_equal(crop(turned, Window((0.0, 0.0), 0.9)), straight)


def test_read_only_and_strided_maps_are_read_and_left_alone():
    grid = random_map(5, (300, 400), 0.05, (-6.0, -6.0), 0.2)
    wanted, kept = crop(grid, Window((0.0, 0.0))), grid.cells.copy()
    fixed = grid.cells.copy()
    fixed.flags.writeable = False
    for cells in (
        fixed,
        np.asfortranarray(grid.cells),
        np.kron(grid.cells, np.ones((1, 2), np.int8))[:, ::2],
    ):
        assert np.array_equal(crop(OccupancyMap(cells, 0.05, (-6.0, -6.0), 0.2), Window((0.0, 0.0))), wanted)
    assert np.array_equal(grid.cells, kept)


UNREADABLE_SURROUNDINGS = """
import ctypes, mmap, resource
import numpy as np
from floorgent_ros.geometry.grid import OccupancyMap, Window, crop

resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # its end is meant
side, first, last = 8192, 3696, 4496  # the window is rows 3696 to 4495
memory = mmap.mmap(-1, side * side)
start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
protect = ctypes.CDLL(None, use_errno=True).mprotect
protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
for low, high in ((0, first - 2), (last + 2, side)):
    assert protect(start + low * side, (high - low) * side, 0) == 0
cells = np.frombuffer(memory, np.int8).reshape(side, side)
grid = OccupancyMap(cells, 0.05, (-side / 2 * 0.05, -side / 2 * 0.05))
assert (crop(grid, Window((0.0, 0.0))) == 0).all()
print("cropped", flush=True)
cells.max()
"""


def test_nothing_but_the_windows_rows_is_read():
    """A process whose map is unreadable around the window survives the crop, and only that."""
    command = [sys.executable, "-c", UNREADABLE_SURROUNDINGS]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert run.stdout == "cropped\n", run.stderr
    assert run.returncode == -signal.SIGSEGV


def test_map_of_5000_cells_a_side_equals_its_cut():
    large = random_map(6, (5000, 5000), 0.05, (-125.0, -125.0), 0.0)
    cut = OccupancyMap(large.cells[2000:3000, 2000:3000], 0.05, (-25.0, -25.0))
    window = Window((0.37, -0.11), 0.1)
    assert np.array_equal(crop(large, window), crop(cut, window))


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        ((np.zeros((4, 4), np.uint8), 0.05), "uint8"),
        ((np.zeros(16, np.int8), 0.05), r"\(16,\)"),
        (([[0, 0]], 0.05), "list"),
        ((np.zeros((0, 4), np.int8), 0.05), "4 x 0"),
        ((np.zeros((4, 4), np.int8), 0.0), "resolution"),
        ((np.zeros((4, 4), np.int8), -0.05), "resolution"),
        ((np.zeros((4, 4), np.int8), math.nan), "resolution"),
        ((np.zeros((4, 4), np.int8), 0.05, (math.nan, 0.0)), "origin"),
        ((np.zeros((4, 4), np.int8), 0.05, (0.0, math.inf)), "origin"),
        ((np.zeros((4, 4), np.int8), 0.05, (0.0, 0.0), math.nan), "yaw"),
    ],
)
def test_unusable_map_is_refused_in_one_line(arguments, about):
    with pytest.raises(MapError, match=about) as caught:
        OccupancyMap(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("arguments", [((math.nan, 0.0),), ((0.0, math.inf),), ((0.0, 0.0), math.nan)])
def test_viewpoint_must_be_finite(arguments):
    with pytest.raises(MapError, match="finite"):
        Window(*arguments)
