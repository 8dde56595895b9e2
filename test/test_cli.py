from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import types

import numpy as np
import pytest
from PIL import Image

from floorgent_ros import cli
from floorgent_ros.errors import FloorgentError
from floorgent_ros.geometry.grid import CELL_M, OccupancyMap
from floorgent_ros.model.checkpoint import shipped

PROTOCOLS = ["lidar", "likelihood", "calibration", "distance"]
COMMANDS = [
    [],
    ["predict"],
    ["replay"],
    ["view"],
    ["demo"],
    ["train"],
    ["evaluate"],
    *(["evaluate", name] for name in PROTOCOLS),
]


def run(*arguments):
    """Run the command line in a process of its own."""
    command = [sys.executable, "-m", "floorgent_ros.cli", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)


def refusal(capsys, *arguments):
    """The one line on standard error of a call that must exit with code 2."""
    try:
        code = cli.main(list(map(str, arguments)))
    except SystemExit as end:
        code = end.code
    output = capsys.readouterr()
    assert code == 2
    assert output.out == ""
    assert output.err.startswith("floorgent: ")
    assert output.err.count("\n") == 1
    return output.err


@pytest.fixture(scope="module")
def map_file(tmp_path_factory):
    """A corridor of 12 m x 2 m that somebody has mapped in part."""
    cells = np.full((80, 280), -1, np.int8)
    cells[20:60, 20:260] = 0
    cells[18:20, 20:260] = cells[60:62, 20:260] = 100
    path = tmp_path_factory.mktemp("map") / "corridor.yaml"
    OccupancyMap(cells, 0.05, (-1.0, -2.0)).save(path)
    return path


@pytest.mark.parametrize("command", COMMANDS)
def test_help_everywhere(command, capsys):
    with pytest.raises(SystemExit) as end:
        cli.main([*command, "--help"])
    assert end.value.code == 0
    assert "usage: floorgent" in capsys.readouterr().out


def test_help_loads_neither_torch_nor_rclpy_nor_numba():
    code = (
        "import sys\nfrom floorgent_ros import cli\n"
        "try:\n cli.main(['predict', '--help'])\nexcept SystemExit:\n pass\n"
        "print([name for name in ('torch', 'rclpy', 'numba', 'matplotlib', 'cv2') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.endswith("[]\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "COMMAND"),
        (["dance"], "dance"),
        (["predict", "map.yaml"], "--viewpoint"),
        (["predict", "map.yaml", "--viewpoint", "1"], "--viewpoint"),
        (["predict", "map.yaml", "--viewpoint", "1", "north"], "north"),
        (["evaluate"], "PROTOCOL"),
        (["evaluate", "lidar"], "--data"),
        (["train", "--data", "plans"], "--out"),
    ],
)
def test_bad_usage_is_one_line_and_code_2(arguments, words, capsys):
    assert words in refusal(capsys, *arguments)


def test_a_missing_map_is_one_line_that_names_it(tmp_path, capsys):
    assert "nowhere.yaml" in refusal(capsys, "predict", tmp_path / "nowhere.yaml", "--viewpoint", 0, 0)


def test_bad_numbers_are_refused_by_the_settings(map_file, capsys):
    assert "completions" in refusal(capsys, "predict", map_file, "--viewpoint", 0, 0, "--completions", 0)
    assert "seed" in refusal(capsys, "predict", map_file, "--viewpoint", 0, 0, "--seed", -1)
    assert "seconds" in refusal(capsys, "demo", "--seconds", 0)


def test_outputs_that_cannot_be_written_are_refused_before_the_work(map_file, tmp_path, capsys):
    missing = tmp_path / "missing" / "field.npz"
    assert "missing" in refusal(capsys, "predict", map_file, "--viewpoint", 0, 0, "--out", missing)
    assert "folder" in refusal(capsys, "predict", map_file, "--viewpoint", 0, 0, "--png", tmp_path)


def test_a_demo_cannot_begin_in_a_wall(map_file, tmp_path, capsys):
    line = refusal(capsys, "demo", "--map", map_file, "--start", 90, 90, "--out", tmp_path)
    assert "--start 90 90" in line
    assert list(tmp_path.iterdir()) == []


def test_an_error_of_the_package_becomes_its_line(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_train", raising(FloorgentError("data: nothing there; give another folder")))
    line = refusal(capsys, "train", "--data", "data", "--out", "run")
    assert line == "floorgent: data: nothing there; give another folder\n"


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PermissionError(13, "Permission denied", "/opt/x.npz"), "/opt/x.npz: Permission denied: give"),
        (OSError(28, "No space left on device"), "floorgent: No space left on device: give"),
        (OSError("odd"), "floorgent: odd: give"),
    ],
)
def test_what_the_system_refuses_is_one_line(monkeypatch, capsys, error, line):
    monkeypatch.setattr(cli, "_train", raising(error))
    assert line in refusal(capsys, "train", "--data", "data", "--out", "run")


