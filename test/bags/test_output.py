"""Predictions written to a bag come back bit for bit, from a bag that appears whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small_bag import SECOND, START_NS, STORAGES, stamp, walk, write_bag

from floorgent_ros.bags.output import PredictionBag
from floorgent_ros.bags.poses import TopicPose
from floorgent_ros.bags.recording import DISTANCE_TYPE, MAP_TYPE, Recording
from floorgent_ros.bags.replay import Replay
from floorgent_ros.bags.shared_files import shared_file
from floorgent_ros.config import NodeSettings, PredictorSettings
from floorgent_ros.distance_lookup import distance_at
from floorgent_ros.geometry.grid import CELL_M
from floorgent_ros.messages import GRIDS
from floorgent_ros.predictor import DistancePredictor

MAX_M = 20.0


@pytest.fixture(scope="module")
def predictions(tmp_path_factory, checkpoint):
    """Two real predictions of a bag, one with a pose time of its own."""
    path = write_bag(tmp_path_factory.mktemp("bag") / "walk", walk(seconds=3.0))
    predictor = DistancePredictor.from_checkpoint(
        checkpoint, device="cpu", settings=PredictorSettings(completions=3, seed=2**63 - 1)
    )
    with Recording.open(path) as recording:
        replay = Replay(
            recording, "/map", TopicPose("/pose"), predictor, NodeSettings(min_travel=1.5, max_rate=100.0)
        )
        return list(replay.run())[:2]


@pytest.mark.parametrize("storage", STORAGES)
def test_every_value_comes_back(tmp_path, predictions, storage):
    path = tmp_path / "predictions"
    with Recording.open(write_bag(tmp_path / "walk", walk(seconds=1.0))) as recording:
        store = recording.store
    with PredictionBag.create(path, store, STORAGES[storage], "/robot1", MAX_M) as bag:
        for item in predictions:
            bag.write(item)
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".")] == []
    with Recording.open(path) as recording:
        assert recording.types == {
            "/robot1/floorgent/distance": DISTANCE_TYPE,
            "/robot1/floorgent/distance_map": MAP_TYPE,
        }
        assert recording.storage == STORAGES[storage]
        found = list(recording.messages(recording.types))
    assert len(found) == 2 * len(predictions)
    for item, (grid, visual) in zip(predictions, zip(found[::2], found[1::2], strict=True), strict=True):
        assert grid.time_ns == visual.time_ns == item.at_ns
        message, request = grid.message, item.request
        for name in GRIDS:
            values = getattr(message, name).reshape(256, 256)
            assert np.array_equal(values, getattr(item.field, name), equal_nan=True), name
        assert (message.header.frame_id, message.header.stamp) == ("map", request.map.stamp)
        assert message.pose_stamp == stamp(request.pose.stamp_ns)
        assert (message.source.x, message.source.y) == (request.pose.x, request.pose.y)
        assert message.info == visual.message.info
        assert (message.info.resolution, message.info.width, message.info.height) == (CELL_M, 256, 256)
        assert message.info.map_load_time == request.map.load_time
        assert (message.completions, message.seed) == (3, 2**63 - 1)
        assert message.latency_s == pytest.approx(item.latency_s)
        assert distance_at(message, *item.field.source) == item.field.distance[128, 128]
        cells = visual.message.data.reshape(256, 256)
        assert (cells[np.isnan(item.field.distance)] == 100).all()
        assert (cells[np.isposinf(item.field.distance)] == -1).all()
        assert (cells[item.field.distance >= MAX_M] >= -1).all()
        assert cells[128, 128] == 0
    assert predictions[1].request.pose.stamp_ns > START_NS + SECOND


def test_a_bag_that_fails_leaves_nothing(tmp_path, predictions):
    with Recording.open(write_bag(tmp_path / "walk", walk(seconds=1.0))) as recording:
        store = recording.store
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ZeroDivisionError):
        write_and_fail(tmp_path / "new", store, predictions[0])
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("kind", [DISTANCE_TYPE, MAP_TYPE])
def test_types_are_those_of_the_ros_installation(kind):
    """The hash by which ROS tells whether two sides mean the same message."""
    package, _, name = kind.split("/")
    message = pytest.importorskip(f"{package}.msg")
    prefix = next(
        parent for parent in Path(message.__file__).parents if (parent / "share" / package).is_dir()
    )
    described = json.loads((prefix / "share" / package / "msg" / f"{name}.json").read_text())
    expected = next(item["hash_string"] for item in described["type_hashes"] if item["type_name"] == kind)
    from floorgent_ros.bags.recording import type_store

    assert type_store().hash_rihs01(kind) == expected


def test_a_missing_shared_file_is_one_line():
    from floorgent_ros.errors import FloorgentError

    assert shared_file("msg/DistanceGrid.msg").is_file()
    with pytest.raises(FloorgentError, match="build the package"):
        shared_file("msg/Nothing.msg")


def write_and_fail(path, store, item):
    with PredictionBag.create(path, store, STORAGES["mcap"], "", MAX_M) as bag:
        bag.write(item)
        raise ZeroDivisionError
