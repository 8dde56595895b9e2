"""The inpainting peers in protocol E4: distances from thresholded wall probabilities, one map or three."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.config import PredictorSettings
from floorgent_ros.errors import CheckpointError, ConfigError
from floorgent_ros.geometry.grid import UNKNOWN, WINDOW_CELLS, OccupancyMap
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.model.checkpoint import load_checkpoint, shipped
from floorgent_ros.model.inpainting import Inpainter
from floorgent_ros.predictor import DistanceField, field_of_rasters

THRESHOLD = 0.3  # of the wall probability; chosen on val
SINGLE, ENSEMBLE = "peer", "peer_ensemble"
SHOWN = ("ratio", "mae_m", "bias_m", "win_share", "falsely_unreachable")  # a peer's rows of the text report


def shipped_peers() -> list[Path]:
    """Paths of the peers that come with the package."""
    return sorted(shipped().parent.glob("peer_*.safetensors"))


@dataclass(frozen=True, eq=False)
class Peers:
    """Inpainting networks in evaluation mode; a cell of at least `threshold` is a wall."""

    networks: tuple[Inpainter, ...]
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
            if not isinstance(network, Inpainter):
                raise CheckpointError(
                    f"{path}: architecture {network.config.architecture!r} paints no probabilities; give "
                    "--peers checkpoints that were trained with config/training/peer.yaml"
                )
            networks.append(network.to(device))
        return cls(tuple(networks), threshold)

    def fields(self, grid: OccupancyMap, observation: Observation) -> dict[str, DistanceField]:
        """The first network alone and, of several, the median of all, by the rules of a completion."""
        walls = np.stack([self.walls(network, observation) for network in self.networks])
        chosen = {SINGLE: walls[:1], ENSEMBLE: walls} if len(walls) > 1 else {SINGLE: walls}
        return {
            name: field_of_rasters(
                grid,
                observation,
                rasters,
                [],
                inflation_radius_m=PredictorSettings.inflation_radius_m,
                seed=0,
                horizon_m=self.networks[0].config.horizon_m,
            )
            for name, rasters in chosen.items()
        }

    def walls(self, network: Inpainter, observation: Observation) -> NDArray[np.bool_]:
        """(256, 256) cells of the published window that the network takes for unseen walls."""
        image = torch.from_numpy(observation.image)[None].to(network.place.device)
        painted = in_window(network.probability(image)[0].cpu().numpy(), observation)
        return np.asarray((painted >= self.threshold) & (observation.states == UNKNOWN))


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
