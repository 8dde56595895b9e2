"""Checkpoints: float16 round trip with configuration and notes; everything else is one line with a cure."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import paper_models
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from tiny_model import make_batch, random_samples, tiny_config, tiny_network

from floorgent_ros.errors import CheckpointError
from floorgent_ros.model import checkpoint
from floorgent_ros.model.checkpoint import load_checkpoint, save_checkpoint
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.sampling import sample


@pytest.fixture(scope="module")
def network():
    return tiny_network()


@pytest.fixture
def path(tmp_path, network):
    path = tmp_path / "folder" / "tiny.safetensors"
    save_checkpoint(path, network.state_dict(), network.config, {"steps": "17"})
    return path


def refused(path):
    """The one line that loading path ends with."""
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: ")
    assert message.endswith(checkpoint.CURE)
    return message


def rewrite(path, config="", weights=None, **notes):
    """Replace the file's configuration text or its weights."""
    with safe_open(path, "pt") as file:
        kept = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    save_file(weights or kept, path, {**({"config": config} if config else {}), **notes})


def test_weights_come_back_in_float16_with_their_configuration_and_notes(path, network):
    loaded, notes = load_checkpoint(path)
    assert notes == {"steps": "17"}
    assert loaded.config == network.config
    assert isinstance(loaded.config.encoder_widths, tuple)
    assert not loaded.training
    state = loaded.state_dict()
    assert list(state) == list(network.state_dict())
    for name, tensor in network.state_dict().items():
        assert state[name].dtype == torch.float32
        assert torch.equal(state[name], tensor.half().float()), name


def test_file_holds_float16_and_nothing_but_weights(path, network):
    with safe_open(path, "pt") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        assert json.loads(file.metadata()["config"]) == json.loads(json.dumps(asdict(network.config)))
    assert set(tensors) == {name for name, _ in network.named_parameters()}
    assert {tensor.dtype for tensor in tensors.values()} == {torch.float16}


def test_a_loaded_network_draws_and_scores_the_same_after_another_round(path, tmp_path, network):
    first, _ = load_checkpoint(path)
    save_checkpoint(tmp_path / "again.safetensors", first.state_dict(), first.config)
    second, _ = load_checkpoint(str(tmp_path / "again.safetensors"))
    samples = random_samples(first.decoder.layout, [5, 9])
    batch = make_batch(samples, first.decoder.layout)
    with torch.inference_mode():
        assert torch.equal(first(batch).nats, second(batch).nats)
        assert torch.allclose(first(batch).nats, network(batch).nats, rtol=1e-2)
    for a, b in zip(*(sample(net, samples[0][0], 3, 0) for net in (first, second)), strict=True):
        assert np.array_equal(a, b)


def test_saving_that_fails_leaves_the_file_that_was_there(path, network, monkeypatch):
    before = path.read_bytes()

    def half_a_file(_tensors, target, _metadata):
        target.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint, "save_file", half_a_file)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(path, network.state_dict(), network.config)
    assert path.read_bytes() == before


@pytest.mark.parametrize("name", ["nowhere.safetensors", "."])
def test_a_path_without_a_file_is_said(tmp_path, name):
    assert "no such checkpoint" in refused(tmp_path / name)


@pytest.mark.parametrize("content", [b"", b"not a checkpoint", b"\x10\0\0\0\0\0\0\0{", b"\xff" * 64])
def test_a_file_that_is_no_safetensors_is_said(tmp_path, content):
    path = tmp_path / "broken.safetensors"
    path.write_bytes(content)
    assert "broken" in refused(path)


@pytest.mark.parametrize("share", [0.01, 0.5, 0.999])
def test_a_truncated_file_is_said(path, share):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert "broken" in refused(path)


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "huge.safetensors"
    with path.open("wb") as file:
        file.truncate(checkpoint.MAX_BYTES + 1)  # takes no space on the disk
    assert "larger than 1024 MiB" in refused(path)


@pytest.mark.parametrize("config", ["", "{", "null", "3"])
def test_a_file_of_something_else_carries_no_configuration(path, config):
    rewrite(path, config)
    assert "carries no configuration" in refused(path)


def test_another_architecture_is_named(path, network):
    rewrite(path, json.dumps(asdict(replace(network.config, architecture="token-pointer-9"))))
    assert "token-pointer-9" in refused(path)


@pytest.mark.parametrize(
    ("change", "named"),
    [({"depth": 3}, "depth"), ({"layers": None}, "layers")],
    ids=["unknown field", "missing field"],
)
def test_fields_of_another_version_are_named(path, network, change, named):
    values = {k: v for k, v in (asdict(network.config) | change).items() if v is not None}
    rewrite(path, json.dumps(values))
    message = refused(path)
    assert "of another architecture" in message
    assert named in message


