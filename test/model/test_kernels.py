"""The compiled arithmetic against NumPy, PyTorch and sorting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.model.kernels import (
    accumulate,
    attend,
    attend_first,
    dot,
    draw,
    exponentials,
    linear,
    normalise,
    select,
    soften,
)
from floorgent_ros.model.sampling import Nucleus


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("rows", "depth", "width"), [(1, 8, 1), (3, 7, 5), (8, 192, 67), (2, 25, 40)])
def test_matrix_products_are_numpys(rows: int, depth: int, width: int) -> None:
    rng = np.random.default_rng(depth)
    x, weight, bias = floats(rng, rows, depth), floats(rng, depth + 2, width), floats(rng, width)
    out = floats(rng, rows, width)
    expected = out + x.astype(np.float64) @ weight[:depth]
    accumulate(x, weight, out)
    assert out == pytest.approx(expected, abs=1e-4)
    linear(x, weight[:depth], bias, out)
    assert out == pytest.approx(x.astype(np.float64) @ weight[:depth] + bias, abs=1e-4)
    assert dot(x[0], x[-1]) == pytest.approx(float(x[0].astype(np.float64) @ x[-1]), abs=1e-4)


def test_a_row_does_not_depend_on_the_rows_beside_it() -> None:
    rng = np.random.default_rng(1)
    x, weight, bias = floats(rng, 8, 50), floats(rng, 50, 77), floats(rng, 77)
    together, alone = np.zeros((8, 77), np.float32), np.zeros((1, 77), np.float32)
    linear(x, weight, bias, together)
    for row in range(8):
        linear(x[row : row + 1], weight, bias, alone)
        assert np.array_equal(alone[0], together[row])  # bit for bit


def test_layer_norm_is_torchs() -> None:
    rng = np.random.default_rng(2)
    x, weight, bias = 3 + 2 * floats(rng, 4, 30), floats(rng, 30), floats(rng, 30)
    out = np.zeros_like(x)
    normalise(x, weight, bias, out)
    expected = torch.layer_norm(torch.from_numpy(x), (30,), torch.from_numpy(weight), torch.from_numpy(bias))
    assert out == pytest.approx(expected.numpy(), abs=1e-5)


def test_exponentials_are_right_to_two_units_of_the_last_place() -> None:
    x = np.concatenate([np.linspace(-80, 80, 100_003), [0.0, -0.0, 1e-30, np.log(2) / 2]]).astype(np.float32)
    found = x.copy()
    exponentials(found, np.zeros(len(x), np.int32))
    expected = np.exp(x.astype(np.float64))
    assert np.abs(found / expected - 1).max() < 2 * np.finfo(np.float32).eps
    assert found[-4] == found[-3] == 1.0


def test_exponentials_beyond_the_limit_are_those_of_the_limit() -> None:
    x = np.array([-1e30, -81, 81, 1e30], np.float32)
    exponentials(x, np.zeros(4, np.int32))
    assert x == pytest.approx(np.exp([-80, -80, 80, 80]), rel=1e-5)


def test_softening_keeps_the_proportions() -> None:
    scores = floats(np.random.default_rng(3), 45)
    found = scores.copy()
    total = soften(found, np.zeros(45, np.int32))
    assert found.max() == 1.0
    assert found / total == pytest.approx(torch.from_numpy(scores).softmax(0).numpy(), rel=1e-5)


@pytest.mark.parametrize("count", [1, 5, 31, 32, 33, 70])
def test_attention_is_torchs(count: int) -> None:
    rng = np.random.default_rng(count)
    query, keys, values = floats(rng, 3, 12), floats(rng, 12, 70), floats(rng, 70, 12)
    expected = torch.nn.functional.scaled_dot_product_attention(
        torch.from_numpy(query),
        torch.from_numpy(keys[:, :count].T),
        torch.from_numpy(values[:count]),
        scale=1.0,
    ).numpy()
    out, powers = np.zeros((3, 12), np.float32), np.zeros(70, np.int32)
    narrow = np.ascontiguousarray(keys[:, :count])
    attend(query, narrow, values, np.zeros((3, count), np.float32), powers[:count], out)
    assert out == pytest.approx(expected, abs=1e-5)
    for row in range(3):
        attend_first(
            query[row : row + 1], keys, values, count, np.zeros(70, np.float32), powers, out[row : row + 1]
        )
    assert out == pytest.approx(expected, abs=1e-5)


WEIGHTS = st.lists(st.integers(1, 50), min_size=1, max_size=40)


@settings(deadline=None, max_examples=200)
@given(WEIGHTS, st.floats(0, 1.2))
def test_selection_finds_what_sorting_finds(whole: list[int], share: float) -> None:
    weights = np.array(whole, np.float64)  # whole numbers: sums do not depend on their order
    order = np.argsort(-weights, kind="stable")
    sums, mass = np.cumsum(weights[order]), share * weights.sum()
    place = min(int(np.sum(sums <= mass)), len(weights) - 1)
    values, index = weights.copy(), np.arange(len(weights))
    found, before = select(values, index, mass)
    assert (found, before) == (place, sums[place] - weights[order[place]])
    assert index[found] == order[place]
    assert set(index[:found]) == set(order[:place])
    assert np.array_equal(weights[index], values)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.floats(-12, 8, width=32), min_size=1, max_size=60),
    st.sampled_from([0.05, 0.5, 0.9, 0.95, 1.0]),
    st.floats(0, 1, exclude_max=True, width=32),
)
def test_draws_are_the_nucleus_samplers(logits: list[float], top_p: float, uniform: float) -> None:
    weights = torch.tensor(logits).softmax(-1).numpy()
    scratch = np.zeros(len(logits)), np.zeros(len(logits), np.int64)
    found = draw(weights, top_p, uniform, *scratch)
    expected = int(Nucleus(top_p).pick(torch.tensor([logits]), torch.tensor([uniform])))
    if found != expected:  # only where rounding decides: at a boundary of the nucleus or of the uniform
        probability = weights.astype(np.float64) / weights.sum(dtype=np.float64)
        order = np.argsort(-probability, kind="stable")
        sums = np.cumsum(probability[order])
        kept = sums[int(np.argmax(sums >= min(top_p, sums[-1]) - 1e-6))]
        near_top_p = np.abs(sums - top_p).min() < 1e-5
        near_uniform = np.abs(sums - uniform * kept).min() < 1e-5
        assert (
            near_top_p or near_uniform or probability[found] == pytest.approx(probability[expected], rel=1e-5)
        )


def test_what_weighs_nothing_is_never_drawn() -> None:
    weights = np.array([0, 3, 0, 1], np.float32)
    scratch = np.zeros(4), np.zeros(4, np.int64)
    assert {draw(weights, 1.0, uniform, *scratch) for uniform in np.linspace(0, 1 - 2**-24, 99)} == {1, 3}
    assert {draw(weights, 0.75, uniform, *scratch) for uniform in np.linspace(0, 1 - 2**-24, 99)} == {1}
