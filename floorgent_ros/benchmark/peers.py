"""Networks of the size that others use for the job; random weights, which is enough for their time.

MapEx predicts with three inpainting networks of LaMa's class, 51 M parameters each, on 512 × 512 cells. The
large one here is laid out as segmentation-models-pytorch's U-Net with a resnet101 encoder: a bottleneck
residual network of (3, 4, 23, 3) blocks and a decoder of (256, 128, 64, 32, 16) channels. The small one is of
SenseMapNet's size, 0.7 M.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode


def convolution(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    """Convolution, batch norm, ReLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class Residual(nn.Module):
    """1 × 1, 3 × 3 and 1 × 1 convolution beside a short cut (He et al., 2016)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        outputs = 4 * width
        self.branch = nn.Sequential(
            convolution(inputs, width, 1),
            convolution(width, width, 3, stride),
            nn.Conv2d(width, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        same = inputs == outputs and stride == 1
        self.short = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        """(B, C, H, W) → (B, 4 width, H / stride, W / stride)."""
        return functional.relu(self.branch(x) + self.short(x))


class Up(nn.Module):
    """Twice the size, joined with the encoder's map of that size, two convolutions."""

    def __init__(self, inputs: int, skipped: int, outputs: int) -> None:
        super().__init__()
        self.mix = nn.Sequential(convolution(inputs + skipped, outputs), convolution(outputs, outputs))

    def forward(self, x: Tensor, skip: Tensor | None) -> Tensor:
        """(B, C, H, W) and (B, S, 2 H, 2 W) → (B, outputs, 2 H, 2 W)."""
        x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        return self.mix(x if skip is None else torch.cat([x, skip], 1))


class ResidualUNet(nn.Module):
    """A U-Net with a residual encoder; one logit a cell."""

    def __init__(
        self,
        blocks: Sequence[int] = (3, 4, 23, 3),
        width: int = 64,
        decoder: Sequence[int] = (256, 128, 64, 32, 16),
    ) -> None:
        super().__init__()
        self.stem = convolution(3, width, 7, 2)
        self.levels = nn.ModuleList()
        skips, channels = [width], width
        for level, count in enumerate(blocks):
            inner = width * 2**level
            strides = [1 if level == 0 else 2] + [1] * (count - 1)
            layers = []
            for stride in strides:
                layers.append(Residual(channels, inner, stride))
                channels = 4 * inner
            self.levels.append(nn.Sequential(*layers))
            skips.append(channels)
        self.ups = nn.ModuleList()
        for outputs, skipped in zip(decoder, [*skips[-2::-1], 0], strict=True):
            self.ups.append(Up(channels, skipped, outputs))
            channels = outputs
        self.head = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        """(B, 3, H, W) → (B, 1, H, W) logits."""
        x = self.stem(image)
        skips: list[Tensor | None] = [None, x]
        x = functional.max_pool2d(x, 3, 2, 1)
        for level in self.levels:
            x = level(x)
            skips.append(x)
        skips.pop()
        for up in self.ups:
            x = up(x, skips.pop())
        return self.head(x)


class PlainUNet(nn.Module):
    """Two convolutions a level, halved and doubled; one logit a cell (Ronneberger et al., 2015)."""

    def __init__(self, widths: Sequence[int] = (19, 38, 76, 152)) -> None:
        super().__init__()
        inputs = [3, *widths[:-1]]
        self.downs = nn.ModuleList(
            nn.Sequential(convolution(a, b), convolution(b, b)) for a, b in zip(inputs, widths, strict=True)
        )
        self.ups = nn.ModuleList(
            Up(deep, flat, flat) for deep, flat in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        self.head = nn.Conv2d(widths[0], 1, 1)

    def forward(self, image: Tensor) -> Tensor:
        """(B, 3, H, W) → (B, 1, H, W) logits."""
        skips, x = [], image
        for index, down in enumerate(self.downs):
            x = down(functional.max_pool2d(x, 2) if index else x)
            skips.append(x)
        skips.pop()
        for up in self.ups:
            x = up(x, skips.pop())
        return self.head(x)


def parameters(network: nn.Module) -> int:
    """How many weights it has."""
    return sum(parameter.numel() for parameter in network.parameters())


def operations(network: nn.Module, side: int) -> int:
    """Floating-point operations (a product and a sum are two) of a side × side image, uncomputed."""
    with torch.device("meta"), torch.no_grad():
        counter = FlopCounterMode(display=False)
        with counter:
            network.to("meta")(torch.zeros(1, 3, side, side))
    return int(counter.get_total_flops())
