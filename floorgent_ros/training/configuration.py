"""Training configurations: a YAML file with the network's and the run's settings."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

import yaml

from floorgent_ros.config import TrainingSettings
from floorgent_ros.errors import ConfigError
from floorgent_ros.model.checkpoint import Config
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.paper.config import ARCHITECTURES, SequenceConfig

Settings = TypeVar("Settings", ModelConfig, SequenceConfig, TrainingSettings)


def read_config(path: Path | None) -> tuple[Config, TrainingSettings]:
    """Read ``model:`` and ``training:`` of a YAML file; what it leaves out keeps its default.

    model.architecture chooses the family and with it what else may be set. Raises `ConfigError` in one line.
    """
    if path is None:
        return ModelConfig(), TrainingSettings()
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigError(f"{path}: not a readable training configuration ({reason})") from None
    if not isinstance(values, dict) or not all(isinstance(part, dict | None) for part in values.values()):
        raise ConfigError(f"{path}: give sections model and training, each with settings by name")
    unknown = set(values) - {"model", "training"}
    if unknown:
        raise ConfigError(f"{path}: unknown section {sorted(unknown)}; use model and training")
    model = values.get("model")
    name = (model or {}).get("architecture", ModelConfig.architecture)
    if name not in (ModelConfig.architecture, *ARCHITECTURES):
        known = ", ".join((ModelConfig.architecture, *ARCHITECTURES))
        raise ConfigError(f"{path}: architecture {name!r} is not known; use one of {known}")
    settings = _filled(TrainingSettings(), values.get("training"), path)
    if name in ARCHITECTURES:
        return _filled(SequenceConfig(), model, path), settings
    return _filled(ModelConfig(), model, path), settings


def _filled(defaults: Settings, values: dict[str, Any] | None, path: Path) -> Settings:
    known = {item.name for item in fields(defaults)}
    unknown = set(values or {}) - known
    if unknown:
        raise ConfigError(f"{path}: unknown setting {sorted(unknown)}; use {', '.join(sorted(known))}")
    return replace(defaults, **{k: tuple(v) if isinstance(v, list) else v for k, v in (values or {}).items()})
