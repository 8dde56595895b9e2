"""The compiled sampler against the eager one: the same logits, and the same walls from the same uniforms."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch
from tiny_model import random_image, tiny_config, tiny_network

from floorgent_ros.model import compiled_sampler
from floorgent_ros.model.checkpoint import load_checkpoint
from floorgent_ros.model.compiled_sampler import WIDTH, CompiledSampler
from floorgent_ros.model.compiled_sweep import advance
from floorgent_ros.model.sampler import sampler_for
from floorgent_ros.model.sampling import EagerSampler, Nucleus, Sweep, uniforms
from floorgent_ros.model.sequence import FIELDS

NUCLEI = [Nucleus(1.0), Nucleus(0.9, 1.0, -0.5), Nucleus(0.95, 0.7, 1.0), Nucleus(0.5, 1.5, 0.5)]


@pytest.fixture(scope="module")
def network():
    return tiny_network(walls_wanted=3.0)


@pytest.fixture(scope="module")
def compiled(network):
    return CompiledSampler(network, threads=2)


def same(first, second):
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("nucleus", NUCLEI)
def test_the_same_uniforms_give_the_same_walls(network, compiled, nucleus):
    eager, kinds = EagerSampler(network), set()
    for seed in range(12):
        image = random_image(np.random.default_rng(seed))
        expected = eager(image, 9, seed, nucleus)
        assert same(compiled(image, 9, seed, nucleus), expected)
        kinds |= {(a == c, b == d) for walls in expected for a, b, c, d in walls.tolist()}
    assert len(kinds) == 3  # horizontal, vertical and free walls occurred


@pytest.mark.parametrize("walls_wanted", [-50.0, 50.0])
def test_none_and_as_many_as_may_be(walls_wanted):
    network, image = tiny_network(walls_wanted=walls_wanted), random_image(np.random.default_rng(0))
    drawn = CompiledSampler(network, threads=1)(image, 3, 0, Nucleus(1.0))
    assert same(drawn, EagerSampler(network)(image, 3, 0, Nucleus(1.0)))
    assert {len(walls) for walls in drawn} == {0 if walls_wanted < 0 else network.config.max_segments}


def test_other_sizes_of_the_network():
    """Widths that are no multiples of a vector."""
    config = tiny_config(
        32, encoder_widths=(8, 16, 24), width=18, heads=3, layers=1, feed=13, key_width=5, patch_width=10
    )
    network = tiny_network(config, walls_wanted=2.0)
    sampler = CompiledSampler(network, threads=1)
    for seed in range(6):
        image = random_image(np.random.default_rng(seed))
        assert same(
            sampler(image, 5, seed, Nucleus(1.0)), EagerSampler(network)(image, 5, seed, Nucleus(1.0))
        )


def test_the_shipped_network_draws_the_same_walls():
    network, _ = load_checkpoint()
    image = np.full((256, 256), -1, np.int8)
    image[100:156, 96:170] = 0
    image[100, 96:170] = image[155, 96:140] = image[100:156, 96] = 100
    nucleus = Nucleus(0.95, 1.0, -0.5)
    drawn = CompiledSampler(network)(image, 4, 3, nucleus)
    assert same(drawn, EagerSampler(network)(image, 4, 3, nucleus))
    assert sum(map(len, drawn)) > 20


class Recording(Sweep):
    """Keeps the logits that an eager step draws from."""

    def _start_log_probability(self, state):
        canvas = self.canvas[:, self.decoder.patch_of_rank]
        self.hazards = self.decoder.start(state[:, None], canvas[:, None], self.current[:, None], self.memory)
        self.before = self.current
        return super()._start_log_probability(state)

    def _possible_kinds(self, logits, start):
        self.kinds = logits
        return super()._possible_kinds(logits, start)


@pytest.mark.parametrize("seed", range(4))
def test_logits_agree_at_every_step(network, compiled, seed):
    image, steps = random_image(np.random.default_rng(seed)), network.config.max_segments
    numbers = uniforms(1, steps, seed)
    flat = np.ascontiguousarray(numbers.numpy().transpose(2, 0, 1))
    eager = Recording(network.decoder, EagerSampler(network).look(image), 1, steps, Nucleus(1.0))
    memory, settings = compiled.look(image), np.array([1.0, 1.0, 0.0])
    rows = np.full((1, steps, FIELDS), -1)
    slots, scratch = compiled.queue(1).take(), compiled._scratch[0]
    compared = 0
    with torch.inference_mode():
        for number in numbers:
            eager.step(number)
            advance(compiled.weights, memory, compiled._slots, scratch, slots, flat, settings, rows, 1)
            ahead = max(int(eager.before[0]), 0)
            assert scratch.hazards[0, ahead:] == pytest.approx(eager.hazards[0, 0, ahead:].numpy(), abs=1e-4)
            compared += 1
            if not bool(eager.alive.all()):
                break
            assert scratch.kinds[0] == pytest.approx(eager.kinds[0].numpy(), abs=1e-4)
    assert compared > 2


def test_a_completion_depends_neither_on_the_count_nor_on_the_threads(network, compiled):
    image = random_image(np.random.default_rng(5))
    many = compiled(image, 3 * WIDTH, 2, Nucleus(1.0))
    assert len({len(walls) for walls in many}) > 3
    for threads, count in ((1, 3 * WIDTH), (1, 1), (3, 5), (4, 3 * WIDTH)):
        drawn = CompiledSampler(network, threads=threads)(image, count, 2, Nucleus(1.0))
        assert same(drawn, many[:count])
    assert same(compiled(image, 3 * WIDTH, 2, Nucleus(1.0)), many)  # nothing is left from the draw before


def test_two_draws_share_nothing(network, compiled):
    """Slots are used again: what a sequence left there must not reach the next one."""
    first, second = (random_image(np.random.default_rng(seed)) for seed in (6, 7))
    alone = CompiledSampler(network, threads=2)(second, 7, 1, Nucleus(1.0))
    compiled(first, 20, 0, Nucleus(1.0))
    assert same(compiled(second, 7, 1, Nucleus(1.0)), alone)


def test_the_weights_are_copied_once(network):
    changed = tiny_network(walls_wanted=3.0)
    sampler, image = CompiledSampler(changed, threads=1), random_image(np.random.default_rng(8))
    memory = sampler.look(image)
    before = sampler.draw(memory, 4, 0, Nucleus(1.0))
    with torch.no_grad():
        changed.decoder.start_query.weight.zero_()
    assert same(sampler.draw(memory, 4, 0, Nucleus(1.0)), before)


def test_a_thread_that_fails_ends_the_draw(compiled, monkeypatch):
    """The other threads must not wait for its sequences for ever."""
    real, calls, lock = compiled_sampler.advance, [0], threading.Lock()

    def failing(*arguments):
        with lock:
            calls[0] += 1
            fails = calls[0] == 2
        if fails:
            raise RuntimeError("broken on purpose")
        return real(*arguments)

    monkeypatch.setattr(compiled_sampler, "advance", failing)
    with pytest.raises(RuntimeError, match="on purpose"):
        compiled(random_image(np.random.default_rng(9)), 2 * WIDTH, 0, Nucleus(1.0))


def test_a_closed_queue_gives_out_nothing_whatever_is_given_back(compiled):
    slots = compiled._slots
    queue = compiled.queue(2 * WIDTH)
    first, second = queue.take(), queue.take()
    queue.close()
    slots.current[first] = slots.canvas.shape[2]  # finished in the meantime
    assert len(queue.exchange(first)) == 0
    assert len(queue.exchange(second)) == 0


def test_the_queue_hands_out_every_sequence_once_and_shares_the_rest(compiled):
    count, slots = 3 * WIDTH + 1, compiled._slots
    patches = slots.canvas.shape[2]
    queue = compiled.queue(count)
    taken = [queue.take(), queue.take()]
    assert [len(part) for part in taken] == [WIDTH, WIDTH]
    slots.current[taken[0]] = patches  # all of these are finished
    later = queue.exchange(taken[0])
    assert not set(later) & set(taken[1])
    assert len(later) == WIDTH
    assert set(slots.name[np.concatenate([taken[1], later])]) == set(range(WIDTH, 3 * WIDTH))
    slots.current[later] = patches
    assert slots.name[queue.exchange(later)].tolist() == [count - 1]
    slots.current[taken[1][:-3]] = patches  # four are left, one of them elsewhere: half of them for each
    assert len(queue.exchange(taken[1])) == 2
    assert len(queue.take()) == 1


@pytest.mark.parametrize(
    ("dtype", "kind"), [(torch.float32, CompiledSampler), (torch.bfloat16, EagerSampler)]
)
def test_the_fast_one_is_the_default_where_it_can_be(dtype, kind):
    sampler = sampler_for(tiny_network().to(dtype))
    assert isinstance(sampler, kind)
    assert "decoding" in sampler.description
