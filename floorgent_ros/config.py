"""Every default of the package, once: frozen dataclasses whose fields carry their own documentation.

Node parameters, launch arguments, ``config/predict.yaml``, the command line and the README's tables are
made from these fields, and a test proves that they agree. What belongs to the trained network (window
extent, quantisation, horizon, order of segments) lives in the checkpoint instead.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, field, fields
from typing import Any

from floorgent_ros.errors import ConfigError


def setting(
    default: Any,
    text: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
    read_only: bool = False,
) -> Any:
    """Declare a dataclass field with its description, unit, closed range or choices.

    ``read_only`` marks what a running node cannot change.
    """
    documentation = {
        "text": text,
        "unit": unit,
        "low": low,
        "high": high,
        "choices": choices,
        "read_only": read_only,
    }
    return field(default=default, metadata=documentation)


def check(settings: Any) -> None:
    """Raise `ConfigError` when a field of the dataclass instance is outside its range or choices."""
    for item in fields(settings):
        value, meta = getattr(settings, item.name), item.metadata
        low, high, choices = meta.get("low"), meta.get("high"), meta.get("choices")
        expected = {"int": (int,), "float": (int, float), "str": (str,), "bool": (bool,)}.get(str(item.type))
        if expected and (
            not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected)
        ):
            raise ConfigError(f"{item.name} = {value!r}: give a value of type {item.type}")
        if isinstance(value, float) and not math.isfinite(value):
            raise ConfigError(f"{item.name} = {value}: use a finite number")
        if (low is not None and value < low) or (high is not None and value > high):
            raise ConfigError(f"{item.name} = {value}: use a value from {low} to {high}")
        if choices and value not in choices:
            raise ConfigError(f"{item.name} = {value!r}: use one of {', '.join(choices)}")


@dataclass(frozen=True)
class ObservationSettings:
    """How an occupancy grid becomes what the network sees."""

    occupied_threshold: int = setting(65, "a map cell of at least this value is occupied", low=1, high=100)
    free_threshold: int = setting(25, "a known map cell of at most this value is free", low=0, high=99)
    close_m: float = setting(
        0.10, "gaps in a wall up to this width are closed before tracing", unit="m", low=0.0, high=0.5
    )
    min_wall_m: float = setting(0.30, "shorter traced lines are dropped", unit="m", low=0.0, high=5.0)
    min_blob_m: float = setting(
        0.40,
        "occupied blobs whose larger side is below this are dropped as specks and furniture legs",
        unit="m",
        low=0.0,
        high=5.0,
    )

    def __post_init__(self) -> None:
        check(self)
        if self.free_threshold >= self.occupied_threshold:
            raise ConfigError(
                f"free_threshold = {self.free_threshold}: keep it below occupied_threshold = "
                f"{self.occupied_threshold}"
            )


@dataclass(frozen=True)
class PredictorSettings:
    """How completions are drawn and become distances."""

    checkpoint: str = setting(
        "", "path of a .safetensors checkpoint; empty: the shipped weights", read_only=True
    )
    device: str = setting("auto", "auto, cpu, cuda or cuda:N", read_only=True)
    precision: str = setting(
        "auto",
        "number format of the network; auto: float16 on CUDA, float32 on the CPU",
        choices=("auto", "float32", "bfloat16", "float16"),
        read_only=True,
    )
    critic: str = setting(
        "", "path of the critic's .safetensors checkpoint; empty: the shipped one", read_only=True
    )
    completions: int = setting(8, "Monte Carlo completions a prediction", low=1, high=128)
    candidates: int = setting(
        64,
        "completions drawn, of which those are kept whose median the critic expects to err least; as many as "
        "completions or fewer: all are kept",
        low=0,
        high=256,
    )
    seed: int = setting(
        0, "random seed; constant, so that the picture does not flicker", low=0, high=2**63 - 1
    )
    top_p: float = setting(0.95, "nucleus sampling keeps this share of the probability", low=0.05, high=1.0)
    temperature: float = setting(1.0, "below 1 sharpens, above 1 flattens", low=0.1, high=2.0)
    wall_log_odds: float = setting(
        -1.25,
        "added to the log odds that a further wall is drawn; below 0 fewer are",
        low=-20.0,
        high=20.0,
    )
    detour_m: float = setting(
        20.0,
        "where predicted walls shut a way or make it longer by more than this, they are opened; 0: never",
        unit="m",
        low=0.0,
        high=1000.0,
    )
    inflation_radius_m: float = setting(
        0.30,
        "walls are dilated by this radius before the search, rounded up to cells of 0.156 m, at least one",
        unit="m",
        low=0.0,
        high=2.0,
    )

    def __post_init__(self) -> None:
        check(self)

    @classmethod
    def of(cls, options: object) -> PredictorSettings:
        """Those options of a command that bear a field's name; where there is none, or None, the default.

        Raises `ConfigError` for a value out of its range.
        """
        given = {item.name: getattr(options, item.name, None) for item in fields(cls)}
        given = {name: os.fspath(x) if isinstance(x, os.PathLike) else x for name, x in given.items()}
        return cls(**{name: value for name, value in given.items() if value is not None})


@dataclass(frozen=True)
class NodeSettings:
    """When the node predicts and where its inputs come from."""

    autostart: bool = setting(
        True,
        "configure and activate by itself; false: a lifecycle manager or `ros2 lifecycle set` does it",
        read_only=True,
    )
    pose_source: str = setting(
        "auto",
        "where the robot's pose comes from; auto: tf where tf2_ros is installed, else a PoseStamped topic",
        choices=("auto", "tf", "pose", "odometry", "pose_with_covariance"),
        read_only=True,
    )
    pose_topic: str = setting("pose", "topic of the pose when it does not come from tf", read_only=True)
    robot_base_frame: str = setting("base_link", "the robot's frame in tf", read_only=True)
    max_pose_age: float = setting(
        5.0,
        "an older pose is complained about, in the log and in /diagnostics, and used all the same; 0: never",
        unit="s",
        low=0.0,
        high=3600.0,
    )
    min_travel: float = setting(
        0.5, "a new prediction on the same map waits for this much travel", unit="m", low=0.0, high=100.0
    )
    max_rate: float = setting(1.0, "at most this many predictions a second", unit="1/s", low=0.01, high=100.0)
    republish_period: float = setting(
        5.0,
        "the last result is published again this often, for late volatile subscribers; 0: never",
        unit="s",
        low=0.0,
        high=3600.0,
    )
    distance_map_max_m: float = setting(
        40.0, "distance that is drawn as 99 in floorgent/distance_map", unit="m", low=1.0, high=1000.0
    )
    save_failures: str = setting(
        "",
        "folder for the inputs of predictions that raised an exception, at most 20 files; empty: none",
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class TrainingSettings:
    """How a network is trained; what it is made of stands in `model.config.ModelConfig`."""

    samples: int = setting(
        32000,
        "training samples drawn once and turned eight ways; the paper's networks take all viewpoints",
        low=64,
        high=10_000_000,
    )
    val_samples: int = setting(512, "validation samples", low=32, high=1_000_000)
    batch: int = setting(32, "samples a step", low=1, high=4096)
    learning_rate: float = setting(1e-3, "peak of the cosine schedule", low=1e-6, high=1.0)
    warmup_steps: int = setting(200, "steps of linear warm-up", low=0, high=100_000)
    schedule: str = setting(
        "cosine",
        "of the learning rate over the run's time, after the warm-up",
        choices=("cosine", "constant"),
    )
    weight_decay: float = setting(0.03, "AdamW's; 0: plain Adam", low=0.0, high=1.0)
    beta2: float = setting(0.98, "AdamW's decay of squared gradients", low=0.5, high=0.99999)
    precision: str = setting(
        "float32",
        "of the forward pass; bfloat16 is mixed precision and helps on GPUs",
        choices=("float32", "bfloat16"),
    )
    raster_weight: float = setting(
        20.0,
        "weight of the encoder's dense loss (nats a cell) beside the decoder's nats a wall",
        low=0.0,
        high=1000.0,
    )
    average: float = setting(
        0.998, "decay of the averaged weights, which are the ones kept", low=0.0, high=0.99999
    )
    minutes: float = setting(90.0, "training time; the schedule ends with it", unit="min", low=0.01, high=1e6)
    checkpoint_minutes: float = setting(
        5.0, "a resumable state is written this often", unit="min", low=0.0, high=10.0
    )
    val_minutes: float = setting(10.0, "validation is run this often", unit="min", low=0.0, high=1e6)
    patience: int = setting(
        0, "stop early after so many validations without a better one; 0: never", low=0, high=1000
    )
    seed: int = setting(0, "of samples, initial weights and batches", low=0, high=2**31 - 1)

    def __post_init__(self) -> None:
        check(self)
