"""What a checkpoint says of its network: scale, vocabulary, order and architecture."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelConfig:
    """The segment decoder's configuration; it travels in the checkpoint and nowhere else.

    levels over extent_m metres quantise coordinates; patch is the side of the start and end patches in
    levels; walls are drawn within horizon_m of the viewpoint, at most max_segments of them, nearest patch
    first. encoder_widths and encoder_blocks: fine, middle, coarse maps; patch_width: the vector of a patch.
    """

    architecture: str = "segment-sweep-1"
    levels: int = 256
    extent_m: float = 40.0
    patch: int = 8
    horizon_m: float = 20.0
    max_segments: int = 320
    encoder_widths: tuple[int, int, int] = (32, 96, 192)
    encoder_blocks: tuple[int, int, int] = (1, 2, 2)
    patch_width: int = 128
    width: int = 192
    layers: int = 4
    heads: int = 4
    feed: int = 384
    key_width: int = 64
    dropout: float = 0.1
