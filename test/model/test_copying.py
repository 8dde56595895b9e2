"""Copying earlier ends' coordinates and ways: the formula, causality, extremes."""

from __future__ import annotations

import math

import pytest
import torch
from paper_models import random_batch, small_config

from floorgent_ros.model.paper.copying import KEY, Copying, _mixed
from floorgent_ros.model.paper.corners import Ends, before_each, before_next
from floorgent_ros.model.paper.ordering import BINS, FINE, ROUNDING, USES

STEPS = range(4)
LEVELS, WIDTH = 16, 16
SEGMENTS = 5
MIDDLE = (LEVELS - 1) / 2


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
    """Logits (2, n, L), states (2, n, E), levels (2, n, 4) and the segments' ends."""
    levels = random_batch(small_config("segments"), [SEGMENTS, SEGMENTS]).levels
    levels[:, 2, :2] = levels[:, 0, :2]  # an end that was there before
    levels[:, 4, :2] = levels[:, 0, 2:]
    levels[1, 3, :] = levels[1, 0, [2, 3, 0, 1]]
    plain, state, trunk = (torch.randn(2, SEGMENTS, size) for size in (LEVELS, WIDTH, WIDTH))
    return plain, state, levels, copying.ends(levels, trunk)


def log_probabilities(plain, copied, factors):
    """Softmax of L plain logits beside [(level, score)], each level times exp(factor), in plain Python."""
    top = max([*plain, *(score for _, score in copied)])
    weights = [math.exp(value - top) for value in plain]
    for level, score in copied:
        weights[level] += math.exp(score - top)
    weights = [weight * math.exp(factor) for weight, factor in zip(weights, factors, strict=True)]
    return [math.log(weight / sum(weights)) if weight else -math.inf for weight in weights]


def dot(linear, state, row=0):
    """Output `row` of a linear map of a state."""
    products = zip(linear.weight[row].tolist(), state.tolist(), strict=True)
    return float(linear.bias[row]) + sum(a * b for a, b in products)


def product(query, state, key):
    asked = [dot(query, state, row) for row in range(KEY)]
    return sum(a * b for a, b in zip(asked, key.tolist(), strict=True)) / math.sqrt(KEY)


def distance(x0, y0, x1, y1):
    """Of a segment from the viewpoint, by trying ten thousand points of it."""
    shares = torch.linspace(0, 1, 10_001, dtype=torch.float64)
    x, y = x0 + shares * (x1 - x0) - MIDDLE, y0 + shares * (y1 - y0) - MIDDLE
    return float((x**2 + y**2).sqrt().min())


def bin_of(difference):
    """Number of the bin, from what the widths of bins are for."""
    widths = [0.5] * 8 + [1] * 8 + [2, 3, 3, 5, 7, 8, 15, 25, math.inf]
    part = math.floor((difference + ROUNDING) * FINE)
    outwards, edge = 0, widths[0]
    size = (part + 0.5) / FINE if part >= 0 else -(part + 0.5) / FINE
    while size >= edge:
        outwards += 1
        edge += widths[outwards]
    return BINS // 2 + outwards if part >= 0 else BINS // 2 - 1 - outwards


def hypothesis(step, drawn, level):
    """The segment that a level of coordinate `step` is taken for, (x0, y0, x1, y1)."""
    known = [*drawn[:step], level]
    if step == 1:
        return (*known, *known)
    return (*known, known[1]) if step == 2 else tuple(known)


def score_of_corner(ordering, state, step, place, places, others):
    """Of what else ends at an end's place, and in which directions it leaves."""
    score = dot(ordering.uses[step], state, min(places.count(place), USES) - 1)
    for corner, away in zip(places, others, strict=True):
        if corner == place:
            sides = [(b > a) - (b < a) for a, b in zip(corner, away, strict=True)]
            score += dot(ordering.leaving[step], state, 3 * (sides[0] + 1) + sides[1] + 1)
    return score


def score_of_place(ordering, state, step, place, first, last):
    """Of an end's distance and, for a second end, how it lies to the first."""
    if step == 0:
        return dot(ordering.ends[0], state, bin_of(distance(*place, *place) - last))
    if step != 2:
        return 0.0
    apart = [abs(a - b) for a, b in zip(place, first, strict=True)]
    relation = {(True, True): 0, (True, False): 1, (False, True): 2, (False, False): 3}
    kind = relation[apart[0] == 0, apart[1] == 0] if max(apart) <= ordering.reach else 4
    bin_ = bin_of(distance(*first, *place) - last)
    return dot(ordering.ends[1], state, bin_) + dot(ordering.relation, state, kind)


