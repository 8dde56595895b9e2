"""The paper's family: sizes, causality, likelihood."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
import torch
from paper_models import KINDS, random_batch, small_config, small_network

from floorgent_ros.errors import ConfigError
from floorgent_ros.model.paper.config import MLP, SEGMENTS, UNSEEN, SequenceConfig
from floorgent_ros.model.paper.embedding import START_STD, start_as_waves
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.segments import segment_levels
from floorgent_ros.model.paper.vocabulary import COORDINATES, LENGTH

BY_SEGMENT = ["segments", "segments near first", "segments with image", "segments with sight", "unseen"]


def size(module):
    return sum(parameter.numel() for parameter in module.parameters())


@pytest.fixture
def no_memory():
    with torch.device("meta"):
        yield


@pytest.mark.parametrize(("observation", "millions"), [("none", 9.4), ("nearest", 15.7)])
def test_full_size_parameters_are_the_papers(no_memory, observation, millions):
    network = SequenceNet(SequenceConfig(observation=observation))
    assert size(network.decoder.trunk) == pytest.approx(millions * 1e6, rel=0.02)


def test_the_full_size_mlp_is_four_times_as_large(no_memory):
    mlp = SequenceNet(SequenceConfig(architecture=MLP, width=128, feed=128, dropout=0.05))
    assert size(mlp.decoder.layers) == pytest.approx(39e6, rel=0.02)


def test_the_mixer_is_about_two_fifths_smaller_than_the_resnet(no_memory):
    sizes = {
        name: size(SequenceNet(SequenceConfig(observation="all", image_encoder=name)))
        for name in ("resnet", "mixer")
    }
    assert sizes["mixer"] / sizes["resnet"] == pytest.approx(0.6, abs=0.1)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in BY_SEGMENT])
def test_an_untrained_network_is_uniform(kind):
    network = SequenceNet(small_config(kind)).eval()
    batch = random_batch(network.config, [3, 5])
    scores = network.scores(batch)
    spent = scores.nats[scores.counted & (scores.nats > 0)]
    torch.testing.assert_close(spent, torch.full_like(spent, math.log(19)))


@pytest.mark.parametrize("kind", BY_SEGMENT)
def test_an_untrained_segment_decoder_counts_earlier_ends(kind):
    """A bit for stop or not; a coordinate's level weighs one, and one for each earlier end that has it.

    So does one for each way from the first end to it that an earlier segment went. With queries that ask for
    nothing, that is; the first segment has nothing to copy whatever they ask.
    """
    network = SequenceNet(small_config(kind)).eval()
    batch = random_batch(network.config, [3, 5])
    places = torch.tensor(COORDINATES)
    first = network.scores(batch).nats[:, places]
    torch.testing.assert_close(first, torch.full_like(first, math.log(16)))
    copying = network.decoder.copying
    for query in (*copying.query, *copying.stride.query):
        torch.nn.init.zeros_(query.weight)
        torch.nn.init.zeros_(query.bias)
    scores = network.scores(batch)
    stops = scores.nats[:, ::LENGTH][scores.counted[:, ::LENGTH]]
    torch.testing.assert_close(stops, torch.full_like(stops, math.log(2)))
    for row, length in zip(range(2), (3, 5), strict=True):
        for index in range(length):
            tokens = network.vocabulary.encode(batch.levels[row : row + 1], batch.lengths[row : row + 1])
            expected = counted_nats(segment_levels(tokens[:, :-1])[0].tolist(), index)
            found = scores.nats[row, places + LENGTH * index].tolist()
            assert found == pytest.approx(expected, abs=1e-5)


def counted_nats(levels, index):
    """Of the coordinates of segment `index`: a softmax of counts, where what has the drawn x weighs e."""
    ends, ways = [], []
    for x0, y0, x1, y1 in levels[:index]:
        ends += [(x0, y0), (x1, y1)]
        ways += [(x0 - x1, y0 - y1), (x1 - x0, y1 - y0)]
    own, nats = levels[index], []
    for step, level in enumerate(own):
        weights, found = [1.0] * 16, list(ends)
        if step >= 2:
            found += [(own[0] + x, own[1] + y) for x, y in ways]
        for end in found:
            if 0 <= end[step % 2] < 16:
                same = step % 2 and end[0] == own[step - 1]
                weights[end[step % 2]] += math.e if same else 1.0
        nats.append(math.log(sum(weights) / weights[level]))
    return nats


@pytest.mark.parametrize("kind", KINDS)
def test_no_later_token_changes_an_earlier_logit(kind):
    network = small_network(kind)
    batch = random_batch(network.config, [5, 5])
    tokens = network.vocabulary.encode(batch.levels, batch.lengths)
    context = network.shown(batch.image)
    logits = network.decoder(tokens, context)
    for index in range(tokens.shape[1]):
        changed = tokens.clone()
        changed[:, index:] = torch.where(changed[:, index:] > 4, changed[:, index:] - 1, changed[:, index:])
        found = network.decoder(changed, context)
        torch.testing.assert_close(found[:, : index + 1], logits[:, : index + 1])
    assert not torch.allclose(found, logits) or index == tokens.shape[1] - 1


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_likelihood_agree_and_padding_changes_nothing(kind):
    network = small_network(kind)
    batch = random_batch(network.config, [3, 5, 1])
    nats = network(batch).nats
    scores = network.scores(batch)
    assert scores.nats.shape == (3, LENGTH * 5 + 1)
    assert (scores.counted.sum(1) == LENGTH * batch.lengths + 1).all()
    assert int(batch.tokens) == int(scores.counted.sum())
    torch.testing.assert_close((scores.nats * scores.counted).sum(1), nats)
    first = {name: getattr(batch, name)[:1] for name in ("lengths", "image")}
    alone = replace(batch, levels=batch.levels[:1, :3], **first)
    torch.testing.assert_close(network(alone).nats, nats[:1])


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_given_is_not_asked(kind):
    network = small_network(kind)
    whole = random_batch(network.config, [5, 3, 2])
    given = torch.tensor([0, 3, 1])
    told = replace(whole, given=given)
    expected, found = network.scores(whole), network.scores(told)
    assert found.counted.sum(1).tolist() == [5 * LENGTH + 1, 1, LENGTH + 1]
    assert int(told.tokens) == int(found.counted.sum())
    assert told.asked.tolist() == [5, 0, 1]
    rest = torch.arange(5 * LENGTH + 1) >= LENGTH * given[:, None]
    torch.testing.assert_close(network(told).nats, (expected.nats * expected.counted * rest).sum(1))


def test_rank_and_confidence_are_those_of_the_distribution():
    network = small_network()
    batch = random_batch(network.config, [4])
    tokens = network.vocabulary.encode(batch.levels, batch.lengths)
    probability = network.decoder(tokens, None).softmax(-1)[0].detach()
    scores = network.scores(batch)
    for index, token in enumerate(tokens[0].tolist()):
        order = probability[index].argsort(descending=True).tolist()
        assert scores.rank[0, index] == order.index(token)
        assert scores.confidence[0, index] == pytest.approx(float(probability[index].max()), rel=1e-4)


@pytest.mark.parametrize("kind", ["no opcodes", "segments"])
def test_tokens_that_are_not_spent_are_certain(kind):
    network = small_network(kind)
    scores = network.scores(random_batch(network.config, [4]))
    certain = scores.nats[0] == 0
    assert certain[3::LENGTH].all()  # line
    assert (scores.rank[0][certain] == 0).all()
    assert (scores.confidence[0][3::LENGTH] == 1).all()
    assert not certain[-1]  # stop


def test_the_segment_decoder_is_a_distribution():
    """Over all sequences of at most one segment on a 2 × 2 grid, and the rest that goes on."""
    network = small_network("segments", levels=2, vocabulary=5)
    total = 0.0
    empty = random_batch(network.config, [1])
    empty.levels.zero_()
    nothing = replace(empty, lengths=torch.tensor([0]))
    scores = network.scores(empty)
    stop = float(network.scores(nothing).nats[0, 0])
    total += math.exp(-stop)
    for levels in itertools.product(range(2), repeat=4):
        empty.levels[0, 0] = torch.tensor(levels)
        scores = network.scores(empty)
        total += math.exp(-float(scores.nats[0, :-1].sum()))
    assert total == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("kind", ["resnet", "mixer", "segments with image"])
def test_the_image_matters(kind):
    network = small_network(kind)
    batch = random_batch(network.config, [4])
    other = replace(batch, image=~batch.image)
    assert not torch.allclose(network(batch).nats, network(other).nats)


def test_without_positions_only_the_place_in_the_triplet_is_known():
    network = small_network("no positions")
    tokens = torch.tensor([[5, 6, 7]])
    embedding = network.decoder.embedding
    torch.testing.assert_close(embedding(tokens, 3), embedding(tokens, 0))
    with_positions = small_network("tokens").decoder.embedding
    assert not torch.allclose(with_positions(tokens, 3), with_positions(tokens, 0))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architecture": "other"}, "architecture = 'other'"),
        ({"observation": "lidar"}, "observation"),
        ({"observation": "free"}, "observation"),
        ({"architecture": UNSEEN}, "architecture"),
        ({"order": "left-to-right"}, "order"),
        ({"ends": "right-first"}, "ends"),
        ({"vocabulary": 7}, "use levels \\+ 3 = 19"),
        ({"architecture": SEGMENTS, "opcodes": False}, "opcodes"),
        ({"architecture": MLP, "observation": "all"}, "takes no image"),
        ({"width": 15}, "multiple of heads"),
    ],
)
def test_what_no_network_can_be_is_refused(changes, reason):
    with pytest.raises(ConfigError, match=reason):
        small_config(**changes)


def test_an_embeddings_entries_start_near_their_neighbours_and_far_from_other_embeddings():
    torch.manual_seed(0)
    one, other = torch.nn.Embedding(256, 128), torch.nn.Embedding(256, 128)
    start_as_waves(one)
    start_as_waves(other)
    assert one.weight.std().item() == pytest.approx(START_STD, rel=0.2)
    near = torch.cosine_similarity(one.weight[:-1], one.weight[1:]).min()
    far = torch.cosine_similarity(one.weight[:-64], one.weight[64:]).max()
    strange = torch.cosine_similarity(one.weight, other.weight).abs().mean()
    assert near > 0.8 > far
    assert strange < 0.2
