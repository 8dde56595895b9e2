"""Segments as tokens, and the grammar."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.geometry.canonical import oriented
from floorgent_ros.model.paper.vocabulary import FIRST, LINE, MOVE, STOP, Vocabulary

SMALL = {opcodes: Vocabulary(4, opcodes) for opcodes in (True, False)}
NEAR = {opcodes: Vocabulary(4, opcodes, near_first=True) for opcodes in (True, False)}


def test_the_example_of_the_module():
    levels = torch.tensor([[[10, 20, 10, 30]]])
    one = torch.tensor([1])
    assert Vocabulary().encode(levels, one).tolist() == [[1, 13, 23, 2, 13, 33, 0]]
    assert Vocabulary(opcodes=False).encode(levels, one).tolist() == [[13, 23, 13, 33, 0]]
    assert Vocabulary().size == 259
    assert Vocabulary(near_first=True).encode(levels, one).tolist() == [[1, 13, 33, 2, 13, 23, 0]]


@given(st.integers(0, 1000), st.booleans(), st.booleans())
@settings(max_examples=30)
def test_tokens_come_back_and_padding_is_stop(seed, opcodes, near_first):
    rng = np.random.default_rng(seed)
    vocabulary = Vocabulary(opcodes=opcodes, near_first=near_first)
    levels = torch.from_numpy(oriented(rng.integers(0, 256, (12, 4)))).view(3, 4, 4)
    lengths = torch.tensor([4, 0, 2])
    tokens = vocabulary.encode(levels, lengths)
    assert tokens.shape == (3, vocabulary.per_segment * 4 + 1)
    for row, length, expected in zip(tokens, lengths.tolist(), levels, strict=True):
        assert (row[vocabulary.per_segment * length :] == STOP).all()
        assert torch.equal(vocabulary.decode(row), expected[:length])


def test_an_unfinished_segment_is_left_out():
    vocabulary = Vocabulary()
    assert vocabulary.decode(torch.tensor([MOVE, 3, 4, LINE, 5])).shape == (0, 4)


@pytest.mark.parametrize(
    ("opcodes", "place", "position"),
    [(True, [0, 1, 2, 0], [0, 0, 0, 1]), (False, [1, 2, 1, 2], [0, 0, 1, 1])],
)
def test_places_in_triplets(opcodes, place, position):
    found = Vocabulary(opcodes=opcodes).place(torch.arange(4))
    assert [x.tolist() for x in found] == [place, position]


def test_the_nearer_end_comes_first_and_of_two_as_near_the_left_one():
    vocabulary = Vocabulary(16, near_first=True)
    levels = torch.from_numpy(oriented(np.random.default_rng(0).integers(0, 16, (200, 4))))
    levels[0] = torch.tensor([4, 3, 4, 12])  # on either side of the viewpoint
    tokens = vocabulary.encode(levels[:, None], torch.ones(200, dtype=torch.int64))
    found = tokens[:, [1, 2, 4, 5]] - FIRST
    for ends, canonical in zip(found.tolist(), levels.tolist(), strict=True):
        first, second = (math.dist(ends[i : i + 2], (7.5, 7.5)) for i in (0, 2))
        assert ends in (canonical, canonical[2:] + canonical[:2])
        assert first < second or ends == canonical
    assert (found != levels).any()


@pytest.mark.parametrize("small", [SMALL, NEAR], ids=["left first", "near first"])
@pytest.mark.parametrize("opcodes", [True, False])
def test_the_grammar_lets_through_just_the_canonical_segments(small, opcodes):
    """All paths through the masks of one segment, against all oriented segments on a 4 × 4 grid."""
    vocabulary = small[opcodes]
    paths = [torch.zeros(1, 0, dtype=torch.int64)]
    for index in range(vocabulary.per_segment):
        longer = []
        for path in paths:
            mask = vocabulary.allowed(index, path)[0]
            assert mask.any()  # no dead end
            tokens = [token for token in torch.nonzero(mask)[:, 0].tolist() if token != STOP]
            longer += [torch.cat([path, torch.tensor([[token]])], 1) for token in tokens]
        paths = longer
    found = {tuple(vocabulary.decode(path[0])[0].tolist()) for path in paths}
    every = [tuple(x) for x in np.stack(np.meshgrid(*[range(4)] * 4), -1).reshape(-1, 4).tolist()]
    assert found == {x for x in every if x[:2] < x[2:]}
    assert len(paths) == len(found)


@pytest.mark.parametrize("opcodes", [True, False])
def test_only_a_whole_segment_may_be_followed_by_stop(opcodes):
    vocabulary = SMALL[opcodes]
    segment = vocabulary.encode(torch.tensor([[[0, 1, 2, 3]]]), torch.tensor([1]))[:, :-1]
    stops = [
        bool(vocabulary.allowed(index, segment[:, :index])[0, STOP])
        for index in range(vocabulary.per_segment + 1)
    ]
    assert stops == [True] + [False] * (vocabulary.per_segment - 1) + [True]
    assert FIRST == 3
