"""The peer: a U-Net that paints the unseen walls of the observation image, every cell for itself.

Of the kind that MapEx explores with (Ho et al., 2024): the observed grid in three states goes in, a wall
probability of each cell comes out, and several networks of different seeds stand for what could be. It is
trained on the same samples as the segment decoder and judged beside it; `DistancePredictor` does not take it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.geometry.grid import UNKNOWN
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.encoder import STATES, UNSHUFFLE, states_of
from floorgent_ros.model.network import Batch, FloorNet, Losses
from floorgent_ros.model.unet import UNet, check_widths

ARCHITECTURE = "inpainting-unet-1"
PRIOR = 0.017  # share of the unknown cells that hold an unseen wall: what an untrained network says


@dataclass(frozen=True)
class InpaintingConfig:
    """Configuration of `Inpainter`; it travels in the checkpoint.

    levels: cells a side over extent_m metres. horizon_m: unseen walls beyond it are not in the target.
    widths: channels of the maps of levels / 4, / 8, / 16 … cells a side; blocks: residual blocks on each of
    them, going down and again going up.
    """

    architecture: str = ARCHITECTURE
    levels: int = ModelConfig.levels
    extent_m: float = ModelConfig.extent_m
    horizon_m: float = ModelConfig.horizon_m
    widths: tuple[int, ...] = (16, 32, 64, 128, 128)
    blocks: int = 1

    def __post_init__(self) -> None:
        check_widths(self.widths, self.levels)

    @property
    def patch(self) -> int:
        """Of the samples' layout: any would do, since only their raster is learned."""
        return ModelConfig.patch

    @property
    def max_segments(self) -> int:
        """Walls of a sample beyond these are left out, as they are for the segment decoder."""
        return ModelConfig.max_segments


class Inpainter(UNet):
    """The U-Net with its configuration."""

    def __init__(self, config: InpaintingConfig) -> None:
        side = config.levels // UNSHUFFLE
        super().__init__(STATES * UNSHUFFLE**2, UNSHUFFLE**2, config.widths, config.blocks, side)
        self.config = config
        nn.init.constant_(self.head.bias, math.log(PRIOR / (1 - PRIOR)))  # type: ignore[arg-type]

    def logits(self, image: Tensor) -> Tensor:
        """(B, L, L) int8 of −1 unknown, 0 free, 100 occupied → (B, L, L) log odds of an unseen wall."""
        states = states_of(image).to(self.stem.weight.dtype)
        maps = self.maps(functional.pixel_unshuffle(states, UNSHUFFLE))
        return functional.pixel_shuffle(maps, UNSHUFFLE)[:, 0]

    def forward(self, batch: Batch) -> Losses:
        """Negative log likelihood of each sample's unknown cells, taken for independent, nats.

        It is not weighted for the few walls among many cells: the probabilities stay probabilities, and the
        threshold, chosen on val, does what a weight would do.
        """
        unknown = batch.image == UNKNOWN
        nats = functional.binary_cross_entropy_with_logits(
            self.logits(batch.image).float(), batch.raster.float(), reduction="none"
        )
        return Losses((nats * unknown).sum((1, 2)), {}, nats.new_zeros(()))


@torch.inference_mode()
def wall_probability(network: Inpainter | FloorNet, image: Tensor) -> Tensor:
    """(B, L, L) → (B, L, L) that a cell holds an unseen wall; 0 where the image is known.

    Of a segment decoder it is its encoder's dense head that speaks: an inpainter trained as long as the rest.
    """
    logits = network.encoder(image).raster if isinstance(network, FloorNet) else network.logits(image)
    return logits.float().sigmoid() * (image == UNKNOWN)
