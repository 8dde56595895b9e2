"""When the GPU's memory runs out: completions are drawn fewer at once, then on the CPU, and judged there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.geometry.observation import Observation
from floorgent_ros.model.critic import Critic, keep
from floorgent_ros.model.sampler import FastestSampler
from floorgent_ros.model.sampling import Nucleus, Sampler

Drawn = list[NDArray[np.int64]]


class ThriftySampler:
    """`sample` or its like that survives out-of-memory errors and remembers what fitted.

    The random numbers of a completion do not depend on how many are drawn beside it, so chunks give the
    completions that one batch would give, up to rounding. notes: one line for each retreat that worked.
    """

    def __init__(self, network: Any, draw: Callable[..., Drawn] | None = None) -> None:
        """draw: as `FastestSampler`.

        The network is moved to the CPU, in float32, when not even one fits.
        """
        self._network = network
        self.fastest = FastestSampler()
        self._draw = draw or self.fastest
        self._chunk: int | None = None  # completions at once; None: all
        self.notes: list[str] = []

    def __call__(self, observed: Any, count: int, seed: int, nucleus: Nucleus) -> Drawn:
        """As `draw` for the image or observation.

        Raises `torch.cuda.OutOfMemoryError` when there is nothing left to retreat to.
        """
        note = ""
        while True:
            at_once = min(self._chunk or count, count)
            try:
                drawn = self._chunks(observed, count, at_once, seed, nucleus)
            except torch.cuda.OutOfMemoryError:
                if at_once == 1 and not self._on_gpu:
                    raise
            else:
                self.notes += [note] if note else []
                return drawn
            # only here: during the handling of the error its traceback still holds the tensors
            torch.cuda.empty_cache()
            note = self._retreat(at_once)

    @property
    def sampler(self) -> Sampler:
        """What draws where the network is now."""
        return self.fastest.of(self._network)

    @property
    def _on_gpu(self) -> bool:
        return bool(next(self._network.parameters()).device.type != "cpu")

    def _chunks(self, observed: Any, count: int, at_once: int, seed: int, nucleus: Nucleus) -> Drawn:
        drawn: Drawn = []
        for first in range(0, count, at_once):
            drawn += self._draw(
                self._network, observed, min(at_once, count - first), seed, nucleus, first=first
            )
        return drawn

    def _retreat(self, at_once: int) -> str:
        """Ask for less memory from now on; the line that says so."""
        if at_once > 1:
            self._chunk = at_once // 2
            return f"out of GPU memory: from now on completions are drawn {self._chunk} at once"
        self._chunk = None
        self._network.to("cpu", torch.float32)
        return "out of GPU memory with a single completion: from now on the network runs on the CPU"


class ThriftyCritic:
    """`critic.keep` that goes on on the CPU, in float32, when the memory of the GPU runs out.

    notes: gets one line when that has worked.
    """

    def __init__(
        self, critic: Critic, notes: list[str], choose: Callable[..., NDArray[np.int64]] = keep
    ) -> None:
        """choose: `critic.keep` or its like."""
        self._critic = critic
        self._notes = notes
        self._choose = choose
        self._retreated = False

    def __call__(
        self, observation: Observation, fields: NDArray[np.float64], count: int
    ) -> NDArray[np.int64]:
        """As `critic.keep`; raises `torch.cuda.OutOfMemoryError` where the critic has retreated before."""
        try:
            return self._choose(self._critic, observation, fields, count)
        except torch.cuda.OutOfMemoryError:
            if self._retreated:
                raise
        # only here: during the handling of the error its traceback still holds the tensors
        torch.cuda.empty_cache()
        self._retreated = True
        self._critic.to("cpu", torch.float32)
        chosen = self._choose(self._critic, observation, fields, count)
        self._notes.append("out of GPU memory in the critic: from now on it runs on the CPU")
        return chosen
