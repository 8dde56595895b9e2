"""The benchmark's input is the same every time; its clock counts fairly."""

from __future__ import annotations

import numpy as np
import pytest

from floorgent_ros.benchmark.case import enlarged, standard_case
from floorgent_ros.benchmark.timing import Times, take_turns
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN
from floorgent_ros.geometry.observation import observe


def test_the_case_is_deterministic_and_partly_seen() -> None:
    first, second = standard_case(), standard_case()
    assert np.array_equal(first[0].cells, second[0].cells)
    assert first[1] == second[1]
    assert {UNKNOWN, FREE, OCCUPIED} <= set(np.unique(first[0].cells).tolist())
    seen = observe(*first)
    assert len(seen.walls) > 10
    assert (seen.states == UNKNOWN).mean() > 0.3


@pytest.mark.parametrize("more", [0, 1, 300])
def test_a_larger_map_shows_the_same(more: int) -> None:
    grid, viewpoint = standard_case()
    larger = enlarged(grid, max(grid.cells.shape) + more)
    assert larger.cells.shape == (max(grid.cells.shape) + more,) * 2
    column, row = np.floor(larger.to_cell(viewpoint)).astype(int)
    old_column, old_row = np.floor(grid.to_cell(viewpoint)).astype(int)
    assert larger.cells[row, column] == grid.cells[old_row, old_column]
    assert (larger.cells != UNKNOWN).sum() == (grid.cells != UNKNOWN).sum()
    assert np.array_equal(observe(larger, viewpoint).image, observe(grid, viewpoint).image)


def test_contestants_take_turns() -> None:
    calls: list[str] = []
    waits: list[None] = []
    times = take_turns(
        {name: lambda name=name: calls.append(name) for name in "ab"},
        3,
        warm_up=2,
        synchronise=lambda: waits.append(None),
    )
    assert "".join(calls) == "aabb" + "ab" * 3
    assert len(waits) == 2 * 6  # before and after each measured call
    assert {(len(found.samples), len(found.processor)) for found in times.values()} == {(3, 3)}


def test_median_and_95_percent() -> None:
    times = Times(tuple(float(n) for n in range(101)))
    assert (times.median, times.slow) == (50.0, 95.0)
    assert times.summary() == {"median_ms": 50.0, "p95_ms": 95.0, "runs": 101}
