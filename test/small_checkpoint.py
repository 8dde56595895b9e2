"""An untrained network of few parameters, as a checkpoint."""

from __future__ import annotations

from pathlib import Path

import torch

from floorgent_ros.model.checkpoint import save_checkpoint
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.network import FloorNet


def small_checkpoint(path: Path) -> Path:
    """Write it and return the path."""
    torch.manual_seed(0)
    config = ModelConfig(
        max_segments=12,
        encoder_widths=(8, 16, 16),
        encoder_blocks=(1, 1, 1),
        patch_width=16,
        width=32,
        layers=1,
        heads=2,
        feed=32,
        key_width=16,
    )
    save_checkpoint(path, FloorNet(config).state_dict(), config)
    return path
