"""A network small enough for tests: its weights are random, all that works with them is the real code."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.network import Batch, FloorNet
from floorgent_ros.model.sequence import FREE, Layout
from floorgent_ros.training.dataset import pack
from floorgent_ros.training.samples import Sample

Ints = NDArray[np.int64]


def tiny_config(levels: int = 32, **changes: object) -> ModelConfig:
    values: dict[str, object] = {
        "levels": levels,
        "extent_m": levels * 40.0 / 256,
        "max_segments": 12,
        "encoder_widths": (8, 16, 16),
        "encoder_blocks": (1, 1, 1),
        "patch_width": 16,
        "width": 16,
        "layers": 2,
        "heads": 2,
        "feed": 16,
        "key_width": 8,
        "dropout": 0.0,
    }
    return ModelConfig(**(values | changes))  # type: ignore[arg-type]


def tiny_network(config: ModelConfig | None = None, seed: int = 0, walls_wanted: float = 0.0) -> FloorNet:
    """In evaluation mode, no weight at zero; walls_wanted > 0 makes longer sequences likely."""
    torch.manual_seed(seed)
    network = FloorNet(config or tiny_config())
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
        network.decoder.start_key.bias[network.config.key_width] += walls_wanted
    return network.eval()


def random_image(rng: np.random.Generator, levels: int = 32) -> NDArray[np.int8]:
    return rng.choice(np.array([-1, 0, 100], np.int8), (levels, levels))


def random_walls(rng: np.random.Generator, count: int, levels: int = 32) -> Ints:
    """(count, 4) levels: horizontal, vertical and free walls in turn, none of them a point."""
    walls = rng.integers(0, levels, (count, 4))
    walls[:, 2:] = (walls[:, :2] + rng.integers(1, levels - 1, (count, 2))) % levels
    walls[0::3, 3] = walls[0::3, 1]
    walls[1::3, 2] = walls[1::3, 0]
    return walls


def make_batch(samples: list[tuple[NDArray[np.int8], Ints]], layout: Layout, padding: int = 0) -> Batch:
    """Stack (image, rows) pairs; padding: entries beyond the longest sample."""
    longest = max(len(rows) for _, rows in samples) + padding
    padded = np.zeros((len(samples), max(1, longest), 5), np.int64)
    levels = np.zeros((*padded.shape[:2], 4), np.int64)
    for index, (_, rows) in enumerate(samples):
        padded[index, : len(rows)], levels[index, : len(rows)] = rows, layout.decode(rows)
    raster = [rasterise(layout.decode(rows).reshape(-1, 2, 2), layout.levels) for _, rows in samples]
    return Batch(
        torch.from_numpy(np.stack([image for image, _ in samples])),
        torch.from_numpy(padded),
        torch.from_numpy(levels),
        torch.tensor([len(rows) for _, rows in samples]),
        torch.from_numpy(np.stack(raster)),
    )


def random_samples(layout: Layout, lengths: list[int], seed: int = 0) -> list[tuple[NDArray[np.int8], Ints]]:
    """Pairs of an image and its walls' rows, of about the given lengths (equal walls become one)."""
    rng = np.random.default_rng(seed)
    levels = layout.levels
    return [
        (random_image(rng, levels), layout.encode(random_walls(rng, length, levels))) for length in lengths
    ]


def has_free_and_straight(rows: Ints) -> bool:
    return bool((rows[:, 2] == FREE).any() and (rows[:, 2] != FREE).any())


def write_samples(
    folder: Path, samples: list[tuple[NDArray[np.int8], Ints]], ways: NDArray[np.uint16] | None = None
) -> None:
    """Write a folder as `training.dataset.prepare` does; samples: (256, 256) images and (N, 4) levels.

    ways: as `Sample.ways`, of all; by default none is known.
    """
    folder.mkdir(parents=True)
    walls = [levels for _, levels in samples]
    np.save(folder / "walls.npy", np.concatenate(walls).astype(np.uint8))
    np.save(folder / "images.npy", np.stack([pack(image) for image, _ in samples]))
    ways = np.stack([Sample(*sample).ways for sample in samples]) if ways is None else ways
    np.save(folder / "ways.npy", ways)
    np.save(folder / "offsets.npy", np.concatenate([[0], np.cumsum([len(wall) for wall in walls])]))
