"""Steps that a CUDA graph can hold draw what the eager ones draw; the graph itself where there is a GPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_model import random_image, tiny_network

from floorgent_ros.model import graph_sampler
from floorgent_ros.model.graph_sampler import GraphSampler
from floorgent_ros.model.sampler import sampler_for
from floorgent_ros.model.sampling import EagerSampler, Nucleus

NEEDS_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def same(first, second):
    return len(first) == len(second) and all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.fixture(scope="module")
def network():
    return tiny_network(walls_wanted=3.0)


def test_static_steps_draw_the_same_walls(network):
    """One sampler for several images, counts and nuclei: nothing of the draw before is left."""
    eager, static = EagerSampler(network), GraphSampler(network)
    for seed in range(6):
        image = random_image(np.random.default_rng(seed))
        for count, nucleus in ((5, Nucleus(1.0)), (5, Nucleus(0.9, 0.8, 0.5)), (2, Nucleus(1.0))):
            assert same(static(image, count, seed, nucleus), eager(image, count, seed, nucleus))


def test_a_step_keeps_its_memory(network):
    """A graph reads and writes the addresses of its capture."""
    sampler, image = GraphSampler(network), random_image(np.random.default_rng(0))
    memory = sampler.look(image)
    sampler.draw(memory, 3, 0, Nucleus(1.0))
    sweep, _ = sampler._prepared(memory, 3, Nucleus(1.0))
    names = (*graph_sampler.CHANGING, "position", "rows", "uniform")
    before = {name: getattr(sweep, name).data_ptr() for name in names}
    assert sampler.look(random_image(np.random.default_rng(1))) is memory
    sampler.draw(memory, 3, 1, Nucleus(1.0))
    assert sampler._prepared(memory, 3, Nucleus(1.0))[0] is sweep
    assert {name: getattr(sweep, name).data_ptr() for name in names} == before


def test_only_the_last_look_can_be_drawn_from(network):
    sampler, image = GraphSampler(network), random_image(np.random.default_rng(0))
    with pytest.raises(ValueError, match="last call of look"):
        sampler.draw(EagerSampler(network).look(image), 3, 0, Nucleus(1.0))


def test_without_a_graph_the_steps_go_on_and_the_reason_is_said(network, monkeypatch):
    def refuse(_sweep):
        raise RuntimeError("capture\nrefused")

    sampler, image = GraphSampler(network), random_image(np.random.default_rng(0))
    assert sampler.description == "CUDA graph decoding"
    monkeypatch.setattr(graph_sampler, "capture", refuse)
    sampler.look(image)
    sweep, _ = sampler._prepared(sampler._memory, 3, Nucleus(1.0))
    assert sampler._captured(sweep) is None
    assert "(capture refused)" in sampler.description


@NEEDS_CUDA
def test_graphs_draw_what_eager_steps_draw_on_the_gpu():
    network = tiny_network(walls_wanted=3.0).to("cuda")
    eager, graph = EagerSampler(network), sampler_for(network)
    assert isinstance(graph, GraphSampler)
    for seed in range(6):
        image = random_image(np.random.default_rng(seed))
        assert same(graph.draw(graph.look(image), 8, seed, Nucleus(1.0)), eager(image, 8, seed, Nucleus(1.0)))
    assert graph.description == "CUDA graph decoding"
