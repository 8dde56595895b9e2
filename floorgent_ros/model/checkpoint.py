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
from torch.nn import init
from torch.overrides import TorchFunctionMode

from floorgent_ros.errors import CheckpointError, ConfigError
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.critic import Critic, CriticConfig
from floorgent_ros.model.inpainting import Inpainter, InpaintingConfig
from floorgent_ros.model.network import FloorNet
from floorgent_ros.model.paper.config import ARCHITECTURES, LATER, LATER_UNSEEN, SequenceConfig, UnseenConfig
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.whole_file import whole_file

Config = ModelConfig | SequenceConfig | InpaintingConfig | CriticConfig
Network = FloorNet | SequenceNet  # what draws completions
AnyNetwork = Network | Inpainter | Critic

CONFIGURATIONS: dict[str, type[Config]] = {
    ModelConfig.architecture: ModelConfig,
    InpaintingConfig.architecture: InpaintingConfig,
    CriticConfig.architecture: CriticConfig,
    **dict.fromkeys(ARCHITECTURES, SequenceConfig),
    UnseenConfig.architecture: UnseenConfig,
}  # by architecture

DECODER, CRITIC = "floorgent.safetensors", "critic.safetensors"  # what a robot loads
MAX_BYTES = 1 << 30  # a larger file is no checkpoint of this package
MAX_SIZE = 4096  # no width, depth or length of a network exceeds this: a file cannot make us allocate more
MAX_SIDE = 128  # patches: tables of a network grow with their cube
# What weights do not show, since it is the sequence or the image that grows with it. Far above any use.
MAX_SEGMENTS, MAX_IMAGE_CELLS = 1024, 512
DEPTHS = ("layers", "blocks", "encoder_blocks", "mixer_layers")
CURE = "give the path of a FloorGenT .safetensors file, or leave it empty for the shipped weights"


def shipped(name: str = DECODER) -> Path:
    """Path of weights that come with the package, by default those that draw."""
    return Path(__file__).resolve().parent.parent / "weights" / name


def build(config: Config) -> AnyNetwork:
    """A network of this configuration with random weights."""
    if isinstance(config, SequenceConfig):
        return SequenceNet(config)
    if isinstance(config, CriticConfig):
        return Critic(config)
    return Inpainter(config) if isinstance(config, InpaintingConfig) else FloorNet(config)


def save_checkpoint(
    path: Path, weights: dict[str, Tensor], config: Config, notes: dict[str, str] | None = None
) -> None:
    """Write weights in float16 with their configuration; a reader never sees half a file."""
    metadata = {"config": json.dumps(asdict(config)), **(notes or {})}
    stored = {name: tensor.detach().to("cpu", torch.float16).contiguous() for name, tensor in weights.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as part:
        save_file(stored, part, metadata)


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
        _check_sizes(path, config, len(weights))
        with torch.device("meta"), _WithoutNoise():  # no memory until the weights are known to fit
            network = build(config)
    except (ValueError, TypeError, RuntimeError, ArithmeticError) as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: no network has its configuration ({reason}); {CURE}") from None
    try:
        network.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:200]
        raise CheckpointError(f"{path}: weights do not fit their configuration ({reason}); {CURE}") from None
    return network.eval(), notes


class _WithoutNoise(TorchFunctionMode):
    """Leaves random starting values out: for shapes alone torch loads its compiler to make them, 1.7 s."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (Tensor.normal_, init.normal_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


def _check_sizes(path: Path, config: Config, tensors: int) -> None:
    """Refuse sizes that cost memory or time and that the shapes of the weights would not give away.

    tensors: how many the file holds; a layer has several.
    """
    depths = [value for name in DEPTHS if (value := getattr(config, name, None)) is not None]
    depth = max(max(value) if isinstance(value, tuple) else value for value in depths)
    if depth > tensors:
        raise CheckpointError(
            f"{path}: weights do not fit their configuration ({depth} layers, {tensors} tensors); {CURE}"
        )
    limits = {"max_segments": MAX_SEGMENTS}
    if isinstance(config, SequenceConfig):
        limits["image_cells"] = MAX_IMAGE_CELLS
    elif config.levels > MAX_SIDE * config.patch:
        raise CheckpointError(f"{path}: more than {MAX_SIDE} patches a side in its configuration; {CURE}")
    for name, most in limits.items():
        if getattr(config, name) > most:
            raise CheckpointError(f"{path}: {name} in its configuration is more than {most}; {CURE}")


def check_sizes(config: Config) -> None:
    """Raise `ConfigError` for a configuration whose checkpoint nobody would load."""
    for item in fields(config):
        value = getattr(config, item.name)
        for size in value if isinstance(value, tuple) else (value,):
            if type(size) is int and not 0 < size <= MAX_SIZE:
                raise ConfigError(f"{item.name} = {value}: a size is 1 to {MAX_SIZE}")


def _config(path: Path, text: str) -> Config:
    try:
        values: dict[str, Any] = json.loads(text)
        kind = CONFIGURATIONS.get(values.get("architecture", ""), ModelConfig)
        if issubclass(kind, SequenceConfig):
            values = (LATER_UNSEEN if kind is UnseenConfig else LATER) | values
        known = {item.name for item in fields(kind)}
        if set(values) != known:
            raise CheckpointError(
                f"{path}: of another architecture (fields {sorted(set(values) ^ known)}); {CURE}"
            )
        typed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
        config = kind(**typed)
        check_sizes(config)
    except ConfigError as error:
        raise CheckpointError(f"{path}: no network has its configuration ({error}); {CURE}") from None
    except (ValueError, TypeError, AttributeError):
        raise CheckpointError(f"{path}: carries no configuration; {CURE}") from None
    if isinstance(config, ModelConfig) and config.architecture != ModelConfig.architecture:
        raise CheckpointError(f"{path}: architecture {config.architecture!r} is not known here; {CURE}")
    return config
