"""Copying earlier ends' coordinates: the formula, causality, extremes, distances in levels."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from paper_models import random_batch, small_config

from floorgent_ros.geometry.canonical import distance_to
from floorgent_ros.model.paper.copying import KEY, Copying, Ends, _mixed, distance_levels, farthest

STEPS = range(4)
LEVELS, WIDTH = 16, 16
SEGMENTS = 5


@pytest.fixture
def copying():
    """No weight at zero."""
    torch.manual_seed(0)
    made = Copying(small_config("segments"))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape))
    return made.requires_grad_(False)


@pytest.fixture
def asked(copying):
    """Logits (2, n, L), states (2, n, E), levels (2, n, 4), the segments' ends, and which are earlier."""
    levels = random_batch(small_config("segments"), [SEGMENTS, SEGMENTS]).levels
    levels[:, 2, 0] = levels[:, 0, 0]  # an x that was there before
    plain, state, trunk = (torch.randn(2, SEGMENTS, size) for size in (LEVELS, WIDTH, WIDTH))
    index = torch.arange(SEGMENTS)
    earlier = index.repeat_interleave(2) < index[:, None]
    return plain, state, levels, copying.ends(levels, trunk), earlier


def log_probabilities(plain, copied):
    """Softmax of L plain logits beside [(level, score)], in plain Python."""
    top = max([*plain, *(score for _, score in copied)])
    weights = [math.exp(value - top) for value in plain]
    for level, score in copied:
        weights[level] += math.exp(score - top)
    return [math.log(weight / sum(weights)) if weight else -math.inf for weight in weights]


def dot(linear, state, row=0):
    """Output `row` of a linear map of a state."""
    products = zip(linear.weight[row].tolist(), state.tolist(), strict=True)
    return float(linear.bias[row]) + sum(a * b for a, b in products)


