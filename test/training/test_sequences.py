"""The paper's samples on disk: what they hold, what makes them stale, and bad floors among good ones."""

from __future__ import annotations

import json

import numpy as np
import pytest
from tiny_plan import write_plan

from floorgent_ros.errors import PlanError
from floorgent_ros.geometry.canonical import SequenceFrame, canonical_segments, distance_to
from floorgent_ros.plans.split import floors
from floorgent_ros.plans.viewpoints import CLEARANCE_M
from floorgent_ros.training import sequences as module
from floorgent_ros.training.sequences import LEAST_SEGMENTS, SequenceFolder, sequences

FRAME = SequenceFrame()


@pytest.fixture(autouse=True)
def _in_this_process(monkeypatch):
    """Draw without a pool: processes take seconds to start; the pool itself is one test's matter."""

    class Pool:
        def __init__(self, workers):
            self.imap = map

        def __enter__(self):
            return self

        def __exit__(self, *reason):
            return None

    monkeypatch.setattr(module.multiprocessing, "get_context", lambda kind: type("C", (), {"Pool": Pool}))


@pytest.fixture
def data(tmp_path):
    for index in range(2):
        write_plan(tmp_path / "data" / f"b{index}" / "floor.xml", rooms=3 + index)
    return tmp_path / "data"


def test_samples_are_the_floors_own_canonical_sequences(data, tmp_path):
    found = sequences(floors(data), FRAME, seed=1, root=tmp_path / "cache")
    assert len(found) == found.lengths.size == len(found.floor) == len(found.viewpoint)
    assert set(found.floor) == {0, 1}
    assert found.lengths.min() >= LEAST_SEGMENTS
    for index in (0, len(found) // 2, len(found) - 1):
        segments = canonical_segments(floors(data)[found.floor[index]].read().segments)
        viewpoint = tuple(found.viewpoint[index])
        assert distance_to(segments, viewpoint).min() >= CLEARANCE_M
        assert (found[index] == FRAME.sequence(segments, viewpoint)).all()


def test_a_second_call_reads_what_is_there(data, tmp_path, monkeypatch):
    first = sequences(floors(data), FRAME, seed=1, root=tmp_path / "cache")
    monkeypatch.setattr(module, "_draw_all", None)
    second = sequences(floors(data), FRAME, seed=1, root=tmp_path / "cache")
    assert second.folder == first.folder
    assert (second.viewpoint == first.viewpoint).all()


def test_other_settings_seeds_and_plans_are_other_folders(data, tmp_path):
    def folder(frame=FRAME, seed=1):
        return sequences(floors(data), frame, seed, root=tmp_path / "cache").folder

    first = folder()
    seen = {first, folder(seed=2), folder(frame=SequenceFrame(horizon_m=5.0))}
    write_plan(data / "b0" / "floor.xml", rooms=2)
    seen.add(folder())
    assert len(seen) == 4
    assert json.loads((first / "settings.json").read_text())["seed"] == 1


def test_a_bad_floor_is_named_and_the_rest_goes_on(data, tmp_path, capsys):
    (data / "b0" / "floor.xml").write_text("<floor/>")
    found = sequences(floors(data), FRAME, seed=1, root=tmp_path / "cache")
    assert set(found.floor) == {1}
    written = "".join(capsys.readouterr())
    assert "left out: " in written
    assert "b0/floor.xml" in written


def test_a_floor_of_a_wrong_scale_is_named_and_the_rest_goes_on(data, tmp_path, capsys):
    index = [
        {"file": f"b{number}/floor.xml", "building": f"b{number}", "split": "val", "scale_correction": scale}
        for number, scale in enumerate((0.001, 1.0))
    ]
    (data / "index.json").write_text(json.dumps(index))
    found = sequences(floors(data), FRAME, seed=1, root=tmp_path / "cache")
    assert set(found.floor) == {1}
    assert "is its scale right?" in "".join(capsys.readouterr())


def test_no_usable_floor_is_an_error_that_leaves_nothing(data, tmp_path):
    for path in data.rglob("*.xml"):
        path.write_text("<floor/>")
    with pytest.raises(PlanError, match="none of 2 floors"):
        sequences(floors(data), FRAME, seed=1, root=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*"))


def test_a_broken_write_leaves_nothing(data, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(module.np, "save", full)
    with pytest.raises(OSError, match="disk full"):
        sequences(floors(data), FRAME, seed=1, root=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*"))


def test_a_folder_that_is_not_whole_is_refused(tmp_path):
    np.save(tmp_path / "walls.npy", np.zeros((0, 4), np.uint8))
    with pytest.raises(PlanError, match="samples missing or broken"):
        SequenceFolder(tmp_path, FRAME)