def score_of_way(stride, state, drawn, step, key, reached):
    """Of a way that ends where `reached` is."""
    score = product(stride.query[step - 2], state, key) + dot(stride.bias[step - 2], state)
    return score + (float(stride.same) if step == 3 and reached[0] == drawn[2] else 0.0)


def formula(copying, plain, state, segments, index, step, ends):
    """Log probabilities of coordinate `step` of segment `index` from the modules' docstrings."""
    ordering, drawn = copying.ordering, segments[index]
    last = distance(*segments[index - 1]) if index else 0.0
    places = [tuple(segment[i : i + 2]) for segment in segments[:index] for i in (0, 2)]
    others = [tuple(segment[i : i + 2]) for segment in segments[:index] for i in (2, 0)]
    copied = []
    for number, (place, other) in enumerate(zip(places, others, strict=True)):
        score = product(copying.query[step], state, ends.keys[number]) + dot(copying.bias[step], state)
        if step % 2 and place[0] == drawn[step - 1]:
            score += float(copying.same[step // 2])
        score += score_of_corner(ordering, state, step, place, places, others)
        score += score_of_place(ordering, state, step, place, drawn[:2], last)
        copied.append((place[step % 2], score))
        reached = tuple(drawn[axis] + place[axis] - other[axis] for axis in (0, 1))
        if step >= 2 and 0 <= reached[step % 2] < LEVELS:
            way = score_of_way(copying.stride, state, drawn, step, ends.strides[number], reached)
            copied.append((reached[step % 2], way))
    logits, factors = plain.tolist(), []
    for level in range(LEVELS):
        if step >= 2 and abs(level - drawn[step - 2]) <= copying.reach:
            logits[level] += dot(copying.offset[step - 2], state, level - drawn[step - 2] + copying.reach)
        near = abs(level - MIDDLE) if step == 0 else distance(*hypothesis(step, drawn, level))
        factors.append(dot(ordering.levels[step], state, bin_of(near - last)))
    return log_probabilities(logits, copied, factors)


@pytest.mark.parametrize("reach", [None, 2])
@pytest.mark.parametrize("step", STEPS)
def test_the_probabilities_are_the_formulas(copying, asked, step, reach):
    plain, state, levels, ends = asked
    if reach is not None:
        copying.reach = copying.ordering.reach = reach
        offset = copying.offset[max(step - 2, 0)]
        offset.weight.data, offset.bias.data = offset.weight[: 2 * reach + 1], offset.bias[: 2 * reach + 1]
    before = before_each(ends, LEVELS)
    found = copying(plain, state, levels[..., :step], before).log_softmax(-1)
    for row in range(2):
        own = ends.changed(lambda part, row=row: part[row])
        segments = levels[row].tolist()
        for index in range(SEGMENTS):
            expected = formula(copying, plain[row, index], state[row, index], segments, index, step, own)
            assert found[row, index].tolist() == pytest.approx(expected, abs=1e-4)


def test_an_ends_keys_are_of_its_place_and_of_the_state_after_its_segment(copying):
    levels = torch.tensor([[[1, 2, 3, 5]]])
    state = torch.randn(1, 1, WIDTH)
    ends = copying.ends(levels, state)
    assert ends.levels.tolist() == [[[1, 2], [3, 5]]]
    for number, ((x, y), (dx, dy)) in enumerate(zip([(1, 2), (3, 5)], [(-2, -3), (2, 3)], strict=True)):
        rows = [KEY * number + row for row in range(KEY)]
        radius = int(math.hypot(x - MIDDLE, y - MIDDLE))
        place = copying.point[0].weight[x] + copying.point[1].weight[y] + copying.radius.weight[radius]
        of_state = torch.tensor([dot(copying.key, state[0, 0], row) for row in rows])
        torch.testing.assert_close(ends.keys[0, number], place + of_state)
        size = copying.stride.size[0].weight[dx + copying.reach]
        size = size + copying.stride.size[1].weight[dy + copying.reach]
        of_state = torch.tensor([dot(copying.stride.key, state[0, 0], row) for row in rows])
        torch.testing.assert_close(ends.strides[0, number], size + of_state)
        of_state = torch.tensor([dot(copying.pen.value, state[0, 0], row) for row in rows])
        torch.testing.assert_close(ends.values[0, number], of_state)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("size", [1.0, 1e4], ids=["usual", "extreme"])
def test_ends_of_the_own_and_later_segments_never_matter(copying, asked, step, size):
    plain, state, levels, ends = asked
    plain, drawn = size * plain, levels[..., :step]
    first = levels[..., :2]
    before = before_each(ends, LEVELS)
    found, pen = copying(plain, state, drawn, before), copying.pen(first, before)
    for index in range(SEGMENTS):
        own = 2 * index
        other = ends.changed(torch.clone)
        other.levels[:, own:] = torch.randint(LEVELS, other.levels[:, own:].shape)
        for part in (other.keys, other.strides, other.values):
            part[:, own:] = size * torch.randn(part[:, own:].shape)
        later = before_each(other, LEVELS)
        changed = copying(plain, state, drawn, later)
        torch.testing.assert_close(changed[:, : index + 1], found[:, : index + 1])
        torch.testing.assert_close(copying.pen(first, later)[:, : index + 1], pen[:, : index + 1])
        alone = before_next(ends.changed(lambda part, own=own: part[:, :own]), LEVELS)
        one = slice(index, index + 1)
        without = copying(plain[:, one], state[:, one], drawn[:, one], alone)
        torch.testing.assert_close(without, found[:, one])
        torch.testing.assert_close(copying.pen(first[:, one], alone), pen[:, one])


def test_the_pen_sees_what_stands_at_the_first_end(copying):
    """Values and directions of all ends there, of none where none is."""
    levels = torch.tensor([[[3, 3, 3, 8], [3, 8, 9, 8], [5, 5, 3, 3]]])
    ends = copying.ends(levels, torch.randn(1, 3, WIDTH))
    before = before_next(ends, LEVELS)
    out, values = copying.pen.out, ends.values[0]
    for first, there, directions in (
        ((3, 3), [0, 5], [5, 8]),  # up; right and up
        ((3, 8), [1, 2], [3, 7]),  # down; right
        ((8, 3), [], []),
    ):
        seen = torch.zeros(KEY + 9)
        for number, direction in zip(there, directions, strict=True):
            seen[:KEY] += values[number]
            seen[KEY + direction] += 1
        found = copying.pen(torch.tensor([[first]]), before)[0, 0]
        torch.testing.assert_close(found, out(seen))


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
    levels = torch.tensor([[[2, 0]]])
    given = torch.tensor([[plain]], requires_grad=True), torch.tensor([[scores]], requires_grad=True)
    found = _mixed(*given, levels).log_softmax(-1)
    expected = log_probabilities(plain, list(zip([2, 0], scores, strict=True)), [0.0] * 3)
    for value, true in zip(found[0, 0].tolist(), expected, strict=True):
        assert value == pytest.approx(true, abs=1e-3) if true > -60 else -math.inf < value < -60
    found[0, 0, 0].backward()
    assert all(torch.isfinite(tensor.grad).all() for tensor in given)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_small_weights(dtype):
    plain, scores = torch.tensor([[[0.0, -20.0, -40.0]]]), torch.tensor([[[-18.0, -1.0]]])
    levels = torch.tensor([[[1, 0]]])
    found = _mixed(plain.to(dtype), scores.to(dtype), levels)
    torch.testing.assert_close(found, _mixed(plain, scores, levels))


def test_ends_are_joined_and_taken_by_sequence(copying):
    levels, trunk = torch.randint(LEVELS, (3, 4, 4)), torch.randn(3, 4, WIDTH)
    whole = copying.ends(levels, trunk)
    joined = copying.ends(levels[:, :1], trunk[:, :1]).added(copying.ends(levels[:, 1:], trunk[:, 1:]))
    rows = torch.tensor([2, 0, 2])
    taken, expected = whole.changed(lambda kept: kept[rows]), copying.ends(levels[rows], trunk[rows])
    for a, b in ((joined, whole), (taken, expected)):
        assert isinstance(a, Ends)
        for name in vars(a):
            torch.testing.assert_close(getattr(a, name), getattr(b, name))