def test_ctrl_c_is_quiet_and_130(monkeypatch, capsys):
    monkeypatch.setattr(cli, "_train", raising(KeyboardInterrupt()))
    assert cli.main(["train", "--data", "data", "--out", "run"]) == 130
    assert capsys.readouterr() == ("", "")


def test_other_errors_are_not_hidden(monkeypatch):
    monkeypatch.setattr(cli, "_train", raising(ZeroDivisionError()))
    with pytest.raises(ZeroDivisionError):
        cli.main(["train", "--data", "data", "--out", "run"])


def test_train_and_evaluate_get_their_arguments(monkeypatch, tmp_path):
    got: list[argparse.Namespace] = []
    for name in ("floorgent_ros.training.trainer", "floorgent_ros.evaluation.lidar"):
        module = types.ModuleType(name)
        module.main_from_cli = got.append
        monkeypatch.setitem(sys.modules, name, module)
    assert cli.main(["train", "--data", "a", "--out", "b", "--resume", "--minutes", "1.5"]) == 0
    assert (str(got[0].data), str(got[0].out), got[0].config) == ("a", "b", None)
    assert (got[0].resume, got[0].minutes) == (True, 1.5)
    assert cli.main(["evaluate", "lidar", "--data", str(tmp_path), "--floors", "3", "--json"]) == 0
    assert (got[1].split, got[1].floors, got[1].json, got[1].checkpoint) == ("all", 3, True, None)
    (tmp_path / "index.json").write_text("[]")
    cli.main(["evaluate", "lidar", "--data", str(tmp_path)])
    cli.main(["evaluate", "lidar", "--data", str(tmp_path), "--split", "test"])
    assert [options.split for options in got[2:]] == ["val", "test"]


def test_predict_writes_arrays_picture_and_json(map_file, tmp_path):
    out, png = tmp_path / "field.npz", tmp_path / "field.png"
    arguments = ("predict", map_file, "--viewpoint", 6, 0, "--completions", 3, "--seed", 5)
    done = run(*arguments, "--out", out, "--png", png, "--json", "--device", "cpu")
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    assert (summary["source"], summary["origin"]) == ([6.0, 0.0], [-14.0, -20.0])
    assert (summary["seed"], summary["completions"], len(summary["predicted_walls"])) == (5, 3, 3)
    assert summary["observed_walls"] >= 2
    with np.load(out) as arrays:
        distance = arrays["distance"]
        assert (distance.shape, distance.dtype) == ((256, 256), np.float32)
        assert np.isfinite(distance).mean() == pytest.approx(summary["reached_share"])
        assert float(arrays["resolution"]) == CELL_M
        counts = np.bincount(arrays["wall_completion"], minlength=3)
        assert counts.tolist() == summary["predicted_walls"]
        assert arrays["walls"].shape == (counts.sum(), 2, 2)
        # 3 m along the free corridor
        assert distance[128, 128 + round(3 / CELL_M)] == pytest.approx(3.0, abs=0.2)
    with Image.open(png) as picture:
        assert picture.width > 800


def test_predict_draws_fewer_walls_when_told_so(map_file):
    arguments = ("predict", map_file, "--viewpoint", 6, 0, "--completions", 2, "--json", "--device", "cpu")
    done = run(*arguments, "--wall-log-odds", -20)
    assert json.loads(done.stdout)["predicted_walls"] == [0, 0]


def test_predict_says_in_words_what_it_did(map_file):
    done = run("predict", map_file, "--viewpoint", 6, 0, "--completions", 2)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split()[0] for line in done.stdout.splitlines()[:4]] == [
        "model",
        "observed",
        "predicted",
        "distance",
    ]


def test_warm_up_says_what_it_readied():
    done = run("warm-up")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"the shipped weights: .* decoding: ready after [0-9.]+ s\n", done.stdout)


def test_warm_up_refuses_a_missing_checkpoint(tmp_path):
    done = run("warm-up", "--checkpoint", tmp_path / "none.safetensors")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)


def test_a_broken_checkpoint_is_one_line(map_file, tmp_path):
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"no weights")
    done = run("predict", map_file, "--viewpoint", 6, 0, "--checkpoint", broken)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert str(broken) in done.stderr


def raising(error):
    def command(_options):
        raise error

    return command


@pytest.mark.parametrize("protocol", PROTOCOLS[1:])
def test_a_folder_without_plans_and_a_model_without_tokens_are_one_line(capsys, tmp_path, protocol):
    weights = tmp_path / "none.safetensors"
    arguments = ["evaluate", protocol, "--data", tmp_path, "--split", "all"]
    if protocol == "likelihood":
        assert "no floor plan" in refusal(capsys, *arguments)
    else:
        assert "no such checkpoint" in refusal(capsys, *arguments, "--checkpoint", weights)
        assert "does not draw the paper's" in refusal(capsys, *arguments, "--checkpoint", shipped())
    assert list(tmp_path.iterdir()) == []
