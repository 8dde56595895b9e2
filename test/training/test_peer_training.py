"""The inpainting peer learns by the same trainer, from the same samples, as the segment decoder."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny_model import random_walls, tiny_config, write_samples

from floorgent_ros.config import TrainingSettings
from floorgent_ros.model.checkpoint import load_checkpoint
from floorgent_ros.model.inpainting import Inpainter, InpaintingConfig
from floorgent_ros.training import dataset
from floorgent_ros.training.configuration import read_config
from floorgent_ros.training.tasks import PaintTask, WallTask, task_of
from floorgent_ros.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIG = InpaintingConfig(widths=(8, 16))
SETTINGS = TrainingSettings(batch=2, learning_rate=1e-2, warmup_steps=4, average=0.5)
RECIPE = Path(__file__).parents[2] / "config" / "training" / "peer.yaml"


@pytest.fixture
def out(tmp_path):
    for seed, split in enumerate(("train", "val")):
        rng = np.random.default_rng(seed)
        image = np.full((256, 256), -1, np.int8)
        image[100:150, 80:200] = 0
        image[100, 80:200] = 100
        write_samples(tmp_path / "samples" / split, [(image, random_walls(rng, 6, 256)) for _ in range(4)])
    return tmp_path


def test_the_recipe_names_the_peer_and_trains_as_the_decoder_does():
    config, settings = read_config(RECIPE)
    assert config == InpaintingConfig()
    assert settings.samples == TrainingSettings().samples
    sizes = sum(parameter.numel() for parameter in Inpainter(InpaintingConfig()).parameters())
    assert 0.7e6 < sizes < 2e6


def test_batches_are_those_of_the_segment_decoder(out):
    peer = task_of(CONFIG, SETTINGS, out / "no plans are read", out)
    ours = task_of(tiny_config(256, max_segments=320), SETTINGS, out / "no plans are read", out)
    assert (type(peer), type(ours)) == (PaintTask, WallTask)
    for (mine, theirs), _ in zip(
        zip(peer.batches(0, slice(None)), ours.batches(0, slice(None)), strict=False), range(3), strict=False
    ):
        assert torch.equal(mine.image, theirs.image)
        assert torch.equal(mine.raster, theirs.raster)


def test_bits_are_counted_per_unknown_cell(out):
    trainer = Trainer(out, CONFIG, SETTINGS, out)
    nats = cells = 0.0
    network = trainer.network.eval()
    for batch in trainer.task.val:
        nats += float(network(batch).nats.detach().sum())
        cells += int((batch.image == -1).sum())
    assert cells == 4 * (256 * 256 - 50 * 120)
    assert trainer.evaluate() == pytest.approx(nats / cells / math.log(2), rel=1e-5)


def test_a_small_peer_learns_samples_by_heart_and_goes_on_where_it_stopped(out, monkeypatch):
    monkeypatch.setattr(dataset, "SYMMETRIES", 1)  # the same samples each time
    trainer = Trainer(out, CONFIG, SETTINGS, out)
    trainer.task.val = trainer.task.in_batches(trainer.task.samples)
    before = trainer.evaluate()
    stream = trainer.task.batches(0, slice(None))
    for _ in range(60):
        trainer._step(next(stream), math.nan)
        trainer.progress.step += 1
    learned = trainer.evaluate()
    assert learned < 0.6 * before
    trainer.progress.history.append([1, learned, learned])
    trainer._save()

    again = Trainer(out, CONFIG, SETTINGS, out)
    again.resume()
    again.task.val = trainer.task.val
    assert again.evaluate() == learned
    network, notes = load_checkpoint(out / "last.safetensors")
    assert isinstance(network, Inpainter)
    assert float(notes["val_bits_per_cell"]) == pytest.approx(learned, abs=1e-3)
