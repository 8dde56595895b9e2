"""Out of GPU memory: the same completions in smaller chunks, then on the CPU, and judged there; said once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_model import random_image, tiny_config, tiny_network

from floorgent_ros.config import PredictorSettings
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.geometry.observation import observe
from floorgent_ros.model.critic import Critic, CriticConfig, keep
from floorgent_ros.model.memory import ThriftyCritic, ThriftySampler
from floorgent_ros.model.sampling import Nucleus, sample
from floorgent_ros.predictor import DistancePredictor

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


class FullCritic(Critic):
    """Runs out of memory so many times, and notes where it is moved."""

    def __init__(self, failures: int) -> None:
        torch.manual_seed(0)
        super().__init__(CriticConfig(widths=(8, 16)))
        self.eval()
        self.failures = failures
        self.moved: list[Any] = []

    def logits(self, *given: Any) -> Any:
        if self.failures > 0:
            self.failures -= 1
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return super().logits(*given)

    def to(self, *where: Any) -> Any:
        self.moved.append(where)
        return super().to(*where)


@pytest.fixture(scope="module")
def drawn() -> tuple[Any, Any]:
    """An observation, and distances of 12 completions."""
    cells = np.full((256, 256), UNKNOWN, np.int8)
    cells[100:157, 100:157] = FREE
    cells[100:157, 150] = OCCUPIED
    fields = np.random.default_rng(0).uniform(0, 40, (12, 256, 256))
    return observe(OccupancyMap(cells, CELL_M), (20.0, 20.0)), fields


def test_a_critic_out_of_memory_goes_on_on_the_cpu_and_keeps_the_same(drawn: Any) -> None:
    expected = keep(FullCritic(0), *drawn, 4)
    assert expected.tolist() != [0, 1, 2, 3]
    critic, notes = FullCritic(1), ["before"]
    thrifty = ThriftyCritic(critic, notes)
    for _ in range(3):
        assert np.array_equal(thrifty(*drawn, 4), expected)
    assert critic.moved == [("cpu", torch.float32)]
    assert notes == ["before", "out of GPU memory in the critic: from now on it runs on the CPU"]


def test_a_critic_that_cannot_retreat_any_further_is_an_error_and_nothing_is_said(drawn: Any) -> None:
    critic, notes = FullCritic(3), []
    thrifty = ThriftyCritic(critic, notes)
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError):
            thrifty(*drawn, 4)
    assert (critic.failures, notes) == (0, [])
    assert critic.moved == [("cpu", torch.float32)]


def test_the_predictor_says_once_that_its_critic_had_no_memory_and_answers_the_same() -> None:
    network = tiny_network(tiny_config(256, layers=1))
    settings = PredictorSettings(completions=4, candidates=12)
    cells = np.full((120, 160), FREE, np.int8)
    cells[:2] = cells[-2:] = cells[:, :2] = cells[:, -2:] = OCCUPIED
    cells[40:, 120:] = UNKNOWN
    fields = []
    for failures in (0, 1):
        predictor = DistancePredictor(network, settings=settings, critic=FullCritic(failures))
        fields += [predictor.predict(OccupancyMap(cells, 0.05), (3.0, 2.0)).distance for _ in range(2)]
        assert len(predictor.fallbacks) == failures
    assert all(np.array_equal(field, fields[0], equal_nan=True) for field in fields[1:])
