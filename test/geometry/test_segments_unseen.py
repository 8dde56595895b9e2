"""The parts of walls that an observation does not show: nothing else, and all of it but short rests."""

from __future__ import annotations

import numpy as np
from canonical_form import any_wall, canonical, drawn, grown, unhurried
from hypothesis import given
from hypothesis import strategies as st

from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS
from floorgent_ros.geometry.segments import MIN_UNSEEN_CELLS, SEEN_CELLS, unseen_walls


def test_of_no_walls_none_are_unseen():
    assert unseen_walls(canonical([]), np.zeros((256, 256), np.int8)).shape == (0, 4)


def cells_of(wall):
    """Cells (row, column) of a straight wall, in order."""
    x0, y0, x1, y1 = wall
    steps = max(abs(x1 - x0), abs(y1 - y0))
    dx, dy = np.sign(x1 - x0), np.sign(y1 - y0)
    return [(int(y0 + t * dy), int(x0 + t * dx)) for t in range(steps + 1)]


def shown_of(image):
    """What the docstring says: seen free, or close to an observed occupied cell."""
    return (image == FREE) | grown(image == OCCUPIED, SEEN_CELLS)


straight_walls = st.lists(
    st.tuples(st.integers(0, 200), st.integers(0, 200), st.integers(0, 55), st.booleans()).map(
        lambda w: (w[0], w[1], w[0], w[1] + w[2]) if w[3] else (w[0], w[1], w[0] + w[2], w[1])
    ),
    min_size=3,
    max_size=6,
)


def patchy_image(seed, block):
    rng = np.random.default_rng(seed)
    side = -(-WINDOW_CELLS // block)
    patches = rng.choice(np.array([UNKNOWN, FREE, OCCUPIED], np.int8), (side, side), p=[0.7, 0.2, 0.1])
    return np.kron(patches, np.ones((block, block), np.int8))[:WINDOW_CELLS, :WINDOW_CELLS]


@unhurried
@given(straight_walls, st.integers(0, 10_000), st.sampled_from([7, 16, 40]))
def test_unseen_walls_are_the_hidden_runs_and_no_others(walls, seed, block):
    image = patchy_image(seed, block)
    shown = shown_of(image)
    expected = []
    for wall in walls:
        run = []
        for cell in [*cells_of(wall), None]:
            if cell is not None and not shown[cell]:
                run.append(cell)
                continue
            if len(run) >= MIN_UNSEEN_CELLS:
                expected.append((*run[0][::-1], *run[-1][::-1]))
            run = []
    assert [tuple(wall) for wall in unseen_walls(np.array(walls), image).tolist()] == expected


@unhurried
@given(straight_walls, st.integers(0, 10_000), st.sampled_from([7, 16, 40]))
def test_seen_and_unseen_parts_together_are_the_wall(walls, seed, block):
    image = patchy_image(seed, block)
    unseen = {cell for wall in unseen_walls(np.array(walls), image).tolist() for cell in cells_of(wall)}
    shown = shown_of(image)
    every = {cell for wall in walls for cell in cells_of(wall)}
    assert unseen <= every
    for wall in walls:
        rest = 0  # cells in a row that are neither: only what is too short to be a wall
        for cell in cells_of(wall):
            rest = 0 if shown[cell] or cell in unseen else rest + 1
            assert rest < MIN_UNSEEN_CELLS


@unhurried
@given(st.lists(any_wall, max_size=8), st.integers(0, 10_000))
def test_unseen_parts_of_slanted_walls_lie_on_them_and_are_hidden(walls, seed):
    levels = canonical(walls)
    image = patchy_image(seed, 16)
    unseen = unseen_walls(levels, image)
    assert not (drawn(unseen) & ~grown(drawn(levels), 1)).any()
    hidden = ~shown_of(image)
    assert hidden[unseen[:, 1], unseen[:, 0]].all()
    assert hidden[unseen[:, 3], unseen[:, 2]].all()
    assert not (drawn(unseen) & ~grown(hidden, 1)).any()


def test_with_nothing_seen_all_walls_are_unseen_and_with_all_seen_none():
    levels = canonical([(-5, 1, 5, 1), (2, -4, 2, 6), (-6, -6, 3, -2)])
    assert len(levels) == 3
    blank = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
    assert np.array_equal(unseen_walls(levels, blank), levels)
    assert len(unseen_walls(levels, np.full_like(blank, FREE))) == 0
    assert len(unseen_walls(levels, np.where(drawn(levels), np.int8(OCCUPIED), blank))) == 0


def test_an_observed_wall_two_cells_off_is_the_wall_and_three_cells_off_is_another():
    (wall,) = canonical([(-5, 1.01, 5, 1.01)])
    for off, count in ((0, 0), (SEEN_CELLS, 0), (-SEEN_CELLS, 0), (SEEN_CELLS + 1, 1), (-SEEN_CELLS - 1, 1)):
        image = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
        image[wall[1] + off, wall[0] : wall[2] + 1] = OCCUPIED
        assert len(unseen_walls(wall[None], image)) == count


def test_the_half_of_a_wall_that_was_seen_is_left_out():
    (wall,) = canonical([(-5, 1, 5, 1)])
    image = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
    image[wall[1], wall[0] : 128] = OCCUPIED
    (rest,) = unseen_walls(wall[None], image)
    assert rest.tolist() == [128 + SEEN_CELLS, wall[1], wall[2], wall[3]]
