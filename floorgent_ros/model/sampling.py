"""Drawing completions: nucleus sampling over segments with a key/value cache, all in one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from floorgent_ros.model.decoder import BLOCKED, MARKS, Decoder, Memory
from floorgent_ros.model.network import FloorNet
from floorgent_ros.model.sequence import DOWN, FIELDS, FREE, LEFT, RIGHT


@dataclass(frozen=True)
class Nucleus:
    """How the model's distribution is sharpened.

    top_p: share of the probability that is kept (section IV-C). temperature: divides the logits first.
    wall_log_odds: added to the log odds of every patch's hazard, or of a further wall after each; below 0
    fewer walls are drawn.
    top_k: at most so many choices are kept, 0 all; 1 is greedy.
    """

    top_p: float = 0.9
    temperature: float = 1.0
    wall_log_odds: float = 0.0
    top_k: int = 0

    def pick(self, logits: Tensor, uniform: Tensor) -> Tensor:
        """(N, K) logits and (N,) uniforms in [0, 1) → (N,) indices by inverse transform."""
        ordered, index = (logits.float() / self.temperature).softmax(-1).sort(-1, descending=True)
        total = ordered.cumsum(-1)
        ordered = ordered.masked_fill(total - ordered >= self.top_p, 0.0)  # the first is always kept
        if self.top_k:
            ordered[:, self.top_k :] = 0.0
        total = ordered.cumsum(-1)
        target = uniform[:, None].to(total) * total[:, -1:]
        chosen = (total <= target).sum(-1, keepdim=True).clamp(max=logits.shape[-1] - 1)
        return index.gather(-1, chosen)[:, 0]


def uniforms(count: int, steps: int, seed: int, first: int = 0) -> Tensor:
    """(steps, FIELDS, count) numbers in [0, 1), from completion `first` on; n's depend on seed and n only."""
    numbers = range(first, first + count)
    draws = [np.random.default_rng((seed, n)).random((steps, FIELDS), np.float32) for n in numbers]
    return torch.from_numpy(np.stack(draws, -1))


class Sampler(Protocol):
    """Draws completions of what is observed in two parts, so that they can be timed.

    Observed is an (L, L) image of −1/0/100, for a network of the paper's family the whole observation.
    """

    def __call__(
        self, observed: Any, count: int, seed: int, nucleus: Nucleus | None = None
    ) -> list[NDArray[np.int64]]:
        """Draw `count` completions; each is (K, 4) levels of unseen walls."""
        return self.draw(self.look(observed), count, seed, nucleus or Nucleus())

    @property
    def description(self) -> str:
        """How it draws, in a few words."""
        ...

    def look(self, observed: Any) -> Any:
        """What it keeps of what is observed."""
        ...

    def draw(
        self, memory: Any, count: int, seed: int, nucleus: Nucleus, first: int = 0
    ) -> list[NDArray[np.int64]]:
        """Completions first … first + count − 1 of what `look` returned last; each is (K, 4) levels."""
        ...


class EagerSampler(Sampler):
    """Draws completions step by step in PyTorch, on any device and in any number format."""

    def __init__(self, network: FloorNet) -> None:
        """network: in evaluation mode."""
        self.network = network

    @property
    def description(self) -> str:
        """How it draws, in a few words."""
        return "eager PyTorch decoding"

    @torch.inference_mode()
    def look(self, observed: NDArray[np.int8]) -> Memory:
        """What the decoder keeps of an image."""
        device = next(self.network.parameters()).device
        return self.network.decoder.remember(
            self.network.encoder(torch.from_numpy(observed)[None].to(device))
        )

    @torch.inference_mode()
    def draw(
        self, memory: Memory, count: int, seed: int, nucleus: Nucleus, first: int = 0
    ) -> list[NDArray[np.int64]]:
        """Draw the completions of a remembered image, from number `first` on."""
        decoder, steps = self.network.decoder, self.network.config.max_segments
        sweep = Sweep(decoder, memory.expand(count), count, steps, nucleus)
        drawn = sweep.run(uniforms(count, steps, seed, first).to(memory.patches.device)).cpu().numpy()
        return [decoder.layout.decode(row[row[:, 0] >= 0]) for row in drawn]


