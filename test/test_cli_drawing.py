"""The settings of the drawing as arguments: their defaults, and their way to the predictor."""

from __future__ import annotations

import argparse
from dataclasses import asdict

import numpy as np
import pytest
from small_bag import walk, write_bag
from tiny_plan import write_plan

from floorgent_ros.cli import main
from floorgent_ros.cli_drawing import add_drawing
from floorgent_ros.config import PredictorSettings
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.predictor import DistancePredictor

NUMBERS = ("completions", "candidates", "seed", "top_p", "temperature", "wall_log_odds", "detour_m")


def test_defaults_are_those_of_the_settings_and_words_become_their_types():
    parser = argparse.ArgumentParser()
    add_drawing(parser, *NUMBERS)
    defaults = asdict(PredictorSettings())
    assert vars(parser.parse_args([])) == {name: defaults[name] for name in NUMBERS}
    given = parser.parse_args(["--candidates", "0", "--wall-log-odds", "-2"])
    assert (given.candidates, given.wall_log_odds) == (0, -2.0)
    assert parser.format_help()


class StoppedError(Exception):
    pass


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """The commands that predict, each with what it cannot do without."""
    folder = tmp_path_factory.mktemp("inputs")
    OccupancyMap(np.zeros((40, 40), np.int8), 0.05).save(folder / "map.yaml")
    write_plan(folder / "plans" / "a.xml")
    bag = write_bag(folder / "walk", walk(seconds=1.0))
    return {
        "predict": ["predict", str(folder / "map.yaml"), "--viewpoint", "1", "1"],
        "replay": ["replay", str(bag)],
        "evaluate lidar": ["evaluate", "lidar", "--data", str(folder / "plans")],
        "benchmark": ["benchmark"],
    }


@pytest.mark.parametrize("command", ["predict", "replay", "evaluate lidar", "benchmark"])
@pytest.mark.parametrize("candidates", [None, 0, 32])
def test_candidates_reach_the_predictor(command, commands, candidates, monkeypatch):
    got = []

    def from_checkpoint(*_args, settings, **_options):
        got.append(settings)
        raise StoppedError

    monkeypatch.setattr(DistancePredictor, "from_checkpoint", from_checkpoint)
    given = [] if candidates is None else ["--candidates", str(candidates)]
    with pytest.raises(StoppedError):
        main([*commands[command], *given, "--completions", "3"])
    expected = PredictorSettings.candidates if candidates is None else candidates
    assert [(settings.candidates, settings.completions) for settings in got] == [(expected, 3)]
