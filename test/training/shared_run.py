"""Trains a tiny network on prepared samples, also under torchrun: ``shared_run.py OUT STEPS``."""

from __future__ import annotations

import itertools
import sys
import types
from pathlib import Path

import torch
from tiny_model import tiny_config

from floorgent_ros.config import TrainingSettings
from floorgent_ros.training import trainer as module
from floorgent_ros.training.processes import Processes

CONFIG = tiny_config(256, layers=1)


def main(out: Path, steps: int) -> None:
    """Train for `steps` steps, each a minute long by this clock whatever the processes' speed."""
    torch.set_num_threads(1)
    looks = itertools.count()
    module.time = types.SimpleNamespace(monotonic=lambda: 60.0 * next(looks))
    settings = TrainingSettings(
        batch=4, learning_rate=3e-3, warmup_steps=2, minutes=float(steps), checkpoint_minutes=1.0, average=0.5
    )
    trainer = module.Trainer(out, CONFIG, settings, out / "no plans are read", Processes.join())
    trainer.run()
    Processes.leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