def sample(
    network: FloorNet,
    image: NDArray[np.int8],
    count: int,
    seed: int,
    nucleus: Nucleus | None = None,
    first: int = 0,
) -> list[NDArray[np.int64]]:
    """`EagerSampler` of a network, once."""
    sampler = EagerSampler(network)
    return sampler.draw(sampler.look(image), count, seed, nucleus or Nucleus(), first)


class Sweep:
    """State of N sequences that are drawn together."""

    def __init__(self, decoder: Decoder, memory: Memory, count: int, steps: int, nucleus: Nucleus) -> None:
        """steps: the most walls that may be drawn."""
        self.decoder, self.memory, self.nucleus = decoder, memory, nucleus
        device = memory.patches.device
        self.batch = torch.arange(count, device=device)
        self.current = torch.full((count,), -1, device=device)
        self.cell = torch.zeros_like(self.current)
        self.alive = torch.ones(count, dtype=torch.bool, device=device)
        self.canvas = torch.zeros(count, decoder.layout.patches, MARKS, dtype=torch.bool, device=device)
        self.cache = decoder.trunk.cache(count, steps)
        self.next_input = decoder.begin.expand(count, 1, -1)

    def run(self, uniform: Tensor) -> Tensor:
        """Draw until all stopped or the uniforms (steps, FIELDS, N) end; (N, steps, FIELDS), −1 after."""
        rows = []
        for numbers in uniform:
            row = self.step(numbers)
            if not bool(self.alive.any()):
                break
            rows.append(torch.where(self.alive[:, None], row, -1))
        if not rows:
            return torch.full((len(self.batch), 1, FIELDS), -1)
        return torch.stack(rows, 1)

    def step(self, numbers: Tensor) -> Tensor:
        """Draw the next wall of every sequence, (N, FIELDS); numbers: (FIELDS, N) uniforms."""
        decoder, memory = self.decoder, self.memory
        state = self._advance()
        rank = self.nucleus.pick(self._start_log_probability(state), numbers[0])
        self.alive = self.alive & (rank < decoder.layout.patches)
        rank = rank.clamp(max=decoder.layout.patches - 1)
        patch = decoder.patch_of_rank[rank]
        state, logits = decoder.start_cell(state, patch, self.batch, memory)
        cells = torch.arange(logits.shape[-1], device=rank.device)
        earlier = (rank == self.current)[:, None] & (cells < self.cell[:, None])
        cell = self.nucleus.pick(logits.masked_fill(earlier, BLOCKED), numbers[1])
        start = self._levels(patch, cell)
        pen = decoder.look_up(start[:, None], memory.pen)[:, 0]
        state, logits = decoder.kind(state, cell, pen)
        kind = self.nucleus.pick(self._possible_kinds(logits, start), numbers[2])
        step, end_cell, end = self._end(state, kind, patch, cell, start, numbers)
        self._remember(rank, cell, kind, torch.cat([start, end], -1))
        return torch.stack([rank, cell, kind, step, end_cell], -1)

    def _advance(self) -> Tensor:
        """Trunk state (N, D) before the next wall."""
        trunk, memory = self.decoder.trunk, self.memory
        states: Tensor = trunk(self.next_input, memory.cross, self.cache)
        return states[:, -1]

    def _start_log_probability(self, state: Tensor) -> Tensor:
        """(N, G + 1): log probability of each rank as the next wall's start, the stop last."""
        canvas = self.canvas[:, self.decoder.patch_of_rank]
        logits = self.decoder.start(state[:, None], canvas[:, None], self.current[:, None], self.memory)[:, 0]
        logits = logits + self.nucleus.wall_log_odds
        # −log of passing by all patches up to this one
        passed = functional.softplus(logits.float()).cumsum(-1)
        starts = logits - passed  # log h + log of passing by the ones before
        starts = starts.masked_fill(logits <= BLOCKED / 2, BLOCKED)
        return torch.cat([starts, -passed[:, -1:]], -1)

    def _levels(self, patch: Tensor, cell: Tensor) -> Tensor:
        """Patches and cells in them, of one shape or broadcast → (…, 2) levels (x, y)."""
        side, size = self.decoder.layout.side, self.decoder.layout.patch
        x, y = patch % side * size + cell % size, patch // side * size + cell // size
        return torch.stack([x, y], -1)

    def _possible_kinds(self, logits: Tensor, start: Tensor) -> Tensor:
        """Mask directions that leave the window at once."""
        last = self.decoder.layout.levels - 1
        x, y = start.unbind(-1)
        never = torch.zeros_like(x, dtype=torch.bool)
        return logits.masked_fill(torch.stack([x == last, y == last, x == 0, y == 0, never], -1), BLOCKED)

    def _end(
        self, state: Tensor, kind: Tensor, patch: Tensor, start_cell: Tensor, start: Tensor, numbers: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw both ways of ending, keep the kind's: end_step, end_cell (N,) and the end's levels (N, 2)."""
        decoder, memory, size = self.decoder, self.memory, self.decoder.layout.patch
        straight = kind.clamp(max=FREE - 1)
        horizontal = (straight == RIGHT) | (straight == LEFT)
        backward = (straight == LEFT) | (straight == DOWN)
        along = torch.where(horizontal, start[:, 0], start[:, 1]) % size  # of the start, in its patch
        after, logits = decoder.end(state, straight, patch, self.canvas, self.batch, memory)
        at_edge = torch.where(backward, along == 0, along == size - 1)
        logits = torch.cat([logits[:, :1].masked_fill(at_edge[:, None], BLOCKED), logits[:, 1:]], -1)
        step = self.nucleus.pick(logits, numbers[3])
        end_patch = decoder.lines[straight, patch, step].clamp(min=0)
        cells = torch.arange(size, device=step.device)
        behind = torch.where(backward[:, None], cells >= along[:, None], cells <= along[:, None])
        line = decoder.cells_along(straight, start_cell)
        logits = decoder.end_cell(after, end_patch, line, self.batch, memory)
        cell = self.nucleus.pick(logits.masked_fill((step == 0)[:, None] & behind, BLOCKED), numbers[4])
        side = decoder.layout.side
        corner = torch.stack([end_patch % side, end_patch // side], -1) * size
        end = torch.where(
            horizontal[:, None],
            torch.stack([corner[:, 0] + cell, start[:, 1]], -1),
            torch.stack([start[:, 0], corner[:, 1] + cell], -1),
        )
        free = kind == FREE
        if self._any(free & self.alive):
            after, logits = decoder.end_anywhere(state, self.batch, memory)
            free_patch = self.nucleus.pick(logits, numbers[3])
            logits = decoder.end_cell(after, free_patch, None, self.batch, memory)
            everywhere = torch.arange(size**2, device=step.device)
            ends = self._levels(free_patch[:, None], everywhere[None])  # (N, P², 2)
            logits = logits.masked_fill((ends == start[:, None]).any(-1), BLOCKED)  # straight, or a point
            free_cell = self.nucleus.pick(logits, numbers[4])
            step, cell = torch.where(free, free_patch, step), torch.where(free, free_cell, cell)
            end = torch.where(free[:, None], self._levels(free_patch, free_cell), end)
        return step, cell, end

    def _any(self, marked: Tensor) -> bool:
        """Whether a sequence is marked (N,), so that what only others need can be left out."""
        return bool(marked.any())

    def _remember(self, rank: Tensor, cell: Tensor, kind: Tensor, levels: Tensor) -> None:
        self.current, self.cell = rank, cell
        self.canvas = self.canvas | self.decoder.marks(levels[:, None], kind[:, None])[:, 0]
        self.next_input = self.decoder.embed(levels[:, None], kind[:, None], self.memory)
