"""What is done without effort: tokens one by one; distances by SciPy's graph search, and scikit-image's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from floorgent_ros.geometry.distance import start_cell
from floorgent_ros.geometry.grid import CELL_M
from floorgent_ros.model.paper.image import Shown
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.sampling import Given, pick, uniforms
from floorgent_ros.model.paper.vocabulary import STOP
from floorgent_ros.model.sampling import Nucleus

# half of the eight steps; the graph is undirected
STEPS = ((0, 1), (1, 0), (1, 1), (1, -1))

Blocked = NDArray[np.bool_]
Fields = NDArray[np.float64]


class TokenByToken:
    """`paper.sampling.draw` with a key/value cache and nothing else, in eager PyTorch.

    Every sequence has its own copy of image and prompt; every token, opcodes too, takes a step of all
    sequences until the last of them has stopped.
    """

    description = "eager PyTorch, token by token"

    def __init__(self, network: SequenceNet) -> None:
        """network: in evaluation mode."""
        self.network = network

    @torch.inference_mode()
    def look(self, given: Given) -> tuple[Shown | None, Tensor]:
        """What the images show, or nothing, and the prompts' tokens (B, k)."""
        device = next(self.network.parameters()).device
        images = torch.zeros(given.size, 0, 0) if given.images is None else torch.from_numpy(given.images)
        prompt = np.zeros((given.size, 0, 4), np.int64) if given.prompt is None else given.prompt
        lengths = torch.full((given.size,), prompt.shape[1])
        tokens = self.network.vocabulary.encode(torch.from_numpy(prompt), lengths)[:, :-1]
        return self.network.shown(images.to(device)), tokens.to(device)

    @torch.inference_mode()
    def draw(
        self,
        memory: tuple[Shown | None, Tensor],
        count: int,
        seed: int,
        nucleus: Nucleus,
        first: int = 0,
        segments: int | None = None,
    ) -> list[NDArray[np.int64]]:
        """As `paper.sampling.draw_from`."""
        vocabulary, decoder = self.network.vocabulary, self.network.decoder
        shown, prompt = memory
        remembered = decoder.remember(shown.copied(count) if shown else None)
        tokens = prompt.repeat_interleave(count, 0)
        length = vocabulary.per_segment * (segments or self.network.config.max_segments)
        numbers = uniforms(len(prompt), range(first, first + count), length, seed).to(tokens.device)
        state: Any = decoder.begin(len(tokens), length, remembered)
        logits = decoder.extend(tokens, state, 1)[:, 0]
        alive = torch.ones(len(tokens), dtype=torch.bool, device=tokens.device)
        while tokens.shape[1] < length:
            index = tokens.shape[1]
            allowed = vocabulary.allowed(index, tokens)
            logits = logits.masked_fill(~allowed, -torch.inf)
            chosen = pick(self.network, index, logits, nucleus, numbers[index])
            chosen = torch.where(alive, chosen, STOP)
            alive = alive & (chosen != STOP)
            tokens = torch.cat([tokens, chosen[:, None]], 1)
            if not bool(alive.any()):
                break
            logits = decoder.extend(chosen[:, None], state, 1)[:, 0]
        return [vocabulary.decode(row).numpy() for row in tokens.cpu()]


def optional(name: str) -> Any:
    """A library that only the comparison needs, or None where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def contestants() -> dict[str, Callable[[Blocked], Fields]]:
    """Other ways to the same distances, (N, H, W) blocked cells → (N, H, W) m, by name."""
    found: dict[str, Callable[[Blocked], Fields]] = {}
    if optional("scipy.sparse.csgraph"):
        found["scipy, graph each time"] = scipy_fields
        found["scipy, one graph template"] = ScipyTemplate()
    if optional("skimage.graph"):
        found["scikit-image MCP_Geometric"] = skimage_fields
    return found


def _edges(height: int, width: int) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
    """All steps of a grid without walls: cells from and to (E,), lengths in m (E,)."""
    cells = np.arange(height * width, dtype=np.int32).reshape(height, width)
    starts, ends, lengths = [], [], []
    for down, right in STEPS:
        a = cells[: height - down, max(0, -right) : width - max(0, right)]
        b = cells[down:, max(0, right) : width + min(0, right)]
        starts.append(a.ravel())
        ends.append(b.ravel())
        lengths.append(np.full(a.size, np.hypot(down, right) * CELL_M))
    return np.concatenate(starts), np.concatenate(ends), np.concatenate(lengths)


def scipy_fields(blocked: Blocked) -> Fields:
    """A graph of the open cells, built anew for each completion."""
    return np.stack([_scipy_field(cells) for cells in blocked])


def _scipy_field(blocked: Blocked) -> Fields:
    sparse, csgraph = optional("scipy.sparse"), optional("scipy.sparse.csgraph")
    start = start_cell(blocked)
    if start is None:
        return np.full(blocked.shape, np.inf)
    height, width = blocked.shape
    a, b, lengths = _edges(height, width)
    free = ~blocked.ravel()
    kept = free[a] & free[b]
    graph = sparse.csr_matrix((lengths[kept], (a[kept], b[kept])), shape=(blocked.size, blocked.size))
    field = csgraph.dijkstra(graph, directed=False, indices=start[0] * width + start[1])
    return np.where(blocked, np.inf, field.reshape(blocked.shape))


class ScipyTemplate:
    """One graph of all steps; a completion's walls make its steps infinitely long."""

    def __init__(self) -> None:
        self._shape = (0, 0)
        self._graph: Any = None
        self._ends: tuple[NDArray[np.int32], NDArray[np.int32]]
        self._lengths: Fields

    def __call__(self, blocked: Blocked) -> Fields:
        """(N, H, W) blocked cells → (N, H, W) m."""
        if self._shape != blocked.shape[1:]:
            self._prepare(*blocked.shape[1:])
        return np.stack([self._field(cells) for cells in blocked])

    def _prepare(self, height: int, width: int) -> None:
        a, b, lengths = _edges(height, width)
        both = np.concatenate([a, b]), np.concatenate([b, a])
        size = height * width
        self._graph = optional("scipy.sparse").csr_matrix((np.tile(lengths, 2), both), shape=(size, size))
        rows = np.repeat(np.arange(size, dtype=np.int32), np.diff(self._graph.indptr))
        self._ends, self._lengths = (rows, self._graph.indices), self._graph.data.copy()
        self._shape = (height, width)

    def _field(self, blocked: Blocked) -> Fields:
        start = start_cell(blocked)
        if start is None:
            return np.full(blocked.shape, np.inf)
        walls = blocked.ravel()
        shut = walls[self._ends[0]] | walls[self._ends[1]]
        self._graph.data[:] = np.where(shut, np.inf, self._lengths)
        source = start[0] * blocked.shape[1] + start[1]
        field = optional("scipy.sparse.csgraph").dijkstra(self._graph, indices=source)
        return np.where(blocked, np.inf, field.reshape(blocked.shape))


def skimage_fields(blocked: Blocked) -> Fields:
    """Minimum cost paths, obstacles −1."""
    graph = optional("skimage.graph")
    fields = []
    for cells in blocked:
        start = start_cell(cells)
        if start is None:
            fields.append(np.full(cells.shape, np.inf))
            continue
        costs, _ = graph.MCP_Geometric(np.where(cells, -1.0, 1.0)).find_costs([start])
        fields.append(costs * CELL_M)
    return np.stack(fields)
