"""Checkpoints: safetensors files that carry weights and the configuration they belong to."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from floorgent_ros.errors import CheckpointError, ConfigError
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.inpainting import Inpainter, InpaintingConfig
from floorgent_ros.model.network import FloorNet
from floorgent_ros.model.paper.config import ARCHITECTURES, SequenceConfig
from floorgent_ros.model.paper.network import SequenceNet

Config = ModelConfig | SequenceConfig | InpaintingConfig
Network = FloorNet | SequenceNet  # what draws completions
AnyNetwork = Network | Inpainter

CONFIGURATIONS: dict[str, type[Config]] = {
    ModelConfig.architecture: ModelConfig,
    InpaintingConfig.architecture: InpaintingConfig,
    **dict.fromkeys(ARCHITECTURES, SequenceConfig),
}  # by architecture

MAX_BYTES = 1 << 30  # a larger file is no checkpoint of this package
MAX_SIZE = 4096  # no width, depth or length of a network exceeds this: a file cannot make us allocate more
MAX_SIDE = 128  # patches
CURE = "give the path of a FloorGenT .safetensors file, or leave it empty for the shipped weights"


def shipped() -> Path:
    """Path of the weights that come with the package."""
    return Path(__file__).resolve().parent.parent / "weights" / "floorgent.safetensors"


def build(config: Config) -> AnyNetwork:
    """A network of this configuration with random weights."""
    if isinstance(config, SequenceConfig):
        return SequenceNet(config)
    return Inpainter(config) if isinstance(config, InpaintingConfig) else FloorNet(config)


def save_checkpoint(
    path: Path, weights: dict[str, Tensor], config: Config, notes: dict[str, str] | None = None
) -> None:
    """Write weights in float16 with their configuration; a reader never sees half a file."""
    metadata = {"config": json.dumps(asdict(config)), **(notes or {})}
    stored = {name: tensor.detach().to("cpu", torch.float16).contiguous() for name, tensor in weights.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    save_file(stored, partial, metadata)
    partial.replace(path)


def load_checkpoint(path: Path | str | None = None) -> tuple[AnyNetwork, dict[str, str]]:
    """Read a checkpoint (default: the shipped one) into a float32 network in evaluation mode, with its notes.

    Raises `CheckpointError`, one line with path and cure.
    """
    path = Path(path) if path else shipped()
    if not path.is_file():
        raise CheckpointError(f"{path}: no such checkpoint; {CURE}")
    if path.stat().st_size > MAX_BYTES:
        raise CheckpointError(f"{path}: larger than {MAX_BYTES >> 20} MiB, not a checkpoint; {CURE}")
    try:
        with safe_open(path, "pt") as file:
            notes = dict(file.metadata() or {})
            weights = {name: file.get_tensor(name).float() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path}: broken ({error}); {CURE}") from None
    config = _config(path, notes.pop("config", ""))
    try:
        _check_backed(path, config, sum(tensor.numel() for tensor in weights.values()))
        network = build(config)
    except (ValueError, TypeError, RuntimeError, ZeroDivisionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: no network has its configuration ({reason}); {CURE}") from None
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: weights do not fit their configuration ({reason}); {CURE}") from None
    return network.eval(), notes


def _check_backed(path: Path, config: Config, stored: int) -> None:
    """Refuse, before anything is allocated, sizes that the file's number of weights cannot back."""
    least = _least_weights(config)
    if least > stored:
        raise CheckpointError(
            f"{path}: weights do not fit their configuration ({stored} for {least} and more); {CURE}"
        )
    if not isinstance(config, SequenceConfig) and config.levels > MAX_SIDE * config.patch:
        raise CheckpointError(f"{path}: more than {MAX_SIDE} patches a side in its configuration; {CURE}")


def _least_weights(config: Config) -> int:
    """A network has more weights than this; the sweep's tables grow with (levels / patch)³ besides."""
    if isinstance(config, InpaintingConfig):
        return sum(config.blocks * width**2 for width in config.widths)
    if isinstance(config, SequenceConfig):
        return 0
    blocks = zip(config.encoder_blocks, config.encoder_widths, strict=True)
    return max(
        config.layers * config.width * (config.width + config.feed),
        sum(count * width**2 for count, width in blocks),
    )


def _config(path: Path, text: str) -> Config:
    try:
        values: dict[str, Any] = json.loads(text)
        kind = CONFIGURATIONS.get(values.get("architecture", ""), ModelConfig)
        known = {item.name for item in fields(kind)}
        if set(values) != known:
            raise CheckpointError(
                f"{path}: of another architecture (fields {sorted(set(values) ^ known)}); {CURE}"
            )
        typed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        config = kind(**typed)
    except ConfigError as error:
        raise CheckpointError(f"{path}: no network has its configuration ({error}); {CURE}") from None
    except (ValueError, TypeError, AttributeError):
        raise CheckpointError(f"{path}: carries no configuration; {CURE}") from None
    sizes = [size for value in values.values() for size in (value if isinstance(value, list) else [value])]
    if any(type(size) is int and not 0 < size <= MAX_SIZE for size in sizes):
        raise CheckpointError(f"{path}: a size in its configuration is not in 1 to {MAX_SIZE}; {CURE}")
    if isinstance(config, ModelConfig) and config.architecture != ModelConfig.architecture:
        raise CheckpointError(f"{path}: architecture {config.architecture!r} is not known here; {CURE}")
    return config
