"""The critic: a likelihood of detours, its checkpoint, and what it keeps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional

from floorgent_ros.errors import CheckpointError, ConfigError
from floorgent_ros.geometry.assumptions import SATURATION_M, saturated, unknown_is_free
from floorgent_ros.geometry.distance import median
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.geometry.observation import observe
from floorgent_ros.model.checkpoint import save_checkpoint, shipped
from floorgent_ros.model.critic import (
    BOUNDS_M,
    DETOURS_M,
    IGNORED,
    Critic,
    CriticBatch,
    CriticConfig,
    detour_odds,
    keep,
)
from floorgent_ros.predictor import DistancePredictor, load_critic

pytestmark = pytest.mark.usefixtures("one_thread")

CONFIG = CriticConfig(widths=(8, 16))
CLASSES = 1 + len(DETOURS_M)


@pytest.fixture(scope="module")
def critic():
    torch.manual_seed(0)
    return Critic(CONFIG).eval()


@pytest.fixture(scope="module")
def batch():
    rng = np.random.default_rng(0)
    image = rng.choice(np.array([UNKNOWN, FREE, OCCUPIED], np.int8), (2, 256, 256))
    null = rng.uniform(0, SATURATION_M, (2, 64, 64)).astype(np.float32)
    assumed = np.stack([null, np.minimum(1.1 * null, SATURATION_M)], 1)
    classes = rng.integers(IGNORED, CLASSES, (2, 64, 64))
    return CriticBatch(torch.from_numpy(image), torch.from_numpy(assumed), torch.from_numpy(classes))


@pytest.fixture(scope="module")
def seen():
    """A robot in a free square, a wall to its right, nothing known beyond."""
    cells = np.full((256, 256), UNKNOWN, np.int8)
    cells[100:157, 100:157] = FREE
    cells[100:157, 150] = OCCUPIED
    return observe(OccupancyMap(cells, CELL_M), (20.0, 20.0))


def test_every_class_of_detours_stands_for_a_length_within_its_bounds():
    bounds = (0.0, *BOUNDS_M, 40.0)
    for low, middle, high in zip(bounds, DETOURS_M, bounds[1:], strict=False):
        assert low <= middle < high
    assert len(DETOURS_M) == len(BOUNDS_M) + 1


def test_odds_of_a_point_add_up_to_one(critic, batch):
    odds = detour_odds(critic, batch.image[0].numpy(), batch.assumed[0].numpy())
    assert odds.shape == (CLASSES, 64, 64)
    assert np.allclose(odds.sum(0), 1, atol=1e-5)


def test_likelihood_is_that_of_the_points_within_the_window(critic, batch):
    nats = critic(batch).nats.detach()
    for index in range(2):
        odds = detour_odds(critic, batch.image[index].numpy(), batch.assumed[index].numpy())
        classes = batch.classes[index].numpy()
        inside = classes != IGNORED
        found = np.take_along_axis(odds, np.maximum(classes, 0)[None], 0)[0][inside]
        assert float(nats[index]) == pytest.approx(-np.log(found.astype(float)).sum(), rel=1e-4)


def test_checkpoints_carry_the_critic(critic, batch, tmp_path):
    save_checkpoint(tmp_path / "critic.safetensors", critic.state_dict(), CONFIG)
    loaded = load_critic(tmp_path / "critic.safetensors")
    assert loaded.config == CONFIG
    before, after = (net.logits(batch.image, batch.assumed) for net in (critic, loaded))
    assert torch.allclose(before, after, atol=0.05)  # float16 on the way


def test_other_networks_are_no_critics_and_critics_draw_nothing(tmp_path):
    with pytest.raises(CheckpointError, match="is no critic") as caught:
        load_critic(shipped())
    assert "\n" not in str(caught.value)
    save_checkpoint(tmp_path / "critic.safetensors", Critic(CONFIG).state_dict(), CONFIG)
    with pytest.raises(CheckpointError, match="draws no completions"):
        DistancePredictor.from_checkpoint(tmp_path / "critic.safetensors")


def test_a_critic_of_another_window_is_refused(tmp_path):
    other = CriticConfig(levels=128, widths=(8,))
    save_checkpoint(tmp_path / "critic.safetensors", Critic(other).state_dict(), other)
    with pytest.raises(CheckpointError, match="128 cells a side, the window has 256"):
        load_critic(tmp_path / "critic.safetensors")


@pytest.mark.parametrize("widths", [(), (12,), (8,) * 8])
def test_widths_that_no_network_has_are_refused(widths):
    with pytest.raises(ConfigError, match=r"widths|levels"):
        CriticConfig(widths=widths)


class Certain(Critic):
    """Sure of one class of detours everywhere."""

    def __init__(self, detour):
        super().__init__(CONFIG)
        self.detour = detour

    def logits(self, image, assumed):
        known = torch.full((len(image), 64, 64), 1 + DETOURS_M.index(self.detour))
        return 50.0 * functional.one_hot(known, CLASSES).permute(0, 3, 1, 2)


@pytest.mark.parametrize("detour", [0.0, 5.0, 13.0])
def test_the_median_of_what_is_kept_is_what_the_critic_expects(seen, detour):
    null = unknown_is_free(seen.states)
    fields = np.stack([null + more for more in (0.0, 5.0, 13.0) for _ in range(4)])
    kept = keep(Certain(detour), seen, fields, 3)
    near = null < 20  # nothing saturates there
    assert np.allclose(median(fields[kept])[near], (null + detour)[near])


def test_where_nothing_is_reached_no_field_is_better(seen, critic):
    fields = np.full((4, 256, 256), np.inf)
    assert keep(critic, seen, fields, 2).tolist() == [0, 1]
    assert np.isfinite(saturated(fields)).all()
