"""The MLP Mixer image encoder (section III-B): perceptrons across patches and across channels."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from floorgent_ros.model.paper.config import SequenceConfig


def _perceptron(width: int, feed: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, feed), nn.GELU(), nn.Linear(feed, width))


class MixerLayer(nn.Module):
    """Mixes patches, then channels; both branches gated by ReZero."""

    def __init__(self, patches: int, width: int, feed: int, dropout: float) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.patches = _perceptron(patches, feed)
        self.channels = _perceptron(width, feed)
        self.drop = nn.Dropout(dropout)
        self.gates = nn.Parameter(torch.zeros(2))

    def forward(self, x: Tensor) -> Tensor:
        """(B, S, E) → the same shape."""
        across = self.patches(self.norms[0](x).transpose(1, 2)).transpose(1, 2)
        x = x + self.gates[0] * self.drop(across)
        out: Tensor = x + self.gates[1] * self.drop(self.channels(self.norms[1](x)))
        return out


class Mixer(nn.Module):
    """(B, H, W) pixels → (B, E, H / patch, W / patch)."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__()
        self.side = config.image_cells // config.mixer_patch
        self.stem = nn.Conv2d(1, config.width, config.mixer_patch, config.mixer_patch)
        self.layers = nn.Sequential(
            *(
                MixerLayer(self.side**2, config.width, config.mixer_feed, config.encoder_dropout)
                for _ in range(config.mixer_layers)
            )
        )

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels: −0.5 black, 0.5 white."""
        x = self.stem(pixels[:, None]).flatten(2).transpose(1, 2)  # (B, S, E)
        features: Tensor = self.layers(x).transpose(1, 2).unflatten(2, (self.side, self.side))
        return features
