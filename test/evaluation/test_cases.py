"""Protocol E4's cases: the same for the same seed, with the truth of the whole plan."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tiny_plan import write_plan

from floorgent_ros.errors import PlanError
from floorgent_ros.evaluation.cases import KINDS, _case, cases
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, Window, crop
from floorgent_ros.plans.plan import turned
from floorgent_ros.plans.split import FloorFile
from floorgent_ros.simulation.site import Site
from floorgent_ros.simulation.truth import Truth


@pytest.fixture(scope="module")
def floor(tmp_path_factory):
    return FloorFile(write_plan(tmp_path_factory.mktemp("plans") / "house" / "first.xml"), "house", "test")


@pytest.fixture(scope="module")
def drawn(floor):
    return list(cases(floor, seed=3, viewpoints=2))


def test_every_viewpoint_gives_a_scan_and_a_walk(drawn):
    assert KINDS == {"scan": 1, "walk": 6}
    assert [case.kind for case in drawn] == ["scan", "walk"] * 2
    assert {(case.building, case.floor) for case in drawn} == {("house", "first")}
    for scan, walk in zip(drawn[::2], drawn[1::2], strict=True):
        assert scan.viewpoint != walk.viewpoint
        known = [np.sum(case.grid.cells != UNKNOWN) for case in (scan, walk)]
        assert known[1] > known[0]


def test_same_seed_same_cases_other_seed_or_floor_others(floor, drawn, tmp_path):
    for case, again in zip(drawn, cases(floor, seed=3, viewpoints=2), strict=True):
        assert case.viewpoint == again.viewpoint
        assert np.array_equal(case.grid.cells, again.grid.cells)
        assert np.array_equal(case.truth, again.truth)
        assert np.array_equal(case.counted, again.counted)
    first = next(cases(floor, seed=4))
    elsewhere = next(cases(FloorFile(write_plan(tmp_path / "house" / "second.xml"), "house", "test"), seed=3))
    assert len({first.viewpoint, elsewhere.viewpoint, drawn[0].viewpoint}) == 3


def test_fewer_viewpoints_are_the_first_ones(floor, drawn):
    fewer = list(cases(floor, seed=3, viewpoints=1))
    assert [case.viewpoint for case in fewer] == [case.viewpoint for case in drawn[:2]]


def test_counted_cells_are_indoors_and_reachable(drawn):
    for case in drawn:
        assert case.truth.shape == case.counted.shape == (256, 256)
        assert np.isfinite(case.truth[case.counted]).all()
        assert case.truth[128, 128] == 0
        assert case.counted[128, 128]
        rows, columns = np.nonzero(case.counted)
        x, y = Window(case.viewpoint).to_frame(np.stack([columns, rows], -1) + 0.5).T
        assert x.min() > 0
        assert x.max() < 15  # three rooms of 5 m …
        assert np.abs(y).max() < 3  # … 6 m deep
        area = case.counted.sum() * (40 / 256) ** 2
        assert 0.7 * 90 < area < 90


def test_truth_knows_every_wall_of_the_plan(floor):
    """From the left room into the right one the way leads through both doors, not through the walls."""
    viewpoint = (2.5, 2.0)
    truth = Truth.of(floor.read(), viewpoint).distance
    column, row = np.floor(Window(viewpoint).to_cell((12.5, 2.0))).astype(int)
    by_the_doors = 2 * np.hypot(2.5, 2.0) + 5.0  # doors at y = 0
    assert by_the_doors - 0.5 < truth[row, column] < by_the_doors + 1.5
    assert np.isinf(truth[row, np.floor(Window(viewpoint).to_cell((18.0, 0.0)))[0].astype(int)])  # outdoors


def test_truth_begins_beside_a_viewpoint_that_inflation_blocks(floor):
    truth = Truth.of(floor.read(), (0.25, 2.0)).distance  # a quarter of a metre off the left wall
    assert np.isinf(truth[128, 128]) or truth[128, 128] < 1.0
    assert np.isfinite(truth).sum() * (40 / 256) ** 2 > 60


def test_what_the_robot_saw_agrees_with_the_plan(drawn, floor):
    site = Site.of(floor.read())
    for case in drawn:
        states = crop(case.grid, Window(case.viewpoint))
        assert set(np.unique(states)) == {UNKNOWN, FREE, OCCUPIED}
        rows, columns = np.nonzero(states == OCCUPIED)
        points = Window(case.viewpoint).to_frame(np.stack([columns, rows], -1) + 0.5)
        assert max(site.clearance_at(point) for point in points) < 0.25


def test_cells_that_no_way_leads_to_are_told_from_walls(floor, drawn):
    """A wall across the last room's door; the robot stands in the first."""
    plan = floor.read()
    crossing = np.array([[[10.0, -3.0], [10.0, 3.0]]])
    shut = replace(plan, walls=np.concatenate([plan.walls, crossing]))
    case = _case("scan", floor, shut, drawn[0].grid, (2.5, 2.0))
    x, _ = Window(case.viewpoint).to_frame(np.stack(np.nonzero(case.shut)[::-1], -1) + 0.5).T
    assert x.min() > 10.2
    assert x.max() < 14.8
    assert not (case.shut & case.counted).any()
    assert 0.6 * 30 < case.shut.sum() * (40 / 256) ** 2 < 30


@pytest.mark.parametrize("degrees", [7.5, 45.0, 90.0])
def test_a_turned_building_is_seen_from_the_same_places(drawn, floor, degrees):
    angle = np.radians(degrees)
    for case, other in zip(drawn, cases(floor, seed=3, viewpoints=2, turn_rad=angle), strict=True):
        assert other.viewpoint == pytest.approx(tuple(turned(np.array(case.viewpoint), angle)))
        assert other.counted.sum() == pytest.approx(case.counted.sum(), rel=0.05)
        means = [c.truth[c.counted].mean() for c in (case, other)]
        assert means[0] == pytest.approx(means[1], rel=0.1)
        states = [crop(c.grid, Window(c.viewpoint)) for c in (case, other)]
        seen = [(s == FREE).sum() for s in states]
        assert seen[0] == pytest.approx(seen[1], rel=0.05)


def test_a_plan_without_a_viewpoint_is_said(tmp_path):
    path = write_plan(tmp_path / "shed" / "narrow.xml", rooms=1, depth_m=1.0)
    with pytest.raises(PlanError, match="clearance"):
        next(cases(FloorFile(path, "shed", "test")))
