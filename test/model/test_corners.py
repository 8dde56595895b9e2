"""Corners of segments and their distances; the bins of differences of distance."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from floorgent_ros.geometry.canonical import SequenceFrame, distance_to
from floorgent_ros.model.compiled_corners import bin_of, keep_corner, near
from floorgent_ros.model.paper.corners import (
    DIRECTIONS,
    Ends,
    before_each,
    before_next,
    distance,
    farthest,
    radius,
)
from floorgent_ros.model.paper.ordering import BINS, binned, bins


def ends_of(levels):
    points = levels.view(*levels.shape[:-2], -1, 2)
    nothing = torch.zeros(*points.shape[:-1], 0)
    return Ends(points, nothing, nothing, nothing)


def random_levels(count=16, segments=40, rows=3):
    return torch.randint(count, (rows, segments, 4), generator=torch.Generator().manual_seed(0))


def test_distances_are_the_canonical_orders():
    rng = np.random.default_rng(0)
    for count in (16, 256):
        levels = rng.integers(0, count, (500, 4))
        levels[:20, 2:] = levels[:20, :2]  # points
        levels[20:40] = (count - 1) * rng.integers(0, 2, (20, 4))  # corners
        points = (levels - (count - 1) / 2).reshape(-1, 2, 2)
        expected = distance_to(points, (0.0, 0.0))
        found = distance(torch.from_numpy(levels).view(5, 100, 4), count).flatten()
        assert found.numpy() == pytest.approx(expected, rel=1e-5)
        assert int(found.max()) < farthest(count)
        compiled = [near(*row, count) for row in levels.tolist()]
        assert compiled == pytest.approx(expected, rel=1e-5)
        assert radius(torch.from_numpy(levels[:, :2]), count)[:20].numpy() == pytest.approx(expected[:20])


def test_of_a_canonical_sequence_no_segment_lies_before_the_bin_from_0_on():
    frame = SequenceFrame()
    levels = frame.ordered(np.random.default_rng(1).integers(0, 256, (300, 4)))
    found = distance(torch.from_numpy(levels), 256)
    steps = binned(found[1:, None], found[:-1], 256)
    assert int(steps.min()) >= BINS // 2
    compiled = [
        bin_of(bins(256, torch.device("cpu")).numpy(), b, a)
        for a, b in zip(found[:-1].numpy(), found[1:].numpy(), strict=True)
    ]
    assert steps[:, 0].tolist() == compiled


def test_bins_widen_from_0_outwards_and_mirror():
    every = bins(256, torch.device("cpu"))
    assert every.min() == 0
    assert every.max() == BINS - 1
    assert (every.diff() >= 0).all()
    assert torch.equal(every.flip(0), BINS - 1 - every)
    sizes = torch.bincount(every)[BINS // 2 : BINS - 1].tolist()  # half levels; the last bin is open
    assert sizes == sorted(sizes)
    assert sizes[:3] == [1, 1, 1]


def test_corners_count_what_was_there_before():
    levels = random_levels(count=6)
    before = before_each(ends_of(levels), 6)
    for row in range(len(levels)):
        places = list(map(tuple, levels[row].reshape(-1, 2).tolist()))
        for index in range(levels.shape[1]):
            known = places[: 2 * index]
            assert before.earlier[index].tolist() == [1.0] * len(known) + [0.0] * (len(places) - len(known))
            assert before.uses[row, index].tolist() == [known.count(place) for place in places]
    alone = before_next(ends_of(levels), 6)
    assert alone.earlier.tolist() == [[1.0] * 80]
    assert alone.uses[:, 0].tolist() == [[list(x).count(p) for p in x] for x in map(_places, levels)]
    torch.testing.assert_close(alone.last[:, 0], distance(levels[:, -1], 6))
    torch.testing.assert_close(before.last[:, 1:], distance(levels[:, :-1], 6))
    assert (before.last[:, 0] == 0).all()


def _places(levels):
    return [tuple(place) for place in levels.reshape(-1, 2).tolist()]


def test_before_any_segment_there_is_nothing():
    alone = before_next(ends_of(torch.zeros(2, 0, 4, dtype=torch.int64)), 16)
    assert alone.last.tolist() == [[0.0], [0.0]]
    assert alone.uses.shape == (2, 1, 0)


def test_strides_and_directions():
    before = before_next(ends_of(torch.tensor([[[3, 9, 8, 2], [4, 4, 4, 7]]])), 16)
    assert before.stride.tolist() == [[[-5, 7], [5, -7], [0, -3], [0, 3]]]
    assert before.direction.tolist() == [[6, 2, 5, 3]]  # right and down, left and up, up, down
    assert before.direction.max() < DIRECTIONS


def test_the_compiled_corners_are_the_same():
    """End by end, what `before_next` says of all."""
    levels = random_levels(count=5, rows=1)
    expected = before_next(ends_of(levels), 5)
    points, directions = expected.ends.levels[0].numpy(), expected.direction[0].numpy()
    uses = np.zeros(len(points), np.int64)
    leaving = np.zeros((len(points), DIRECTIONS), np.float32)
    for place in range(len(points)):
        keep_corner(points, directions, uses, leaving, place)
    assert uses.tolist() == expected.uses[0, 0].tolist()
    one_hot = torch.nn.functional.one_hot(expected.direction[0], DIRECTIONS).float()
    np.testing.assert_array_equal(leaving, (expected.same[0] @ one_hot).numpy())
