"""Protocols E1 and E2 on networks whose answers are known, and the baselines against brute force."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from paper_models import random_batch, small_config, small_network

from floorgent_ros.errors import CheckpointError
from floorgent_ros.evaluation import calibration, likelihood, neighbours, scoring
from floorgent_ros.evaluation.calibration import PLACES, calibrate
from floorgent_ros.evaluation.likelihood import TABLE, evaluate, measure, table, uniform
from floorgent_ros.evaluation.scoring import Chosen, checkpoint, load
from floorgent_ros.model.checkpoint import save_checkpoint, shipped
from floorgent_ros.model.paper.network import SequenceNet

CONFIG = small_config()


class Folder:
    """Stands in for a prepared folder."""

    def __init__(self, samples):
        self.samples = samples

    def __getitem__(self, index):
        return self.samples[index]


def chosen(count=6, config=CONFIG):
    lengths = [1 + index % config.max_segments for index in range(count)]
    batch = random_batch(config, lengths)
    samples = [levels[:length].numpy() for levels, length in zip(batch.levels, lengths, strict=True)]
    return Chosen(Folder(samples), np.arange(count))


def test_uniform_is_8_02_bits():
    ours, paper = uniform(100), TABLE[0]
    assert round(ours.bits, 2) == paper.bits == 8.02
    assert ours.top1 == pytest.approx(paper.top1, abs=5e-4)
    assert ours.top5 == pytest.approx(paper.top5, abs=5e-4)


def test_an_untrained_network_measures_uniform():
    network = SequenceNet(CONFIG).eval()
    assert measure(network, chosen()).bits == pytest.approx(math.log2(CONFIG.vocabulary))


def test_a_measure_is_the_mean_over_all_tokens():
    network, samples = small_network(), chosen(20)  # more than a batch
    found = measure(network, samples)
    nats = first = among = tokens = 0.0
    for levels in samples:
        batch = random_batch(CONFIG, [len(levels)])
        batch.levels[0] = torch.from_numpy(levels)
        scores = network.scores(batch)
        nats, tokens = nats + float(scores.nats.sum()), tokens + scores.nats.numel()
        first, among = first + int((scores.rank == 0).sum()), among + int((scores.rank < 5).sum())
    assert found.tokens == tokens
    assert found.bits == pytest.approx(nats / tokens / math.log(2), rel=1e-5)
    assert (found.top1, found.top5) == (first / tokens, among / tokens)


def test_windows_hold_what_stands_before_each_token():
    before, after = neighbours.windows([np.array([[10, 20, 10, 30]])])
    assert after.tolist() == [1, 13, 23, 2, 13, 33, 0]
    assert set(before[0].tolist()) == {neighbours.BEFORE}
    assert before[6, -6:].tolist() == [1, 13, 23, 2, 13, 33]


def test_neighbours_are_those_of_brute_force():
    rng = np.random.default_rng(0)
    known, asked = (
        rng.integers(0, 4, (200, 10)).astype(np.int16),
        rng.integers(0, 4, (40, 10)).astype(np.int16),
    )
    follows, truth = rng.integers(0, 6, 200).astype(np.int16), rng.integers(0, 6, 40).astype(np.int16)
    found = neighbours.ranks(known, follows, asked, truth, 6)
    for query, true, rank in zip(asked, truth, found, strict=True):
        nearest = np.argsort((known != query).sum(1), kind="stable")[: neighbours.NEIGHBOURS]
        votes = Counter(follows[nearest].tolist())
        order = sorted(votes, key=lambda token: (-votes[token], token))
        assert rank == (order.index(true) if true in votes else 6)


def test_calibration_is_grouped_by_place_and_segment():
    network, samples = small_network(), chosen(10)
    found = calibrate(network, samples)
    assert found.count.shape == (len(PLACES), CONFIG.max_segments + 1)
    assert found.count.sum() == sum(6 * len(levels) + 1 for levels in samples)
    longer = [sum(len(levels) > k for levels in samples) for k in range(CONFIG.max_segments)]
    assert found.count[1, :-1].tolist() == longer  # x of the move of segment k
    stops = [sum(len(levels) >= k for levels in samples) for k in range(CONFIG.max_segments + 1)]
    assert found.count[0].tolist() == stops  # the opcode, or the stop after the last segment
    confidence, accuracy = found.means()
    known = found.count > 0
    assert ((confidence[known] > 0) & (confidence[known] <= 1)).all()
    assert 0 <= found.error <= 1
    measured = measure(network, samples)
    assert found.accuracy.sum() / found.count.sum() == pytest.approx(measured.top1)
    assert np.isnan(accuracy[~known]).all()


def test_the_table_has_a_row_for_each_of_the_papers_and_ours(tmp_path, monkeypatch):
    samples = chosen()
    for module in (likelihood, scoring):
        monkeypatch.setattr(module, "choose", lambda *arguments: samples)
    network = small_network("no opcodes")
    save_checkpoint(tmp_path / "no_opcodes" / "best.safetensors", network.state_dict(), network.config)
    report = evaluate(tmp_path, "test", 0, tmp_path)
    found = {row["paper"]["name"]: row["ours"] for row in report["rows"]}
    assert set(found) == {row.name for row in TABLE}
    assert {name for name, ours in found.items() if ours} == {"uniform", "no_opcodes"}
    assert found["no_opcodes"]["bits"] == pytest.approx(measure(network, samples).bits, rel=0.02)  # float16
    assert found["no_opcodes"]["parameters"] == sum(p.numel() for p in network.parameters())
    text = table(report)
    assert text.count("no checkpoint") == len(TABLE) - 2
    assert "8.02" in text
    json.dumps(report)


def test_shipped_checkpoints_and_runs_are_found_by_name(tmp_path):
    assert checkpoint("images", tmp_path) is None
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "best.safetensors").write_bytes(b"")
    assert checkpoint("images", tmp_path) == tmp_path / "images" / "best.safetensors"
    (tmp_path / "paper_images.safetensors").write_bytes(b"")
    assert checkpoint("images", tmp_path) == tmp_path / "paper_images.safetensors"


def test_the_nodes_own_models_do_not_draw_the_papers_sequences():
    for path in (shipped(), shipped().with_name("unseen.safetensors")):
        with pytest.raises(CheckpointError, match="does not draw the paper's sequences"):
            load(path)


def test_calibration_without_a_checkpoint_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(calibration, "checkpoint", lambda name: None)
    with pytest.raises(CheckpointError, match="give one with --checkpoint"):
        calibration.main_from_cli(argparse.Namespace(checkpoint=None))
