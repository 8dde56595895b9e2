"""The inpainting peers in protocol E4: distances from wall probabilities, by a threshold or as a cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.config import PredictorSettings
from floorgent_ros.errors import CheckpointError, ConfigError
from floorgent_ros.geometry.assumptions import weighted_distance
from floorgent_ros.geometry.grid import OCCUPIED, UNKNOWN, WINDOW_CELLS, OccupancyMap
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.model.checkpoint import load_checkpoint, shipped
from floorgent_ros.model.inpainting import Inpainter, wall_probability
from floorgent_ros.model.network import FloorNet
from floorgent_ros.predictor import DistanceField, distance_field_of

THRESHOLD = 0.1  # of the wall probability; chosen on val
COST = 2.0  # what a certain wall would cost beside the way through it, in cells; chosen on val
SINGLE, ENSEMBLE, COSTS = "peer", "peer_ensemble", "peer_cost"
Painter = Inpainter | FloorNet
SHOWN = ("ratio", "mae_m", "bias_m", "win_share", "falsely_unreachable")  # a peer's rows of the text report


def shipped_peers() -> list[Path]:
    """Paths of the peers that come with the package."""
    return sorted(shipped().parent.glob("peer_*.safetensors"))


@dataclass(frozen=True, eq=False)
class Peers:
    """Inpainting networks, or segment decoders' dense heads; a cell of at least `threshold` is a wall."""

    networks: tuple[Painter, ...]
    threshold: float = THRESHOLD

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ConfigError(f"peer threshold = {self.threshold}: use a probability between 0 and 1")
        if not self.networks:
            raise ConfigError("no peers come with this package; name their checkpoints after --peers")

    @classmethod
    def load(
        cls, paths: Sequence[Path], threshold: float = THRESHOLD, device: torch.device | str = "cpu"
    ) -> Peers:
        """From checkpoints, without paths the shipped ones; `CheckpointError` for another architecture."""
        networks = []
        for path in paths or shipped_peers():
            network, _ = load_checkpoint(path)
            if not isinstance(network, Painter):
                raise CheckpointError(
                    f"{path}: architecture {network.config.architecture!r} paints no probabilities; give "
                    "--peers checkpoints that were trained with config/training/peer.yaml"
                )
            networks.append(network.to(device))
        return cls(tuple(networks), threshold)

    def fields(self, grid: OccupancyMap, observation: Observation) -> dict[str, DistanceField]:
        """A field for each row of the report.

        The first network alone and, of several, the median of all, by the rules of a completion; and the
        probabilities, their mean, as a cost instead of walls.
        """
        painted = np.stack([self.painted(network, observation) for network in self.networks])

        def field(rasters: NDArray[np.bool_]) -> DistanceField:
            return distance_field_of(
                grid,
                observation,
                [],
                rasters=rasters,
                inflation_radius_m=PredictorSettings.inflation_radius_m,
                seed=0,
                horizon_m=self.networks[0].config.horizon_m,
            )

        walls = painted >= self.threshold
        fields = {SINGLE: field(walls[:1])}
        if len(walls) > 1:
            fields[ENSEMBLE] = field(walls)
        cost = weighted_distance(observation.states, COST * painted.mean(0))
        distance = np.where(observation.states == OCCUPIED, np.nan, cost).astype(np.float32)
        return fields | {COSTS: replace(field(np.zeros_like(walls[:1])), distance=distance)}

    @staticmethod
    def painted(network: Painter, observation: Observation) -> NDArray[np.float32]:
        """(256, 256) probabilities that cells of the published window hold unseen walls; 0 where seen."""
        image = torch.from_numpy(observation.image)[None].to(next(network.parameters()).device)
        painted = in_window(wall_probability(network, image)[0].cpu().numpy(), observation)
        return np.where(observation.states == UNKNOWN, painted, np.float32(0))


def in_window(painted: NDArray[np.float32], observation: Observation) -> NDArray[np.float32]:
    """(256, 256) in the axes of the observation's image → in those of the window; 0 beyond the image.

    Every cell takes the value at its centre. Interpolating would halve the probability of thin walls.
    """
    if observation.frame == observation.window:
        return painted
    places = observation.frame.to_cell(observation.window.to_frame(_centres())) - 0.5
    columns, rows = (np.ascontiguousarray(places[..., axis], np.float32) for axis in (0, 1))
    turned: Any = cv2.remap(painted, columns, rows, cv2.INTER_NEAREST, borderValue=0)
    return np.asarray(turned, np.float32)


def kept(figures: dict[str, Any]) -> dict[str, Any]:
    """Those of the protocol's figures that say something of a peer."""
    return {key: figures[key] for key in (*SHOWN, "null_mae_m", "cases", "ratio_by_distance")}


def rows(report: dict[str, Any], kinds: Sequence[str]) -> list[tuple[str, list[float]]]:
    """The report's peers as named rows with a figure a kind."""
    return [
        (f"{name} {key}", [found[kind][key] for kind in kinds])
        for name, found in report.get("peers", {}).items()
        for key in SHOWN
    ]


def _centres() -> NDArray[np.float64]:
    axis = np.arange(WINDOW_CELLS) + 0.5
    return np.stack(np.meshgrid(axis, axis), -1)
