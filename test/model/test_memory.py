"""Out of GPU memory: the same completions in smaller chunks, then on the CPU, said once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_model import random_image, tiny_network

from floorgent_ros.model.memory import ThriftySampler
from floorgent_ros.model.sampling import Nucleus, sample

IMAGE = random_image(np.random.default_rng(0))
NUCLEUS = Nucleus(top_p=0.95)


class Gpu:
    """`sample` on a device that holds so many completions; the CPU holds any number."""

    def __init__(self, holds: int) -> None:
        self.holds = holds
        self.asked: list[int] = []

    def __call__(self, network: Any, image: Any, count: int, *rest: Any, **options: Any) -> Any:
        self.asked.append(count)
        if count > self.holds:
            raise torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return sample(network, image, count, *rest, **options)


def equal(first: list[Any], second: list[Any]) -> bool:
    return len(first) == len(second) and all(map(np.array_equal, first, second))


@pytest.fixture(scope="module")
def network() -> Any:
    return tiny_network(walls_wanted=3.0)


def test_out_of_memory_draws_the_same_completions_in_chunks(network: Any) -> None:
    expected = sample(network, IMAGE, 7, 3, NUCLEUS)
    assert any(len(walls) for walls in expected)
    gpu = Gpu(holds=2)
    sampler = ThriftySampler(network, gpu)
    assert equal(sampler(IMAGE, 7, 3, NUCLEUS), expected)
    assert gpu.asked == [7, 3, 1, 1, 1, 1, 1, 1, 1]
    assert len(sampler.notes) == 1
    assert "1 at once" in sampler.notes[0]


def test_what_fitted_is_remembered_and_said_once(network: Any) -> None:
    gpu = Gpu(holds=4)
    sampler = ThriftySampler(network, gpu)
    for seed in range(3):
        sampler(IMAGE, 8, seed, NUCLEUS)
    assert gpu.asked == [8, 4, 4, 4, 4, 4, 4]
    assert len(sampler.notes) == 1


def test_not_even_one_fits_and_the_cpu_takes_over(network: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = sample(network, IMAGE, 4, 5, NUCLEUS)
    gpu = Gpu(holds=0)
    sampler = ThriftySampler(network, gpu)
    monkeypatch.setattr(ThriftySampler, "_on_gpu", property(lambda self: self._chunk == 1))

    moved = []

    def to(device: str, dtype: torch.dtype) -> None:
        moved.append((device, dtype))
        gpu.holds = 100

    monkeypatch.setattr(network, "to", to, raising=False)
    assert equal(sampler(IMAGE, 4, 5, NUCLEUS), expected)
    assert moved == [("cpu", torch.float32)]
    assert gpu.asked == [4, 2, 1, 4]
    assert len(sampler.notes) == 1
    assert "CPU" in sampler.notes[0]


def test_nothing_left_to_retreat_to_is_an_error_and_no_endless_loop(network: Any) -> None:
    sampler = ThriftySampler(network, Gpu(holds=0))
    with pytest.raises(torch.cuda.OutOfMemoryError):
        sampler(IMAGE, 4, 0, NUCLEUS)
    assert sampler.notes == []


def test_chunks_repeat_the_numbers_of_their_completions(network: Any) -> None:
    together = sample(network, IMAGE, 6, 9, NUCLEUS)
    assert equal(sample(network, IMAGE, 2, 9, NUCLEUS, first=4), together[4:])
