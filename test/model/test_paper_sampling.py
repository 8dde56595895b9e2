"""Drawing with the paper's family: the cache, prompts, the grammar, seeds, greedy and beam search."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from paper_models import KINDS, random_batch, small_config, small_network, talkative

from floorgent_ros.benchmark.straightforward import TokenByToken
from floorgent_ros.errors import ConfigError
from floorgent_ros.model.paper.sampling import GREEDY, Given, beam_search, draw
from floorgent_ros.model.sampling import Nucleus

PLAIN = Nucleus(top_p=1.0)
WITHOUT_IMAGE = [kind for kind in KINDS if small_config(kind).observation == "none"]


def given_for(network, samples=1, prompt=0, seed=0):
    batch = random_batch(network.config, [max(prompt, 1)] * samples, seed)
    return Given(
        batch.image.numpy() if network.config.seen else None,
        batch.levels[:, :prompt].numpy() if prompt else None,
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prompt", [0, 7])
@pytest.mark.parametrize("at_once", [1, 2, 3])
def test_cached_logits_are_the_uncached_ones(kind, prompt, at_once):
    network = small_network(kind)
    batch = random_batch(network.config, [5, 5])
    tokens = network.vocabulary.encode(batch.levels, batch.lengths)
    with torch.inference_mode():
        context = network.shown(batch.image)
        expected = network.decoder(tokens, context)
        state = network.decoder.begin(2, tokens.shape[1], network.decoder.remember(context))
        found = [network.decoder.extend(tokens[:, :prompt], state, 1)]
        place = prompt
        while place < tokens.shape[1] - 1:
            step = tokens[:, place : min(place + at_once, tokens.shape[1] - 1)]
            found.append(network.decoder.extend(step, state, step.shape[1]))
            place += at_once
    torch.testing.assert_close(torch.cat(found, 1), expected[:, prompt:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("change", "given", "rows"),
    [("spread", 2, [0, 0, 1, 1, 2, 2]), ("keep", [2, 1], [2, 1]), ("reorder", [2, 0, 2], [2, 0, 2])],
    ids=["spread", "keep", "reorder"],
)
def test_other_rows_go_on_as_their_sequences(kind, change, given, rows):
    network = small_network(kind)
    batch = random_batch(network.config, [5, 5, 5])
    tokens = network.vocabulary.encode(batch.levels, batch.lengths)
    with torch.inference_mode():
        context = network.shown(batch.image)
        expected = network.decoder(tokens, context)[rows]
        state = network.decoder.begin(3, tokens.shape[1], network.decoder.remember(context))
        network.decoder.extend(tokens[:, :14], state, 1)  # within a segment
        getattr(state, change)(torch.tensor(given) if change == "reorder" else given)
        rest = tokens[rows, 14:-1]
        found = network.decoder.extend(rest, state, rest.shape[1])
    torch.testing.assert_close(found, expected[:, 15:], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_only_grammatical_sequences_of_allowed_length_are_drawn(kind):
    lengths = set()
    for seed in range(3):
        network = small_network(kind, seed)
        drawn = draw(network, 8, seed=1, given=given_for(network), nucleus=PLAIN)
        assert len(drawn) == 8
        lengths |= {len(levels) for levels in drawn}
        for levels in drawn:
            assert ((levels >= 0) & (levels < network.config.levels)).all()
            assert all(tuple(row[:2]) < tuple(row[2:]) for row in levels.tolist())
    assert len(lengths) > 1  # each stops by itself
    assert max(lengths) <= network.config.max_segments


@pytest.mark.parametrize("kind", ["tokens", "no opcodes", "mlp", "segments"])
def test_a_prompt_is_kept_and_completed(kind):
    network = talkative(small_network(kind))
    given = given_for(network, prompt=3)
    drawn = draw(network, 4, seed=0, given=given, nucleus=PLAIN)
    for levels in drawn:
        assert (levels[:3] == given.prompt[0]).all()
    assert len({levels.tobytes() for levels in drawn}) > 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("samples", "prompt"), [(1, 0), (3, 0), (1, 2), (3, 2)])
def test_the_same_sequences_as_token_by_token(kind, samples, prompt):
    """Folded steps, shared images and prompts, rows that are left out: nothing of it changes a sample."""
    lengths = set()
    for seed in range(3):
        network = small_network(kind, seed)
        given = given_for(network, samples, prompt, seed)
        found = draw(network, 8, seed, given=given, nucleus=PLAIN, first=3)
        plain = TokenByToken(network)
        expected = plain.draw(plain.look(given), 8, seed, PLAIN, first=3)
        assert len(found) == len(expected)
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
        lengths |= {len(levels) for levels in found}
    assert len(lengths) > 1  # rows have left the batch


def test_what_is_known_beforehand_costs_no_step(monkeypatch):
    """Four steps a segment instead of six; a prompt once; rows only of unfinished sequences."""
    network = small_network("resnet", 1)
    given, widths = given_for(network, prompt=2), []
    extend = network.decoder.extend
    monkeypatch.setattr(
        network.decoder, "extend", lambda t, *rest: widths.append(tuple(t.shape)) or extend(t, *rest)
    )
    drawn = draw(network, 8, 1, given=given, nucleus=PLAIN)
    own = [len(levels) - 2 for levels in drawn]
    assert 0 < sum(own) < 8 * 3
    assert widths[0] == (1, 11)  # the prompt but for its last token
    expected = []
    for place in range(max(own) + 1):
        going = [sum(n >= place + later for n in own) for later in (0, 1)]
        expected += [(going[0], 2)] + ([(going[1], 1), (going[1], 2), (going[1], 1)] if going[1] else [])
    if max(own) == 3:  # the longest sequences have no stop
        expected = expected[:-1]
    assert widths[1:] == expected


@pytest.mark.parametrize("kind", ["tokens", "segments with image"])
def test_draws_depend_on_the_seed_and_not_on_their_number(kind):
    network = talkative(small_network(kind))
    given = given_for(network, samples=2)
    size = given.size
    few, many = draw(network, 2, 5, given=given), draw(network, 4, 5, given=given)
    again, other = draw(network, 2, 5, given=given), draw(network, 2, 6, given=given)
    for sample in range(size):
        for index in range(2):
            assert np.array_equal(few[2 * sample + index], many[4 * sample + index])
    assert all(np.array_equal(a, b) for a, b in zip(few, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(few, other, strict=True))


def test_the_draws_follow_the_distribution():
    """Frequencies of the first x of many draws against the model's own probabilities."""
    network = small_network("no opcodes", seed=3)
    state = network.decoder.begin(1, 30, None)
    logits = network.decoder.extend(torch.zeros(1, 0, dtype=torch.int64), state, 1)[:, 0]
    mask = network.vocabulary.allowed(0, torch.zeros(1, 0, dtype=torch.int64))
    expected = logits.masked_fill(~mask, -torch.inf).softmax(-1)[0, 3:].detach().numpy()
    drawn = draw(network, 3000, seed=0, nucleus=PLAIN)
    counts = np.bincount([levels[0, 0] for levels in drawn if len(levels)], minlength=16) / 3000
    assert np.abs(counts - expected).max() < 0.04


