from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from floorgent_ros.demo.records import Record
from floorgent_ros.demo.summary import compare, summarise, table
from floorgent_ros.geometry.distance import blocked, distance_field
from floorgent_ros.geometry.grid import OccupancyMap, Window, crop
from floorgent_ros.plans.plan import Plan
from floorgent_ros.plots import Snapshot
from floorgent_ros.simulation.world import World

PLACE = (2.0, 2.0)


@pytest.fixture(scope="module")
def world():
    """Two rooms side by side, 4 m x 4 m each, with an open way between them along the top."""
    walls = [[(0, 0), (8, 0)], [(8, 0), (8, 4)], [(8, 4), (0, 4)], [(0, 4), (0, 0)], [(4, 0), (4, 2.6)]]
    space = np.array([(0, 0), (8, 0), (8, 4), (0, 4)], float)
    return World.from_plan(Plan(np.array(walls, float), spaces=(space,)))


def record(grid, distance, latency_s=0.2, age_s=0.4, maps=1):
    window, nothing = Window(PLACE), np.zeros((0, 2, 2))
    shot = Snapshot(grid, PLACE, window.origin, distance, nothing, [nothing])
    return Record(shot, np.array([PLACE]), latency_s, age_s, maps)


def true_distance(world):
    states = crop(world.truth, Window(PLACE))
    return distance_field(blocked(states, np.zeros(states.shape, bool), 0.3) | (states == -1))


def unseen(world):
    return OccupancyMap(np.full_like(world.truth.cells, -1), world.truth.resolution, world.truth.origin)


def test_the_truth_itself_has_no_error_and_reaches_all(world):
    quality = compare(record(world.truth, true_distance(world)), world)
    assert quality.reach == 1
    assert quality.seen == 1
    assert quality.error_m == 0
    assert quality.null_error_m == pytest.approx(0, abs=0.05)


def test_a_blind_robot_has_seen_nothing_and_its_null_flies_through_walls(world):
    quality = compare(record(unseen(world), np.full((256, 256), np.inf)), world)
    assert quality.reach == 0
    assert quality.seen == 0
    assert 0.2 < quality.null_error_m < 2
    assert quality.error_m > 30  # what is not reached counts 40 m


def test_half_reached(world):
    distance = true_distance(world)
    column = int(Window(PLACE).to_cell((4.0, 2.0))[0])
    distance[:, column:] = np.nan
    assert compare(record(world.truth, distance), world).reach == pytest.approx(0.5, abs=0.06)


def test_a_robot_outside_the_building_is_left_out(world):
    one = record(world.truth, true_distance(world))
    shot = dataclasses.replace(one.snapshot, source=(500.0, 500.0), origin=(480.0, 480.0))
    far = Record(shot, one.path, 0.2, 0.4, 2)
    assert compare(far, world) is None
    assert summarise([far], world).quality is None
    assert "reach" not in table(summarise([far], world))


def test_the_table_counts_and_averages(world):
    good, none = true_distance(world), np.full((256, 256), np.inf)
    records = [record(world.truth, good, latency_s=0.1 * i, age_s=1.0, maps=i + 1) for i in range(1, 4)] + [
        record(world.truth, none, latency_s=0.5, age_s=2.0, maps=9)
    ]
    summary = summarise(records, world)
    assert (summary.maps, summary.predictions) == (9, 4)
    assert summary.latency_s[0] == pytest.approx(0.25)
    assert 0.3 < summary.latency_s[1] < 0.5
    assert summary.quality.reach == pytest.approx(0.75)
    text = table(summary)
    assert "maps in      9" in text
    assert "predictions  4" in text
    assert "75.0%" in text
    assert max(map(len, text.splitlines())) < 100
