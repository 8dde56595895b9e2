"""The demo from its command line: three real processes, for some seconds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image


def command(out, *arguments):
    return [sys.executable, "-m", "floorgent_ros.cli", "demo", "--out", str(out), *map(str, arguments)]


def left_behind(out):
    """Ids of running processes whose environment or command line names the demo's folder."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            words = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if process.name.isdigit() and str(out).encode() in words and int(process.name) != os.getpid():
            found.append(int(process.name))
    return found


def wait_for(condition, seconds):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.05)


def test_a_short_walk_gives_table_and_pictures_and_leaves_nothing_behind(tmp_path):
    out = tmp_path / "demo"
    arguments = command(out, "--seconds", 4)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines()}
    assert int(rows["maps"][1]) >= 2
    assert int(rows["predictions"][0]) >= 2
    assert 0 < float(rows["latency"][1]) < 20
    assert 0 < float(rows["reach"][0].rstrip("%")) <= 100
    assert "walking" in done.stderr
    with Image.open(out / "demo.png") as picture:
        assert picture.width > 1000
    with Image.open(out / "walk.gif") as film:
        assert film.n_frames >= 2
    assert sorted(path.name for path in out.iterdir()) == ["demo.png", "log", "walk.gif"]
    assert left_behind(out) == []


@pytest.mark.parametrize(("number", "processes"), [(signal.SIGINT, 5), (signal.SIGTERM, 4)])
def test_a_signal_ends_every_process_quietly(tmp_path, number, processes):
    """With all up: demo, launch process, node, robot and planner; and with the node just about to start."""
    out = tmp_path / "demo"
    demo = subprocess.Popen(command(out, "--seconds", 60), stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: len(left_behind(out)) >= processes, 60)
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=60)
    finally:
        demo.kill()
    assert demo.returncode == 130
    assert "Traceback" not in errors
    assert left_behind(out) == []


def test_without_a_prediction_it_fails_with_the_nodes_reason(tmp_path):
    out, missing = tmp_path / "demo", tmp_path / "nowhere.safetensors"
    arguments = command(out, "--seconds", 4, "--checkpoint", missing)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("floorgent: the node process ended")
    assert str(missing) in last
    assert left_behind(out) == []
