"""Training: it learns, it goes on exactly where it stopped, and it never ruins what it has written."""

from __future__ import annotations

import argparse
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_model import random_walls, tiny_config, write_samples

from floorgent_ros.config import TrainingSettings
from floorgent_ros.errors import CheckpointError, ConfigError, FloorgentError
from floorgent_ros.model.checkpoint import load_checkpoint
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.paper.config import UnseenConfig
from floorgent_ros.training import dataset
from floorgent_ros.training import trainer as module
from floorgent_ros.training.state import Progress
from floorgent_ros.training.trainer import Trainer, main_from_cli, read_config

pytestmark = pytest.mark.usefixtures("one_thread")

STEP_S = 0.25  # every step takes this long by the tests' clock
CONFIG = tiny_config(256, layers=1, dropout=0.2)
UNSEEN = UnseenConfig(
    width=16, layers=1, heads=2, feed=16, dropout=0.2, encoder_widths=(4, 16), encoder_blocks=(1, 1)
)


def minutes_of(steps):
    return (steps - 0.5) * STEP_S / 60


SETTINGS = TrainingSettings(
    batch=2,
    learning_rate=3e-3,
    warmup_steps=2,
    minutes=minutes_of(4),
    checkpoint_minutes=0.0,  # after each
    val_minutes=1e6,
    average=0.9,
)


class Clock:
    """Advances by a step's time between the two looks of a step; `on_step` is called before each step."""

    def __init__(self):
        self.looks = 0
        self.on_step = lambda step: None

    def monotonic(self):
        step, second = divmod(self.looks, 2)
        if not second:
            self.on_step(step)
        self.looks += 1
        return (step + second) * STEP_S


class StoppedError(Exception):
    """The process was ended."""


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(module, "time", clock)
    return clock


def write_run(out, count=5, config=CONFIG, settings=SETTINGS, seed=0, walls=4):
    """A trainer in a folder whose samples are drawn already: rooms of unknown cells in free space."""
    for index, split in enumerate(("train", "val")):
        if (out / "samples" / split).exists():
            continue
        rng = np.random.default_rng(seed + index)
        samples = []
        for _ in range(count):
            image = np.full((256, 256), -1, np.int8)
            x, y = rng.integers(20, 120, 2)
            image[y : y + 100, x : x + 100] = 0
            image[y, x : x + 100] = 100
            samples.append((image, random_walls(rng, walls, 256)))
        write_samples(out / "samples" / split, samples)
    return Trainer(out, config, settings, out / "no plans are read")


def weights(trainer):
    return {name: tensor.clone() for name, tensor in trainer.network.state_dict().items()}


def equal(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)


def stop_before(step):
    def on_step(now):
        if now == step:
            raise StoppedError

    return on_step


@pytest.mark.parametrize("config", [CONFIG, UNSEEN], ids=["sweep", "unseen"])
def test_resumed_training_is_the_uninterrupted_one_to_the_last_bit(tmp_path, clock, config):
    whole = write_run(tmp_path / "whole", config=config)
    progress = whole.run()
    assert progress.step == 4
    assert progress.seconds == pytest.approx(4 * STEP_S)

    clock.looks, clock.on_step = 0, stop_before(1)
    before = write_run(tmp_path / "parts", config=config)
    with pytest.raises(StoppedError):
        before.run()
    for begin, stop in ((1, 3), (3, None)):
        clock.looks, clock.on_step = 2 * begin, stop_before(stop)
        part = write_run(tmp_path / "parts", config=config)
        assert not equal(weights(part), weights(before))
        part.resume()
        assert part.progress.step == begin
        assert equal(weights(part), weights(before))
        if stop:
            with pytest.raises(StoppedError):
                part.run()
            before = part
    assert part.run().step == 4
    assert equal(weights(part), weights(whole))
    assert equal(part.average, whole.average)
    assert part.progress.best_bits == whole.progress.best_bits
    assert part.progress.seconds == whole.progress.seconds
    for name in ("best", "last"):
        (network, notes), (other, other_notes) = (
            load_checkpoint(tmp_path / run / f"{name}.safetensors") for run in ("whole", "parts")
        )
        assert equal(network.state_dict(), other.state_dict())
        assert notes == other_notes


