"""From an observation to walls on the window's cells, with a network of the paper's family."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.canonical import canonical_segments
from floorgent_ros.geometry.grid import CELL_M, WINDOW_CELLS
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.sampling import Given, draw
from floorgent_ros.model.sampling import Nucleus

Levels = NDArray[np.int64]


def complete(
    network: SequenceNet, observation: Observation, count: int, seed: int, nucleus: Nucleus, first: int = 0
) -> list[Levels]:
    """Draw `count` completions, from number `first` on: (K, 4) cells of the observation's frame each.

    The paper's setting (IV-D): an image of the nearest observed segments, or these as a prompt.
    """
    config = network.config
    levels = observed_levels(network, observation)
    if config.seen:
        given = Given(images=config.frame.image(levels[: config.seen], config.image_cells)[None])
    else:
        given = Given(prompt=levels[None, : config.observed_segments])
    drawn = draw(network, count, seed, given=given, nucleus=nucleus, first=first)
    return [_cells(config.frame.to_metres(one)) for one in drawn]


def observed_levels(network: SequenceNet, observation: Observation) -> Levels:
    """(n, 4) canonical levels of the traced walls, nearest first, along the frame's axes."""
    cells = observation.frame.to_cell(observation.walls)
    walls = (cells - WINDOW_CELLS / 2) * CELL_M
    return network.config.frame.sequence(canonical_segments(walls), (0.0, 0.0))


def _cells(walls: NDArray[np.float64]) -> Levels:
    """(N, 2, 2) metres relative to the viewpoint → (N, 4) cells of the window."""
    cells = np.floor(walls / CELL_M + WINDOW_CELLS / 2).astype(np.int64)
    return np.clip(cells, 0, WINDOW_CELLS - 1).reshape(-1, 4)
