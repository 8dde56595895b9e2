"""The rule of when to predict is one, for the node and for a replayed bag."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ros_harness import room

from floorgent_ros import schedule
from floorgent_ros.config import NodeSettings
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros import maps, worker

places = st.builds(lambda x, y: SimpleNamespace(x=x / 4, y=y / 4), st.integers(-8, 8), st.integers(-8, 8))
identities = st.integers(0, 2).map(lambda number: SimpleNamespace(identity=number))
asked = st.one_of(st.none(), st.builds(lambda m, p: SimpleNamespace(map=m, pose=p), identities, places))


@given(identities, places, asked, st.sampled_from([0.0, 0.5, 1.0]))
def test_node_and_replay_agree_on_what_deserves_a_prediction(newest, pose, last, min_travel) -> None:
    settings = NodeSettings(min_travel=min_travel)
    expected = worker.is_due(newest, pose, last, settings)
    assert schedule.is_due(newest, pose, last, settings) == expected


@pytest.mark.parametrize("yaw", [0.0, 0.3])
@pytest.mark.parametrize("frame", ["map", "odom"])
def test_node_and_replay_agree_on_which_maps_are_the_same(yaw: float, frame: str) -> None:
    grid = OccupancyMap(room(), 0.05, (1.0, 2.0), yaw)
    assert schedule.identity(grid, frame) == maps.identity(grid, frame)


def test_standing_still_is_no_travel() -> None:
    here, same = SimpleNamespace(x=1.0, y=1.0), SimpleNamespace(identity=1)
    last = SimpleNamespace(map=same, pose=here)
    assert not schedule.is_due(same, here, last, NodeSettings(min_travel=0.0))
    assert schedule.is_due(SimpleNamespace(identity=2), here, last, NodeSettings())
