"""A U-Net (Ronneberger et al., 2015) over the observation image, its 4 × 4 cells as channels.

So an epoch is affordable on a CPU: the finest map has a quarter of the image's cells a side.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.errors import ConfigError
from floorgent_ros.model.encoder import UNSHUFFLE

GROUPS = 8  # of the group norm; a width is a multiple of it


def check_widths(widths: tuple[int, ...], levels: int) -> None:
    """Raise `ConfigError` for widths that no U-Net over an image of so many cells a side has."""
    wrong = [width for width in widths if width % GROUPS]
    if not widths or wrong:
        raise ConfigError(f"widths = {widths}: use multiples of {GROUPS}")
    coarsest = UNSHUFFLE * 2 ** (len(widths) - 1)
    if levels % coarsest:
        raise ConfigError(f"levels = {levels}: use a multiple of {coarsest} for these widths")


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


class UNet(nn.Module):
    """Maps (B, given, S, S) to (B, wanted, S, S).

    widths: channels of the maps of S, S / 2, S / 4 … a side; blocks: residual blocks on each of them, going
    down and again going up. dropout: of whole channels of the coarsest map.
    """

    def __init__(
        self, given: int, wanted: int, widths: tuple[int, ...], blocks: int, side: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(given, widths[0], 3, padding=1)
        self.place = nn.Parameter(torch.zeros(1, widths[0], side, side))
        self.downs = nn.ModuleList(_residuals(width, blocks) for width in widths)
        self.shrink = nn.ModuleList(nn.Conv2d(a, b, 2, stride=2) for a, b in pairwise(widths))
        self.grow = nn.ModuleList(nn.Conv2d(b, 4 * a, 1) for a, b in pairwise(widths))
        self.ups = nn.ModuleList(_residuals(width, blocks) for width in widths)
        self.norm = nn.GroupNorm(GROUPS, widths[0])
        self.head = nn.Conv2d(widths[0], wanted, 3, padding=1)
        self.drop = nn.Dropout2d(dropout)

    def maps(self, x: Tensor) -> Tensor:
        """(B, given, S, S) → (B, wanted, S, S)."""
        x = self.stem(x) + self.place
        skips = []
        for level, down in enumerate(self.downs):
            x = down(self.shrink[level - 1](x) if level else x)
            skips.append(x)
        x = self.drop(self.ups[-1](skips.pop()))
        for up, grow in zip(reversed(self.ups[:-1]), reversed(self.grow), strict=True):
            x = up(skips.pop() + functional.pixel_shuffle(grow(x), 2))
        return torch.as_tensor(self.head(functional.relu(self.norm(x))))


def _residuals(width: int, count: int) -> nn.Sequential:
    return nn.Sequential(*(Residual(width) for _ in range(count)))
