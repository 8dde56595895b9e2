from __future__ import annotations

import numpy as np
import pytest

from floorgent_ros.geometry.distance import blocked, distance_field
from floorgent_ros.plans.example import DEPTH_M, DOOR_M, LENGTH_M, example_plan
from floorgent_ros.simulation.lidar import Scene

SEEDS = range(6)


@pytest.fixture(params=SEEDS)
def plan(request):
    return example_plan(request.param)


def test_has_the_promised_size_rooms_and_windows(plan):
    low, high = plan.bounds
    assert np.all(low >= 0)
    assert np.all(low < 0.2)
    assert high == pytest.approx([LENGTH_M, DEPTH_M], abs=0.2)
    assert 28 <= len(plan.spaces) <= 45
    assert len(plan.windows) > 20
    assert {space.shape for space in plan.spaces} == {(4, 2)}


def test_every_line_is_axis_aligned_and_has_a_length(plan):
    extent = np.abs(plan.segments[:, 1] - plan.segments[:, 0])
    assert np.all(extent.min(axis=1) < 1e-9)
    assert np.all(extent.max(axis=1) > 1e-3)


def test_windows_lie_in_the_facade_and_never_in_a_wall(plan):
    edge = np.minimum(plan.windows, [LENGTH_M, DEPTH_M] - plan.windows).min(axis=(1, 2))
    assert np.all(edge < 0.2)
    for window in plan.windows:
        middle = window.mean(0)
        assert not any(on_segment(middle, wall) for wall in plan.walls)


def test_a_robot_reaches_every_room_except_the_lift_shaft(plan):
    scene = Scene.from_segments(plan.segments)
    cells = np.where(scene.cells, 100, 0).astype(np.int8)
    shut = blocked(cells, np.zeros(cells.shape, bool), 0.3, scene.resolution)
    column, row = scene.to_cell(plan.spaces[0].mean(0)).astype(int)
    distance = distance_field(shut, (int(row), int(column)), scene.resolution)
    unreached = [space for space in plan.spaces if not np.isfinite(distance[cells_of(scene, space)]).any()]
    assert len(unreached) == 1
    assert np.ptp(unreached[0], axis=0).prod() < 6.0
    assert np.isinf(distance[2, 2])  # and nowhere out of the building


def test_has_a_corridor_that_ends_blind(plan):
    """The third space touches nothing with its far short side: a wall stands there from corner to corner."""
    corridor = plan.spaces[2]
    low, high = corridor.min(0), corridor.max(0)
    ends = [x for x in (low[0], high[0]) if covered(plan.walls, x, low[1], high[1])]
    assert len(ends) == 1
    assert high[0] - low[0] > 20


def test_doors_are_as_wide_as_doors():
    plan = example_plan(0)
    corridor = plan.spaces[0]
    side = corridor[:, 1].min()
    along = np.sort(plan.walls[np.all(np.abs(plan.walls[..., 1] - side) < 1e-6, axis=1)][..., 0], axis=1)
    along = along[np.argsort(along[:, 0])]
    gaps = along[1:, 0] - along[:-1, 1]
    assert np.isclose(gaps, DOOR_M).sum() >= 4
    assert gaps.min() > DOOR_M - 1e-6


def test_same_seed_same_floor_other_seed_other_floor():
    again, other = example_plan(3), example_plan(4)
    assert np.array_equal(example_plan(3).segments, again.segments)
    assert again.segments.shape != other.segments.shape or not np.allclose(again.segments, other.segments)


def on_segment(point, wall):
    direction = wall[1] - wall[0]
    length = np.linalg.norm(direction)
    along = (point - wall[0]) @ direction / length
    across = np.linalg.norm(point - wall[0] - along * direction / length)
    return across < 1e-6 and 0 < along < length


def cells_of(scene, space):
    low, high = scene.to_cell(space.min(0)).astype(int), scene.to_cell(space.max(0)).astype(int)
    return slice(low[1], high[1]), slice(low[0], high[0])


def covered(walls, x, low, high):
    pieces = walls[np.all(np.abs(walls[..., 0] - x) < 1e-6, axis=1)][..., 1]
    pieces = np.sort(pieces[(pieces.min(1) < high - 1e-6) & (pieces.max(1) > low + 1e-6)], axis=1)
    return len(pieces) > 0 and pieces[:, 0].min() <= low + 1e-6 and pieces[:, 1].max() >= high - 1e-6
