"""The critic: how much longer ways are than if the unseen were free, as a probability of each point.

Walls are learned by their likelihood, which asks where each of them stands and not what it means for a way.
The critic is asked the latter: from the same image, and from what a planner would assume, it says for each
point of a lattice how likely which detour is. It draws nothing. `DistancePredictor` holds it against drawn
completions and keeps those whose median it expects to err least (`geometry.choice`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from floorgent_ros.geometry.assumptions import SATURATION_M, saturated, unknown_costs, unknown_is_free
from floorgent_ros.geometry.choice import choose
from floorgent_ros.geometry.lattice import OUTSIDE, lattice
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.encoder import STATES, UNSHUFFLE, states_of
from floorgent_ros.model.network import Losses
from floorgent_ros.model.unet import UNet, check_widths

ARCHITECTURE = "critic-unet-1"
FACTS = 3  # channels beside the image's: the null, what the surcharge adds, whether the null reaches
# Bounds of the classes of detours, m. Class 0 is a point that does not count: outdoors, or unreachable.
BOUNDS_M = (0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 11.0, 15.0, 20.0)
DETOURS_M = (0.0, 0.35, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, 9.5, 13.0, 17.5, 25.0)  # in the middle of each
IGNORED = -1  # class of a point that the window does not hold


@dataclass(frozen=True)
class CriticConfig:
    """Configuration of `Critic`; it travels in the checkpoint.

    levels: cells a side over extent_m metres. horizon_m: of the samples, unused. widths and blocks: of the
    U-Net, from levels / 4 cells a side down. dropout: of channels of its coarsest map.
    """

    architecture: str = ARCHITECTURE
    levels: int = ModelConfig.levels
    extent_m: float = ModelConfig.extent_m
    horizon_m: float = ModelConfig.horizon_m
    widths: tuple[int, ...] = (16, 32, 64, 128, 128)
    blocks: int = 1
    dropout: float = 0.2

    def __post_init__(self) -> None:
        check_widths(self.widths, self.levels)

    @property
    def patch(self) -> int:
        """Of the samples' layout: any would do, since their walls are not learned."""
        return ModelConfig.patch

    @property
    def max_segments(self) -> int:
        """As for the segment decoder."""
        return ModelConfig.max_segments


@dataclass(frozen=True)
class CriticBatch:
    """image (B, L, L) int8. assumed (B, 2, P, P) m, saturated: the null and the surcharge, at the points.

    classes (B, P, P) int64: of the true detours, for training.
    """

    image: Tensor
    assumed: Tensor
    classes: Tensor

    def to(self, device: torch.device | str) -> CriticBatch:
        """Move all tensors."""
        return CriticBatch(self.image.to(device), self.assumed.to(device), self.classes.to(device))


class Critic(UNet):
    """The U-Net with its configuration."""

    def __init__(self, config: CriticConfig) -> None:
        given, wanted = STATES * UNSHUFFLE**2 + FACTS, 1 + len(DETOURS_M)
        side = config.levels // UNSHUFFLE
        super().__init__(given, wanted, config.widths, config.blocks, side, config.dropout)
        self.config = config

    def logits(self, image: Tensor, assumed: Tensor) -> Tensor:
        """(B, L, L) int8 and (B, 2, P, P) m → (B, 1 + classes, P, P)."""
        null, dearer = assumed.unbind(1)
        facts = torch.stack([null / 20, (dearer - null) / 3, (null >= SATURATION_M - 0.1).float()], 1)
        states = functional.pixel_unshuffle(states_of(image).to(self.stem.weight.dtype), UNSHUFFLE)
        return self.maps(torch.cat([states, facts.to(states.dtype)], 1))

    def forward(self, batch: CriticBatch) -> Losses:
        """Negative log likelihood of each sample's points, taken for independent, nats."""
        logits = self.logits(batch.image, batch.assumed).float()
        nats = functional.cross_entropy(logits, batch.classes, ignore_index=IGNORED, reduction="none")
        return Losses(nats.sum((1, 2)), {}, nats.new_zeros(()))


def keep(
    critic: Critic, observation: Observation, fields: NDArray[np.float64], count: int
) -> NDArray[np.int64]:
    """Indices (count,) of the completions to keep, of (M, 256, 256) distances in the published window, m."""
    cells = lattice(observation.frame, observation.window)
    inside = cells != OUTSIDE
    states = observation.states
    assumed = saturated(np.stack([unknown_is_free(states), unknown_costs(states)])).reshape(2, -1)[:, cells]
    odds = detour_odds(critic, observation.image, np.where(inside, assumed, SATURATION_M))
    return choose(
        fields.reshape(len(fields), -1)[:, cells[inside]].astype(np.float32),
        count,
        assumed[0, inside] + np.array(DETOURS_M)[:, None],
        odds[1:, inside],
    )


@torch.inference_mode()
def detour_odds(critic: Critic, image: NDArray[np.int8], assumed: NDArray[np.float64]) -> NDArray[np.float32]:
    """(L, L) and (2, P, P) m → (1 + classes, P, P) probabilities of each class of detours."""
    weight = critic.stem.weight
    given = torch.from_numpy(image[None]).to(weight.device)
    known = torch.from_numpy(assumed[None]).to(weight.device, weight.dtype)
    odds: NDArray[np.float32] = critic.logits(given, known)[0].float().softmax(0).cpu().numpy()
    return odds
