"""From an observation to walls in the map frame, with any network that a checkpoint can hold."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.canonical import canonical_segments
from floorgent_ros.geometry.grid import CELL_M, WINDOW_CELLS, Window
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.geometry.segments import to_metres
from floorgent_ros.model.checkpoint import Network
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.sampling import Given, draw
from floorgent_ros.model.sampling import Nucleus, sample

Walls = NDArray[np.float32]


def complete(
    network: Network, observation: Observation, count: int, seed: int, nucleus: Nucleus
) -> list[Walls]:
    """Draw `count` completions: arrays (K, 2, 2) of walls, metres, map frame."""
    if isinstance(network, SequenceNet):
        return _complete_sequence(network, observation, count, seed, nucleus)
    drawn = sample(network, observation.image, count, seed, nucleus)
    return [to_metres(levels, observation.frame).astype(np.float32) for levels in drawn]


def observed_levels(network: SequenceNet, observation: Observation) -> NDArray[np.int64]:
    """(n, 4) canonical levels of the traced walls, nearest first, in the frame turned to their direction."""
    walls = _relative(observation.walls, observation.frame)
    return network.config.frame.sequence(canonical_segments(walls), (0.0, 0.0))


def _complete_sequence(
    network: SequenceNet, observation: Observation, count: int, seed: int, nucleus: Nucleus
) -> list[Walls]:
    """The paper's setting (IV-D): an image of the nearest observed segments, or these as a prompt."""
    config = network.config
    levels = observed_levels(network, observation)
    if config.seen:
        given = Given(images=config.frame.image(levels[: config.seen], config.image_cells)[None])
    else:
        given = Given(prompt=levels[None, : config.observed_segments])
    drawn = draw(network, count, seed, given=given, nucleus=nucleus)
    frame = observation.frame
    return [_in_map(config.frame.to_metres(one), frame).astype(np.float32) for one in drawn]


def _relative(walls: NDArray[np.float64], frame: Window) -> NDArray[np.float64]:
    """(N, 2, 2) map frame → metres along the frame's axes, relative to the viewpoint."""
    return (frame.to_cell(walls) - WINDOW_CELLS / 2) * CELL_M


def _in_map(walls: NDArray[np.float64], frame: Window) -> NDArray[np.float64]:
    """Undo `_relative`."""
    return frame.to_frame(walls / CELL_M + WINDOW_CELLS / 2)
