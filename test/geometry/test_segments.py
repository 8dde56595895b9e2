"""Canonical walls: the same for a building however it is written down, and nothing lost but doubles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from canonical_form import FRAME, HORIZON_M, any_wall, canonical, coordinate, drawn, grown, unhurried
from hypothesis import given
from hypothesis import strategies as st

from floorgent_ros.geometry.grid import CELL_M, WINDOW_CELLS, Window
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.geometry.segments import FACE_CELLS, canonical_walls, clip_to_disc, to_metres

END_M = 1.5 * CELL_M  # an end may move by a cell when it is rounded


def metres(levels, frame=FRAME):
    return to_metres(levels, frame).reshape(-1, 4)


def as_set(levels):
    return set(map(tuple, np.asarray(levels).tolist()))


axis_wall = st.tuples(coordinate, coordinate, st.floats(0.2, 6), st.booleans()).map(
    lambda w: (w[0], w[1], w[0], w[1] + w[2]) if w[3] else (w[0], w[1], w[0] + w[2], w[1])
)
mixed_walls = st.lists(st.one_of(axis_wall, any_wall), max_size=12)


def gridded_walls(offsets):
    """Lists of walls in cells, three or more long, on lines eight cells apart moved by one of the offsets."""

    def wall(line, aside, low, length, upright):
        across = 8 * line + aside
        ends = (across, low, across, low + length) if upright else (low, across, low + length, across)
        return [end - 50 for end in ends]

    aside, low, length = st.sampled_from(offsets), st.integers(0, 80), st.integers(2, 40)
    lines = st.builds(wall, st.integers(0, 12), aside, low, length, st.booleans())
    return st.lists(lines, min_size=1, max_size=14)


def in_metres(cells):
    """Cells of the window, counted from its middle, → metres through their centres."""
    return (np.array(cells, float).reshape(-1, 4) + 0.5) * CELL_M


@unhurried
@given(mixed_walls, st.randoms(use_true_random=False))
def test_the_order_of_the_walls_does_not_matter(walls, random):
    shuffled = list(walls)
    random.shuffle(shuffled)
    assert np.array_equal(canonical(walls), canonical(shuffled))


@unhurried
@given(mixed_walls, st.lists(st.booleans(), min_size=12, max_size=12))
def test_the_direction_of_the_walls_does_not_matter(walls, turned):
    reversed_ = [(*wall[2:], *wall[:2]) if turn else wall for wall, turn in zip(walls, turned, strict=False)]
    assert np.array_equal(canonical(walls), canonical(reversed_))


@unhurried
@given(mixed_walls)
def test_doubled_walls_do_not_matter(walls):
    assert np.array_equal(canonical(walls), canonical(walls + walls))


@unhurried
@given(st.one_of(gridded_walls([0, 1]), gridded_walls([0, FACE_CELLS])))
def test_canonical_walls_are_their_own_canonical_form(walls):
    """For facades (lines a cell apart) and for doubled walls (two faces)."""
    once = canonical(in_metres(walls))
    assert as_set(canonical(metres(once))) == as_set(once)


@unhurried
@given(mixed_walls)
def test_walls_are_oriented_and_lie_in_the_window_and_the_horizon(walls):
    levels = canonical(walls)
    assert levels.dtype == np.int64
    assert levels.shape == (len(levels), 4)
    assert ((levels >= 0) & (levels < WINDOW_CELLS)).all()
    x0, y0, x1, y1 = levels.T
    assert ((x0 < x1) | ((x0 == x1) & (y0 < y1))).all()
    far = np.hypot(*np.moveaxis(metres(levels).reshape(-1, 2, 2), -1, 0))
    assert (far <= HORIZON_M + 2 * CELL_M).all()


@unhurried
@given(st.lists(axis_wall, max_size=12))
def test_nothing_is_drawn_where_no_wall_is(walls):
    raw = rasterise_metres(np.array(walls, float).reshape(-1, 2, 2), FRAME)
    assert not (drawn(canonical(walls)) & ~grown(raw, 3)).any()


@unhurried
@given(st.lists(axis_wall, max_size=2))
def test_every_wall_is_drawn_or_is_the_face_of_one_that_is(walls):
    raw = rasterise_metres(np.array(walls, float).reshape(-1, 2, 2), FRAME)
    assert not (raw & ~grown(drawn(canonical(walls, horizon_m=20.0)), FACE_CELLS + 1)).any()


def test_no_walls_no_canonical_walls():
    assert canonical([]).shape == (0, 4)
    assert canonical([(30, 30, 31, 30)]).shape == (0, 4)


@unhurried
@given(st.lists(st.tuples(st.floats(0, 8), st.floats(0, 3)), min_size=1, max_size=8), st.booleans())
def test_overlapping_collinear_walls_become_their_union(spans, upright):
    """A chain in which each piece starts within the last: one line."""
    pieces, reach = [], -5.0
    for start, length in spans:
        low = min(-5.0 + start, reach)
        reach = max(reach, low + length)
        pieces.append((low, low + length))
    pieces.append((-5.0, -4.0))
    reach = max(reach, -4.0)
    walls = [(1.0, low, 1.0, high) if upright else (low, 1.0, high, 1.0) for low, high in pieces]
    (wall,) = canonical(walls)
    along = [1, 3] if upright else [0, 2]
    assert np.allclose(metres(wall)[0, along], (-5.0, reach), atol=END_M)


def test_walls_that_touch_are_one():
    assert len(canonical([(-2, 1, 1, 1), (1, 1, 4, 1), (4, 1, 6, 1)])) == 1
    assert len(canonical([(-2, 1, 1, 1), (1, 1, 1, 4)])) == 2  # a corner


@unhurried
@given(
    st.floats(0.70, 3.0),
    st.floats(0, CELL_M),
    st.floats(0, CELL_M),
    st.booleans(),
    st.sampled_from([0.0, 0.2]),
)
def test_doors_stay_open(width, x, y, upright, thickness):
    """From 0.7 m, wherever the wall stands in its cells, in single walls and in walls of two faces."""
    walls = []
    for aside in {0.0, thickness}:
        walls += [(-4, aside, 1, aside), (1 + width, aside, 7, aside)]
    if thickness:
        walls += [(1, 0, 1, thickness), (1 + width, 0, 1 + width, thickness)]  # jambs
    walls = np.array(walls) + np.array([x, y, x, y])
    if upright:
        walls = walls[:, [1, 0, 3, 2]]
    levels = canonical(walls)
    middle = np.array([x + 1 + width / 2, y])[:: -1 if upright else 1]
    column, row = np.floor(FRAME.to_cell(middle)).astype(int)
    beside = slice(row - 3, row + 4), slice(column, column + 1)
    if upright:
        beside = slice(row, row + 1), slice(column - 3, column + 4)
    assert not drawn(levels)[beside].any()
    across = levels[:, 1] == levels[:, 3] if not upright else levels[:, 0] == levels[:, 2]
    assert across.sum() == 2


@unhurried
@given(st.floats(0.05, 0.30), st.floats(0, CELL_M), st.floats(-3, 3), st.floats(-3, 3), st.booleans())
def test_the_two_faces_of_a_wall_become_one_line(thickness, y, start, end, upright):
    walls = np.array([(-5.0, y, 5.0 + end / 10, y), (-5.0 + start / 10, y + thickness, 5.0, y + thickness)])
    levels = canonical(walls[:, [1, 0, 3, 2]] if upright else walls)
    assert len(levels) == 1
    low, high = metres(levels)[0, [1, 3] if upright else [0, 2]]
    assert (low, high) == pytest.approx((-5, 5), abs=0.6)


def test_parallel_walls_further_apart_stay_two():
    apart = (FACE_CELLS + 1) * CELL_M
    assert len(canonical([(-5, 0.01, 5, 0.01), (-5, 0.02 + apart, 5, 0.02 + apart)])) == 2


def test_a_second_face_keeps_what_the_first_has_not():
    """A wall two cells behind another that reaches further: the rest of it stays where it is."""
    levels = canonical([(-5, 0.02, 5, 0.02), (3, 0.33, 8, 0.33)])
    assert len(levels) == 2
    long, rest = sorted(metres(levels).tolist(), key=lambda wall: wall[0])
    assert (long[0], long[2]) == pytest.approx((-5, 5), abs=END_M)
    assert (rest[0], rest[2]) == pytest.approx((5, 8), abs=END_M)


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("upright", [False, True])
def test_a_facade_with_windows_a_cell_back_is_one_line(sign, upright):
    back = 2.01 + sign * 0.9 * CELL_M
    walls = [(low, 2.01, low + 1.5, 2.01) for low in (-6, -3, 0, 3)]
    walls += [(low + 1.5, back, low + 3, back) for low in (-6, -3, 0, 3)]
    walls = np.array(walls)
    levels = canonical(walls[:, [1, 0, 3, 2]] if upright else walls)
    assert len(levels) == 1
    low, high = metres(levels)[0, [1, 3] if upright else [0, 2]]
    assert (low, high) == pytest.approx((-6, 6), abs=END_M)


@unhurried
@given(st.floats(6, 84), st.floats(2, 8), st.booleans())
def test_slanted_walls_are_kept_end_for_end(degrees, length, falling):
    direction = np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees)) * (-1) ** falling])
    start = np.array([-1.0, 2.0])
    (wall,) = metres(canonical([(*start, *(start + length * direction))]))
    assert np.allclose(wall, (*start, *(start + length * direction)), atol=CELL_M)


@pytest.mark.parametrize("degrees", [-2.5, -1.0, 1.0, 2.5])
@pytest.mark.parametrize("upright", [False, True])
def test_walls_near_an_axis_become_straight_at_their_middle(degrees, upright):
    half = 4.0 * np.array([math.cos(math.radians(degrees)), math.sin(math.radians(degrees))])
    middle = np.array([1.0, 3.03])
    ends = np.array([middle - half, middle + half])
    (wall,) = canonical([*ends[:, ::-1].ravel()] if upright else [*ends.ravel()])
    x0, y0, x1, y1 = wall[[1, 0, 3, 2]] if upright else wall
    assert y0 == y1
    assert np.allclose((np.array([x0, x1, y0]) + 0.5 - 128) * CELL_M, (-3, 5, 3.03), atol=END_M)


def test_a_turned_frame_sees_its_own_walls_straight():
    frame = Window((3.0, -2.0), math.radians(30))
    wall = frame.to_frame(np.array([[[100.5, 140.5], [180.5, 140.5]]]))
    assert np.array_equal(canonical_walls(wall, frame, HORIZON_M), [[100, 140, 180, 140]])


@unhurried
@given(
    st.lists(st.tuples(*[st.integers(0, WINDOW_CELLS - 1)] * 4), min_size=1, max_size=5),
    st.floats(-3, 3),
    coordinate,
)
def test_levels_survive_the_way_through_metres(levels, angle, x):
    frame = Window((x, 1.0), angle)
    back = np.floor(frame.to_cell(to_metres(np.array(levels), frame))).astype(int)
    assert np.array_equal(back.reshape(-1, 4), levels)


# --- the horizon ---


@unhurried
@given(st.lists(any_wall, min_size=1, max_size=8), st.floats(1, 12))
def test_clipping_keeps_exactly_what_lies_in_the_disc(walls, radius):
    lines = np.array(walls, float).reshape(-1, 2, 2)
    clipped = clip_to_disc(lines, 0.0, radius)
    assert (np.hypot(clipped[..., 0], clipped[..., 1]) <= radius + 1e-6).all()
    share = np.linspace(0, 1, 2001)[:, None, None]
    sampled = lines[None, :, 0] + share * (lines[:, 1] - lines[:, 0])
    length = np.hypot(*(lines[:, 1] - lines[:, 0]).T)
    inside = (np.hypot(sampled[..., 0], sampled[..., 1]) < radius).mean(0) @ length
    kept = np.hypot(*(clipped[:, 1] - clipped[:, 0]).T).sum()
    assert kept == pytest.approx(inside, abs=0.002 * length.sum() + 1e-3)


def test_a_wall_through_the_disc_is_cut_at_its_rim():
    (wall,) = metres(canonical([(-40, 3, 40, 3)], horizon_m=5.0))
    assert np.allclose(wall, (-4, 3, 4, 3), atol=CELL_M)


def test_a_wall_beside_the_disc_is_gone_and_one_inside_is_whole():
    assert len(canonical([(-40, 5.1, 40, 5.1), (6, -1, 6, 1)], horizon_m=5.0)) == 0
    (wall,) = metres(canonical([(-2, 3, 2, 3)], horizon_m=5.0))
    assert np.allclose(wall, (-2, 3, 2, 3), atol=CELL_M)


def test_no_horizon_reaches_beyond_the_window():
    levels = canonical([(-40, 0.05, 40, 0.05), (0.05, -40, 0.05, 40), (-40, -40, 40, 40)], horizon_m=100.0)
    assert {(0, 128, 255, 128), (128, 0, 128, 255)} <= as_set(levels)
    assert len(levels) == 3