def test_a_file_from_before_a_field_is_what_it_was(tmp_path):
    """Networks that are trained stay usable: III-D's order of ends was the only one."""
    path, made = tmp_path / "old.safetensors", paper_models.small_network("tokens")
    save_checkpoint(path, made.state_dict(), made.config, {})
    values = asdict(made.config)
    del values["ends"]
    rewrite(path, json.dumps(values))
    loaded, _ = load_checkpoint(path)
    assert loaded.config == made.config
    assert loaded.config.ends == "left-first"


@pytest.mark.parametrize("change", [{"layers": 3}, {"width": 32}, {"levels": 64}, {"feed": 24}, {"patch": 4}])
def test_weights_of_other_shapes_than_configured_are_said(path, network, change):
    rewrite(path, json.dumps(asdict(replace(network.config, **change))))
    assert "weights do not fit" in refused(path)


def test_a_missing_and_a_foreign_weight_are_said(path, network):
    config = json.dumps(asdict(network.config))
    weights = {name: tensor.half() for name, tensor in network.state_dict().items()}
    rewrite(path, config, {name: tensor for name, tensor in weights.items() if name != "decoder.begin"})
    assert "decoder.begin" in refused(path)
    rewrite(path, config, weights | {"decoder.ghost": torch.zeros(2)})
    assert "decoder.ghost" in refused(path)


@pytest.mark.parametrize(
    "change",
    [{"encoder_widths": (12, 16, 16)}, {"dropout": 2.0}, {"levels": "many"}, {"width": -1}, {"feed": 10**9}],
)
def test_an_impossible_configuration_is_said(path, network, change):
    rewrite(path, json.dumps(asdict(replace(network.config, **change))))
    refused(path)


HUGE = 4096  # the largest that one size may be; products of several would take hundreds of gigabytes


@pytest.mark.parametrize(
    "change",
    [
        {"layers": HUGE, "width": HUGE, "feed": HUGE},
        {"encoder_blocks": (HUGE, HUGE, HUGE), "encoder_widths": (HUGE, HUGE, HUGE)},
        {"width": HUGE, "feed": HUGE, "encoder_widths": (HUGE, HUGE, HUGE)},
        {"levels": HUGE, "patch": 1},
        {"max_segments": HUGE},
    ],
)
def test_a_small_file_cannot_ask_for_a_huge_network(path, network, change, allocated):
    rewrite(path, json.dumps(asdict(replace(network.config, **change))))
    refused(path)
    assert allocated == []


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (kind, change)
        for kind in ("tokens", "segments", "mlp", "resnet", "mixer")
        for change in (
            {"width": HUGE, "heads": 1, "feed": HUGE},
            {"layers": HUGE, "width": HUGE, "heads": 1, "feed": HUGE},
            {"levels": HUGE - 3, "vocabulary": HUGE, "width": HUGE, "heads": 1},
            {"max_segments": HUGE},
            {"max_segments": HUGE, "positions": False},
            {"image_cells": HUGE},
        )
    ]
    + [
        ("mlp", {"window": HUGE, "width": HUGE, "heads": 1, "feed": HUGE}),
        ("resnet", {"encoder_blocks": (HUGE, HUGE), "encoder_widths": (HUGE, HUGE)}),
        ("mixer", {"mixer_layers": HUGE, "mixer_feed": HUGE}),
        ("mixer", {"image_cells": 512, "mixer_patch": 1, "mixer_feed": HUGE}),
        ("segments", {"extent_m": 1e-9}),
        ("segments", {"extent_m": 1e-320}),
    ],
)
def test_nor_can_one_of_the_papers_family(tmp_path, kind, change, allocated):
    network, path = paper_models.small_network(kind), tmp_path / "paper.safetensors"
    save_checkpoint(path, network.state_dict(), network.config)
    assert load_checkpoint(path)[0].config == network.config
    rewrite(path, json.dumps(asdict(replace(network.config, **change))))
    refused(path)
    assert allocated == []


@pytest.fixture
def allocated(monkeypatch):
    """What a network's weights took before they were known to fit, bytes."""
    found, build = [], checkpoint.build

    def watched(config):
        network = build(config)
        found.extend(weight.nbytes for weight in network.parameters() if not weight.is_meta)
        return network

    monkeypatch.setattr(checkpoint, "build", watched)
    return found


@pytest.mark.parametrize("kind", ["tokens", "segments", "mlp", "resnet", "mixer"])
def test_weights_of_the_papers_family_come_back(tmp_path, kind):
    network, path = paper_models.small_network(kind), tmp_path / "paper.safetensors"
    save_checkpoint(path, network.state_dict(), network.config)
    loaded, _ = load_checkpoint(path)
    assert not loaded.training
    assert list(loaded.state_dict()) == list(network.state_dict())
    for name, tensor in network.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.half().float()), name
    assert all(buffer.device.type == "cpu" for buffer in loaded.buffers())


def test_the_default_is_the_weights_that_come_with_the_package():
    assert checkpoint.shipped().parent.name == "weights"
    assert checkpoint.shipped().suffix == ".safetensors"
    assert ModelConfig().architecture == tiny_config().architecture
