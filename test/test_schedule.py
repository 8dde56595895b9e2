"""When to predict: another map, or enough travel; never twice for the same map and pose."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from floorgent_ros.bags import replay
from floorgent_ros.config import NodeSettings
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros import worker
from floorgent_ros.schedule import identity, is_due

places = st.builds(lambda x, y: SimpleNamespace(x=x / 4, y=y / 4), st.integers(-8, 8), st.integers(-8, 8))
SAME, OTHER = SimpleNamespace(identity=1), SimpleNamespace(identity=2)


def test_node_and_replayed_bag_share_the_rule():
    assert worker.is_due is replay.is_due is is_due


@given(places, places, st.sampled_from([0.0, 0.5, 1.0]))
def test_on_the_same_map_travel_decides(here, there, min_travel):
    settings = NodeSettings(min_travel=min_travel)
    last = SimpleNamespace(map=SAME, pose=here)
    travel = math.dist((here.x, here.y), (there.x, there.y))
    assert is_due(SAME, there, last, settings) == (travel > 0 and travel >= min_travel)
    assert is_due(OTHER, there, last, settings)
    assert is_due(SAME, there, None, settings)


def grid(**changes):
    cells = np.zeros((4, 6), np.int8)
    cells[1, 2] = 100
    values = {"cells": cells, "resolution": 0.05, "origin": (1.0, 2.0), "yaw": 0.0} | changes
    return OccupancyMap(**values)


@pytest.mark.parametrize(
    "changes",
    [
        {"cells": np.zeros((4, 6), np.int8)},
        {"cells": np.zeros((6, 4), np.int8)},
        {"resolution": 0.1},
        {"origin": (1.0, 2.1)},
        {"yaw": 0.1},
    ],
)
def test_maps_that_say_anything_else_are_others(changes):
    assert identity(grid(), "map") == identity(grid(), "map")
    assert identity(grid(**changes), "map") != identity(grid(), "map")
    assert identity(grid(), "odom") != identity(grid(), "map")


def test_a_cut_of_a_larger_map_is_the_same_map():
    whole = np.zeros((8, 12), np.int8)
    whole[1, 2] = 100
    assert identity(grid(cells=whole[:4, :6]), "map") == identity(grid(), "map")
