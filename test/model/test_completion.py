"""Completions with a network of the paper's family: from the robot's map to walls in the map frame."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from floorgent_ros.geometry.canonical import distance_to
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.geometry.observation import observe
from floorgent_ros.geometry.segments import to_metres
from floorgent_ros.model.checkpoint import load_checkpoint, save_checkpoint
from floorgent_ros.model.completion import SequenceSampler, observed_levels
from floorgent_ros.model.paper.config import SequenceConfig, UnseenConfig
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.unseen import told
from floorgent_ros.model.sampling import Nucleus
from floorgent_ros.predictor import DistancePredictor

CONFIG = SequenceConfig(
    observation="nearest",
    width=16,
    layers=1,
    heads=2,
    feed=16,
    max_segments=6,
    observed_segments=4,
    encoder_widths=(4, 16),
    encoder_blocks=(1, 1),
)
UNSEEN = UnseenConfig(
    width=16, layers=1, heads=2, feed=16, max_segments=9, encoder_widths=(4, 16), encoder_blocks=(1, 1)
)
ORIGIN, SIDE = (3.0, -2.0), 6.0  # of the room's map, m


def room_map(yaw=0.0):
    """A closed square room of 5 m in a map of 6 m, and a viewpoint in it."""
    cells = np.full((120, 120), -1, np.int8)
    cells[10:110, 10:110] = 0
    cells[10:12, 10:110] = cells[108:110, 10:110] = cells[10:110, 10:12] = cells[10:110, 108:110] = 100
    grid = OccupancyMap(cells, 0.05, ORIGIN, yaw)
    x, y = grid.to_frame((50.0, 60.0))
    return grid, (float(x), float(y))


def room_walls(grid):
    corners = grid.to_frame(np.array([[11, 11], [109, 11], [109, 109], [11, 109]], float))
    return np.stack([corners, np.roll(corners, -1, axis=0)], 1)


@pytest.mark.parametrize("yaw", [0.0, math.radians(25)])
def test_the_observed_walls_are_those_of_the_map_and_come_back_as_the_prompt(yaw):
    """Without an image the network continues the observed walls, which must lie where they are in the map."""
    grid, viewpoint = room_map(yaw)
    observation = observe(grid, viewpoint)
    network = SequenceNet(replace(CONFIG, observation="none")).eval()
    levels = observed_levels(network, observation)
    assert len(levels) >= 4
    sampler = SequenceSampler(network)
    drawn = sampler(observation, 2, 0)
    assert len(drawn) == 2
    for cells in drawn:
        for x, y in to_metres(cells[:4], observation.frame).reshape(-1, 2):
            assert distance_to(room_walls(grid), (x, y)).min() < 0.3
    (second,) = sampler.draw(sampler.look(observation), 1, 0, Nucleus(), first=1)
    assert np.array_equal(second, drawn[1])


def test_an_image_model_sees_its_nearest_segments(monkeypatch):
    grid, viewpoint = room_map()
    observation = observe(grid, viewpoint)
    network = SequenceNet(CONFIG).eval()
    seen = []
    encode = network.encoder.forward
    monkeypatch.setattr(network.encoder, "forward", lambda image: seen.append(image) or encode(image))
    SequenceSampler(network)(observation, 1, 0)
    expected = CONFIG.frame.image(observed_levels(network, observation)[:4], CONFIG.image_cells)
    assert torch.equal(seen[0][0], torch.from_numpy(expected))
    assert expected.sum() > 20


@pytest.mark.parametrize("yaw", [0.0, math.radians(25)])
def test_a_model_of_the_unseen_is_told_what_was_seen_and_draws_the_rest(yaw, monkeypatch):
    grid, viewpoint = room_map(yaw)
    observation = observe(grid, viewpoint)
    network = SequenceNet(UNSEEN).eval()
    with torch.no_grad():
        network.decoder.stop.bias.fill_(-9.0)  # goes on to the end
    given = []
    extend = network.decoder.extend
    monkeypatch.setattr(
        network.decoder, "extend", lambda tokens, *rest: given.append(tokens) or extend(tokens, *rest)
    )
    drawn = SequenceSampler(network)(observation, 2, 0)
    known = told(observation.image, UNSEEN)
    assert len(known) == 5  # four walls and the mark
    assert given[0].shape == (1, 6 * 5 - 1)  # its last token goes in with the first draw
    assert [cells.shape for cells in drawn] == [(UNSEEN.max_segments - 5, 4)] * 2
    for x, y in to_metres(known[:4], observation.frame).reshape(-1, 2):
        assert distance_to(room_walls(grid), (x, y)).min() < 0.3


@pytest.mark.parametrize("config", [CONFIG, UNSEEN], ids=["paper", "unseen"])
def test_the_predictor_runs_a_checkpoint_of_the_papers_family(tmp_path, config):
    path = tmp_path / "paper.safetensors"
    torch.manual_seed(0)
    save_checkpoint(path, SequenceNet(config).state_dict(), config)
    network, _ = load_checkpoint(path)
    assert network.config == config
    predictor = DistancePredictor.from_checkpoint(path, device="cpu")
    grid, viewpoint = room_map()
    field = predictor.predict(grid, viewpoint, completions=2)
    again = predictor.predict(grid, viewpoint, completions=2)
    assert field.horizon_m == config.horizon_m
    assert len(field.completions) == 2
    np.testing.assert_array_equal(field.distance, again.distance)
    assert np.isfinite(field.distance[128, 128])
    assert np.isnan(field.distance).any()  # observed walls
    assert "paper.safetensors" in predictor.description
    assert ("opcodes folded" if config is CONFIG else "compiled decoding") in predictor.description
    assert predictor.sampler.fastest.milliseconds.keys() == {"encoder", "decode"}


def test_a_map_without_walls_is_no_obstacle():
    grid = OccupancyMap(np.zeros((40, 40), np.int8), 0.05)
    network = SequenceNet(CONFIG).eval()
    drawn = SequenceSampler(network)(observe(grid, (1.0, 1.0)), 2, 0)
    assert all(cells.shape[1:] == (4,) for cells in drawn)
