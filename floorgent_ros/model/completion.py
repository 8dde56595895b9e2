"""From an observation to walls on the window's cells, with a network of the paper's family."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.canonical import canonical_segments
from floorgent_ros.geometry.grid import CELL_M, WINDOW_CELLS
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.model.paper.config import SEGMENTS, UNSEEN, UnseenConfig
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.sampling import Given, Seen, draw_from, look
from floorgent_ros.model.paper.unseen import beyond, free_image, told
from floorgent_ros.model.sampling import Nucleus, Sampler

Levels = NDArray[np.int64]


class SequenceSampler(Sampler):
    """Draws completions of observations: (K, 4) cells of the observation's frame each.

    The paper's setting (IV-D): an image of the nearest observed segments, or these as a prompt.
    """

    def __init__(self, network: SequenceNet) -> None:
        """network: in evaluation mode."""
        self.network = network

    @property
    def description(self) -> str:
        """How it draws, in a few words."""
        if self.network.config.architecture in (SEGMENTS, UNSEEN):
            return "segment by segment"
        return "token by token, opcodes folded" if self.network.config.opcodes else "token by token"

    def look(self, observed: Observation) -> Seen:
        """What the decoder keeps of an observation."""
        return look(self.network, given_of(self.network, observed))

    def draw(self, memory: Seen, count: int, seed: int, nucleus: Nucleus, first: int = 0) -> list[Levels]:
        """Completions first … first + count − 1 of what was looked at."""
        drawn = draw_from(self.network, memory, count, seed, nucleus=nucleus, first=first)
        if isinstance(self.network.config, UnseenConfig):  # on the window's cells; what was told is known
            known = memory.prompt.shape[1] // self.network.vocabulary.per_segment
            return [one[known:] for one in drawn]
        return [_cells(self.network.config.frame.to_metres(one)) for one in drawn]


def given_of(network: SequenceNet, observation: Observation) -> Given:
    """What the network is told of an observation: an image, or a prompt where it takes no image."""
    config = network.config
    if isinstance(config, UnseenConfig):
        known = told(observation.image, config)
        open_ends = beyond(known, observation.image)[None] if config.beyond else None
        return Given(free_image(observation.image, config)[None], known[None], open_ends)
    levels = observed_levels(network, observation)
    if config.seen:
        return Given(config.frame.image(levels[: config.seen], config.image_cells)[None])
    return Given(prompt=levels[None, : config.observed_segments])


def observed_levels(network: SequenceNet, observation: Observation) -> Levels:
    """(n, 4) canonical levels of the traced walls, nearest first, along the frame's axes."""
    cells = observation.frame.to_cell(observation.walls)
    walls = (cells - WINDOW_CELLS / 2) * CELL_M
    return network.config.frame.sequence(canonical_segments(walls), (0.0, 0.0))


def _cells(walls: NDArray[np.float64]) -> Levels:
    """(N, 2, 2) metres relative to the viewpoint → (N, 4) cells of the window."""
    cells = np.floor(walls / CELL_M + WINDOW_CELLS / 2).astype(np.int64)
    return np.clip(cells, 0, WINDOW_CELLS - 1).reshape(-1, 4)
