"""The node's rules in bag time: when a replay predicts, from what, and what it refuses."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_bag import (
    SECOND,
    START_NS,
    corridor,
    map_message,
    pose_message,
    transform_message,
    walk,
    write_bag,
)

from floorgent_ros.bags.poses import TopicPose, pose_source
from floorgent_ros.bags.recording import Recorded, Recording
from floorgent_ros.bags.replay import MapUpdate, Replay, Slot
from floorgent_ros.config import NodeSettings
from floorgent_ros.errors import BagError
from floorgent_ros.schedule import is_due


class FakePredictor:
    """Remembers what it is asked."""

    def __init__(self):
        self.asked = []

    def predict(self, grid, viewpoint):
        self.asked.append((grid, viewpoint))
        return SimpleNamespace(source=viewpoint)


class Tape:
    """Messages as a recording hands them out, without a file."""

    def __init__(self, entries):
        self.entries = sorted(entries, key=lambda entry: entry[1])

    def messages(self, topics):
        return (Recorded(*entry) for entry in self.entries if entry[0] in topics)


def replayed(entries, **settings):
    """The replay and its predictions."""
    replay = Replay(Tape(entries), "/map", TopicPose("/pose"), FakePredictor(), NodeSettings(**settings))
    return replay, list(replay.run())


def at(seconds):
    return START_NS + round(seconds * SECOND)


def the_map(seconds, seen_m=12.0, **options):
    return ("/map", at(seconds), map_message(corridor(seen_m), at(seconds), **options))


def the_pose(seconds, x, **options):
    return ("/pose", at(seconds), pose_message(x, 0.0, at(seconds), **options))


def moments(predictions):
    """Bag second and x of each prediction."""
    return [((item.at_ns - START_NS) / SECOND, item.request.pose.x) for item in predictions]


def test_the_first_pose_on_a_map_is_predicted_and_then_enough_travel():
    poses = [the_pose(1 + 0.5 * i, 0.2 * i) for i in range(8)]
    _, predictions = replayed([the_map(0), *poses], min_travel=0.5, max_rate=100.0)
    # 0.6 is the first pose at least 0.5 from 0.0, and 1.2 from 0.6
    assert moments(predictions) == [(1.0, 0.0), (2.5, pytest.approx(0.6)), (4.0, pytest.approx(1.2))]


def test_the_same_map_again_is_no_reason_and_another_one_is():
    entries = [the_map(0), the_pose(1, 0.0), the_map(2), the_map(3, seen_m=6.0)]
    _, predictions = replayed(entries, max_rate=100.0)
    assert moments(predictions) == [(1.0, 0.0), (3.0, 0.0)]


def test_the_rate_is_kept_in_bag_time_and_the_newest_wins():
    entries = [the_map(0), *(the_pose(0.1 * i, float(i)) for i in range(1, 31))]
    _, predictions = replayed(entries, max_rate=1.0, min_travel=0.5)
    # the first at 0.1 s; then one a second, each from the pose that was the newest when it began
    assert [round(second, 6) for second, _ in moments(predictions)] == [0.1, 1.1, 2.1, 3.1]
    assert [x for _, x in moments(predictions)] == [1.0, 11.0, 21.0, 30.0]


def test_a_request_that_waits_starts_when_its_time_has_come_not_with_the_next_message():
    entries = [the_map(0), the_pose(1.0, 0.0), the_pose(1.2, 5.0), the_pose(9.0, 9.0)]
    _, predictions = replayed(entries, max_rate=1.0)
    assert moments(predictions) == [(1.0, 0.0), (2.0, 5.0), (9.0, 9.0)]
    waited = predictions[1]
    assert waited.latency_s == pytest.approx(0.8 + waited.seconds)


def test_a_robot_that_comes_back_takes_its_request_away():
    entries = [the_map(0), the_pose(1.0, 0.0), the_pose(1.2, 5.0), the_pose(1.4, 0.0)]
    _, predictions = replayed(entries, max_rate=1.0)
    assert moments(predictions) == [(1.0, 0.0)]


def test_a_malformed_map_is_counted_and_the_one_before_stays():
    bad = map_message(corridor(), at(2))
    bad.info.width = 7
    replay, predictions = replayed(
        [the_map(0), the_pose(1, 0.0), ("/map", at(2), bad), the_pose(3, 1.0)], max_rate=100.0
    )
    assert moments(predictions) == [(1.0, 0.0), (3.0, 1.0)]
    assert (replay.maps, replay.refused) == (2, 1)
    assert "publish width x height" in replay.refusal


def test_a_refusal_stays_told_when_the_pose_is_missing_later():
    bad = map_message(corridor(), at(0))
    bad.info.width = 7
    replay, _ = replayed([("/map", at(0), bad), the_map(1), the_pose(2, 0.0, frame="odom")])
    assert "'odom'" in replay.missing
    assert "publish width x height" in replay.refusal


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([the_pose(0, 0.0)], "no map yet on /map"),
        ([the_map(0)], "no pose yet on /pose"),
        ([the_map(0), the_pose(1, math.nan)], "not finite"),
        ([the_map(0), the_pose(1, 0.0, frame="odom")], "'odom'"),
        ([the_map(0, resolution=0.0), the_pose(1, 0.0)], "resolution"),
    ],
)
def test_why_nothing_was_predicted(entries, words):
    replay, predictions = replayed(entries)
    assert predictions == []
    assert words in replay.missing
    assert "\n" not in replay.missing


def test_a_leading_slash_of_a_frame_is_the_same_frame():
    _, predictions = replayed([the_map(0, frame="/map"), the_pose(1, 0.0)])
    assert len(predictions) == 1
    assert predictions[0].request.map.frame == "map"


@given(
    st.lists(
        st.tuples(st.integers(1, 400), st.sampled_from(["map", "pose"]), st.integers(0, 6)), max_size=40
    ),
    st.sampled_from([0.5, 1.0, 4.0]),
)
def test_rules_hold_for_any_order_of_messages(steps, rate):
    """Rate kept, nothing twice for the same map and pose, and always what was newest at its time."""
    settings = NodeSettings(max_rate=rate, min_travel=1.0)
    slot, now, newest_map, newest_pose, made = Slot(settings), 0, None, None, []

    def take_until(limit):
        while (start := slot.start_ns()) is not None and start <= limit:
            made.append((start, slot.take(start)))

    for wait, kind, value in steps:
        take_until(now + wait * 10_000_000 - 1)
        now += wait * 10_000_000
        if kind == "map":
            newest_map = MapUpdate(None, "map", None, None, now, value)
        else:
            newest_pose = SimpleNamespace(x=float(value), y=0.0, arrived_ns=now)
        if newest_map and newest_pose:
            slot.offer(newest_map, newest_pose)
        take_until(now)
        if made and slot.start_ns() is None and newest_map and newest_pose:
            # nothing waits: so the newest map and pose deserve nothing beyond the last prediction
            assert not is_due(newest_map, newest_pose, made[-1][1], settings)
    for (begun, before), (later, after) in pairwise(made):
        assert later - begun >= 1e9 / rate - 1
        same_map = before.map.identity == after.map.identity
        assert not same_map or abs(after.pose.x - before.pose.x) >= settings.min_travel


def test_tf_is_looked_up_as_seldom_as_the_node_does_and_in_the_maps_frame(tmp_path):
    entries = [the_map(0)]
    entries += [("/tf", at(1), transform_message("map", "odom", 1.0, 2.0, math.pi / 2, at(1)))]
    for tick in range(10, 60):
        second = tick / 10
        entries.append(
            ("/tf", at(second) + 1, transform_message("/odom", "base_link", second, 0.0, 0.0, at(second)))
        )
        entries.append(
            ("/tf", at(second) + 2, transform_message("map", "odom", 1.0, 2.0, math.pi / 2, at(second)))
        )
    path = write_bag(tmp_path / "bag", entries)
    with Recording.open(path) as recording:
        source = pose_source(recording, None, "/base_link")
        replay = Replay(
            recording, "/map", source, FakePredictor(), NodeSettings(min_travel=0.0, max_rate=100.0)
        )
        predictions = list(replay.run())
    # odom is turned by 90°: forward in it is up in the map
    for item in predictions:
        assert (item.request.pose.x, item.request.pose.y) == pytest.approx(
            (1.0, 2.0 + item.request.pose.stamp_ns / SECOND - START_NS / SECOND), abs=1e-6
        )
    seconds = [second for second, _ in moments(predictions)]
    assert min(np.diff(seconds)) >= 0.2 - 1e-9
    assert 20 <= len(predictions) <= 26


@pytest.mark.parametrize("kind", ["pose", "odometry", "covariance"])
def test_every_kind_of_pose_is_read_from_a_bag(tmp_path, kind):
    path = write_bag(tmp_path / "bag", walk(kind, 3.0))
    with Recording.open(path) as recording:
        source = pose_source(recording, None, "base_link")
        replay = Replay(recording, "/map", source, FakePredictor(), NodeSettings(max_rate=100.0))
        predictions = list(replay.run())
    assert len(predictions) >= 5
    assert predictions[0].request.pose.x == 0.5


def test_which_pose_is_taken_when_none_is_named(tmp_path):
    poses = [the_pose(1, 0.0), ("/odom", at(1), pose_message(0.0, 0.0, at(1), kind="odometry"))]
    tf = [("/tf", at(1), transform_message("map", "base_link", 1.0, 2.0, 0.0, at(1)))]
    with Recording.open(write_bag(tmp_path / "two", [the_map(0), *poses])) as recording:
        with pytest.raises(BagError, match="/odom, /pose"):
            pose_source(recording, None, "base_link")
        assert pose_source(recording, "/odom", "base_link").topics == ("/odom",)
        with pytest.raises(BagError, match="no poses on /nowhere: the bag has poses on /odom, /pose"):
            pose_source(recording, "/nowhere", "base_link")
        with pytest.raises(BagError, match="no poses on /tf"):
            pose_source(recording, "/tf", "base_link")
    with Recording.open(write_bag(tmp_path / "tf", [the_map(0), *poses, *tf])) as recording:
        assert pose_source(recording, None, "base_link").topics == ("/tf", "/tf_static")
        assert pose_source(recording, "/pose", "base_link").topics == ("/pose",)
    with (
        Recording.open(write_bag(tmp_path / "none", [the_map(0)])) as recording,
        pytest.raises(BagError, match="the bag has no poses"),
    ):
        pose_source(recording, None, "base_link")


def test_without_a_transform_at_a_time_the_last_pose_serves_as_in_the_node(tmp_path):
    entries = [the_map(0), ("/tf", at(1), transform_message("map", "odom", 1.0, 2.0, 0.0, at(1)))]
    entries += [
        ("/tf", at(second), transform_message("odom", "base_link", 3.0, 0.0, 0.0, at(second)))
        for second in (1.0, *range(2, 40))  # localisation has stopped, odometry goes on
    ]
    entries.append(the_map(40.5, resolution=0.06))
    with Recording.open(write_bag(tmp_path / "bag", entries)) as recording:
        source = pose_source(recording, None, "base_link")
        replay = Replay(recording, "/map", source, FakePredictor(), NodeSettings(max_rate=100.0))
        predictions = list(replay.run())
    assert isinstance(source._tree.latest("map", "base_link"), str)
    assert predictions[-1].request.map.grid.resolution == 0.06
    assert (predictions[-1].request.pose.x, predictions[-1].request.pose.y) == (4.0, 2.0)