def test_seed_decides_the_first_weights_and_the_order_of_samples(tmp_path):
    first, again, other = (
        write_run(tmp_path, settings=TrainingSettings(**(vars(SETTINGS) | {"seed": seed})))
        for seed in (0, 0, 1)
    )
    assert equal(weights(first), weights(again))
    assert not equal(weights(first), weights(other))


def test_a_loss_that_is_no_number_ends_the_run_and_leaves_the_last_good_state(tmp_path, clock):
    trainer = write_run(tmp_path / "run")

    def poison(step):
        if step == 2:
            with torch.no_grad():
                trainer.network.decoder.begin.fill_(math.nan)

    clock.on_step = poison
    with pytest.raises(FloorgentError) as caught:
        trainer.run()
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{tmp_path / 'run'}: loss nan, gradient")
    assert "--resume" in message
    clock.looks, clock.on_step = 4, lambda step: None
    again = write_run(tmp_path / "run")
    again.resume()
    assert again.progress.step == 2
    assert all(bool(tensor.isfinite().all()) for tensor in weights(again).values())
    assert again.run().step == 4
    assert math.isfinite(again.progress.best_bits)


def test_a_gradient_that_is_no_number_never_reaches_the_saved_state(tmp_path, clock):
    trainer = write_run(tmp_path / "run")

    def poison(step):
        if step == 2:
            trainer.network.decoder.begin.register_hook(lambda gradient: gradient * math.nan)

    clock.on_step = poison
    with pytest.raises(FloorgentError):
        trainer.run()
    again = write_run(tmp_path / "run")
    again.resume()
    assert all(bool(tensor.isfinite().all()) for tensor in weights(again).values())


def test_a_small_network_learns_four_samples_by_heart(tmp_path, clock, monkeypatch):
    monkeypatch.setattr(dataset, "SYMMETRIES", 1)  # the same four each time
    settings = TrainingSettings(
        batch=4,
        learning_rate=2e-2,
        warmup_steps=4,
        minutes=minutes_of(20),
        checkpoint_minutes=10.0,
        average=0.5,
    )
    trainer = write_run(tmp_path, count=4, config=tiny_config(256, layers=1), settings=settings, walls=3)
    trainer.task.val = trainer.task.in_batches(trainer.task.samples)
    before = trainer.evaluate()
    assert before > 20  # bits a wall: it knows nothing yet
    assert trainer.run().step == 20
    assert trainer.progress.best_bits < before / 3


def test_evaluation_counts_bits_per_wall_of_the_average_and_changes_nothing(tmp_path):
    trainer = write_run(tmp_path)
    for tensor in trainer.average.values():
        tensor.add_(0.01)
    before = weights(trainer)
    random_state = torch.get_rng_state()
    bits = trainer.evaluate()
    assert bits == trainer.evaluate()
    assert equal(weights(trainer), before)
    assert trainer.network.training
    assert torch.equal(torch.get_rng_state(), random_state)

    trainer.network.load_state_dict(trainer.average)
    trainer.network.eval()
    nats = walls = 0.0
    for batch in trainer.task.val:
        with torch.no_grad():
            nats += float(trainer.network(batch).nats.sum())
        walls += float(batch.lengths.sum())
    assert walls == sum(len(trainer.task.drawn(tmp_path, "val", 1, 1)[index].walls) for index in range(5))
    assert bits == pytest.approx(nats / walls / math.log(2), rel=1e-6)


def test_average_follows_the_weights_with_a_short_memory_at_first(tmp_path):
    trainer = write_run(tmp_path)
    expected = {name: tensor.double() for name, tensor in trainer.average.items()}
    stream = trainer.task.batches(0, slice(None))
    for step in range(3):
        trainer._step(next(stream), math.nan)
        trainer.progress.step += 1
        decay = min(0.9, (step + 1) / (step + 11))
        for name, tensor in trainer.network.state_dict().items():
            expected[name] = decay * expected[name] + (1 - decay) * tensor.double()
    for name, tensor in trainer.average.items():
        assert torch.allclose(tensor.double(), expected[name], atol=1e-6), name


