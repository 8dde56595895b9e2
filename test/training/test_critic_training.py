"""The critic learns by the same trainer, from the same samples, as the segment decoder."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from tiny_model import random_walls, write_samples

from floorgent_ros.config import TrainingSettings
from floorgent_ros.geometry.lattice import POINTS
from floorgent_ros.model.checkpoint import load_checkpoint
from floorgent_ros.model.critic import BOUNDS_M, IGNORED, Critic, CriticConfig
from floorgent_ros.training import dataset
from floorgent_ros.training.configuration import read_config
from floorgent_ros.training.samples import NOWHERE, Sample
from floorgent_ros.training.tasks import CriticTask, task_of
from floorgent_ros.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIG = CriticConfig(widths=(8, 16), dropout=0.0)
SETTINGS = TrainingSettings(batch=2, learning_rate=1e-2, warmup_steps=4, average=0.5)
RECIPE = Path(__file__).parents[2] / "config" / "training" / "critic.yaml"


def ways_of(seed):
    """Assumed and true distances, some points nowhere, the right margin outside of the window."""
    rng = np.random.default_rng(seed)
    null = rng.integers(0, 2000, (POINTS, POINTS))
    detour = np.repeat(rng.choice([0, 60, 500], (POINTS, 1)), POINTS, 1)  # a row's own
    ways = np.stack([null, null + 100, null + detour]).astype(np.uint16)
    ways[2, :, :8] = NOWHERE
    ways[:, :, -4:] = NOWHERE
    return ways


@pytest.fixture
def out(tmp_path):
    for seed, split in enumerate(("train", "val")):
        rng = np.random.default_rng(seed)
        samples = []
        ways = np.stack([ways_of(4 * seed + index) for index in range(4)])
        for index in range(4):
            image = np.full((256, 256), -1, np.int8)
            detour = ways[index, 2].astype(int) - ways[index, 0]
            image[np.repeat(detour[:, 20] > 100, 4)] = 0  # so that there is something to be learned
            samples.append((image, random_walls(rng, 6, 256)))
        write_samples(tmp_path / "samples" / split, samples, ways)
    return tmp_path


def test_the_recipe_names_the_critic():
    config, settings = read_config(RECIPE)
    assert config == CriticConfig()
    assert settings.batch == 8
    sizes = sum(parameter.numel() for parameter in Critic(config).parameters())
    assert 0.7e6 < sizes < 2.5e6


def test_classes_are_those_of_the_true_detours(out):
    task = task_of(CONFIG, SETTINGS, out / "no plans are read", out)
    assert type(task) is CriticTask
    sample = Sample(np.zeros((256, 256), np.int8), np.zeros((0, 4), np.int64), ways_of(3))
    batch = task.collated([sample])
    classes = batch.classes[0].numpy()
    assert np.all(classes[:, -4:] == IGNORED)
    assert np.all(classes[:, :8] == 0)
    detours = (sample.ways[2].astype(float) - sample.ways[0])[:, 8:-4] / 100
    bounds = np.array([-np.inf, *BOUNDS_M, np.inf])
    inner = classes[:, 8:-4]
    assert np.all(bounds[inner - 1] <= detours + 1e-6)
    assert np.all(detours < bounds[inner] + 1e-6)
    assert len(np.unique(inner)) == 3
    assert int(task.counted(batch)) == POINTS * (POINTS - 4)
    assert float(batch.assumed.max()) <= 40.0
    assert np.allclose(batch.assumed[0, 0, :, :-4], sample.ways[0, :, :-4] / 100)


def test_turning_a_sample_turns_what_the_critic_learns_from():
    sample = Sample(np.zeros((256, 256), np.int8), np.zeros((0, 4), np.int64), ways_of(0))
    assert np.array_equal(sample.turned(1).ways, sample.ways[:, :, ::-1])
    assert np.array_equal(sample.turned(4).ways, sample.ways.transpose(0, 2, 1))


def test_a_small_critic_learns_samples_by_heart_and_goes_on_where_it_stopped(out, monkeypatch):
    monkeypatch.setattr(dataset, "SYMMETRIES", 1)  # the same samples each time
    trainer = Trainer(out, CONFIG, SETTINGS, out)
    trainer.task.val = trainer.task.in_batches(trainer.task.samples)
    before = trainer.evaluate()
    stream = trainer.task.batches(0, slice(None))
    for _ in range(60):
        trainer._step(next(stream), math.nan)
        trainer.progress.step += 1
    learned = trainer.evaluate()
    assert learned < 0.5 * before
    trainer.progress.history.append([1, learned, learned])
    trainer._save()

    again = Trainer(out, CONFIG, SETTINGS, out)
    again.resume()
    again.task.val = trainer.task.val
    assert again.evaluate() == learned
    network, notes = load_checkpoint(out / "last.safetensors")
    assert isinstance(network, Critic)
    assert float(notes["val_bits_per_point"]) == pytest.approx(learned, abs=1e-3)
