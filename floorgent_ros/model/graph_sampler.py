"""Drawing completions on a GPU: one step of the eager sweep as a CUDA graph, captured once and replayed.

An eager step launches some hundred small kernels and waits for each launch; a replay is one launch. For that
a step must read and write the same memory every time and never ask the CPU, so the cache has its full length
from the start, both ways of ending a wall are always computed, and the state is updated in place.
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from floorgent_ros.model.decoder import Decoder, Memory
from floorgent_ros.model.network import FloorNet
from floorgent_ros.model.sampling import EagerSampler, Nucleus, Sampler, Sweep, uniforms
from floorgent_ros.model.sequence import FIELDS
from floorgent_ros.model.trunk import TrunkLayer

CHECK_STEPS = 8  # replays between two looks whether all sequences have stopped
WARM_UP_STEPS = 3  # CUDA's libraries allocate at their first calls, which a capture forbids
CHANGING = ("current", "cell", "alive", "canvas", "next_input")


class StaticSweep(Sweep):
    """A sweep whose step can be captured: fixed shapes, fixed memory, no value that the CPU reads."""

    def __init__(self, decoder: Decoder, memory: Memory, count: int, steps: int, nucleus: Nucleus) -> None:
        super().__init__(decoder, memory, count, steps, nucleus)
        device = memory.patches.device
        self.next_input = self.next_input.clone()
        for room in self.cache.room:  # what is masked is multiplied by 0, and must be a number for that
            for kept in room:
                kept.zero_()
        self.position = torch.zeros(1, dtype=torch.int64, device=device)
        self.uniform = torch.zeros(steps, FIELDS, count, device=device)
        self.rows = torch.full((count, steps, FIELDS), -1, device=device)
        self._places = torch.arange(steps, device=device)

    def reset(self, uniform: Tensor) -> None:
        """Begin anew with these numbers, (steps, FIELDS, N); what the cache holds is no longer seen."""
        self.uniform.copy_(uniform)
        self.position.zero_()
        self.rows.fill_(-1)
        self.current.fill_(-1)
        self.cell.zero_()
        self.alive.fill_(True)
        self.canvas.zero_()
        self.next_input.copy_(self.decoder.begin.expand_as(self.next_input))

    def advance(self) -> None:
        """Draw every sequence's next wall, in place."""
        places = {name: getattr(self, name) for name in CHANGING}
        row = self.step(self.uniform.index_select(0, self.position)[0])
        self.rows.index_copy_(1, self.position, torch.where(self.alive[:, None], row, -1)[:, None])
        for name, place in places.items():
            place.copy_(getattr(self, name))
            setattr(self, name, place)
        self.position.add_(1)

    def _advance(self) -> Tensor:
        trunk, x = self.decoder.trunk, self.next_input
        seen = (self._places <= self.position)[None, None, None]  # (1, 1, 1, T)
        for index, layer in enumerate(trunk.layers):
            x = self._layer(layer, index, x, seen)  # type: ignore[arg-type]
        state: Tensor = trunk.norm(x)
        return state[:, -1]

    def _layer(self, layer: TrunkLayer, index: int, x: Tensor, seen: Tensor) -> Tensor:
        """`TrunkLayer.forward` with attention to the whole cache, the part not yet filled masked."""
        query, *new = (layer._split(part) for part in layer.self_qkv(layer.norms[0](x)).chunk(3, -1))
        for kept, latest in zip(self.cache.room[index], new, strict=True):
            kept.index_copy_(2, self.position, latest)
        keys, values = self.cache.room[index]
        y = functional.scaled_dot_product_attention(query, keys, values, attn_mask=seen)
        x = x + layer.gates[0] * layer.self_out(layer._join(y))
        query = layer._split(layer.cross_q(layer.norms[1](x)))
        y = functional.scaled_dot_product_attention(query, *self.memory.cross[index])
        x = x + layer.gates[1] * layer.cross_out(layer._join(y))
        return x + layer.gates[2] * layer.feed(layer.norms[2](x))

    def _any(self, marked: Tensor) -> bool:  # noqa: ARG002
        return True  # to look would make the CPU wait


class GraphSampler(Sampler):
    """`sampling.sample` of one network on CUDA; a graph for each number of completions and nucleus.

    On the CPU, for tests, the same steps run without a graph.
    """

    def __init__(self, network: FloorNet) -> None:
        """network: on its device, in its number format, in evaluation mode."""
        self.network = network
        self._eager = EagerSampler(network)
        self._failure = ""
        self._memory: Memory | None = None
        self._ready: tuple[object, StaticSweep, torch.cuda.CUDAGraph | None] | None = None

    @property
    def description(self) -> str:
        """How it draws, in a few words."""
        return f"decoding step by step, {self._failure}" if self._failure else "CUDA graph decoding"

    @torch.inference_mode()
    def look(self, observed: NDArray[np.int8]) -> Memory:
        """What the decoder keeps of an image; the next call's takes its place."""
        found = self._eager.look(observed)
        if self._memory is None:
            self._memory = found
        else:
            _copy(found, self._memory)
        return self._memory

    @torch.inference_mode()
    def draw(
        self, memory: Memory, count: int, seed: int, nucleus: Nucleus, first: int = 0
    ) -> list[NDArray[np.int64]]:
        """Draw the completions of the image that was looked at last, from number `first` on."""
        if memory is not self._memory:
            raise ValueError("draw takes what the last call of look returned")
        sweep, graph = self._prepared(memory, count, nucleus)
        steps = self.network.config.max_segments
        sweep.reset(uniforms(count, steps, seed, first).to(memory.patches.device))
        for step in range(steps):
            if graph is None:
                sweep.advance()
            else:
                graph.replay()
            if (step + 1) % CHECK_STEPS == 0 and not bool(sweep.alive.any()):
                break
        drawn = sweep.rows.cpu().numpy()
        return [self.network.decoder.layout.decode(row[row[:, 0] >= 0]) for row in drawn]

    def _prepared(
        self, memory: Memory, count: int, nucleus: Nucleus
    ) -> tuple[StaticSweep, torch.cuda.CUDAGraph | None]:
        """The sweep and its graph, captured anew when the count or the nucleus is another."""
        key = (count, nucleus)
        if self._ready is None or self._ready[0] != key:
            steps = self.network.config.max_segments
            sweep = StaticSweep(self.network.decoder, memory.expand(count), count, steps, nucleus)
            self._ready = (key, sweep, self._captured(sweep) if memory.patches.is_cuda else None)
        return self._ready[1], self._ready[2]

    def _captured(self, sweep: StaticSweep) -> torch.cuda.CUDAGraph | None:
        """A graph, or None where the driver or a library refuses: slower, but the same walls."""
        try:
            return capture(sweep)
        except RuntimeError as error:
            self._failure = f"since its CUDA graph failed ({' '.join(str(error).split())[:200]})"
            return None


def capture(sweep: StaticSweep) -> torch.cuda.CUDAGraph:
    """One step of the sweep as a graph; the sweep must be reset afterwards."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP_STEPS):
            sweep.advance()
    torch.cuda.current_stream().wait_stream(stream)
    sweep.reset(sweep.uniform.clone())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sweep.advance()
    return graph


def _copy(new: Memory, old: Memory) -> None:
    """Put an image's memory where a graph reads it."""
    for pairs in zip(new.cross, old.cross, strict=True):
        for source, target in zip(*pairs, strict=True):
            target.copy_(source)
    for item in fields(Memory)[1:]:
        getattr(old, item.name).copy_(getattr(new, item.name))
