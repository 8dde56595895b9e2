"""The integer sequence: a lossless, order-free code of a set of walls, drawn from the viewpoint outwards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from floorgent_ros.model.sequence import DOWN, FREE, LEFT, RIGHT, UP, Layout

LAYOUTS = [Layout(16, 8), Layout(256, 8), Layout(60, 12)]
quick = settings(deadline=None, max_examples=25)
with_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.levels}-{layout.patch}")


@st.composite
def walls_of(draw, layout, smallest=0):
    """(N, 4) levels; many are straight, some are points, some occur twice."""
    count = draw(st.integers(smallest, 15))
    walls = draw(arrays(np.int64, (count, 4), elements=st.integers(0, layout.levels - 1)))
    straight = draw(arrays(np.int64, count, elements=st.integers(0, 3)))
    walls[straight == 1, 3] = walls[straight == 1, 1]
    walls[straight == 2, 2] = walls[straight == 2, 0]
    if count > 1 and draw(st.booleans()):
        walls[-1] = walls[0]
    return walls


def undirected(walls):
    return {tuple(sorted([tuple(wall[:2]), tuple(wall[2:])])) for wall in walls.tolist()}


def turned(walls):
    return walls[:, [2, 3, 0, 1]]


def from_centre(points, layout):
    return ((2 * points - (layout.levels - 1)) ** 2).sum(-1)  # four times the square: exact in integers


@with_layout
@quick
@given(data=st.data())
def test_decoding_gives_the_walls_back_up_to_direction(layout, data):
    walls = data.draw(walls_of(layout))
    rows = layout.encode(walls)
    decoded = layout.decode(rows)
    assert rows.dtype == decoded.dtype == np.int64
    assert undirected(decoded) == undirected(walls)
    assert np.array_equal(layout.encode(decoded), rows)


@with_layout
@quick
@given(data=st.data())
def test_neither_order_nor_direction_nor_repetition_of_walls_matters(layout, data):
    walls = data.draw(walls_of(layout, smallest=1))
    order = data.draw(st.permutations(range(len(walls))))
    flip = data.draw(arrays(np.bool_, len(walls)))
    rows = layout.encode(walls)
    shuffled = np.where(flip[:, None], turned(walls), walls)[order]
    assert np.array_equal(layout.encode(shuffled), rows)
    assert np.array_equal(layout.encode(np.concatenate([walls, turned(shuffled), shuffled])), rows)
    assert len(rows) == len(undirected(walls))


@with_layout
@quick
@given(data=st.data())
def test_sequence_ascends_and_its_integers_are_within_their_ranges(layout, data):
    rows = layout.encode(data.draw(walls_of(layout)))
    ascending = list(map(tuple, rows.tolist()))
    assert ascending == sorted(set(ascending))
    free = rows[:, 2] == FREE
    assert rows.min(initial=0) >= 0
    assert rows[:, 0].max(initial=0) < layout.patches
    assert rows[:, 1].max(initial=0) < layout.patch**2
    assert rows[:, 2].max(initial=0) <= FREE
    assert rows[~free, 3].max(initial=0) < layout.side
    assert rows[~free, 4].max(initial=0) < layout.patch
    assert rows[free, 3].max(initial=0) < layout.patches
    assert rows[free, 4].max(initial=0) < layout.patch**2


@with_layout
@quick
@given(data=st.data())
def test_first_end_is_the_nearer_one_and_kinds_say_where_the_last_end_lies(layout, data):
    rows = layout.encode(data.draw(walls_of(layout)))
    walls = layout.decode(rows)
    first, last = walls[:, :2], walls[:, 2:]
    assert np.all(from_centre(first, layout) <= from_centre(last, layout))
    for (_, _, kind, _, _), (dx, dy) in zip(rows.tolist(), (last - first).tolist(), strict=True):
        expected = {
            RIGHT: dx >= 0 and dy == 0,
            LEFT: dx < 0 and dy == 0,
            UP: dx == 0 and dy > 0,
            DOWN: dx == 0 and dy < 0,
            FREE: dx != 0 and dy != 0,
        }
        assert expected[kind]


@with_layout
def test_ranks_number_all_patches_from_the_viewpoint_outwards(layout):
    assert sorted(layout.patch_of_rank) == list(range(layout.patches))
    assert np.array_equal(layout.rank_of_patch[layout.patch_of_rank], np.arange(layout.patches))
    y, x = np.divmod(layout.patch_of_rank, layout.side)
    squares = (2 * x - layout.side + 1) ** 2 + (2 * y - layout.side + 1) ** 2
    assert np.all(np.diff(squares) >= 0)


@with_layout
def test_lines_are_the_patches_met_along_each_direction(layout):
    side = layout.side
    for kind, (dx, dy) in {RIGHT: (1, 0), UP: (0, 1), LEFT: (-1, 0), DOWN: (0, -1)}.items():
        for patch in (0, 1, side - 1, side * (side // 2), layout.patches - 1):
            y, x = divmod(patch, side)
            met = []
            while 0 <= x < side and 0 <= y < side:
                met.append(y * side + x)
                x, y = x + dx, y + dy
            assert layout.lines[kind, patch].tolist() == met + [-1] * (side - len(met))


def test_the_example_of_the_docstring():
    ((rank, *rest),) = Layout(256, 8).encode(np.array([[152, 128, 128, 128]])).tolist()
    assert rank < 4
    assert rest == [0, RIGHT, 3, 0]


@pytest.mark.parametrize(
    ("wall", "row"),
    [
        # (x0, y0, x1, y1) in 16 levels, patches of 8 → cell, kind, end step, end cell after the rank
        ((9, 10, 13, 10), (2 * 8 + 1, RIGHT, 0, 5)),
        ((6, 10, 1, 10), (2 * 8 + 6, LEFT, 0, 1)),
        ((9, 5, 9, 15), (5 * 8 + 1, UP, 1, 7)),
        ((9, 9, 9, 2), (1 * 8 + 1, DOWN, 1, 2)),
        ((8, 8, 2, 14), (0, FREE, 1 * 2 + 0, 6 * 8 + 2)),
        ((9, 9, 9, 9), (1 * 8 + 1, RIGHT, 0, 1)),
    ],
)
def test_integers_of_single_walls(wall, row):
    layout = Layout(16, 8)
    ((rank, *rest),) = layout.encode(np.array([wall])).tolist()
    assert tuple(rest) == row
    assert layout.patch_of_rank[rank] == wall[1] // 8 * 2 + wall[0] // 8


@pytest.mark.parametrize(
    ("wall", "first"),
    [
        ((5, 3, 10, 3), (5, 3)),  # mirrored about the viewpoint: the paper's order, left first …
        ((12, 2, 12, 13), (12, 2)),  # … then lowest first
        ((4, 11, 11, 4), (4, 11)),
        ((4, 4, 11, 11), (4, 4)),
    ],
)
def test_walls_with_equally_near_ends_start_left_then_low(wall, first):
    layout = Layout(16, 8)
    for direction in (np.array([wall]), turned(np.array([wall]))):
        ((x, y, *_),) = layout.decode(layout.encode(direction)).tolist()
        assert (x, y) == first


def test_no_walls_are_an_empty_sequence():
    layout = Layout(32, 8)
    assert layout.encode(np.zeros((0, 4), np.int64)).shape == (0, 5)
    assert layout.decode(np.zeros((0, 5), np.int64)).shape == (0, 4)
