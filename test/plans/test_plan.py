"""A plan's segments and its indoor mask, against a point-in-polygon test written out here."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.geometry.grid import WINDOW_CELLS, Window
from floorgent_ros.plans.plan import Plan

NO_WALLS = np.zeros((0, 2, 2))
L_SHAPE = np.array([[0, 0], [6, 0], [6, 2], [2, 2], [2, 5], [0, 5]], float)
STAR = np.array([[0.3, 0.2], [6.1, 0.7], [5.2, 4.4], [2.0, 2.2], [0.9, 5.0]])
BOW_TIE = np.array([[0, 0], [4, 4], [4, 0], [0, 4]], float)  # crosses itself: even-odd


def to_cell(points, resolution=0.05, corner=(-1.0, -1.0)):
    return (np.asarray(points) - corner) / resolution


def inside(polygon, points):
    """(…,) bool: the even-odd rule for (…, 2) points, by counting edges to the right."""
    x, y = points[..., 0], points[..., 1]
    odd = np.zeros(x.shape, bool)
    for (x0, y0), (x1, y1) in zip(polygon, np.roll(polygon, -1, 0), strict=True):
        spans = (y0 > y) != (y1 > y)
        with np.errstate(divide="ignore", invalid="ignore"):
            odd ^= spans & (x < x0 + (y - y0) * (x1 - x0) / (y1 - y0))
    return odd


def distance_to_outline(polygon, points):
    nearest = np.full(points.shape[:-1], np.inf)
    for start, end in zip(polygon, np.roll(polygon, -1, 0), strict=True):
        along = end - start
        share = np.clip(((points - start) @ along) / max(along @ along, 1e-12), 0, 1)
        nearest = np.minimum(
            nearest, np.hypot(*np.moveaxis(start + share[..., None] * along - points, -1, 0))
        )
    return nearest


def assert_mask(polygons, transform, shape):
    """A cell is indoors when its centre is in a polygon; on an outline itself either answer is right."""
    mask = Plan(NO_WALLS, spaces=tuple(polygons)).indoor(transform, shape)
    rows, columns = np.indices(shape)
    centres = np.stack([columns + 0.5, rows + 0.5], -1)
    cells = [transform(polygon) for polygon in polygons]
    expected = np.any([inside(polygon, centres) for polygon in cells], axis=0)
    outline = np.min([distance_to_outline(polygon, centres) for polygon in cells], axis=0)
    assert np.array_equal(mask[outline > 1e-6], expected[outline > 1e-6])
    return mask


@pytest.mark.parametrize("polygon", [L_SHAPE, STAR, STAR[::-1], BOW_TIE])
def test_indoor_is_where_a_space_is(polygon):
    mask = assert_mask([polygon], to_cell, (160, 160))
    assert mask.any()
    assert not mask.all()


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0.5, 5.0), min_size=3, max_size=9), st.floats(-3, 3), st.floats(-3, 3))
def test_indoor_of_any_star_shaped_room(radii, x, y):
    bearings = np.arange(len(radii)) * 2 * math.pi / len(radii)
    polygon = np.array(radii)[:, None] * np.stack([np.cos(bearings), np.sin(bearings)], 1) + (x, y)
    assert_mask([polygon], lambda points: to_cell(points, 0.1, (-4.0, -4.0)), (80, 80))  # often cut off


def test_indoor_in_the_cells_of_a_turned_window():
    window = Window((2.0, 1.0), 0.5)
    mask = assert_mask([L_SHAPE], window.to_cell, (WINDOW_CELLS, WINDOW_CELLS))
    assert mask[127, 127]
    assert mask[128, 128]


def test_rooms_that_overlap_stay_indoors_where_they_do():
    square = np.array([[0, 0], [3, 0], [3, 3], [0, 3]], float)
    mask = assert_mask([square, square + 1], to_cell, (120, 120))
    assert mask[60, 60]  # (2, 2) lies in both


def test_no_space_no_indoors():
    assert not Plan(NO_WALLS).indoor(to_cell, (20, 30)).any()
    assert Plan(NO_WALLS).indoor(to_cell, (20, 30)).shape == (20, 30)


def test_a_room_far_from_the_mask_leaves_it_empty():
    assert not Plan(NO_WALLS, spaces=(L_SHAPE + 5000.0,)).indoor(to_cell, (50, 50)).any()


def test_segments_and_bounds_include_the_windows():
    walls = np.array([[[0, 0], [4, 0]], [[4, 0], [4, 3]]], float)
    windows = np.array([[[-2, 1], [1, 7]]], float)
    plan = Plan(walls, windows)
    assert np.array_equal(plan.segments, [*walls, *windows])
    assert np.array_equal(plan.bounds, [[-2, 0], [4, 7]])
    assert np.array_equal(Plan(walls).segments, walls)
