"""Drawing completions on the CPU with the compiled loop, in threads that share the sequences."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.model.compiled_sweep import advance
from floorgent_ros.model.compiled_trunk import Ints, Scratch, Slots
from floorgent_ros.model.decoder import CELL_KEY, MARKS
from floorgent_ros.model.encoder import UNSHUFFLE
from floorgent_ros.model.network import FloorNet
from floorgent_ros.model.packed import Memory, Weights, pack, remember
from floorgent_ros.model.sampling import Nucleus, Sampler, uniforms
from floorgent_ros.model.sequence import FIELDS, KINDS

WIDTH = 8  # sequences that a thread advances together; more would not use a weight better
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
        queue = Queue(self._slots, self.weights, count, min(self.threads, count))

        def work(scratch: Scratch) -> None:
            try:
                slots = queue.take()
                while len(slots):
                    advance(self.weights, memory, self._slots, scratch, slots, numbers, settings, rows, BURST)
                    slots = queue.exchange(slots)
            except BaseException:
                queue.close()  # or the other threads would wait for this one's sequences
                raise

        if queue.threads == 1:
            work(self._scratch[0])
        else:
            with ThreadPoolExecutor(queue.threads) as pool:
                list(pool.map(work, self._scratch[: queue.threads]))
        return [layout.decode(row[row[:, 0] >= 0]) for row in rows]


class Queue:
    """Shares the sequences of a draw among threads, so that none idles while another has several."""

    def __init__(self, slots: Slots, weights: Weights, count: int, threads: int) -> None:
        self.threads = threads
        self._slots, self._weights = slots, weights
        self._changed = threading.Condition()
        self._unfinished, self._next, self._count = count, 0, count
        self._free = list(range(len(slots.drawn)))
        self._waiting: list[int] = []  # slots whose sequences nobody advances at present

    def take(self) -> Ints:
        """Slots for a thread to advance; empty when all sequences are finished. Waits for work."""
        with self._changed:
            while self._unfinished > 0:  # less, when others give back after `close`
                share = min(WIDTH, -(-self._unfinished // self.threads))
                taken = [self._waiting.pop() for _ in range(min(share, len(self._waiting)))]
                taken += [self._begin() for _ in range(min(share - len(taken), self._count - self._next))]
                if taken:
                    return np.array(sorted(taken), np.int64)
                self._changed.wait()
            self._changed.notify_all()
        return np.zeros(0, np.int64)

    def exchange(self, slots: Ints) -> Ints:
        """Give back what was taken, and take anew."""
        patches = self._slots.canvas.shape[2]
        with self._changed:
            for slot in slots.tolist():
                if self._slots.current[slot] == patches:
                    self._free.append(slot)
                    self._unfinished -= 1
                else:
                    self._waiting.append(slot)
            self._changed.notify_all()
        return self.take()

    def close(self) -> None:
        """Let every thread end."""
        with self._changed:
            self._unfinished = 0
            self._changed.notify_all()

    def _begin(self) -> int:
        """Put the next sequence into a free slot: there is one, since each thread holds at most WIDTH."""
        slot, s = self._free.pop(), self._slots
        s.canvas[slot], s.following[slot] = 0, self._weights.begin
        s.current[slot], s.cell[slot], s.drawn[slot], s.name[slot] = -1, 0, 0, self._next
        self._next += 1
        return slot


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
        "x": config.width,
        "normed": config.width,
        "wide": max(3 * config.width, config.feed),
        "branch": config.width,
        "head_in": config.width // config.heads,
        "head_out": config.width // config.heads,
        "scores": places,
        "state": config.width,
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
