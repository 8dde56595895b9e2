"""Drawing completions of an observation on the CPU with the compiled loop of the segment decoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from floorgent_ros.geometry.canonical import oriented
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.model.compiled_segments import (
    SegmentScratch,
    SegmentSlots,
    advance_segments,
    begin_segments,
)
from floorgent_ros.model.compiled_trunk import Ints, trunk_widths
from floorgent_ros.model.completion import Levels, SequenceSampler
from floorgent_ros.model.packed_segments import (
    ASKED_WIDTH,
    SegmentMemory,
    SegmentWeights,
    pack_segments,
    remember_told,
)
from floorgent_ros.model.paper.config import UnseenConfig
from floorgent_ros.model.paper.copying import KEY
from floorgent_ros.model.paper.corners import DIRECTIONS
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.sampling import Seen, uniforms
from floorgent_ros.model.paper.segments import SegmentDecoder
from floorgent_ros.model.paper.vocabulary import LENGTH
from floorgent_ros.model.sampling import Nucleus
from floorgent_ros.model.sharing import WIDTH, Queue

BURST = 8  # walls after which a thread looks whether another one has run out of work


class Told(NamedTuple):
    """What was looked at, and what the compiled loop keeps of it."""

    seen: Seen
    memory: SegmentMemory


class CompiledSegments(SequenceSampler):
    """`SequenceSampler` of a segment decoder that is told at least one wall, faster; one call at a time.

    The weights are copied: make another one when the network's change.
    """

    def __init__(self, network: SequenceNet, threads: int | None = None) -> None:
        """network: float32, on the CPU, in evaluation mode. threads: at most; by default torch's number."""
        super().__init__(network)
        self.threads = threads or torch.get_num_threads()
        assert isinstance(network.decoder, SegmentDecoder)  # noqa: S101 (what fits)
        self._decoder = network.decoder
        self.weights = pack_segments(self._decoder)
        self._slots = _slots(network, self.threads * WIDTH)
        self._scratch: list[SegmentScratch] = []

    @staticmethod
    def fits(network: SequenceNet) -> bool:
        """Whether the network is one that this draws for."""
        decoder = network.decoder
        return isinstance(decoder, SegmentDecoder) and isinstance(network.config, UnseenConfig)

    @property
    def description(self) -> str:
        """How it draws, in a few words."""
        return "compiled decoding"

    @torch.inference_mode()
    def look(self, observed: Observation) -> Any:
        """What the decoder keeps of an observation."""
        seen = super().look(observed)
        return Told(seen, remember_told(self._decoder, seen))

    def draw(self, memory: Any, count: int, seed: int, nucleus: Nucleus, first: int = 0) -> list[Levels]:
        """Completions first … first + count − 1 of what was looked at."""
        limit, weights, slots = self.network.config.max_segments, self.weights, self._slots
        numbers = uniforms(1, range(first, first + count), LENGTH * limit, seed).numpy()
        numbers = np.ascontiguousarray(numbers.T.reshape(count, limit, LENGTH))
        rows = np.full((count, limit, 4), -1, np.int64)
        settings = np.array([nucleus.top_p, nucleus.temperature, nucleus.wall_log_odds], np.float64)
        told, scratch = memory.memory, self._room(memory.memory.keys.shape[3])

        def advance(thread: int, some: Ints) -> None:
            advance_segments(weights, told, slots, scratch[thread], some, numbers, settings, rows, BURST)

        def begin(slot: int, name: int) -> None:
            begin_segments(told, weights, slots, slot, name)

        def finished(slot: int) -> bool:
            return bool(slots.drawn[slot] < 0)

        Queue(len(slots.drawn), begin, finished, count, min(self.threads, count)).run(advance)
        known = memory.seen.prompt.shape[1] // LENGTH
        return [oriented(row[known:][row[known:, 0] >= 0]) for row in rows]

    def _room(self, places: int) -> list[SegmentScratch]:
        """Scratch of each thread, for an image of so many places."""
        if not self._scratch or self._scratch[0].scores.shape[1] != places:
            self._scratch = [_scratch(self.network, self.weights, places) for _ in range(self.threads)]
        return self._scratch


def _slots(network: SequenceNet, count: int) -> SegmentSlots:
    config = network.config
    heads, size, limit = config.heads, config.width // config.heads, config.max_segments
    keys = ("end_keys", "end_strides", "end_values")
    return SegmentSlots(
        keys=np.zeros((count, config.layers, heads, size, limit + 1), np.float32),
        values=np.zeros((count, config.layers, heads, limit + 1, size), np.float32),
        following=np.zeros((count, config.width), np.float32),
        end_levels=np.zeros((count, 2 * limit, 2), np.int64),
        **{name: np.zeros((count, 2 * limit, KEY), np.float32) for name in keys},
        end_direction=np.zeros((count, 2 * limit), np.int64),
        end_uses=np.zeros((count, 2 * limit), np.int64),
        end_leaving=np.zeros((count, 2 * limit, DIRECTIONS), np.float32),
        last=np.zeros((count, 4), np.int64),
        drawn=np.zeros(count, np.int64),
        name=np.zeros(count, np.int64),
    )


def _scratch(network: SequenceNet, weights: SegmentWeights, places: int) -> SegmentScratch:
    config, limit = network.config, network.config.max_segments
    rows = {
        **trunk_widths(config.width, config.heads, config.feed, places),
        "hidden": config.feed,
        "plain": config.levels,
        "near": weights.offset.shape[2],
        "asked": ASKED_WIDTH,
        "told": weights.told.shape[1],
        "pen": KEY + DIRECTIONS,
    }
    return SegmentScratch(
        **{name: np.zeros((WIDTH, width), np.float32) for name, width in rows.items()},
        own_scores=np.zeros(limit + 1, np.float32),
        powers=np.zeros(max(places, 4 * limit, limit + 33, config.levels), np.int32),
        copied=np.zeros(4 * limit, np.float32),
        pair=np.zeros(2, np.float32),
        drawing=np.zeros((WIDTH, 4), np.int64),
        values=np.zeros(max(2, config.levels), np.float64),
        index=np.zeros(max(2, config.levels), np.int64),
    )
