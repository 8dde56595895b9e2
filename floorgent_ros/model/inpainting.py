"""The peer: a U-Net that paints the unseen walls of the observation image, every cell for itself.

Of the kind that MapEx explores with (Ho et al., 2024): the observed grid in three states goes in, a wall
probability of each cell comes out, and several networks of different seeds stand for what could be. It is
trained on the same samples as the segment decoder and judged beside it; `DistancePredictor` does not take it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.errors import ConfigError
from floorgent_ros.geometry.grid import UNKNOWN
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.encoder import STATES, UNSHUFFLE, states_of
from floorgent_ros.model.network import Batch, FloorNet, Losses

ARCHITECTURE = "inpainting-unet-1"
PRIOR = 0.017  # share of the unknown cells that hold an unseen wall: what an untrained network says
GROUPS = 8  # of the group norm; a width is a multiple of it


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
        wrong = [width for width in self.widths if width % GROUPS]
        if not self.widths or wrong:
            raise ConfigError(f"widths = {self.widths}: use multiples of {GROUPS}")
        coarsest = UNSHUFFLE * 2 ** (len(self.widths) - 1)
        if self.levels % coarsest:
            raise ConfigError(f"levels = {self.levels}: use a multiple of {coarsest} for these widths")

    @property
    def patch(self) -> int:
        """Of the samples' layout: any would do, since only their raster is learned."""
        return ModelConfig.patch

    @property
    def max_segments(self) -> int:
        """Walls of a sample beyond these are left out, as they are for the segment decoder."""
        return ModelConfig.max_segments


class Residual(nn.Module):
    """Two 3 × 3 convolutions beside a short cut, pre-activation (He et al., 2016), gated by ReZero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.branch = nn.Sequential(
            nn.GroupNorm(GROUPS, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.GroupNorm(GROUPS, width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
        )
        self.gate = nn.Parameter(torch.full((1,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → the same shape."""
        return x + self.gate * self.branch(x)


class Inpainter(nn.Module):
    """U-Net (Ronneberger et al., 2015) with its configuration.

    The image's 4 × 4 cells are channels of the finest map, at the way in and out, so that an epoch is
    affordable on a CPU.
    """

    def __init__(self, config: InpaintingConfig) -> None:
        super().__init__()
        self.config = config
        widths, side = config.widths, config.levels // UNSHUFFLE
        self.stem = nn.Conv2d(STATES * UNSHUFFLE**2, widths[0], 3, padding=1)
        self.place = nn.Parameter(torch.zeros(1, widths[0], side, side))
        self.downs = nn.ModuleList(_residuals(width, config.blocks) for width in widths)
        self.shrink = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in pairwise(widths))
        self.grow = nn.ModuleList(nn.Conv2d(b, 4 * a, 1) for a, b in pairwise(widths))
        self.ups = nn.ModuleList(_residuals(width, config.blocks) for width in widths)
        self.norm = nn.GroupNorm(GROUPS, widths[0])
        self.head = nn.Conv2d(widths[0], UNSHUFFLE**2, 3, padding=1)
        nn.init.constant_(self.head.bias, math.log(PRIOR / (1 - PRIOR)))  # type: ignore[arg-type]

    def logits(self, image: Tensor) -> Tensor:
        """(B, L, L) int8 of −1 unknown, 0 free, 100 occupied → (B, L, L) log odds of an unseen wall."""
        states = states_of(image).to(self.stem.weight.dtype)
        x = self.stem(functional.pixel_unshuffle(states, UNSHUFFLE)) + self.place
        skips = []
        for level, down in enumerate(self.downs):
            x = down(self.shrink[level - 1](x) if level else x)
            skips.append(x)
        x = self.ups[-1](skips.pop())
        for up, grow in zip(reversed(self.ups[:-1]), reversed(self.grow), strict=True):
            x = up(skips.pop() + functional.pixel_shuffle(grow(x), 2))
        x = self.head(functional.relu(self.norm(x)))
        return functional.pixel_shuffle(x, UNSHUFFLE)[:, 0]

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


def _residuals(width: int, count: int) -> nn.Sequential:
    return nn.Sequential(*(Residual(width) for _ in range(count)))
