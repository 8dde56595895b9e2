"""What is drawn of an image and what is still to come, against rasters and counting by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.model.paper.config import SEGMENTS, SequenceConfig
from floorgent_ros.model.paper.corners import distance
from floorgent_ros.model.paper.coverage import SHARES, SLIPPING, Coverage, View, cells_of, slipped

SIZE, LEVELS = 16, 32
level = st.integers(0, LEVELS - 1)
segment = st.tuples(level, level, level, level)


def config(extent_m=2.5):
    return SequenceConfig(
        architecture=SEGMENTS,
        observation="nearest",
        sight=True,
        levels=LEVELS,
        vocabulary=LEVELS + 3,
        image_cells=SIZE,
        extent_m=extent_m,
    )


def raster(segments):
    return rasterise(np.array(segments).reshape(-1, 2, 2) * (SIZE / LEVELS), SIZE)


def view_of(shown, drawn, number=None):
    """Of an image of `shown`, before segment number `number` of `drawn`, by default before one after them."""
    image = torch.from_numpy(raster(shown))[None]
    coverage = Coverage.of(image, config()).added(torch.tensor(drawn, dtype=torch.int64).view(1, -1, 4), 0)
    return View(coverage, torch.tensor([len(drawn) if number is None else number]))


@settings(deadline=None)  # the first one compiles
@given(segment)
def test_cells_of_a_segment_are_those_of_the_raster(levels):
    index, valid = cells_of(torch.tensor(levels), LEVELS, SIZE, SIZE + 1)
    found = np.zeros(SIZE * SIZE, bool)
    found[index[valid].numpy()] = True
    assert (found.reshape(SIZE, SIZE) == raster([levels])).all()
    assert int(valid.sum()) == found.sum()


@given(st.lists(segment, min_size=1, max_size=6), st.data())
@settings(max_examples=50, deadline=None)
def test_coverage_knows_the_first_segment_over_each_cell(segments, data):
    shown = data.draw(st.lists(st.sampled_from(segments), min_size=1))
    coverage = view_of(shown, segments).coverage
    image = raster(shown)
    axis = (np.arange(SIZE) + 0.5) * (LEVELS / SIZE) - LEVELS / 2
    radii = np.hypot(axis, axis[:, None])
    for number in range(len(segments) + 1):
        to_come = image & ~raster(segments[:number])
        for last in distance(torch.tensor(segments), LEVELS)[:number].tolist():  # they come nearest first
            to_come &= radii + math.sqrt(2) * LEVELS / SIZE >= last - 1e-4
        assert ((coverage.first[0].numpy() >= number) == to_come).all()
        beside = np.zeros_like(image)
        for y, x in np.argwhere(to_come):
            beside[max(0, y - 1) : y + 2, max(0, x - 1) : x + 2] = True
        assert ((coverage.near[0].numpy() >= number) == beside).all()


@given(st.lists(segment, min_size=2, max_size=6))
@settings(max_examples=50, deadline=None)
def test_drawn_one_after_the_other_is_drawn_at_once(segments):
    at_once = view_of(segments, segments).coverage
    one_by_one = view_of(segments, []).coverage
    for number, levels in enumerate(segments):
        one_by_one = one_by_one.added(torch.tensor(levels).view(1, 1, 4), number)
    assert torch.equal(at_once.first, one_by_one.first)
    assert torch.equal(at_once.near, one_by_one.near)


@given(st.lists(segment, min_size=1, max_size=5))
@settings(max_examples=50, deadline=None)
def test_columns_give_the_nearest_cell_beside_what_is_to_come(segments):
    image = raster(segments)
    numbers = torch.arange(len(segments) + 1)
    coverage = view_of(segments, segments).coverage
    found = View(coverage, numbers).nearest[0].numpy()
    centre = (np.arange(SIZE) + 0.5) * (LEVELS / SIZE) - 0.5 - (LEVELS - 1) / 2
    for number in numbers.tolist():
        for x in range(SIZE):
            rows = [y for y in range(SIZE) if image[y, x] and coverage.near[0, y, x] >= number]
            expected = min((math.hypot(centre[x], centre[y]) for y in rows), default=math.inf)
            assert found[number, x] == pytest.approx(expected, rel=1e-6)


V, H = (20, 4, 20, 12), (4, 4, 20, 4)  # they meet; V is the nearer one


def test_a_view_is_over_when_all_that_is_shown_is_drawn():
    numbers = torch.arange(3)
    assert View(view_of([V, H], [V, H]).coverage, numbers).over.tolist() == [[False, False, True]]


def test_ends_straight_parts_and_corners_are_told_apart():
    view = view_of([V, H], [])
    points = torch.tensor([[[[4, 4], [12, 4], [20, 4], [20, 12], [0, 0], [4, 6]]]])
    kinds = view.cells(points).flatten().tolist()
    to_come = {name: 2 + 3 * pattern + 2 for pattern, name in enumerate(("end", "straight", "corner"))}
    assert kinds == [to_come["end"], to_come["straight"], to_come["corner"], to_come["end"], 0, 1]


def test_a_drawn_cell_is_drawn_or_beside_what_is_to_come():
    view = view_of([V, H], [V])
    kinds = view.cells(torch.tensor([[[[4, 4], [12, 4], [20, 4], [20, 12]]]])).flatten().tolist()
    assert kinds == [2 + 2, 2 + 3 + 2, 2 + 6 + 1, 2]


def test_shares_of_a_way_count_what_is_to_come_beyond_its_first_cell():
    view = view_of([V, H], [V])
    ways = [(20, 4, 4, 4), (20, 4, 0, 4), (28, 4, 16, 4), (20, 4, 28, 4), (20, 4, 21, 5)]
    shares = view.shares(torch.tensor([[ways]])).flatten().tolist()
    assert shares == [4, 3, 2, 1, 0]
    assert max(shares) == SHARES - 1


def test_around_an_end_the_walls_to_come_are_seen():
    at_corner = view_of([V, H], [V]).around(torch.tensor([[[20, 4]]]))
    assert at_corner.flatten().nonzero().flatten().tolist() == [1]  # to the left of it
    at_rim = view_of([(0, 0, 0, 12)], []).around(torch.tensor([[[0, 0]]]))
    assert at_rim.flatten().nonzero().flatten().tolist() == [4]


def test_runs_lead_to_the_next_end_or_corner_of_what_is_to_come():
    shown = [V, H, (20, 4, 28, 4)]
    runs = view_of(shown, []).runs(torch.tensor([[[12, 4]]]))
    assert runs.flatten().tolist() == [4, 4, 0, 0]  # cells are two levels wide
    runs = view_of(shown, [V]).runs(torch.tensor([[[20, 4]]]))
    assert runs.flatten().tolist() == [4, 8, 0, 0]
    assert view_of(shown, shown).runs(torch.tensor([[[20, 4]]])).flatten().tolist() == [0, 0, 0, 0]


def test_a_segment_drawn_off_leaves_nothing_to_come_that_is_nearer_than_the_last_one():
    off, far = (22, 4, 22, 12), (0, 0, 28, 0)
    assert not view_of([V], [off]).over.item()
    assert view_of([V], [off, far]).over.item()


def test_some_segments_slip_by_a_cell_at_most_and_stay_within_the_image():
    torch.manual_seed(0)
    segments = torch.randint(0, LEVELS, (4, 500, 4))
    moved = (slipped(segments, LEVELS, SIZE) - segments).abs()
    assert int(moved.max()) == LEVELS // SIZE
    assert float((moved > 0).any(-1).float().mean()) == pytest.approx(SLIPPING * 8 / 9, abs=0.03)
