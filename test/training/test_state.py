"""The resumable state: exact to the last bit, never half written, refused in one line if it does not fit."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from floorgent_ros.errors import CheckpointError
from floorgent_ros.training import state
from floorgent_ros.training.state import Progress, load_state, save_state


class Run:
    """A little training run with everything that a state holds: dropout's random numbers, too."""

    def __init__(self, seed, width=6):
        torch.manual_seed(seed)
        self.network = nn.Sequential(nn.Linear(4, width), nn.Dropout(0.5), nn.Linear(width, 1))
        self.average = {name: tensor.clone() for name, tensor in self.network.state_dict().items()}
        self.optimiser = torch.optim.AdamW(self.network.parameters(), 1e-2, betas=(0.9, 0.98))

    def step(self, number):
        inputs = torch.full((8, 4), float(number)) + torch.arange(4)
        self.optimiser.zero_grad(set_to_none=True)
        self.network(inputs).square().mean().backward()
        self.optimiser.step()
        for name, tensor in self.network.state_dict().items():
            self.average[name].lerp_(tensor, 0.1)

    def everything(self):
        momenta = self.optimiser.state_dict()["state"]
        return [
            *self.network.state_dict().values(),
            *self.average.values(),
            *(value for index in sorted(momenta) for _, value in sorted(momenta[index].items())),
            torch.get_rng_state(),
        ]

    def save(self, path, progress=None):
        save_state(path, self.network, self.average, self.optimiser, progress or Progress())

    def load(self, path):
        return load_state(path, self.network, self.average, self.optimiser)


def equal(first, second):
    return len(first) == len(second) and all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.safetensors"


def test_everything_comes_back_exactly_and_the_run_goes_on_as_if_never_stopped(path):
    run = Run(1)
    for number in range(3):
        run.step(number)
    progress = Progress(3, 12.3456789, 8.0, 5.4321, [[4.0, 9.5, 8.25], [8.0, 7.5, float("inf")]])
    run.save(path, progress)
    saved = [tensor.clone() for tensor in run.everything()]
    run.step(3)
    expected = [tensor.clone() for tensor in run.everything()]

    other = Run(2)
    assert not equal(other.everything(), saved)
    assert other.load(path) == progress
    assert equal(other.everything(), saved)
    other.step(3)
    assert equal(other.everything(), expected)


def test_a_run_that_has_not_begun_comes_back(path):
    run = Run(1)
    run.save(path)
    other = Run(2)
    assert other.load(path) == Progress(0, 0.0, 0.0, float("inf"), [])
    assert equal(list(other.network.state_dict().values()), list(run.network.state_dict().values()))


def test_saving_that_fails_leaves_the_last_state(path, monkeypatch):
    run = Run(1)
    run.step(0)
    run.save(path, Progress(step=1))

    def half_a_file(_tensors, target, _metadata):
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(state, "save_file", half_a_file)
    with pytest.raises(OSError, match="disk full"):
        run.save(path, Progress(step=2))
    assert Run(2).load(path).step == 1


@pytest.mark.parametrize("fault", ["missing", "empty", "text", "truncated", "other network", "other file"])
def test_what_cannot_be_resumed_is_said_in_one_line(path, fault):
    if fault != "missing":
        Run(1, width=7 if fault == "other network" else 6).save(path)
    content = path.read_bytes() if path.exists() else b""
    replaced = {"empty": b"", "text": b"no state", "truncated": content[:-20]}
    if fault in replaced:
        path.write_bytes(replaced[fault])
    if fault == "other file":
        state.save_file({"x": torch.zeros(1)}, path)
    with pytest.raises(CheckpointError) as caught:
        Run(2).load(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: cannot resume (")
    assert "without --resume" in message