def test_top_k_keeps_the_likeliest_and_one_is_greedy():
    logits = torch.log(torch.tensor([[0.4, 0.3, 0.2, 0.1]])).expand(200, -1)
    uniform = torch.linspace(0, 0.999, 200)
    assert set(Nucleus(top_p=1.0, top_k=2).pick(logits, uniform).tolist()) == {0, 1}
    assert set(GREEDY.pick(logits, uniform).tolist()) == {0}


@pytest.mark.parametrize("kind", WITHOUT_IMAGE)
@pytest.mark.parametrize("seed", range(3))
def test_beam_search_is_never_less_likely_than_greedy_search(kind, seed):
    network = small_network(kind, seed)
    greedy, nats = beam_search(network, 1)
    assert np.array_equal(greedy, draw(network, 1, seed=0, nucleus=GREEDY)[0])
    for width in (2, 4):
        _, better = beam_search(network, width)
        assert better <= nats + 1e-4


def test_beam_search_finds_a_likelier_plan_somewhere():
    gains = []
    for seed in range(6):
        network = small_network("no opcodes", seed)
        gains.append(beam_search(network, 1)[1] - beam_search(network, 6)[1])
    assert max(gains) > 1e-3


@pytest.mark.parametrize("kind", ["tokens", "segments"])
@pytest.mark.parametrize("seed", range(3))
def test_the_beams_nats_are_those_of_its_sequence(kind, seed):
    network = talkative(small_network(kind, seed))
    levels, nats = beam_search(network, 3)
    tokens = network.vocabulary.encode(torch.from_numpy(levels)[None], torch.tensor([len(levels)]))
    logits = network.decoder(tokens, None)
    total = 0.0
    stops = len(levels) < network.config.max_segments
    for index in range(tokens.shape[1] if stops else tokens.shape[1] - 1):
        mask = network.vocabulary.allowed(index, tokens[:, :index])
        step = logits[:, index].masked_fill(~mask, -torch.inf).log_softmax(-1)
        total -= float(step[0, tokens[0, index]].detach())
    assert nats == pytest.approx(total, rel=1e-3)


def test_beam_search_completes_a_prompt_with_an_image():
    network = small_network("segments with image")
    given = given_for(network, prompt=2)
    levels, _ = beam_search(network, 3, given=given)
    assert (levels[:2] == given.prompt[0]).all()


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ConfigError, match="needs an image"):
        draw(small_network("resnet"), 1, 0)
    with pytest.raises(ConfigError, match="takes no image"):
        draw(small_network(), 1, 0, given=Given(np.zeros((1, 32, 32), bool)))
    network = small_network()
    with pytest.raises(ConfigError, match="fewer than 5"):
        draw(network, 1, 0, given=given_for(network, prompt=5))
    with pytest.raises(ConfigError, match="one at a time"):
        beam_search(network, 2, given=given_for(network, samples=2, prompt=1))
