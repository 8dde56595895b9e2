"""The sweep over angles: the ratio at each, and the largest change against the first."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from tiny_plan import write_plan

from floorgent_ros.cli import main
from floorgent_ros.evaluation import lidar
from floorgent_ros.evaluation.turns import FIGURES, sweep, turn_table

RATIOS = {0.0: (0.8, 0.5), 7.5: (0.84, 0.5), 45.0: (0.72, 0.51)}


def evaluate_at(degrees):
    """A report whose ratios are known."""
    return {
        kind: dict.fromkeys(FIGURES, 1.0) | {"ratio": ratio, "cases": 4}
        for kind, ratio in zip(("scan", "walk"), RATIOS[degrees], strict=True)
    }


def test_largest_change_is_against_the_first_angle_in_either_direction():
    report = sweep(evaluate_at, list(RATIOS))
    assert list(report["turns"]) == ["0", "7.5", "45"]
    assert report["turns"]["7.5"]["scan"]["ratio"] == 0.84
    assert set(report["turns"]["45"]["walk"]) == set(FIGURES)
    assert report["largest_change"] == pytest.approx({"scan": 0.1, "walk": 0.02})


def test_table_has_a_line_an_angle():
    head, *lines, last = turn_table(sweep(evaluate_at, list(RATIOS))).splitlines()
    assert head.split() == ["ratio", "at", "scan", "walk"]
    assert [line.split() for line in lines] == [
        [f"{angle:g}°", *(f"{ratio:.3f}" for ratio in ratios)] for angle, ratios in RATIOS.items()
    ]
    assert last.split() == ["largest", "change", "10.0%", "2.0%"]


@pytest.fixture
def asked(monkeypatch):
    """The angles, in rad, and fitting floors that the command evaluates with."""
    got = []

    def evaluate(_predictor, chosen, fitted_on, _seed, _oracle, turn_rad, *_others):
        assert len(chosen) == 1
        got.append((turn_rad, len(fitted_on)))
        return evaluate_at(0.0)

    monkeypatch.setattr(lidar, "evaluate", evaluate)
    stand_in = SimpleNamespace(from_checkpoint=lambda *_, **__: None)
    monkeypatch.setattr(lidar, "DistancePredictor", stand_in)
    return got


def test_command_evaluates_every_angle_and_says_the_ratios(tmp_path, asked, capsys):
    index = []
    for building, split in (("a", "train"), ("b", "val")):
        path = write_plan(tmp_path / building / "1.xml")
        index.append({"file": str(path.relative_to(tmp_path)), "building": building, "split": split})
    (tmp_path / "index.json").write_text(json.dumps(index), encoding="utf-8")
    command = ["evaluate", "lidar", "--data", str(tmp_path), "--turn", "0", "90", "--json"]
    assert main(command) == 0
    assert asked == [
        (0.0, 0),
        (pytest.approx(1.5707963), 0),
    ]  # the null's multiple is fitted for a whole report
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"turns", "largest_change", "split"}
    assert main(command[:-1]) == 0
    assert "90°" in capsys.readouterr().out


@pytest.mark.parametrize("option", [["--peers"], ["--reliability", "r.png"]])
def test_what_a_sweep_does_not_show_is_refused(tmp_path, asked, capsys, option):
    assert main(["evaluate", "lidar", "--data", str(tmp_path), "--turn", "0", "5", *option]) == 2
    assert "several angles" in capsys.readouterr().err
    assert asked == []
