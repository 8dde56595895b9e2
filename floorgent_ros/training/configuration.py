"""Training configurations: a YAML file with the network's and the run's settings."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from floorgent_ros.config import TrainingSettings
from floorgent_ros.errors import ConfigError
from floorgent_ros.model.checkpoint import CONFIGURATIONS, Config, check_sizes
from floorgent_ros.model.config import ModelConfig

_SECTIONS = ("model", "training")
_DEEPEST = 8  # bases of bases

Settings = TypeVar("Settings", bound=Config | TrainingSettings)


def read_config(path: Path | None) -> tuple[Config, TrainingSettings]:
    """Read ``model:`` and ``training:`` of a YAML file; what it leaves out keeps its default.

    ``base:`` names another such file, beside it, whose settings hold unless they are given here.
    model.architecture chooses the family and with it what else may be set. Raises `ConfigError` in one line.
    """
    if path is None:
        return ModelConfig(), TrainingSettings()
    values = _sections(path)
    model = values["model"]
    name = model.get("architecture", ModelConfig.architecture)
    if name not in CONFIGURATIONS:
        known = ", ".join(CONFIGURATIONS)
        raise ConfigError(f"{path}: architecture {name!r} is not known; use one of {known}")
    settings = _filled(TrainingSettings(), values["training"], path)
    config = _filled(CONFIGURATIONS[name](), model, path)
    check_sizes(config)
    return config, settings


def _sections(path: Path, depth: int = 0) -> dict[str, dict[str, Any]]:
    """The file's sections over those of its base."""
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path}: not a readable training configuration ({reason})") from None
    base = values.pop("base", None) if isinstance(values, dict) else None
    if not isinstance(values, dict) or not all(isinstance(part, dict | None) for part in values.values()):
        raise ConfigError(f"{path}: give sections model and training, each with settings by name")
    unknown = set(values) - set(_SECTIONS)
    if unknown:
        raise ConfigError(f"{path}: unknown section {sorted(unknown)}; use {' and '.join(_SECTIONS)}")
    if base is not None and (not isinstance(base, str) or depth == _DEEPEST):
        raise ConfigError(f"{path}: base = {base!r}: name a file whose own bases end")
    below = _sections(path.parent / base, depth + 1) if base else {name: {} for name in _SECTIONS}
    return {name: {**below[name], **(values.get(name) or {})} for name in _SECTIONS}


def _filled(defaults: Settings, values: dict[str, Any], path: Path) -> Settings:
    known = {item.name for item in fields(defaults)}
    unknown = set(values) - known
    if unknown:
        raise ConfigError(f"{path}: unknown setting {sorted(unknown)}; use {', '.join(sorted(known))}")
    typed: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return replace(defaults, **typed)
