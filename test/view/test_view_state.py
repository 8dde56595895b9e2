"""What the page is sent: frames that hold what came in, bounded, and only what JSON has words for."""

from __future__ import annotations

import json
import math
import time
from types import SimpleNamespace

import numpy as np
import pytest

from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.view.state import KINDS, State, reduced


def opened(frame):
    """Header and values of a frame."""
    length = int.from_bytes(frame[:4], "little")
    assert length % 4 == 0  # the values are read as an aligned array
    return json.loads(frame[4 : 4 + length]), frame[4 + length :]


def newest(state, kind):
    return opened(state.newer({})[kind][1])


def grid_message(width=4, height=3, values=None, x=0.0):
    values = np.arange(width * height, dtype=np.float32) if values is None else values
    stamp = SimpleNamespace(sec=1, nanosec=0)
    turn = SimpleNamespace(x=0.0, y=0.0, z=0.0, w=1.0)
    corner = SimpleNamespace(x=x, y=0.0)
    return SimpleNamespace(
        header=SimpleNamespace(frame_id="/map", stamp=stamp),
        info=SimpleNamespace(
            width=width,
            height=height,
            resolution=0.5,
            origin=SimpleNamespace(position=corner, orientation=turn),
        ),
        source=SimpleNamespace(x=1.0, y=0.5),
        distance=values,
        spread=values / 10,
        reach_probability=np.ones(len(values), np.float32),
        completions=8,
        seed=2**64 - 1,
        horizon_m=20.0,
        latency_s=0.5,
    )


def test_frames_hold_what_came_in():
    state, woken = State(), []
    state.notify(lambda: woken.append(1))
    cells = np.array([[-1, 0, 100], [1, 50, 99]], np.int8)
    state.on_map(OccupancyMap(cells, 0.05, (-1.0, 2.0), 0.5), "map")
    state.on_prediction(grid_message())
    state.on_walls(np.ones((2, 2, 2)), [np.zeros((0, 2, 2)), np.full((1, 2, 2), 3.0)])
    state.on_pose(1.0, 2.0, 0.5)
    assert len(woken) == 4
    assert set(state.newer({})) == set(KINDS)
    header, values = newest(state, "map")
    assert values == cells.tobytes()
    assert (header["width"], header["height"], header["origin"], header["yaw"]) == (3, 2, [-1.0, 2.0], 0.5)
    header, values = newest(state, "prediction")
    assert np.array_equal(np.frombuffer(values, np.float32), np.arange(12))
    assert (header["seed"], header["frame"]) == (str(2**64 - 1), "map")
    header, values = newest(state, "walls")
    assert header["counts"] == [2, 0, 1]
    assert np.frombuffer(values, np.float32).tolist() == [1.0] * 8 + [3.0] * 4
    assert newest(state, "robot")[0] == {"kind": "robot", "x": 1.0, "y": 2.0, "yaw": 0.5}


def test_a_page_that_opens_late_learns_how_old_the_distances_are():
    state, before = State(), time.time()
    state.on_prediction(grid_message())
    after = time.time()
    time.sleep(0.01)
    header, _ = newest(state, "prediction")
    assert before <= header["heard"] <= after


def test_only_what_is_newer_is_sent_again():
    state = State()
    state.on_pose(1.0, 2.0, 0.0)
    sent = {kind: version for kind, (version, _) in state.newer({}).items()}
    assert state.newer(sent) == {}
    state.on_pose(2.0, 2.0, 0.0)
    assert set(state.newer(sent)) == {"robot"}


def test_a_point_is_looked_up_in_the_newest_prediction():
    state = State()
    assert state.at(0.0, 0.0)["state"] == "none"
    values = np.arange(12, dtype=np.float32)
    values[5], values[6] = np.nan, np.inf
    state.on_prediction(grid_message(values=values))
    found = state.at(0.9, 1.4)  # row 2, column 1
    assert (found["state"], found["distance"], found["reach_probability"]) == ("reached", 9.0, 1.0)
    assert found["spread"] == pytest.approx(0.9)
    assert state.at(0.6, 0.6)["state"] == "occupied"
    assert state.at(1.1, 0.6)["state"] == "unreachable"
    assert state.at(2.0, 0.0)["state"] == "outside"
    for x, y in [(0.6, 0.6), (1.1, 0.6), (2.0, 0.0)]:
        json.dumps(state.at(x, y), allow_nan=False)
        assert state.at(x, y)["distance"] is None


@pytest.mark.parametrize(
    "message",
    [
        grid_message(values=np.zeros(11, np.float32)),
        grid_message(width=2**31, values=np.zeros(12, np.float32)),
        grid_message(x=math.nan),
    ],
)
def test_a_malformed_prediction_is_left_out(message):
    state = State()
    state.on_prediction(message)
    assert state.newer({}) == {}
    assert state.at(0.0, 0.0)["state"] == "none"


def test_a_pose_that_is_none_is_left_out():
    state = State()
    state.on_pose(math.nan, 0.0, 0.0)
    assert state.newer({}) == {}


def test_large_maps_are_sent_coarser_and_keep_their_walls():
    cells = np.full((1001, 999), -1, np.int8)
    cells[:500] = 0
    cells[700, 701] = 100
    small, factor = reduced(cells, limit=10_000)
    assert factor == 10
    assert small.shape == (101, 100)
    assert small[70, 70] == 100
    assert (small[:50] == 0).all()
    assert (np.delete(small[51:].ravel(), 19 * 100 + 70) == -1).all()
    assert reduced(cells, limit=cells.size)[1] == 1
    state = State()
    state.on_map(OccupancyMap(np.zeros((3000, 3000), np.int8), 0.05), "map")
    header, values = newest(state, "map")
    assert header["width"] * header["height"] == len(values) <= 1_000_000
    assert header["width"] * header["resolution"] == pytest.approx(150.0)
