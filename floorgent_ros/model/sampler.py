"""Which of the ways to draw completions is used where."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.model.compiled_sampler import CompiledSampler
from floorgent_ros.model.graph_sampler import GraphSampler
from floorgent_ros.model.network import FloorNet
from floorgent_ros.model.sampling import EagerSampler, Nucleus


class Sampler(Protocol):
    """Draws completions of an image in two parts, so that they can be timed."""

    @property
    def description(self) -> str:
        """How it draws, in a few words."""
        ...

    def look(self, image: NDArray[np.int8]) -> Any:
        """What it keeps of an (L, L) image of −1/0/100."""
        ...

    def draw(self, memory: Any, count: int, seed: int, nucleus: Nucleus) -> list[NDArray[np.int64]]:
        """`count` completions of what `look` returned last; each is (K, 4) levels of unseen walls."""
        ...


def sampler_for(network: FloorNet) -> Sampler:
    """The fastest sampler for the network's device and number format."""
    first = next(network.parameters())
    if first.device.type == "cuda":
        return GraphSampler(network)
    return CompiledSampler(network) if first.dtype == torch.float32 else EagerSampler(network)