def formula(copying, plain, state, segment, step, ends):
    """Log probabilities of a segment's coordinate `step`; ends: (key, (x, y)) that may be copied."""
    logits = plain.tolist()
    if step >= 2:
        for level in range(LEVELS):
            offset = level - segment[step - 2]
            if abs(offset) <= copying.reach:
                logits[level] += dot(copying.offset[step - 2], state, offset + copying.reach)
    copied = []
    for key, end in ends:
        query = [dot(copying.query[step], state, row) for row in range(KEY)]
        score = sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(KEY)
        score += dot(copying.bias[step], state)
        if step % 2 and end[0] == segment[step - 1]:
            score += float(copying.same[step // 2])
        copied.append((end[step % 2], score))
    return log_probabilities(logits, copied)


@pytest.mark.parametrize("step", STEPS)
def test_the_probabilities_are_the_formulas(copying, asked, step):
    plain, state, levels, ends, earlier = asked
    found = copying(plain, state, levels[..., :step], ends, earlier).log_softmax(-1)
    for row in range(2):
        own = list(zip(ends.keys[row].tolist(), ends.levels[row].tolist(), strict=True))
        for index, segment in enumerate(levels[row].tolist()):
            expected = formula(copying, plain[row, index], state[row, index], segment, step, own[: 2 * index])
            assert found[row, index].tolist() == pytest.approx(expected, abs=1e-4)


def test_an_ends_key_is_of_its_place_and_of_the_state_after_its_segment(copying):
    levels = torch.tensor([[[1, 2, 3, 9]]])
    state = torch.randn(1, 1, WIDTH)
    ends = copying.ends(levels, state)
    assert ends.levels.tolist() == [[[1, 2], [3, 9]]]
    for number, (x, y) in enumerate([(1, 2), (3, 9)]):
        radius = int(math.hypot(x - 7.5, y - 7.5))
        place = copying.point[0].weight[x] + copying.point[1].weight[y] + copying.radius.weight[radius]
        of_state = [dot(copying.key, state[0, 0], KEY * number + row) for row in range(KEY)]
        torch.testing.assert_close(ends.keys[0, number], place + torch.tensor(of_state))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("size", [1.0, 1e4], ids=["usual", "extreme"])
def test_ends_of_the_own_and_later_segments_never_matter(copying, asked, step, size):
    plain, state, levels, ends, earlier = asked
    plain, drawn = size * plain, levels[..., :step]
    found = copying(plain, state, drawn, ends, earlier)
    for index in range(SEGMENTS):
        other = Ends(ends.keys.clone(), ends.levels.clone())
        other.keys[:, 2 * index :] = size * torch.randn(2, 2 * (SEGMENTS - index), KEY)
        other.levels[:, 2 * index :] = torch.randint(LEVELS, (2, 2 * (SEGMENTS - index), 2))
        changed = copying(plain, state, drawn, other, earlier)
        torch.testing.assert_close(changed[:, : index + 1], found[:, : index + 1])
        alone = Ends(ends.keys[:, : 2 * index], ends.levels[:, : 2 * index])
        one = slice(index, index + 1)
        without = copying(plain[:, one], state[:, one], drawn[:, one], alone)
        torch.testing.assert_close(without, found[:, one])


@pytest.mark.parametrize("step", [2, 3])
def test_offsets_count_from_the_own_first_end_and_only_within_reach(copying, step):
    copying.reach = 3
    copying.offset[step - 2] = torch.nn.Linear(WIDTH, 7).requires_grad_(False)
    state = torch.randn(1, LEVELS, WIDTH)
    drawn = torch.zeros(1, LEVELS, step, dtype=torch.int64)
    drawn[0, :, step - 2] = torch.arange(LEVELS)  # every level as the first end's
    plain = torch.randn(1, LEVELS, LEVELS)
    none = copying.ends(torch.zeros(1, 0, 4, dtype=torch.int64), torch.zeros(1, 0, WIDTH))
    added = copying(plain, state, drawn, none) - plain
    for origin in range(LEVELS):
        for level in range(LEVELS):
            offset = level - origin
            near = abs(offset) <= 3
            expected = dot(copying.offset[step - 2], state[0, origin], offset + 3) if near else 0.0
            assert float(added[0, origin, level]) == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("plain", "scores"),
    [
        ([0.0, 1.0, 2.0], [1e4, -1e4]),
        ([0.0, 1.0, 2.0], [-1e4, -1e4]),
        ([0.0, 1.0, 2.0], [1e4, 1e4]),
        ([1e4, 0.0, -1e4], [1e4, 3.0]),
        ([-1e4, -1e4, -1e4], [-1e4, -1e4]),
        ([-1e4, -1e4, -1e4], [1e4, 9.99e3]),
    ],
)
def test_extreme_scores_are_safe(plain, scores):
    """Log probabilities as the formula's, down to those that float32 has no weight for; finite gradients."""
    levels = torch.tensor([[2, 0]])
    given = torch.tensor([[plain]], requires_grad=True), torch.tensor([[scores]], requires_grad=True)
    found = _mixed(*given, levels).log_softmax(-1)
    expected = log_probabilities(plain, list(zip([2, 0], scores, strict=True)))
    for value, true in zip(found[0, 0].tolist(), expected, strict=True):
        assert value == pytest.approx(true, abs=1e-3) if true > -60 else -math.inf < value < -60
    found[0, 0, 0].backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in given)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_small_weights(dtype):
    plain, scores = torch.tensor([[[0.0, -20.0, -40.0]]]), torch.tensor([[[-18.0, -1.0]]])
    levels = torch.tensor([[1, 0]])
    found = _mixed(plain.to(dtype), scores.to(dtype), levels)
    torch.testing.assert_close(found, _mixed(plain, scores, levels))


def test_distances_are_the_canonical_orders_in_whole_levels():
    rng = np.random.default_rng(0)
    for count in (16, 256):
        levels = rng.integers(0, count, (500, 4))
        levels[:20, 2:] = levels[:20, :2]  # points
        levels[20:40] = (count - 1) * rng.integers(0, 2, (20, 4))  # corners
        points = (levels - (count - 1) / 2).reshape(-1, 2, 2)
        expected = np.floor(distance_to(points, (0.0, 0.0)))
        found = distance_levels(torch.from_numpy(levels).view(5, 100, 4), count)
        assert found.dtype == torch.int64
        assert found.flatten().tolist() == expected.astype(int).tolist()
        assert int(found.max()) < farthest(count)


def test_ends_are_joined_and_taken_by_sequence(copying):
    levels, trunk = torch.randint(LEVELS, (3, 4, 4)), torch.randn(3, 4, WIDTH)
    whole = copying.ends(levels, trunk)
    joined = copying.ends(levels[:, :1], trunk[:, :1]).added(copying.ends(levels[:, 1:], trunk[:, 1:]))
    rows = torch.tensor([2, 0, 2])
    taken, expected = whole.changed(lambda kept: kept[rows]), copying.ends(levels[rows], trunk[rows])
    for a, b in ((joined, whole), (taken, expected)):
        torch.testing.assert_close(a.keys, b.keys)
        assert torch.equal(a.levels, b.levels)
