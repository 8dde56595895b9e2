"""No message makes a reader allocate beyond bounds, whatever its numbers say."""

from __future__ import annotations

import math
import tracemalloc
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from floorgent_ros.errors import MapError
from floorgent_ros.geometry.observation import observe
from floorgent_ros.messages import MAX_CELLS, RESOLUTIONS_M, distance_cells, occupancy_map, position

MEBIBYTE = 1 << 20


def map_message(
    width: int, height: int, data: Any, *, resolution: float = 0.05, x: float = 0.0, yaw: float = 0.0
) -> Any:
    turn = SimpleNamespace(x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
    origin = SimpleNamespace(position=SimpleNamespace(x=x, y=-x, z=0.0), orientation=turn)
    info = SimpleNamespace(width=width, height=height, resolution=resolution, origin=origin)
    return SimpleNamespace(info=info, data=data)


def room() -> np.ndarray[Any, Any]:
    cells = np.zeros((60, 80), np.int8)
    cells[:2] = cells[-2:] = 100
    cells[:, :2] = cells[:, -2:] = 100
    return cells


@pytest.mark.parametrize("size", [(100_000, 10_000), (2**32 - 1, 2**32 - 1), (10_001, 10_000)])
def test_a_map_that_says_it_is_huge_is_refused_before_anything_is_allocated(size: tuple[int, int]) -> None:
    message = map_message(*size, np.zeros(10, np.int8))
    tracemalloc.start()
    try:
        with pytest.raises(MapError, match="publish a coarser or smaller map"):
            occupancy_map(message)
        assert tracemalloc.get_traced_memory()[1] < MEBIBYTE / 4
    finally:
        tracemalloc.stop()


def test_a_large_map_is_read_without_a_copy() -> None:
    whole = np.zeros(5000 * 5000, np.int8)
    tracemalloc.start()
    try:
        grid = occupancy_map(map_message(5000, 5000, whole))
        assert tracemalloc.get_traced_memory()[1] < MEBIBYTE
    finally:
        tracemalloc.stop()
    assert np.shares_memory(grid.cells, whole)
    assert whole.size < MAX_CELLS


@pytest.mark.parametrize("resolution", [1e-38, 1e-6, 0.000999, 10.1, 3e38, math.inf, math.nan, -0.05, 0.0])
def test_a_cell_of_no_plausible_size_is_refused_in_one_line(resolution: float) -> None:
    with pytest.raises(MapError, match="resolution") as refusal:
        occupancy_map(map_message(80, 60, room().ravel(), resolution=resolution))
    assert "\n" not in str(refusal.value)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("resolution", [*RESOLUTIONS_M, 0.0123])
@pytest.mark.parametrize("corner", [0.0, 1e15, 1e300])
@pytest.mark.parametrize("place", [0.5, -1e15, 1e300])
def test_numbers_at_the_edge_of_sense_stay_within_memory(
    resolution: float, corner: float, place: float
) -> None:
    message = map_message(80, 60, room().ravel(), resolution=resolution, x=corner, yaw=0.3)
    tracemalloc.start()
    try:
        observe(occupancy_map(message), (place, place))
        assert tracemalloc.get_traced_memory()[1] < 32 * MEBIBYTE
    finally:
        tracemalloc.stop()


def test_poses_of_all_kinds_are_read() -> None:
    point = SimpleNamespace(position=SimpleNamespace(x=1.0, y=2.0))
    assert position(SimpleNamespace(pose=point)) == (1.0, 2.0)
    assert position(SimpleNamespace(pose=SimpleNamespace(pose=point))) == (1.0, 2.0)


def test_distances_as_occupancy_values() -> None:
    distance = np.array([0.0, 20.0, 40.0, 1e9, np.nan, np.inf], np.float32)
    assert distance_cells(distance, 40.0).tolist() == [0, 50, 99, 99, 100, -1]
