"""The whole command on a tiny network: every number is there, text and picture are whole."""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path

import pytest
from paper_models import small_network
from tiny_model import tiny_config, tiny_network

from floorgent_ros.benchmark import curves, report, run
from floorgent_ros.benchmark.pipeline import STAGES, conversions
from floorgent_ros.cli import main
from floorgent_ros.config import PredictorSettings
from floorgent_ros.model.checkpoint import save_checkpoint
from floorgent_ros.predictor import DistancePredictor


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weights") / "tiny.safetensors"
    network = tiny_network(tiny_config(256), walls_wanted=1.0)
    save_checkpoint(path, network.state_dict(), network.config)
    return path


@pytest.fixture(scope="module")
def found(checkpoint: Path) -> dict:
    """What --json prints, of one measured run with two completions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(curves, "COMPLETIONS", (1, 2))
        patch.setattr(curves, "LOG_ODDS", (-2.0, 0.0))
        patch.setattr(curves, "MAP_SIDES", (400, 500))
        picture = checkpoint.with_suffix(".png")
        arguments = [
            "--checkpoint",
            checkpoint,
            "--device",
            "cpu",
            "--completions",
            2,
            "--candidates",
            5,
            "--runs",
            1,
            "--no-peers",
            "--full-size",
            1,
        ]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            assert main(["benchmark", "--json", "--png", str(picture), *map(str, arguments)]) == 0
    (line,) = printed.getvalue().splitlines()
    assert picture.stat().st_size > 10_000
    return json.loads(line)


def test_every_stage_has_its_times(found: dict) -> None:
    expected = {*STAGES, "end to end"}
    if conversions() is None:
        expected -= {"message to grid", "message fill"}
    assert expected <= set(found["stages"])
    for times in found["stages"].values():
        assert 0 < times["median_ms"] <= times["p95_ms"]
    parts = sum(found["stages"][name]["median_ms"] for name in ("encoder", "decode", "distance"))
    assert parts < found["stages"]["end to end"]["median_ms"]


def test_conditions_are_said(found: dict) -> None:
    assert {"device", "precision", "threads", "allocator", "processor", "load"} <= set(found["machine"])
    assert found["machine"]["precision"] == "float32"
    assert (found["completions"], found["candidates"]) == (2, 5)
    assert "2 completions kept of 5, " in report.text(found)
    assert "2 completions, " in report.text(found | {"candidates": 0})
    assert found["walls_a_completion"] > 0
    assert found["peak_mib"] > 50


def test_ours_and_the_straightforward_way_stand_side_by_side(found: dict) -> None:
    names = list(found["straightforward"])
    assert [name.partition(",")[0] for name in names[:5]] == [
        "encoder",
        "encoder",
        "decode",
        "decode",
        "distance",
    ]
    assert any("scipy" in name for name in names)
    assert all(times["cpu_ms"] > 0 for times in found["straightforward"].values())
    assert set(found["ratios"]) >= {f"{name}, over ours" for name in names if "eager" in name}
    assert all(ratio > 0 for ratio in found["ratios"].values())
    assert found["peers"] == {}


def test_the_first_prediction_after_warm_up_stands_beside_the_tenth(found: dict) -> None:
    assert len(found["after_warm_up"]) == 10
    text = report.text(found)
    for place in (0, -1):
        assert all(value > 0 for value in found["after_warm_up"][place].values())
        assert f"{found['after_warm_up'][place]['ms']:.1f} ms" in text


def test_the_papers_token_model_is_measured_at_its_full_size(found: dict) -> None:
    whole, text = found["full_size"], report.text(found)
    assert [name.partition(",")[0] for name in whole["times"]] == ["encoder", "encoder", "decode", "decode"]
    assert len(whole["ratios"]) == 2
    assert "2 completions of 1 segments" in whole["note"]
    assert whole["note"] in text
    assert all(f"{times['median_ms']:.1f}" in text for times in whole["times"].values())


def test_a_network_of_the_papers_family_is_measured(tmp_path: Path) -> None:
    network = small_network("resnet", levels=256, vocabulary=259, image_cells=128, max_segments=3)
    path = tmp_path / "paper.safetensors"
    save_checkpoint(path, network.state_dict(), network.config)
    predictor = DistancePredictor.from_checkpoint(
        path, device="cpu", settings=PredictorSettings(completions=2)
    )
    measured = run.measure(predictor, 1, with_peers=False)
    assert {*STAGES} - {"message to grid", "message fill"} <= set(measured["stages"])
    assert any("token by token with KV cache" in name for name in measured["straightforward"])
    assert "full_size" not in measured
    assert "opcodes folded" in report.text(measured)


def test_curves_have_all_their_points(found: dict) -> None:
    points = found["curves"]
    assert [point["completions"] for point in points["completions"]] == [1, 2]
    assert [point["wall_log_odds"] for point in points["walls"]] == [-2.0, 0.0]
    assert [point["map side"] for point in points["map side"]] == [400, 500]
    assert all(point["end to end"] > 0 for curve in points.values() for point in curve)


def test_the_text_has_every_number(found: dict) -> None:
    text = report.text(found)
    for name in (*found["stages"], *found["straightforward"], *found["ratios"]):
        assert name in text
    assert f"{found['stages']['decode']['median_ms']:.1f}" in text


@pytest.mark.parametrize(
    "wrong",
    [["--runs", "0"], ["--full-size", "101"], ["--png", "/no/such/folder/a.png"], ["--precision", "x"]],
)
def test_bad_input_is_one_line(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["benchmark", *wrong]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_peers_are_measured_and_described(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "LARGE_SIDE", 64)
    monkeypatch.setattr(run, "SMALL_SIDE", 64)
    import torch

    times, notes = run._peers(torch.device("cpu"), 1, lambda: None)
    assert list(times) == ["3 × U-Net with residual encoder, 64²", "plain U-Net, 64²"]
    assert "51.5 M parameters" in notes["U-Net with residual encoder, 64²"]
