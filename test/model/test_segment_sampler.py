"""The compiled loop of the segment decoder against the eager one: the same walls from the same uniforms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from paper_models import small_network

from floorgent_ros.model import segment_sampler
from floorgent_ros.model.checkpoint import load_checkpoint, shipped
from floorgent_ros.model.completion import SequenceSampler
from floorgent_ros.model.packed_segments import remember_told
from floorgent_ros.model.paper.image import Shown
from floorgent_ros.model.paper.sampling import Given, Seen, look
from floorgent_ros.model.paper.segments import segment_levels
from floorgent_ros.model.paper.unseen import NOT_TOLD
from floorgent_ros.model.sampler import sampler_for
from floorgent_ros.model.sampling import Nucleus
from floorgent_ros.model.segment_sampler import CompiledSegments, Told
from floorgent_ros.model.sharing import WIDTH

SIZES = {"max_segments": 24, "levels": 32, "vocabulary": 35}
NUCLEI = [Nucleus(1.0), Nucleus(0.9, 1.0, -0.5), Nucleus(0.95, 0.7, 1.0), Nucleus(0.5, 1.5, 2.0)]


def seen_by(network, seed=0, told=3):
    """Told so many random walls; of a network that asks, what lies beyond their ends is random, too."""
    rng = np.random.default_rng(seed)
    config = network.config
    levels = config.frame.ordered(rng.integers(0, config.levels, (4 * told + 4, 4)))[:told]
    image = rng.random((1, config.image_cells, config.image_cells)) < 0.3
    if not config.beyond:
        return look(network, Given(image, levels[None]))
    classes = rng.integers(0, NOT_TOLD + 1, (1, told, 2))
    classes[:, -1] = NOT_TOLD  # the mark
    return look(network, Given(image, levels[None], classes))


def draw_both(network, sampler, seen, count, seed, nucleus, first=0):
    with torch.inference_mode():
        told = Told(seen, remember_told(network.decoder, seen))
    return (
        SequenceSampler(network).draw(seen, count, seed, nucleus, first),
        sampler.draw(told, count, seed, nucleus, first),
    )


def same(first, second):
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.fixture(scope="module")
def network():
    return small_network("unseen", scale=0.3, **SIZES)


@pytest.fixture(scope="module")
def compiled(network):
    return CompiledSegments(network, threads=2)


@pytest.mark.parametrize("nucleus", NUCLEI)
def test_the_same_uniforms_give_the_same_walls(network, compiled, nucleus):
    lengths = set()
    for seed in range(12):
        seen = seen_by(network, seed, told=1 + seed % 5)
        eager, fast = draw_both(network, compiled, seen, 9, seed, nucleus)
        assert same(fast, eager)
        lengths |= {len(walls) for walls in eager}
    assert len(lengths) > 3


@pytest.mark.parametrize("positions", [False, True])
def test_other_sizes_of_the_network(positions):
    """Widths that are no multiples of a vector, and a learned position."""
    sizes = {"width": 18, "heads": 3, "layers": 1, "feed": 13, "encoder_widths": (4, 18)}
    network = small_network("unseen", scale=0.3, positions=positions, **(SIZES | sizes))
    sampler = CompiledSegments(network, threads=1)
    for seed in range(6):
        eager, fast = draw_both(network, sampler, seen_by(network, seed), 5, seed, Nucleus(1.0))
        assert same(fast, eager)


def test_a_network_that_is_told_what_lies_beyond_the_ends():
    network = small_network("unseen", scale=0.3, beyond=True, **SIZES)
    sampler, changed = CompiledSegments(network, threads=2), 0
    for seed in range(6):
        seen = seen_by(network, seed, told=4)
        eager, fast = draw_both(network, sampler, seen, 5, seed, Nucleus(1.0))
        assert same(fast, eager)
        other = seen.memory.beyond.clone()
        other[:, 0] = (other[:, 0] + 1) % NOT_TOLD
        moved = Seen(replace(seen.memory, beyond=other), seen.prompt)
        changed += not same(draw_both(network, sampler, moved, 5, seed, Nucleus(1.0))[0], eager)
    assert changed >= 4


def test_drawing_step_by_step_gives_the_likelihood_of_the_whole():
    network = small_network("unseen", scale=0.3, beyond=True, **SIZES)
    seen = seen_by(network, 3, told=4)
    shown = Shown(torch.zeros(1, 64, 64, dtype=torch.bool), torch.randn(1, 4, network.config.width))
    shown.beyond = torch.cat([seen.memory.beyond, torch.full((1, 2, 2), NOT_TOLD)], 1)
    asked = torch.randint(0, 32, (1, 2, 4))
    levels = torch.cat([segment_levels(seen.prompt), asked], 1)
    tokens = network.vocabulary.encode(levels, torch.tensor([6]))
    with torch.inference_mode():
        whole = network.decoder(tokens, shown)
        state = network.decoder.begin(1, tokens.shape[1], network.decoder.remember(shown))
        network.decoder.extend(seen.prompt[:, :-1], state, 1)
        found = network.decoder.extend(tokens[:, seen.prompt.shape[1] - 1 : -1], state, 13)
    torch.testing.assert_close(found, whole[:, seen.prompt.shape[1] :], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("odds", "walls"), [(-60.0, 0), (60.0, SIZES["max_segments"] - 3)])
def test_none_and_as_many_as_may_be(network, compiled, odds, walls):
    nucleus = Nucleus(0.5, wall_log_odds=odds)  # the nucleus cuts no stop
    eager, fast = draw_both(network, compiled, seen_by(network), 4, 0, nucleus)
    assert same(fast, eager)
    assert [len(found) for found in fast] == [walls] * 4


def test_stop_is_as_likely_as_it_is_whatever_the_nucleus():
    network = small_network("unseen", scale=0.0, **SIZES)
    with torch.no_grad():
        network.decoder.stop.bias.fill_(-2.0)  # 0.12 at each wall, less than the nucleus leaves out
    sampler = CompiledSegments(network, threads=1)
    _, drawn = draw_both(network, sampler, seen_by(network), 400, 0, Nucleus(0.5))
    none = np.mean([len(walls) == 0 for walls in drawn])
    assert none == pytest.approx(1 / (1 + np.exp(2.0)), abs=0.05)


def test_a_completion_depends_neither_on_the_count_nor_on_the_threads(network, compiled):
    seen = seen_by(network, 5)
    _, many = draw_both(network, compiled, seen, 3 * WIDTH, 2, Nucleus(1.0))
    for threads, count in ((1, 3 * WIDTH), (1, 1), (3, 5), (4, 3 * WIDTH)):
        sampler = CompiledSegments(network, threads=threads)
        assert same(draw_both(network, sampler, seen, count, 2, Nucleus(1.0))[1], many[:count])
    assert same(draw_both(network, compiled, seen, 2, 2, Nucleus(1.0), first=4)[1], many[4:6])
    draw_both(network, compiled, seen_by(network, 6, told=5), 20, 0, Nucleus(1.0))
    assert same(draw_both(network, compiled, seen, 3 * WIDTH, 2, Nucleus(1.0))[1], many)  # nothing is left


def test_a_thread_that_fails_ends_the_draw(network, compiled, monkeypatch):
    def failing(*arguments):
        raise RuntimeError("broken on purpose")

    monkeypatch.setattr(segment_sampler, "advance_segments", failing)
    with pytest.raises(RuntimeError, match="on purpose"):
        draw_both(network, compiled, seen_by(network), 2 * WIDTH, 0, Nucleus(1.0))


def test_it_is_used_where_it_can_be():
    network = small_network("unseen")
    assert isinstance(sampler_for(network), CompiledSegments)
    assert type(sampler_for(network.to(torch.bfloat16))) is SequenceSampler
    assert type(sampler_for(small_network("segments with image"))) is SequenceSampler
    assert type(sampler_for(small_network("tokens"))) is SequenceSampler


def test_the_trained_network_draws_the_same_walls():
    network, _ = load_checkpoint(shipped().with_name("unseen.safetensors"))
    levels = np.array([[96, 100, 170, 100], [96, 155, 140, 155], [127, 127, 128, 128]])
    image = np.zeros((1, 64, 64), np.bool_)
    image[0, 25:39, 24:42] = True
    seen = look(network, Given(image, levels[None]))
    eager, fast = draw_both(network, CompiledSegments(network), seen, 4, 3, Nucleus(0.95))
    assert same(fast, eager)
    assert sum(map(len, fast)) > 20
