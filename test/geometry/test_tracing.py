"""Wall tracing on small synthetic maps: recall, precision, thick walls, doors, clutter, resolutions."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from floorgent_ros.config import ObservationSettings
from floorgent_ros.errors import MapError
from floorgent_ros.geometry.tracing import thin, trace_walls

SETTINGS = ObservationSettings()
EXTENT_M = 20.0
TOLERANCE_M = 0.15  # as for segments from grids in the literature
Segments = NDArray[np.float64]

# an outer wall, a corridor of 2 m and rooms with doors of 0.8 and 0.9 m, centred at 0
FLOOR: Segments = np.array(
    [
        [[-6, -5], [6, -5]], [[6, -5], [6, 5]], [[6, 5], [-6, 5]], [[-6, 5], [-6, -5]],
        [[-6, -1], [-4.5, -1]], [[-3.7, -1], [1.2, -1]], [[2.1, -1], [6, -1]],
        [[-6, 1], [0.4, 1]], [[1.3, 1], [4.2, 1]], [[5.0, 1], [6, 1]],
        [[-2, 1], [-2, 5]], [[3, 1], [3, 5]], [[-2.5, -5], [-2.5, -1]], [[3.2, -5], [3.2, -1]],
    ],
    dtype=np.float64,
)  # fmt: skip


def turned(segments: Segments, degrees: float) -> Segments:
    c, s = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    return segments @ np.array([[c, s], [-s, c]])


def drawn(segments: Segments, resolution: float, thickness_m: float = 0.0) -> NDArray[np.bool_]:
    """The segments around the centre of a grid; one cell thick, or as rectangles of their thickness."""
    size = round(EXTENT_M / resolution)
    image = np.zeros((size, size), np.uint8)
    for start, end in segments + EXTENT_M / 2:
        if thickness_m <= resolution:
            a, b = (tuple(int(v) for v in np.floor(point / resolution)) for point in (start, end))
            cv2.line(image, a, b, 1)
        else:
            along = (end - start) / np.linalg.norm(end - start)
            side = np.array([-along[1], along[0]]) * thickness_m / 2
            corners = np.array([start + side, end + side, end - side, start - side]) / resolution - 0.5
            cv2.fillPoly(image, [np.round(corners * 256).astype(np.int32)], 1, shift=8)
    return image.astype(bool)


def noisy(occupied: NDArray[np.bool_], seed: int) -> NDArray[np.bool_]:
    """15 % of the cells lost, the others moved by up to one cell."""
    rng = np.random.default_rng(seed)
    cells = np.argwhere(occupied)
    cells = cells[rng.random(len(cells)) >= 0.15]
    cells = cells + rng.integers(-1, 2, cells.shape)
    out = np.zeros_like(occupied)
    out[cells[:, 0], cells[:, 1]] = True
    return out


def traced(occupied: NDArray[np.bool_], resolution: float) -> Segments:
    return trace_walls(occupied, resolution, SETTINGS) - EXTENT_M / 2


def points(segments: Segments) -> NDArray[np.float64]:
    """Points every 2 cm."""
    parts = [
        a + (b - a) * ((np.arange(n) + 0.5) / n)[:, None]
        for a, b in segments
        for n in [max(1, math.ceil(float(np.linalg.norm(b - a)) / 0.02))]
    ]
    return np.concatenate([np.empty((0, 2)), *parts])


def distance(where: NDArray[np.float64], segments: Segments) -> NDArray[np.float64]:
    """Of each point to the nearest segment."""
    best = np.full(len(where), np.inf)
    for a, b in segments:
        t = np.clip((where - a) @ (b - a) / ((b - a) @ (b - a)), 0, 1)
        best = np.minimum(best, np.linalg.norm(where - a - t[:, None] * (b - a), axis=1))
    return best


def scores(found: Segments, truth: Segments) -> tuple[float, float, float]:
    """Recall and precision of length within the tolerance, and found over true length."""
    mine, theirs = points(found), points(truth)
    recall = float((distance(theirs, found) < TOLERANCE_M).mean())
    precision = float((distance(mine, truth) < TOLERANCE_M).mean())
    return recall, precision, len(mine) / len(theirs)


def same_ends(found: Segments, wanted: list[list[list[float]]], tolerance: float) -> bool:
    """Whether both are the same segments, in any order and orientation."""
    left = [np.array(segment, dtype=float) for segment in wanted]
    for segment in found:
        for i, other in enumerate(left):
            off = min(np.abs(segment - other).max(), np.abs(segment[::-1] - other).max())
            if off <= tolerance:
                del left[i]
                break
        else:
            return False
    return not left


@pytest.mark.parametrize("degrees", [0, 15, 30, 45])
@pytest.mark.parametrize("thickness_m", [0.05, 0.15, 0.4])
def test_clean_floor(degrees: float, thickness_m: float) -> None:
    truth = turned(FLOOR, degrees)
    found = traced(drawn(truth, 0.05, thickness_m), 0.05)
    recall, precision, ratio = scores(found, truth)
    assert recall > 0.98
    assert precision > 0.98
    assert 0.96 < ratio < 1.04
    assert len(found) <= len(truth) + 1


@pytest.mark.parametrize("degrees", [0, 15, 30, 45])
@pytest.mark.parametrize("thickness_m", [0.05, 0.15, 0.25])
def test_noisy_floor(degrees: float, thickness_m: float) -> None:
    truth = turned(FLOOR, degrees)
    found = traced(noisy(drawn(truth, 0.05, thickness_m), seed=int(degrees)), 0.05)
    recall, precision, ratio = scores(found, truth)
    assert recall > 0.95
    assert precision > 0.97
    assert 0.92 < ratio < 1.06
    assert len(found) <= len(truth) + 3


@pytest.mark.parametrize("degrees", [0, 20, 45, 70])
@pytest.mark.parametrize("cells", range(1, 9))
def test_a_thick_wall_is_one_line_along_its_centre_to_its_ends(cells: int, degrees: float) -> None:
    wall = turned(np.array([[[-3.0, 0.4], [2.0, 0.4]]]), degrees)
    found = traced(drawn(wall, 0.05, cells * 0.05), 0.05)
    assert same_ends(found, wall.tolist(), 0.10)
    assert distance(points(found), wall).max() < 0.06 + 0.05


@pytest.mark.parametrize("seed", range(4))
def test_a_noisy_wall_stays_one_line(seed: int) -> None:
    wall = turned(np.array([[[-4.0, 1.0], [4.0, 1.0]]]), 11.0 * seed)
    assert same_ends(traced(noisy(drawn(wall, 0.05), seed), 0.05), wall.tolist(), 0.20)


@pytest.mark.parametrize("degrees", [0, 30])
@pytest.mark.parametrize("door_m", [0.7, 0.9])
@pytest.mark.parametrize("thickness_m", [0.05, 0.2])
def test_doors_stay_open(degrees: float, door_m: float, thickness_m: float) -> None:
    walls = turned(np.array([[[-4.0, 0], [-door_m / 2, 0]], [[door_m / 2, 0], [4.0, 0]]]), degrees)
    found = traced(drawn(walls, 0.05, thickness_m), 0.05)
    assert same_ends(found, walls.tolist(), 0.10)
    assert distance(np.zeros((1, 2)), found)[0] > door_m / 2 - 0.10


def test_drop_outs_and_scattered_hits_of_a_far_wall_are_joined() -> None:
    occupied = drawn(np.array([[[-4.0, 0.0], [4.0, 0.0]]]), 0.05)
    columns = np.flatnonzero(occupied.any(axis=0))
    holes = occupied.copy()
    holes[:, columns[40:42]] = False  # 0.10 m, as close_m
    holes[:, columns[90:96]] = False  # 0.30 m: nobody fits through
    scattered = occupied.copy()
    scattered[:, [c for c in columns if c % 6]] = False  # hits 0.3 m apart
    wall = [[[-4.0, 0.0], [4.0, 0.0]]]
    assert same_ends(traced(holes, 0.05), wall, 0.06)
    assert same_ends(traced(scattered, 0.05), wall, 0.35)


def test_hits_that_thin_out_with_range_belong_to_their_wall() -> None:
    occupied = np.zeros((400, 400), bool)
    column, step = 60, 1.0
    while column < 300:
        occupied[200, column] = True
        column, step = column + round(step), min(step * 1.04, 7.4)
    found = traced(occupied, 0.05)
    assert same_ends(found, [[[-7.0, 0.0], [4.7, 0.0]]], 0.45)


@pytest.mark.parametrize("resolution", [0.025, 0.05, 0.1])
def test_parallel_walls_stay_two(resolution: float) -> None:
    walls = np.array([[[-4.0, 0.0], [4.0, 0.0]], [[-4.0, 0.3], [4.0, 0.3]]])
    assert same_ends(traced(drawn(walls, resolution), resolution), walls.tolist(), max(resolution, 0.05))


def test_the_two_faces_of_a_wall_are_one() -> None:
    faces = np.array([[[-4.0, 0.0], [4.0, 0.0]], [[-4.0, 0.15], [1.0, 0.15]]])
    found = traced(drawn(faces, 0.05), 0.05)
    assert len(found) == 1
    assert distance(points(found), np.array([[[-4.0, 0.07], [4.0, 0.07]]])).max() < 0.12


@pytest.mark.parametrize("thickness_m", [0.05, 0.3])
@pytest.mark.parametrize("degrees", [0, 25])
def test_walls_meet_at_corners(thickness_m: float, degrees: float) -> None:
    corner = turned(
        np.array([[[-3.0, -2.0], [3.0, -2.0]], [[3.0, -2.0], [3.0, 2.0]], [[0.0, -2.0], [0.0, 2.0]]]), degrees
    )
    found = traced(drawn(corner, 0.05, thickness_m), 0.05)
    assert same_ends(found, corner.tolist(), 0.08)


def test_specks_legs_and_small_furniture_are_dropped() -> None:
    rng = np.random.default_rng(0)
    occupied = np.zeros((400, 400), bool)
    occupied[rng.integers(0, 400, 200), rng.integers(0, 400, 200)] = True  # noise
    for row in range(40, 380, 60):
        for column in range(40, 380, 60):
            occupied[row : row + 7, column : column + 7] = True  # a chair of 0.35 m
    occupied[250:262, 150:164] = True  # a pillar of 0.6 by 0.7 m
    assert len(traced(occupied, 0.05)) == 0


def test_specks_do_not_hide_walls() -> None:
    rng = np.random.default_rng(1)
    occupied = drawn(FLOOR, 0.05)
    occupied[rng.integers(0, 400, 300), rng.integers(0, 400, 300)] = True
    recall, precision, _ = scores(traced(occupied, 0.05), FLOOR)
    assert recall > 0.97
    assert precision > 0.97


@pytest.mark.parametrize("degrees", [0, 30])
def test_resolution_does_not_change_the_walls(degrees: float) -> None:
    truth = turned(FLOOR, degrees)
    found = {r: traced(drawn(truth, r, 0.1), r) for r in (0.025, 0.05, 0.1)}
    for resolution, other in ((0.025, 0.05), (0.1, 0.05), (0.025, 0.1)):
        recall, precision, ratio = scores(found[resolution], found[other])
        assert recall > 0.98
        assert precision > 0.98
        assert 0.97 < ratio < 1.03


def test_settings_decide_what_is_too_short() -> None:
    stubs = np.array([[[-4.0, 0.0], [4.0, 0.0]], [[-1.0, 2.0], [-0.2, 2.0]]])
    occupied = drawn(stubs, 0.05)
    assert len(trace_walls(occupied, 0.05, ObservationSettings(min_wall_m=0.5))) == 2
    assert len(trace_walls(occupied, 0.05, ObservationSettings(min_wall_m=1.5))) == 1
    assert len(trace_walls(occupied, 0.05, ObservationSettings(min_blob_m=1.2))) == 1


def test_ends_are_metres_from_the_outer_corner_of_cell_0_0() -> None:
    occupied = np.zeros((60, 90), bool)
    occupied[20, 10:80] = True
    found = trace_walls(occupied, 0.1, SETTINGS)
    assert same_ends(found, [[[1.05, 2.05], [7.95, 2.05]]], 1e-6)
    assert found.dtype == np.float64


def test_walls_at_the_edge_of_the_grid() -> None:
    occupied = np.zeros((80, 120), bool)
    occupied[0, :] = occupied[-1, :] = occupied[:, 0] = occupied[:, -1] = True
    w, h, c = 120 * 0.05, 80 * 0.05, 0.025
    frame = [
        [[c, c], [w - c, c]],
        [[c, h - c], [w - c, h - c]],
        [[c, c], [c, h - c]],
        [[w - c, c], [w - c, h - c]],
    ]
    assert same_ends(trace_walls(occupied, 0.05, SETTINGS), frame, 0.01)


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (1, 1), (1, 40), (50, 70)])
def test_no_occupied_cell_no_wall(shape: tuple[int, int]) -> None:
    assert trace_walls(np.zeros(shape, bool), 0.05, SETTINGS).shape == (0, 2, 2)


def test_solid_and_tiny_grids_do_not_fail() -> None:
    assert trace_walls(np.ones((1, 1), bool), 0.05, SETTINGS).shape == (0, 2, 2)
    assert trace_walls(np.ones((200, 200), bool), 0.05, SETTINGS).shape == (0, 2, 2)
    assert len(trace_walls(np.ones((1, 60), bool), 0.05, SETTINGS)) == 1


def test_a_window_into_a_larger_grid_gives_the_same_walls() -> None:
    occupied = drawn(FLOOR, 0.05)
    part = occupied[40:360, 60:340]
    assert not part.flags.c_contiguous
    found = trace_walls(part, 0.05, SETTINGS) + np.array([60, 40]) * 0.05
    assert np.allclose(found, trace_walls(occupied, 0.05, SETTINGS), atol=1e-9)


def test_same_grid_same_walls() -> None:
    occupied = noisy(drawn(FLOOR, 0.05), 3)
    assert np.array_equal(traced(occupied, 0.05), traced(occupied, 0.05))


@pytest.mark.parametrize("resolution", [0.0, -0.05, math.nan, math.inf])
def test_useless_resolution_is_refused(resolution: float) -> None:
    with pytest.raises(MapError, match="resolution"):
        trace_walls(np.ones((4, 4), bool), resolution, SETTINGS)


def test_another_shape_is_refused() -> None:
    with pytest.raises(MapError, match="2-D"):
        trace_walls(np.ones(4, bool), 0.05, SETTINGS)


def test_thinning_keeps_what_hangs_together() -> None:
    mask = np.pad(noisy(drawn(FLOOR, 0.05, 0.2), 5).astype(np.uint8), 2)
    mask = cv2.morphologyEx(mask, cv2.MORPH_CLOSE, np.ones((3, 3), np.uint8))
    skeleton, cells = thin(mask, np.flatnonzero(mask))
    assert np.array_equal(cells, np.flatnonzero(skeleton))
    assert not (skeleton & ~mask & 1).any()
    assert skeleton.sum() < 0.5 * mask.sum()
    assert cv2.connectedComponents(skeleton)[0] == cv2.connectedComponents(mask)[0]
