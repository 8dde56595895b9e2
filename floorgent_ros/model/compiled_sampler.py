"""Drawing completions on the CPU with the compiled loop, in threads that share the sequences."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.model.compiled_sweep import advance
from floorgent_ros.model.compiled_trunk import Ints, Scratch, Slots, trunk_widths
from floorgent_ros.model.decoder import CELL_KEY, MARKS
from floorgent_ros.model.encoder import UNSHUFFLE
from floorgent_ros.model.network import FloorNet
from floorgent_ros.model.packed import Memory, Weights, pack, remember
from floorgent_ros.model.sampling import Nucleus, Sampler, uniforms
from floorgent_ros.model.sequence import FIELDS, KINDS
from floorgent_ros.model.sharing import WIDTH, Queue

BURST = 8  # walls after which a thread looks whether another one has run out of work


class CompiledSampler(Sampler):
    """`sampling.sample` of one network, faster; not for several callers at a time.

    The weights are copied: make another one when the network's change.
    """

    def __init__(self, network: FloorNet, threads: int | None = None) -> None:
        """network: float32, on the CPU, in evaluation mode. threads: at most; by default torch's number."""
        self.network = network
        self.threads = threads or torch.get_num_threads()
        self.weights = pack(network.decoder)
        self._slots = _slots(network, self.threads * WIDTH)
        self._scratch = [_scratch(network, self.weights) for _ in range(self.threads)]

    @property
    def description(self) -> str:
        """How it draws, in a few words."""
        return "compiled decoding"

    @torch.inference_mode()
    def look(self, observed: NDArray[np.int8]) -> Memory:
        """What the decoder keeps of an image."""
        return remember(self.network.decoder, self.network.encoder(torch.from_numpy(observed)[None]))

    def draw(
        self, memory: Memory, count: int, seed: int, nucleus: Nucleus, first: int = 0
    ) -> list[NDArray[np.int64]]:
        """Draw the completions of a remembered image, from number `first` on."""
        limit, layout = self.network.config.max_segments, self.network.decoder.layout
        numbers = np.ascontiguousarray(uniforms(count, limit, seed, first).numpy().transpose(2, 0, 1))
        rows = np.full((count, limit, FIELDS), -1, np.int64)
        settings = np.array([nucleus.top_p, nucleus.temperature, nucleus.wall_log_odds], np.float64)
        weights, slots = self.weights, self._slots

        def advance_some(thread: int, some: Ints) -> None:
            advance(weights, memory, slots, self._scratch[thread], some, numbers, settings, rows, BURST)

        self.queue(count).run(advance_some)
        return [layout.decode(row[row[:, 0] >= 0]) for row in rows]

    def queue(self, count: int) -> Queue:
        """The sequences of a draw, none begun."""
        slots, weights, patches = self._slots, self.weights, self.network.decoder.layout.patches

        def begin(slot: int, name: int) -> None:
            slots.canvas[slot], slots.following[slot] = 0, weights.begin
            slots.current[slot], slots.cell[slot], slots.drawn[slot], slots.name[slot] = -1, 0, 0, name

        def finished(slot: int) -> bool:
            return bool(slots.current[slot] == patches)

        return Queue(len(slots.drawn), begin, finished, count, min(self.threads, count))


def _slots(network: FloorNet, count: int) -> Slots:
    config, layout = network.config, network.decoder.layout
    heads, size, limit = config.heads, config.width // config.heads, config.max_segments
    return Slots(
        keys=np.zeros((count, config.layers, heads, size, limit), np.float32),
        values=np.zeros((count, config.layers, heads, limit, size), np.float32),
        following=np.zeros((count, config.width), np.float32),
        canvas=np.zeros((count, MARKS, layout.patches), np.float32),
        **{name: np.zeros(count, np.int64) for name in ("current", "cell", "drawn", "name")},
    )


def _scratch(network: FloorNet, weights: Weights) -> Scratch:
    config, layout = network.config, network.decoder.layout
    fine, places = config.encoder_widths[0], (config.levels // (4 * UNSHUFFLE)) ** 2
    patches, cells, limit = layout.patches, config.patch**2, config.max_segments
    rows = {
        **trunk_widths(config.width, config.heads, config.feed, places),
        "start_query": weights.start_query.shape[1],
        "narrow": config.key_width,
        "hazards": patches,
        "both": config.width + config.patch_width,
        "hidden": config.width,
        "cells": cells + CELL_KEY,
        "place": fine,
        "pens": 2 * fine,
        "kinds": KINDS,
        "end_query": weights.end_query.shape[1],
    }
    return Scratch(
        **{name: np.zeros((WIDTH, width), np.float32) for name, width in rows.items()},
        own_scores=np.zeros(limit, np.float32),
        starts=np.zeros(patches + 1, np.float32),
        some=np.zeros(max(patches, cells), np.float32),
        cell_map=np.zeros(fine * UNSHUFFLE**2, np.float32),
        block=np.zeros((1, UNSHUFFLE**2), np.float32),
        allowed=np.zeros(max(patches, cells), np.bool_),
        powers=np.zeros(max(patches + 1, cells, places, limit), np.int32),
        values=np.zeros(max(patches + 1, cells), np.float64),
        index=np.zeros(max(patches + 1, cells), np.int64),
        wall=np.zeros((WIDTH, FIELDS), np.int64),
        levels=np.zeros((WIDTH, 4), np.int64),
    )
