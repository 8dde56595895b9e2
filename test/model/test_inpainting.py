"""The inpainting peer: a likelihood of the unknown cells, and checkpoints as safe as all others."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from tiny_model import make_batch, random_samples, tiny_config, tiny_network

from floorgent_ros.errors import CheckpointError, ConfigError
from floorgent_ros.geometry.grid import UNKNOWN
from floorgent_ros.model import checkpoint
from floorgent_ros.model.checkpoint import load_checkpoint, save_checkpoint
from floorgent_ros.model.inpainting import PRIOR, Inpainter, InpaintingConfig, wall_probability
from floorgent_ros.model.network import Batch
from floorgent_ros.model.sequence import Layout
from floorgent_ros.predictor import DistancePredictor

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIG = InpaintingConfig(levels=32, extent_m=5.0, widths=(8, 16))


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return Inpainter(CONFIG).eval()


@pytest.fixture(scope="module")
def batch():
    layout = Layout(CONFIG.levels, CONFIG.patch)
    return make_batch(random_samples(layout, [3, 9, 5]), layout)


def test_a_logit_for_every_cell_of_every_image(network, batch):
    assert network.logits(batch.image).shape == batch.image.shape


def test_every_image_is_painted_for_itself(network, batch):
    alone = torch.cat([wall_probability(network, image[None]) for image in batch.image])
    assert torch.allclose(wall_probability(network, batch.image), alone, atol=1e-6)


def test_walls_are_painted_in_the_unknown_only(network, batch):
    painted = wall_probability(network, batch.image)
    unknown = batch.image == UNKNOWN
    assert (painted[~unknown] == 0).all()
    assert ((painted[unknown] > 0) & (painted[unknown] < 1)).all()


def test_likelihood_is_that_of_the_unknown_cells(network, batch):
    nats = network(batch).nats.detach()
    painted = wall_probability(network, batch.image).double().numpy()
    unknown, walls = (batch.image == UNKNOWN).numpy(), batch.raster.numpy()
    with np.errstate(divide="ignore"):
        surprise = -np.where(walls, np.log(painted), np.log1p(-painted))
    expected = np.where(unknown, surprise, 0).sum((1, 2))
    assert np.allclose(nats.numpy(), expected, rtol=1e-4)


def test_what_is_known_has_no_say_in_the_likelihood(network, batch):
    known = batch.image != UNKNOWN
    other = Batch(**(vars(batch) | {"raster": batch.raster ^ known}))
    assert torch.equal(network(other).nats, network(batch).nats)
    flipped = Batch(**(vars(batch) | {"raster": ~batch.raster}))
    assert not torch.allclose(network(flipped).nats, network(batch).nats)


def test_before_training_walls_are_about_as_likely_as_they_are_frequent():
    torch.manual_seed(1)
    image = torch.full((1, 256, 256), UNKNOWN, dtype=torch.int8)
    assert float(wall_probability(Inpainter(InpaintingConfig()), image).mean()) == pytest.approx(
        PRIOR, rel=0.7
    )


def test_every_cell_may_depend_on_the_farthest_seen_one():
    """Corridors and facades carry across the window."""
    torch.manual_seed(0)
    network = Inpainter(InpaintingConfig())
    image = torch.full((1, 256, 256), UNKNOWN, dtype=torch.int8)
    other = image.clone()
    other[0, :3, :3] = 100
    change = (wall_probability(network, image) - wall_probability(network, other)).abs()[0]
    assert float(change[-4:, -4:].max()) > 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"widths": (8, 12)}, "multiples of 8"),
        ({"widths": ()}, "multiples of 8"),
        ({"levels": 36}, "multiple of 8"),
    ],
)
def test_a_configuration_that_fits_no_network_is_said(change, said):
    with pytest.raises(ConfigError, match=said):
        replace(CONFIG, **change)


def test_of_a_segment_decoder_the_encoders_dense_head_paints(batch):
    ours = tiny_network()
    painted = wall_probability(ours, batch.image)
    raster = ours.encoder(batch.image).raster.detach()
    unknown = batch.image == UNKNOWN
    assert torch.allclose(painted[unknown], raster.sigmoid()[unknown], atol=1e-6)
    assert (painted[~unknown] == 0).all()


# Checkpoints ---------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path, network):
    path = tmp_path / "peer.safetensors"
    save_checkpoint(path, network.state_dict(), CONFIG, {"steps": "3"})
    return path


def refused(path):
    with pytest.raises(CheckpointError) as caught:
        load_checkpoint(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_checkpoint_comes_back(path, network, batch):
    loaded, notes = load_checkpoint(path)
    assert isinstance(loaded, Inpainter)
    assert (loaded.config, notes, loaded.training) == (CONFIG, {"steps": "3"}, False)
    assert torch.allclose(
        wall_probability(loaded, batch.image), wall_probability(network, batch.image), atol=1e-3
    )


@pytest.mark.parametrize("change", [{"widths": (8, 24)}, {"blocks": 2}, {"levels": 64}])
def test_weights_of_other_shapes_than_configured_are_said(path, network, change):
    save_checkpoint(path, network.state_dict(), replace(CONFIG, **change))
    assert "weights do not fit" in refused(path)


@pytest.mark.parametrize(
    "change", [{"widths": (4096,) * 8, "levels": 4096}, {"blocks": 4096}, {"levels": 4096}]
)
def test_a_small_file_cannot_ask_for_a_huge_network(path, network, change, monkeypatch):
    save_checkpoint(path, network.state_dict(), replace(CONFIG, **change))
    built = []
    monkeypatch.setattr(checkpoint, "Inpainter", built.append)
    refused(path)
    assert built == []


def test_fields_of_another_architecture_are_named(path, network):
    text = json.dumps({**asdict(CONFIG), "layers": 3})
    checkpoint.save_file(network.state_dict(), path, {"config": text})
    assert "layers" in refused(path)


def test_the_predictor_refuses_a_network_that_draws_no_completions(path):
    with pytest.raises(CheckpointError) as caught:
        DistancePredictor.from_checkpoint(path, device="cpu")
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path}: architecture 'inpainting-unet-1'")
    assert "--peers" in message


def test_the_predictor_takes_the_networks_that_do(tmp_path):
    save_checkpoint(tmp_path / "ours.safetensors", tiny_network().state_dict(), tiny_config())
    assert DistancePredictor.from_checkpoint(tmp_path / "ours.safetensors", device="cpu").horizon_m == 20
