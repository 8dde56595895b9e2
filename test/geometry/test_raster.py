"""Drawn segments against OpenCV's line on a canvas that is large enough for both ends."""

from __future__ import annotations

import math

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.geometry.grid import CELL_M, Window
from floorgent_ros.geometry.raster import rasterise, rasterise_metres

unhurried = settings(deadline=None)  # the first call compiles
MARGIN = 400
coordinates = st.floats(-MARGIN, 64 + MARGIN - 1)


def opencv_line(segment, size):
    canvas = np.zeros((size + 2 * MARGIN,) * 2, np.uint8)
    first, second = (tuple(int(value) + MARGIN for value in np.floor(end)) for end in np.asarray(segment))
    cv2.line(canvas, first, second, 1, 1, cv2.LINE_8)
    return canvas[MARGIN : MARGIN + size, MARGIN : MARGIN + size].astype(bool)


@unhurried
@given(coordinates, coordinates, coordinates, coordinates)
def test_same_cells_as_opencv_wherever_the_ends_lie(x0, y0, x1, y1):
    segment = np.array([[x0, y0], [x1, y1]])
    drawn = rasterise(segment[None], size=64)
    assert np.array_equal(drawn, opencv_line(segment, 64))
    assert np.array_equal(drawn, rasterise(segment[None, ::-1], size=64))


def test_many_segments_are_the_union_of_each():
    segments = np.random.default_rng(0).uniform(-100, 356, (300, 2, 2))
    wanted = np.any([opencv_line(segment, 256) for segment in segments], axis=0)
    assert 0.05 < wanted.mean() < 0.95
    assert np.array_equal(rasterise(segments), wanted)


def test_each_end_is_floored_to_its_cell():
    drawn = rasterise([[(2.0, 5.999), (2.999, 5.0)], [(7.2, 1.9), (9.1, 1.1)]], size=12)
    assert sorted(zip(*np.nonzero(drawn), strict=True)) == [(1, 7), (1, 8), (1, 9), (5, 2)]  # (row, column)


def test_negative_coordinates_are_floored_not_truncated():
    assert not rasterise([[(-0.5, 3.0), (-0.2, 3.0)]], size=8).any()


def test_no_segments():
    for empty in ([], np.zeros((0, 2, 2))):
        drawn = rasterise(empty)
        assert drawn.shape == (256, 256)
        assert drawn.dtype == np.bool_
        assert not drawn.any()


def test_ends_far_away_neither_overflow_nor_take_time():
    diagonal = rasterise([[(-1e9, -1e9), (1e9, 1e9)]])
    assert np.array_equal(diagonal, np.eye(256, dtype=bool))
    across = rasterise([[(-1e300, 7.5), (1e300, 7.5)]])
    assert across[7].all()
    assert across.sum() == 256


@pytest.mark.parametrize("angle", [0.0, math.radians(30), -1.9])
def test_metres_go_to_the_windows_own_cells(angle):
    window = Window((3.7, -1.2), angle)
    ends = np.array([(10.5, 20.5), (40.5, 20.5)])
    drawn = rasterise_metres(window.to_frame(ends)[None], window)
    wanted = np.zeros((256, 256), bool)
    wanted[20, 10:41] = True
    assert np.array_equal(drawn, wanted)


def test_float32_metres_on_cell_edges_come_back_to_their_cells():
    """Completions are float32 metres: a wall on a cell's lower edge must not slip into the cell below."""
    generator = np.random.default_rng(1)
    for viewpoint in generator.uniform(-300, 300, (20, 2)):
        window = Window(tuple(viewpoint))
        ends = generator.integers(0, 256, (30, 2, 2)).astype(float)
        metres = window.to_frame(ends).astype(np.float32)
        assert np.array_equal(rasterise_metres(metres, window), rasterise(ends))


def test_viewpoint_is_the_corner_of_the_source_cell():
    drawn = rasterise_metres([[(5.0, 6.0), (5.0 + 3 * CELL_M, 6.0)]], Window((5.0, 6.0)))
    assert drawn[128, 128:132].all()
    assert drawn.sum() == 4