def test_rate_warms_up_by_steps_and_falls_by_time_to_two_percent(tmp_path):
    trainer = write_run(
        tmp_path, settings=TrainingSettings(batch=2, warmup_steps=10, minutes=10, learning_rate=1e-3)
    )

    def rate(step, share):
        trainer.progress = Progress(step=step, seconds=600 * share)
        return trainer._rate()

    assert [rate(step, 0.0) for step in (0, 4, 9, 50)] == pytest.approx([1e-4, 5e-4, 1e-3, 1e-3])
    assert rate(50, 0.5) == pytest.approx(1e-3 * (0.02 + 0.98 / 2))
    assert rate(50, 1.0) == rate(50, 1.5) == pytest.approx(2e-5)


def test_the_best_checkpoint_stays_when_a_later_one_is_worse(tmp_path, clock, monkeypatch):
    trainer = write_run(
        tmp_path,
        settings=TrainingSettings(
            **(vars(SETTINGS) | {"minutes": minutes_of(6), "val_minutes": minutes_of(2)})
        ),
    )
    figures = iter([9.0, 7.0, 8.0])  # the end is the third, and not judged twice
    written = []
    monkeypatch.setattr(trainer, "evaluate", lambda: next(figures))
    monkeypatch.setattr(trainer, "_write", lambda name, bits: written.append((name, bits)))
    trainer.run()
    assert [row[2] for row in trainer.progress.history] == [9.0, 7.0, 8.0]
    assert [bits for name, bits in written if name == "best"] == [9.0, 7.0]
    assert trainer.progress.best_bits == 7.0


def test_what_is_best_and_when_it_was_judged_survive_a_kill(tmp_path, clock, monkeypatch):
    settings = TrainingSettings(
        **(
            vars(SETTINGS)
            | {"minutes": minutes_of(6), "val_minutes": minutes_of(2), "checkpoint_minutes": 10.0}
        )
    )
    trainer = write_run(tmp_path, settings=settings)
    monkeypatch.setattr(trainer, "evaluate", lambda: 7.0)
    clock.on_step = stop_before(3)
    with pytest.raises(StoppedError):
        trainer.run()
    again = write_run(tmp_path, settings=settings)
    again.resume()
    assert again.progress.best_bits == 7.0
    assert again.progress.validated == again.progress.seconds == pytest.approx(2 * STEP_S)
    judged = []
    monkeypatch.setattr(again, "evaluate", lambda: judged.append(again.progress.step) or 8.0)
    clock.looks, clock.on_step = 2 * 2, stop_before(None)
    again.run()
    assert judged == [4, 6]
    _, notes = load_checkpoint(tmp_path / "last.safetensors")
    assert notes["val_bits_per_wall"] == "8.000"  # of these weights, not of the best


def test_checkpoints_hold_the_averaged_weights_and_say_where_they_come_from(tmp_path, clock):
    trainer = write_run(tmp_path)
    trainer.run()
    network, notes = load_checkpoint(tmp_path / "last.safetensors")
    assert network.config == CONFIG
    for name, tensor in network.state_dict().items():
        assert torch.equal(tensor, trainer.average[name].half().float())
    assert notes == {
        "val_bits_per_wall": f"{trainer.progress.best_bits:.3f}",
        "steps": "4",
        "minutes": "0",
        "samples_seen": "8",
        "seed": "0",
    }


# Configuration -------------------------------------------------------------------------------------------


