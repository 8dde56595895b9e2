"""The convolutional image encoder: a small pre-activation ResNet (section III-B)."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from floorgent_ros.model.paper.config import SequenceConfig


class Block(nn.Module):
    """Two 3 × 3 convolutions, activation first, gated by ReZero."""

    def __init__(self, inputs: int, outputs: int, stride: int, dropout: float) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        same = inputs == outputs and stride == 1
        self.shortcut = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride)
        self.drop = nn.Dropout(dropout)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → (B, C′, H / stride, W / stride)."""
        y = self.second(functional.relu(self.first(functional.relu(x))))
        out: Tensor = self.shortcut(x) + self.gate * self.drop(y)
        return out


class ResNet(nn.Module):
    """(B, H, W) pixels → (B, E, H / 8, W / 8): stem and pool quarter it, the second stage halves it."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        narrow, wide = config.encoder_widths
        self.stem = nn.Conv2d(1, narrow, 7, 2, padding=3)
        self.pool = nn.MaxPool2d(3, 2, padding=1)
        blocks: list[Block] = []
        inputs = narrow
        for width, count, stride in (
            (narrow, config.encoder_blocks[0], 1),
            (wide, config.encoder_blocks[1], 2),
        ):
            for index in range(count):
                blocks.append(Block(inputs, width, stride if index == 0 else 1, config.encoder_dropout))
                inputs = width
        self.blocks = nn.Sequential(*blocks)
        self.out = nn.Identity() if wide == config.width else nn.Conv2d(wide, config.width, 1)

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels: −0.5 black, 0.5 white."""
        features: Tensor = self.out(functional.relu(self.blocks(self.pool(self.stem(pixels[:, None])))))
        return features
