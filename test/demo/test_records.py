from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from floorgent_ros.demo.records import Record
from floorgent_ros.geometry.grid import OccupancyMap


def heard(sizes=(2, 0, 3)):
    rng = np.random.default_rng(0)
    distance = rng.random((256, 256)).astype(np.float32)
    distance[0, :2] = np.inf, np.nan
    return SimpleNamespace(
        grid=OccupancyMap(rng.integers(-1, 101, (30, 40)).astype(np.int8), 0.05, (1.5, -2.0), 0.3),
        source=(3.0, 4.0),
        origin=(-17.0, -16.0),
        distance=distance,
        walls=rng.random((5, 2, 2)).astype(np.float32),
        completions=[rng.random((size, 2, 2)).astype(np.float32) for size in sizes],
        path=rng.random((7, 2)),
        latency_s=0.5,
        age_s=0.75,
        maps=3,
    )


@pytest.mark.parametrize("sizes", [(2, 0, 3), (0, 0), (4,)])
def test_a_record_comes_back_as_it_was_saved(tmp_path, sizes):
    given = heard(sizes)
    Record.save(given, tmp_path / "0001.npz")
    assert [path.name for path in tmp_path.iterdir()] == ["0001.npz"]
    record = Record.load(tmp_path / "0001.npz")
    shot = record.snapshot
    assert (shot.source, shot.origin) == (given.source, given.origin)
    assert (shot.grid.resolution, shot.grid.origin, shot.grid.yaw) == (0.05, (1.5, -2.0), 0.3)
    assert np.array_equal(shot.grid.cells, given.grid.cells)
    assert np.array_equal(shot.distance, given.distance, equal_nan=True)
    assert np.array_equal(shot.walls, given.walls)
    assert len(shot.completions) == len(sizes)
    assert all(np.array_equal(a, b) for a, b in zip(shot.completions, given.completions, strict=True))
    assert np.array_equal(record.path, given.path)
    assert (record.latency_s, record.age_s, record.maps) == (0.5, 0.75, 3)