def test_configuration_file_replaces_what_it_names(tmp_path):
    path = tmp_path / "train.yaml"
    path.write_text(
        "model: {layers: 2, encoder_widths: [8, 16, 24]}\ntraining:\n  batch: 7\n", encoding="utf-8"
    )
    model, training = read_config(path)
    assert model == ModelConfig(layers=2, encoder_widths=(8, 16, 24))
    assert training == TrainingSettings(batch=7)
    assert read_config(None) == (ModelConfig(), TrainingSettings())
    path.write_text("", encoding="utf-8")
    assert read_config(path) == (ModelConfig(), TrainingSettings())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("data: {}", "unknown section ['data']"),
        ("model: {depth: 3}", "unknown setting ['depth']"),
        ("training: {batches: 3}", "unknown setting ['batches']"),
        ("training: {batch: 0}", "batch = 0"),
        ("model: {layers: 0}", "layers = 0: a size is 1 to"),  # nobody could load what it gives
        ("model: {encoder_widths: [8, 99999]}", "encoder_widths = (8, 99999): a size is 1 to"),
        ("model: {", "not a readable"),
        ("training: 3", "sections model and training"),
        ("training: {batch: many}", "batch = 'many'"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_said_in_one_line(tmp_path, text, said):
    path = tmp_path / "train.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_config(path)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_configuration_that_is_missing_is_said(tmp_path):
    with pytest.raises(ConfigError, match=r"nothing\.yaml: not a readable training configuration"):
        read_config(tmp_path / "nothing.yaml")


def command(out, **options):
    return argparse.Namespace(
        **(
            {"config": None, "minutes": None, "out": str(out), "data": "", "resume": False, "start": None}
            | options
        )
    )


def test_command_trains_and_resumes_and_never_begins_again_over_a_run(tmp_path, clock, capsys):
    config = tmp_path / "tiny.yaml"
    listed = {
        name: list(value) if isinstance(value, tuple) else value for name, value in vars(CONFIG).items()
    }
    config.write_text(
        str({"model": listed, "training": {"batch": 2, "checkpoint_minutes": 0.0}}), encoding="utf-8"
    )
    out = tmp_path / "run"
    write_run(out)
    options = {"config": str(config), "minutes": minutes_of(3)}
    with pytest.raises(ConfigError, match="minutes"):
        main_from_cli(command(out, config=str(config), minutes=-1))
    assert main_from_cli(command(out, **options)) == 0
    said = capsys.readouterr().out
    assert f"{out / 'best.safetensors'}: " in said
    assert "bits a wall on val" in said
    state = (out / "state.safetensors").read_bytes()
    with pytest.raises(ConfigError, match="a run is there already"):
        main_from_cli(command(out, **options))
    assert (out / "state.safetensors").read_bytes() == state
    assert main_from_cli(command(out, **(options | {"minutes": minutes_of(5), "resume": True}))) == 0
    resumed = write_run(out)
    resumed.resume()
    assert resumed.progress.step == 5


def test_training_begins_with_the_weights_of_another_network(tmp_path, clock):
    write_run(tmp_path / "first").run()
    other = tmp_path / "first" / "last.safetensors"
    trainer = write_run(tmp_path / "second", seed=1)
    fresh = {name: tensor.clone() for name, tensor in trainer.network.state_dict().items()}
    trainer.start_from(other)
    expected = load_checkpoint(other)[0].state_dict()
    for name, tensor in trainer.network.state_dict().items():
        torch.testing.assert_close(tensor, expected[name], rtol=0, atol=0)
        torch.testing.assert_close(trainer.average[name], expected[name], rtol=0, atol=0)
    assert any(not torch.equal(tensor, expected[name]) for name, tensor in fresh.items())
    assert trainer.progress.step == 0


def test_what_the_other_network_lacks_begins_as_ever(tmp_path, clock):
    write_run(tmp_path / "first", config=UNSEEN).run()
    trainer = write_run(tmp_path / "second", config=replace(UNSEEN, beyond=True))
    trainer.start_from(tmp_path / "first" / "last.safetensors")
    assert trainer.network.decoder.beyond[0].weight.abs().sum() == 0
    trainer.run()
    assert trainer.network.decoder.beyond[0].weight.abs().sum() > 0


def test_a_network_of_other_sizes_is_no_beginning(tmp_path, clock):
    write_run(tmp_path / "first", config=UNSEEN).run()
    trainer = write_run(tmp_path / "second", config=replace(UNSEEN, width=32, encoder_widths=(4, 32)))
    with pytest.raises(CheckpointError, match=r"last\.safetensors: .* is \(.*\); start from a network"):
        trainer.start_from(tmp_path / "first" / "last.safetensors")
    sweep = write_run(tmp_path / "third")
    with pytest.raises(CheckpointError, match="its architecture is floorgent-unseen-2"):
        sweep.start_from(tmp_path / "first" / "last.safetensors")
