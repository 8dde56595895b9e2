"""The paper's networks in the common training loop: they learn, resume exactly, stop early, write curves."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from floorgent_ros.config import TrainingSettings
from floorgent_ros.errors import ConfigError
from floorgent_ros.geometry.canonical import SequenceFrame
from floorgent_ros.model.checkpoint import load_checkpoint
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.paper.config import MLP, SEGMENTS, SequenceConfig
from floorgent_ros.training import dataset, tasks
from floorgent_ros.training.configuration import read_config
from floorgent_ros.training.sequences import SETTINGS, SequenceFolder
from floorgent_ros.training.tasks import SequenceTask, collate_sequences
from floorgent_ros.training.trainer import Trainer

pytestmark = pytest.mark.usefixtures("one_thread")

FRAME = SequenceFrame()
CONFIGS = Path(__file__).parents[2] / "config" / "training"
SETTINGS_ = TrainingSettings(
    batch=2, learning_rate=3e-3, warmup_steps=0, average=0.0, val_samples=32, weight_decay=0.0, minutes=0.01
)
SMALL = SequenceConfig(
    width=32, layers=2, heads=2, feed=32, dropout=0.1, encoder_widths=(4, 16), encoder_blocks=(1, 1)
)


@pytest.fixture
def plans(tmp_path, monkeypatch):
    """Four plans in place of those of a data folder; to tell them apart takes 2 bits, 0.033 a token."""
    rng = np.random.default_rng(0)
    samples = [FRAME.ordered(rng.integers(90, 166, (10, 4))) for _ in range(4)]
    folder = tmp_path / "samples"
    folder.mkdir()
    np.save(folder / "walls.npy", np.concatenate(samples).astype(np.uint8))
    np.save(folder / "offsets.npy", np.cumsum([0, *map(len, samples)]))
    np.save(folder / "floor.npy", np.zeros(4, np.int64))
    np.save(folder / "viewpoint.npy", np.zeros((4, 2)))
    (folder / SETTINGS).write_text("{}")
    monkeypatch.setattr(tasks, "floors", lambda data, split: [])
    monkeypatch.setattr(tasks, "sequences", lambda floors, frame: SequenceFolder(folder, frame))
    return samples


def trainer(out, config=SMALL, settings=SETTINGS_):
    return Trainer(out, config, settings, out / "no plans are read")


def take(run, steps):
    stream = run.task.batches(run.progress.step, slice(None))
    for _ in range(steps):
        bits = run._step(next(stream), math.nan)
        run.progress.step += 1
    return bits


@pytest.mark.parametrize(
    "config", [SMALL, replace(SMALL, architecture=SEGMENTS, dropout=0.0)], ids=["tokens", "segments"]
)
def test_four_plans_are_learned_by_heart(plans, tmp_path, monkeypatch, config):
    """Under 0.05 bits a token; the symmetries are left out so that there are four."""
    monkeypatch.setattr(dataset, "SYMMETRIES", 1)
    settings = replace(SETTINGS_, batch=4, learning_rate=1e-2)
    run = trainer(tmp_path / "run", replace(config, dropout=0.0, layers=1), settings)
    first = take(run, 1)
    for _ in range(25):
        bits = take(run, 20)
        if bits < 0.05:
            break
    assert first > 4
    assert bits < 0.05


def test_resumed_is_uninterrupted(plans, tmp_path):
    whole = trainer(tmp_path / "whole")
    take(whole, 6)
    part = trainer(tmp_path / "part")
    take(part, 3)
    part._save()
    again = trainer(tmp_path / "part")
    again.resume()
    take(again, 3)
    for name, tensor in whole.network.state_dict().items():
        assert torch.equal(tensor, again.network.state_dict()[name]), name


def test_a_run_leaves_checkpoints_of_its_family_and_curves(plans, tmp_path):
    run = trainer(tmp_path / "run", replace(SMALL, observation="nearest"))
    run.run()
    network, notes = load_checkpoint(tmp_path / "run" / "best.safetensors")
    assert network.config == run.config
    assert float(notes["val_bits_per_token"]) == pytest.approx(run.progress.best_bits, abs=1e-3)
    assert list((tmp_path / "run" / "curves").glob("events*"))


def test_a_run_stops_early(plans, tmp_path, monkeypatch):
    settings = replace(SETTINGS_, patience=2, val_minutes=0.0, minutes=1e5, checkpoint_minutes=10.0)
    run = trainer(tmp_path / "run", SMALL, settings)
    bits = iter([3.0, 2.0, 2.5, 2.1, 1.0])
    monkeypatch.setattr(run, "evaluate", lambda: next(bits))
    run.run()
    assert [row[-1] for row in run.progress.history] == [3.0, 2.0, 2.5, 2.1]
    assert run.progress.best_bits == 2.0


def test_mixed_precision_learns_too(plans, tmp_path):
    run = trainer(tmp_path / "run", SMALL, replace(SETTINGS_, precision="bfloat16"))
    first = take(run, 1)
    assert take(run, 15) < first


def test_validation_is_the_likelihood_a_token(plans, tmp_path):
    run = trainer(tmp_path / "run")
    take(run, 3)
    batch = collate_sequences(plans, SMALL)
    run.average = {name: tensor.clone() for name, tensor in run.network.state_dict().items()}
    run.network.eval()
    with torch.inference_mode():
        nats = float(run.network(batch).nats.sum())
    tokens = sum(6 * len(levels) + 1 for levels in plans)
    assert run.evaluate() == pytest.approx(nats / tokens / math.log(2), rel=1e-5)


def test_shares_of_a_batch_are_the_batch(plans, tmp_path):
    task = trainer(tmp_path / "run", SMALL, replace(SETTINGS_, batch=4)).task
    assert isinstance(task, SequenceTask)
    whole = next(task.batches(5, slice(None)))
    parts = [next(task.batches(5, slice(rank, None, 2))) for rank in range(2)]
    assert sum(int(task.counted(part)) for part in parts) == int(task.counted(whole))
    assert whole.lengths[0::2].tolist() == parts[0].lengths.tolist()
    assert whole.lengths[1::2].tolist() == parts[1].lengths.tolist()


@pytest.mark.parametrize(
    "path", sorted(CONFIGS.glob("*/*.yaml")), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_every_shipped_configuration_can_be_read(path):
    config, settings = read_config(path)
    assert isinstance(config, SequenceConfig)
    assert settings.batch == (8 if path.parent.name == "full" else 4)
    assert (config.width == 512) == (path.parent.name == "full" and config.architecture != MLP)


def test_the_shipped_configurations_are_the_tables_rows():
    likelihood = pytest.importorskip("floorgent_ros.evaluation.likelihood")
    trained = {row.name for row in likelihood.TABLE} - {"uniform", "neighbours"}
    for size in ("full", "compact"):
        assert {path.stem for path in (CONFIGS / size).glob("*.yaml")} == trained


def test_a_base_is_read_below(tmp_path):
    (tmp_path / "base.yaml").write_text("training: {batch: 3, seed: 4}\nmodel: {width: 64, heads: 4}")
    (tmp_path / "top.yaml").write_text(
        f"base: base.yaml\nmodel: {{architecture: {SEGMENTS}}}\ntraining: {{batch: 5}}"
    )
    config, settings = read_config(tmp_path / "top.yaml")
    assert (settings.batch, settings.seed) == (5, 4)
    assert (config.architecture, config.width) == (SEGMENTS, 64)
    assert isinstance(read_config(None)[0], ModelConfig)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("base: top.yaml", "whose own bases end"),
        ("base: 3", "base = 3"),
        ("base: none.yaml", "not a readable"),
        ("model: {architecture: other}", "architecture 'other' is not known"),
        (f"model: {{architecture: {MLP}, patch: 8}}", "unknown setting"),
    ],
)
def test_a_wrong_configuration_is_one_line(tmp_path, text, reason):
    (tmp_path / "top.yaml").write_text(text)
    with pytest.raises(ConfigError, match=reason) as caught:
        read_config(tmp_path / "top.yaml")
    assert "\n" not in str(caught.value)
