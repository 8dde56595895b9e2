"""Training in several processes is the training of one: same weights, same validation, one set of files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from tiny_model import random_walls, write_samples

from floorgent_ros.errors import ConfigError
from floorgent_ros.training.processes import Processes
from floorgent_ros.training.trainer import Trainer

SCRIPT = Path(__file__).parent / "shared_run.py"


def write_samples_of_rooms(out):
    rng = np.random.default_rng(0)
    for split in ("train", "val"):
        samples = []
        for index in range(11):
            image = np.full((256, 256), -1, np.int8)
            image[60:180, 60 : 160 + index] = 0
            image[60, 60:160] = 100
            # lengths differ, and some shares of a batch hold no slanted wall
            samples.append((image, random_walls(rng, 1 + index % 5, 256)))
        write_samples(out / "samples" / split, samples)


def run(out, steps, processes=1):
    start = ["-m", "torch.distributed.run", f"--nproc-per-node={processes}", "--standalone"]
    launcher = start if processes > 1 else []
    command = [sys.executable, *launcher, SCRIPT, out, str(steps)]
    environment = os.environ | {"PYTHONPATH": str(SCRIPT.parent.parent)}  # of tiny_model
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    with safe_open(out / "state.safetensors", "pt") as file:
        progress = json.loads(file.metadata()["progress"])
        return progress, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    states = {}
    for processes in (1, 2):
        out = tmp_path_factory.mktemp(f"of_{processes}")
        write_samples_of_rooms(out)
        states[processes] = run(out, 3, processes)
    return states


def test_two_processes_reach_the_weights_and_the_loss_of_one(runs):
    (alone, weights), (shared, shared_weights) = runs[1], runs[2]
    assert alone["step"] == shared["step"] == 3
    assert shared["history"] == pytest.approx(np.array(alone["history"]), rel=1e-4)
    for name, tensor in weights.items():
        if name.startswith(("model.", "average.")):
            torch.testing.assert_close(shared_weights[name], tensor, rtol=1e-3, atol=1e-4)


def test_each_process_has_a_random_state_of_its_own(runs):
    _, tensors = runs[2]
    assert not torch.equal(tensors["random.0"], tensors["random.1"])
    assert "random.1" not in runs[1][1]


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    from shared_run import CONFIG

    from floorgent_ros.config import TrainingSettings

    with pytest.raises(ConfigError, match=r"batch = 5: give a multiple of the 2 processes"):
        Trainer(tmp_path, CONFIG, TrainingSettings(batch=5), tmp_path, Processes(0, 2))
