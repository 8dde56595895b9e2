"""Which of the ways to draw completions is used where."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.model.checkpoint import Network
from floorgent_ros.model.compiled_sampler import CompiledSampler
from floorgent_ros.model.completion import SequenceSampler
from floorgent_ros.model.graph_sampler import GraphSampler
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.sampling import EagerSampler, Nucleus, Sampler
from floorgent_ros.model.segment_sampler import CompiledSegments


def sampler_for(network: Network) -> Sampler:
    """The fastest sampler for the network's kind, device and number format."""
    first = next(network.parameters())
    if isinstance(network, SequenceNet):
        plain = first.device.type == "cpu" and first.dtype == torch.float32
        kind = CompiledSegments if plain and CompiledSegments.fits(network) else SequenceSampler
        return kind(network)
    if first.device.type == "cuda":
        return GraphSampler(network)
    return CompiledSampler(network) if first.dtype == torch.float32 else EagerSampler(network)


class FastestSampler:
    """`sampling.sample` by the fastest sampler, which is kept as long as the network stays as it is.

    milliseconds: of the last call, by encoder and decode.
    """

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}
        self._key: object = None
        self._sampler: Sampler

    def of(self, network: Network) -> Sampler:
        """The sampler for the network where it is now; made anew when it has moved."""
        weight = next(network.parameters())
        key = (id(network), weight.device, weight.dtype)
        if key != self._key:
            self._sampler, self._key = sampler_for(network), key
        return self._sampler

    def __call__(
        self,
        network: Network,
        observed: Any,
        count: int,
        seed: int,
        nucleus: Nucleus,
        first: int = 0,
    ) -> list[NDArray[np.int64]]:
        """As `sampling.sample`, of what the network's sampler takes."""
        sampler, begun = self.of(network), time.perf_counter()
        memory = sampler.look(observed)
        looked = time.perf_counter()
        drawn = sampler.draw(memory, count, seed, nucleus, first)
        ended = time.perf_counter()
        self.milliseconds = {"encoder": 1e3 * (looked - begun), "decode": 1e3 * (ended - looked)}
        return drawn
