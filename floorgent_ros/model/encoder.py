"""From the observation image to what the decoder looks at."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN
from floorgent_ros.model.config import ModelConfig

UNSHUFFLE = 4  # the image's 4 × 4 cells become channels of the finest feature map
STATES = 3  # occupied, free, unknown


@dataclass(frozen=True)
class Features:
    """Encoder outputs; B images of L × L cells, P cells a patch side, G = (L / P)² patches.

    pen: (B, C, L/4, L/4) fine features, looked up where a wall starts or ends.
    patches: (B, G, E) one vector a patch: the keys that the decoder points at.
    context: (B, S, D) coarse vectors for cross-attention.
    raster: (B, L, L) logits that a cell holds an unseen wall (dense supervision).
    """

    pen: Tensor
    patches: Tensor
    context: Tensor
    raster: Tensor


def states_of(image: Tensor) -> Tensor:
    """(B, L, L) int8 of −1 unknown, 0 free, 100 occupied → (B, 3, L, L) bool: occupied, free, unknown."""
    return torch.stack([image == OCCUPIED, image == FREE, image == UNKNOWN], 1)


class Bottleneck(nn.Module):
    """Pre-activation residual block: 1 × 1, 3 × 3 at half width, 1 × 1, gated by ReZero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.norm = nn.GroupNorm(8, width)
        self.squeeze = nn.Conv2d(width, half, 1)
        self.mix = nn.Conv2d(half, half, 3, padding=1)
        self.expand = nn.Conv2d(half, width, 1)
        self.gate = nn.Parameter(torch.full((1,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → the same shape."""
        y = self.squeeze(functional.relu(self.norm(x)))
        y = self.mix(functional.relu(y))
        return x + self.gate * self.expand(functional.relu(y))


class GlobalBlock(nn.Module):
    """Self-attention over all positions of a coarse map, then a two-layer perceptron (pre-norm, ReZero)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width)
        )
        self.gates = nn.Parameter(torch.full((2,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, D) → the same shape."""
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(q, k, v)  # (B, heads, S, D / heads)
        x = x + self.gates[0] * self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.gates[1] * self.feed(x)


class Encoder(nn.Module):
    """A small U-shaped network: fine (L/4), patch (L/8) and coarse (L/16) maps, the last one attending.

    Convolutions suit local structure; the attention at the coarse level carries corridors and facades
    across the window.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        fine, middle, coarse = config.encoder_widths
        blocks, side = config.encoder_blocks, config.levels // UNSHUFFLE
        self.stem = nn.Conv2d(STATES * UNSHUFFLE**2, fine, 1)
        self.fine_place = nn.Parameter(torch.zeros(1, fine, side, side))
        self.fine = nn.Sequential(*(Bottleneck(fine) for _ in range(blocks[0])))
        self.to_middle = nn.Conv2d(4 * fine, middle, 1)
        self.middle = nn.Sequential(*(Bottleneck(middle) for _ in range(blocks[1])))
        self.to_coarse = nn.Conv2d(4 * middle, coarse, 1)
        self.coarse = nn.Sequential(*(Bottleneck(coarse) for _ in range(blocks[1])))
        self.coarse_place = nn.Parameter(torch.empty(1, (side // 4) ** 2, coarse).normal_(std=0.02))
        self.attend = nn.Sequential(*(GlobalBlock(coarse, config.heads) for _ in range(blocks[2])))
        self.from_coarse = nn.Conv2d(coarse, 4 * middle, 1)
        self.middle_up = nn.Sequential(*(Bottleneck(middle) for _ in range(blocks[1])))
        self.from_middle = nn.Conv2d(middle, 4 * fine, 1)
        self.fine_up = nn.Sequential(*(Bottleneck(fine) for _ in range(blocks[0])))
        self.raster = nn.Conv2d(fine, UNSHUFFLE**2, 1)
        self.patch_norm = nn.LayerNorm(middle + 4 * fine)
        self.patch = nn.Linear(middle + 4 * fine, config.patch_width)
        self.context_norm = nn.LayerNorm(coarse)

    def forward(self, image: Tensor) -> Features:
        """image: (B, L, L) int8 of −1 unknown, 0 free, 100 occupied."""
        states = states_of(image).to(self.stem.weight.dtype)
        fine = self.fine(self.stem(functional.pixel_unshuffle(states, UNSHUFFLE)) + self.fine_place)
        middle = self.middle(self.to_middle(functional.pixel_unshuffle(fine, 2)))
        coarse = self.coarse(self.to_coarse(functional.pixel_unshuffle(middle, 2)))
        batch, width, side, _ = coarse.shape
        context = self.attend(coarse.flatten(2).transpose(1, 2) + self.coarse_place)  # (B, S, D)
        coarse = context.transpose(1, 2).reshape(batch, width, side, side)
        middle = self.middle_up(middle + functional.pixel_shuffle(self.from_coarse(coarse), 2))
        fine = self.fine_up(fine + functional.pixel_shuffle(self.from_middle(middle), 2))
        raster = functional.pixel_shuffle(self.raster(fine), UNSHUFFLE)[:, 0]
        both = torch.cat([middle, functional.pixel_unshuffle(fine, 2)], 1).flatten(2).transpose(1, 2)
        return Features(fine, self.patch(self.patch_norm(both)), self.context_norm(context), raster)
