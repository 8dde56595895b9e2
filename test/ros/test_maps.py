"""When two map messages hold the same map, what patches change, and what is said about odd maps."""

from __future__ import annotations

import sys
from array import array
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from builtin_interfaces.msg import Time
from nav_msgs.msg import OccupancyGrid
from ros_harness import Bench, map_message, room
from std_msgs.msg import Header

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros.maps import MapInput, patched
from floorgent_ros.schedule import identity

MAP = OccupancyMap(room(), 0.05, (1.0, 2.0), 0.3)
ONE_CELL_OTHER = room()
ONE_CELL_OTHER[30, 40] = -1


def test_equal_maps_share_their_identity() -> None:
    assert identity(MAP, "map") == identity(OccupancyMap(room(), 0.05, (1.0, 2.0), 0.3), "map")


@pytest.mark.parametrize(
    ("other", "frame"),
    [
        (OccupancyMap(ONE_CELL_OTHER, 0.05, (1.0, 2.0), 0.3), "map"),
        (OccupancyMap(np.ascontiguousarray(room().reshape(80, 60)), 0.05, (1.0, 2.0), 0.3), "map"),
        (OccupancyMap(room(), 0.06, (1.0, 2.0), 0.3), "map"),
        (OccupancyMap(room(), 0.05, (1.0, 2.01), 0.3), "map"),
        (OccupancyMap(room(), 0.05, (1.0, 2.0), 0.0), "map"),
        (MAP, "map2"),
    ],
    ids=["a cell", "the shape", "the resolution", "the origin", "the yaw", "the frame"],
)
def test_what_makes_another_map(other: OccupancyMap, frame: str) -> None:
    assert identity(other, frame) != identity(MAP, "map")


def patch(x: int, y: int, cells: np.ndarray[Any, Any], stamp_s: int = 8) -> Any:
    """As a map_msgs/OccupancyGridUpdate."""
    height, width = cells.shape
    return SimpleNamespace(
        header=Header(frame_id="map", stamp=Time(sec=stamp_s)),
        x=x,
        y=y,
        width=width,
        height=height,
        data=array("b", cells.astype(np.int8).tobytes()),
    )


def test_a_patch_replaces_its_cells_and_no_others() -> None:
    block = np.full((3, 5), 100)
    after = patched(MAP, patch(70, 20, block))
    changed = np.argwhere(after.cells != MAP.cells)
    assert changed.min(0).tolist() == [20, 70]
    assert changed.max(0).tolist() == [22, 74]
    assert (after.resolution, after.origin, after.yaw) == (MAP.resolution, MAP.origin, MAP.yaw)
    assert np.array_equal(MAP.cells, room())


@pytest.mark.parametrize(("x", "y"), [(-1, 0), (0, -1), (76, 0), (0, 58)])
def test_a_patch_that_leaves_the_map_is_refused(x: int, y: int) -> None:
    with pytest.raises(MapError, match="leave the map of 80 x 60"):
        patched(MAP, patch(x, y, np.zeros((3, 5))))


def test_a_patch_that_is_not_whole_is_refused() -> None:
    broken = patch(0, 0, np.zeros((3, 5)))
    broken.width = 6
    with pytest.raises(MapError, match="15 values for 6 x 3"):
        patched(MAP, broken)


def test_updates_of_the_map_are_heard_where_map_msgs_is_installed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a stand-in for the message type, whose messages are handed over by the test."""
    package, messages = ModuleType("map_msgs"), ModuleType("map_msgs.msg")
    package.__spec__ = SimpleNamespace(name="map_msgs", loader=None)  # type: ignore[assignment]
    messages.OccupancyGridUpdate = OccupancyGrid  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "map_msgs", package)
    monkeypatch.setitem(sys.modules, "map_msgs.msg", messages)
    calls: list[int] = []
    warnings: list[str] = []
    node = bench.node("mapper", namespace="robot1")
    heard = MapInput(node, "map", lambda: calls.append(1), warnings.append)
    assert heard._patches.topic_name == "/robot1/map_updates"
    heard._receive_patch(patch(0, 0, np.zeros((1, 1))))  # before the first map
    assert heard.latest is None
    heard._receive(map_message(stamp_s=7))
    before = heard.latest
    heard._receive_patch(patch(10, 10, np.full((2, 2), 100)))
    assert before is not None
    assert heard.latest is not None
    assert heard.latest.identity != before.identity
    assert (heard.latest.stamp.sec, heard.latest.grid.cells[11, 11], len(calls)) == (8, 100, 2)
    heard._receive_patch(patch(1000, 0, np.zeros((1, 1))))
    assert (heard.refused, len(calls), len(warnings)) == (1, 2, 1)
    assert "update on /robot1/map_updates refused" in heard.refusal
    assert heard.last_was_refused
    heard._receive_patch(patch(20, 10, np.full((2, 2), 100), stamp_s=7))  # made before what is known
    assert (heard.latest.stamp.sec, heard.latest.grid.cells[11, 21], len(calls)) == (8, 0, 2)
    heard._receive_patch(patch(20, 10, np.full((2, 2), 100), stamp_s=0))  # some mappers leave it out
    assert (heard.latest.grid.cells[11, 21], len(calls)) == (100, 3)
    assert not heard.last_was_refused
    assert (heard.received, heard.refused) == (4, 1)
    heard.close()


def test_a_map_of_zeros_and_ones_is_warned_about_and_used(bench: Bench) -> None:
    calls: list[int] = []
    warnings: list[str] = []
    heard = MapInput(bench.node(), "map", lambda: calls.append(1), warnings.append)
    heard._receive(map_message(np.minimum(room(), 1)))
    assert "largest value of the map on /map is 1" in warnings[0]
    heard._receive(map_message())
    assert len(calls) == 2
    assert len(warnings) == 1
