"""The command on real bags: what it writes, what it says, what it refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from PIL import Image
from small_bag import STORAGES, corridor, map_message, pose_message, walk, write_bag

from floorgent_ros import cli
from floorgent_ros.bags.poses import TopicPose
from floorgent_ros.bags.recording import Recording
from floorgent_ros.bags.replay import Replay
from floorgent_ros.config import NodeSettings, PredictorSettings
from floorgent_ros.predictor import DistancePredictor

# as in the command's process: sums of another order differ in their last bits
pytestmark = pytest.mark.usefixtures("one_thread")


COMMAND = [sys.executable, "-m", "floorgent_ros.cli", "replay"]


@pytest.fixture(scope="module")
def bag(tmp_path_factory):
    return write_bag(tmp_path_factory.mktemp("bags") / "walk", walk(seconds=6.0), "mcap")


def run(*arguments):
    command = [*COMMAND, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # sums of another order differ in their last bits
    return subprocess.run(command, capture_output=True, text=True, timeout=250, check=False, env=environment)


def refusal(capsys, *arguments):
    """The one line on standard error of a call that must exit with code 2."""
    code = cli.main(["replay", *map(str, arguments)])
    output = capsys.readouterr()
    assert (code, output.out) == (2, "")
    assert output.err.startswith("floorgent: ")
    assert output.err.count("\n") == 1
    return output.err


def test_a_bag_becomes_a_bag_and_an_animation(bag, tmp_path, checkpoint):
    out, gif = tmp_path / "predictions", tmp_path / "walk.gif"
    done = run(
        bag, "--out", out, "--gif", gif, "--checkpoint", checkpoint, "--completions", 2, "--seed", 5, "--json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    summary = json.loads(done.stdout)
    # one a second, the first at once, the last when its time has come
    assert (summary["maps"], summary["poses"], summary["predictions"]) == (3, 60, 7)
    with Recording.open(out) as recording:
        assert recording.storage == STORAGES["mcap"]
        distances = [item.message for item in recording.messages(("/floorgent/distance",))]
    assert [message.seed for message in distances] == [5] * 7
    assert [round(message.source.x, 6) for message in distances] == [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.4]
    with Image.open(gif) as film:
        assert film.n_frames == 7
        assert film.width > 800
        first = np.asarray(film.convert("RGB"))
        film.seek(6)
        assert (np.asarray(film.convert("RGB")) != first).any()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["predictions", "walk.gif"]


def test_it_says_in_words_what_it_did_and_gives_what_the_library_gives(tmp_path, checkpoint):
    path, out = write_bag(tmp_path / "walk", walk(seconds=2.0)), tmp_path / "out"
    done = run(path, "--out", out, "--checkpoint", checkpoint, "--completions", 2, "--max-rate", 2)
    assert (done.returncode, done.stderr) == (0, "")
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert words == ["model", "bag", "predictions", "written"]
    predictor = DistancePredictor.from_checkpoint(
        checkpoint, device="cpu", settings=PredictorSettings(completions=2)
    )
    with Recording.open(path) as recording:
        settings = NodeSettings(max_rate=2.0)
        replay = Replay(recording, "/map", TopicPose("/pose"), predictor, settings)
        expected = [item.field.distance for item in replay.run()]
    with Recording.open(out) as recording:
        found = [item.message.distance for item in recording.messages(("/floorgent/distance",))]
    assert len(found) == len(expected) == 4
    for values, field in zip(found, expected, strict=True):
        assert np.array_equal(values.reshape(256, 256), field, equal_nan=True)


def test_what_is_not_there_is_named_with_what_is(bag, tmp_path, capsys):
    assert "no such bag" in refusal(capsys, tmp_path / "nowhere")
    line = refusal(capsys, bag, "--map-topic", "/robot1/map")
    assert "no map on /robot1/map" in line
    assert "maps on /map" in line
    assert "poses on /pose" in refusal(capsys, bag, "--pose-topic", "/odom")
    no_map = write_bag(tmp_path / "no_map", [entry for entry in walk() if entry[0] == "/pose"])
    assert "the bag has none" in refusal(capsys, no_map)


def test_what_cannot_be_written_is_refused_before_the_work(bag, tmp_path, capsys):
    assert "exists" in refusal(capsys, bag, "--out", tmp_path)
    assert "folder does not exist" in refusal(capsys, bag, "--out", tmp_path / "no" / "bag")
    assert "folder does not exist" in refusal(capsys, bag, "--gif", tmp_path / "no" / "film.gif")
    assert "is a folder" in refusal(capsys, bag, "--gif", tmp_path)
    assert "max_rate" in refusal(capsys, bag, "--max-rate", 0)
    assert list(tmp_path.iterdir()) == []


def test_a_bag_without_a_usable_pair_says_why_and_leaves_nothing(tmp_path, capsys, checkpoint):
    entries = [("/map", 1, map_message(corridor(), 1)), ("/pose", 2, pose_message(0, 0, 2, frame="odom"))]
    path = write_bag(tmp_path / "walk", entries)
    line = refusal(capsys, path, "--out", tmp_path / "out", "--checkpoint", checkpoint)
    assert "nothing to predict" in line
    assert "'odom'" in line
    assert [entry.name for entry in tmp_path.iterdir()] == ["walk"]


def test_a_replay_that_is_stopped_leaves_nothing_half_written(tmp_path, checkpoint):
    bag = write_bag(tmp_path / "walk", walk(seconds=60.0))
    command = [*COMMAND, str(bag), "--out", str(tmp_path / "out"), "--gif", str(tmp_path / "film.gif")]
    command += ["--checkpoint", str(checkpoint), "--max-rate", "10", "--min-travel", "0"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ)
    end = time.monotonic() + 200
    while not list(tmp_path.glob(".out.*/out/*")):
        assert time.monotonic() < end
        assert child.poll() is None, child.communicate()
        time.sleep(0.05)
    child.send_signal(signal.SIGTERM)
    output, errors = child.communicate(timeout=60)
    # CPython ends by the signal itself, 130 to a shell too, when the interrupt met code that came from eval
    assert child.returncode in (130, -signal.SIGINT)
    assert output == b""
    assert b"Traceback" not in errors
    assert [entry.name for entry in tmp_path.iterdir()] == ["walk"]


def test_without_the_library_the_cure_is_one_line(monkeypatch, tmp_path, capsys):
    for name in [name for name in sys.modules if name.partition(".")[0] == "rosbags"]:
        monkeypatch.delitem(sys.modules, name)
    for name in [name for name in sys.modules if name.startswith("floorgent_ros.bags")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "rosbags", None)
    monkeypatch.setitem(sys.modules, "rosbags.interfaces", None)
    assert "pip install rosbags" in refusal(capsys, tmp_path)
