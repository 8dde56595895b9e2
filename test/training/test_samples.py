"""Training samples: symmetries that turn image and walls alike, draws that repeat, unseen targets."""

from __future__ import annotations

import itertools
import math

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from floorgent_ros.geometry.assumptions import saturated, unknown_is_free
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS
from floorgent_ros.geometry.lattice import OUTSIDE, lattice
from floorgent_ros.geometry.observation import observe
from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.geometry.symmetry import SYMMETRIES
from floorgent_ros.plans.plan import Plan
from floorgent_ros.simulation.lidar import LidarSettings
from floorgent_ros.simulation.site import Site, WalkSettings
from floorgent_ros.simulation.truth import Truth
from floorgent_ros.training.samples import NOWHERE, Sample, _disturbed, draw_sample, draw_settings

HORIZON_M = 14.0
TOP = WINDOW_CELLS - 1


def wing():
    """Four rooms of 5 m x 6 m above a corridor of 2 m, doors of 1 m, a row of windows on top."""
    walls = [[(0, 0), (20, 0)], [(0, 0), (0, 8)], [(20, 0), (20, 8)]]
    walls += [[(5 * i, 2), (5 * i + 2, 2)] for i in range(4)]
    walls += [[(5 * i + 3, 2), (5 * i + 5, 2)] for i in range(4)]
    walls += [[(5 * i, 2), (5 * i, 8)] for i in range(1, 4)]
    walls += [[(5 * i, 8), (5 * i + 1, 8)] for i in range(4)]
    walls += [[(5 * i + 4, 8), (5 * i + 5, 8)] for i in range(4)]
    windows = [[(5 * i + 1, 8), (5 * i + 4, 8)] for i in range(4)]
    rooms = [(5 * i, 2, 5 * i + 5, 8) for i in range(4)] + [(0, 0, 20, 2)]
    spaces = [np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], float) for x0, y0, x1, y1 in rooms]
    return Plan(np.array(walls, float), np.array(windows, float), tuple(spaces), "wing")


SITE = Site.of(wing())


def drawn(walls):
    return rasterise(np.asarray(walls).reshape(-1, 2, 2) + 0.5)


def any_sample(seed, walls=12):
    """An image without symmetry and walls along the axes and the diagonals."""
    rng = np.random.default_rng(seed)
    start = rng.integers(60, 196, (walls, 2))
    step = rng.choice([(1, 0), (0, 1), (1, 1), (1, -1)], walls) * rng.integers(1, 60, (walls, 1))
    image = rng.choice(np.array([UNKNOWN, FREE, OCCUPIED], np.int8), (WINDOW_CELLS, WINDOW_CELLS))
    return Sample(image, np.concatenate([start, start + step], 1))


def same(first, second):
    return all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in ("image", "walls", "ways")
    )


def test_the_first_symmetry_is_the_identity():
    sample = any_sample(0)
    assert same(sample.turned(0), sample)


def test_the_eight_symmetries_are_different_and_form_the_group_of_the_square():
    sample = any_sample(1)
    turns = [sample.turned(k) for k in range(SYMMETRIES)]
    assert not any(same(a, b) for a, b in itertools.combinations(turns, 2))

    table = np.full((SYMMETRIES, SYMMETRIES), -1)
    for a, b in itertools.product(range(SYMMETRIES), repeat=2):
        (table[a, b],) = [k for k in range(SYMMETRIES) if same(turns[a].turned(b), turns[k])]  # closed
    every = set(range(SYMMETRIES))
    assert all(set(row) == every for row in table)  # inverses: each row and column is a permutation
    assert all(set(column) == every for column in table.T)
    assert not np.array_equal(table, table.T)
    order = [next(n for n in range(1, 9) if power(table, k, n) == 0) for k in range(SYMMETRIES)]
    assert sorted(order) == [1, 2, 2, 2, 2, 2, 4, 4]  # five mirrors and half turns, two quarter turns


def power(table, element, exponent):
    out = 0
    for _ in range(exponent):
        out = table[out, element]
    return out


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10_000), st.integers(0, SYMMETRIES - 1))
def test_image_and_walls_turn_alike(seed, symmetry):
    """Walls drawn after the turn are the drawing turned."""
    walls = any_sample(seed).walls
    picture = Sample(np.where(drawn(walls), np.int8(OCCUPIED), np.int8(UNKNOWN)), walls).turned(symmetry)
    assert np.array_equal(drawn(picture.walls), picture.image == OCCUPIED)


@pytest.mark.parametrize("symmetry", range(SYMMETRIES))
def test_slanted_walls_turn_with_the_image_to_a_cell(symmetry):
    walls = np.random.default_rng(0).integers(0, WINDOW_CELLS, (20, 4))
    picture = Sample(np.where(drawn(walls), np.int8(OCCUPIED), np.int8(UNKNOWN)), walls).turned(symmetry)
    turned, image = drawn(picture.walls), picture.image == OCCUPIED
    for one, other in ((turned, image), (image, turned)):
        assert not (one & ~cv2.dilate(other.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)).any()


def test_turning_moves_a_corner_where_it_should():
    image = np.zeros((WINDOW_CELLS, WINDOW_CELLS), np.int8)
    image[10, 20] = OCCUPIED  # y = 10, x = 20
    corners = set()
    for symmetry in range(SYMMETRIES):
        turned = Sample(image, np.array([[20, 10, 30, 10]])).turned(symmetry)
        ((row, column),) = np.argwhere(turned.image == OCCUPIED)
        assert (column, row) == tuple(turned.walls[0, :2])
        corners.add((int(column), int(row)))
    assert corners == {(x, y) for a, b in ((20, 10), (10, 20)) for x in (a, TOP - a) for y in (b, TOP - b)}


def test_turning_keeps_types_and_leaves_the_sample_alone():
    sample = any_sample(2)
    image, walls = sample.image.copy(), sample.walls.copy()
    for symmetry in range(SYMMETRIES):
        turned = sample.turned(symmetry)
        assert turned.image.dtype == np.int8
        assert turned.image.flags.c_contiguous
        assert turned.walls.dtype == np.int64
        assert ((turned.walls >= 0) & (turned.walls <= TOP)).all()
    assert np.array_equal(sample.image, image)
    assert np.array_equal(sample.walls, walls)


@pytest.mark.parametrize("symmetry", range(SYMMETRIES))
def test_a_sample_without_unseen_walls_can_be_turned(symmetry):
    sample = Sample(any_sample(3).image, np.zeros((0, 4), np.int64))
    assert sample.turned(symmetry).walls.shape == (0, 4)


# --- drawing ---


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(7)
    return [draw_sample(SITE, HORIZON_M, rng) for _ in range(24)]


def test_samples_are_seeded():
    for seed in (0, 3):
        first, again = (draw_sample(SITE, HORIZON_M, np.random.default_rng(seed)) for _ in range(2))
        assert same(first, again)
    assert not same(
        draw_sample(SITE, HORIZON_M, np.random.default_rng(0)),
        draw_sample(SITE, HORIZON_M, np.random.default_rng(1)),
    )


def test_ways_are_assumed_and_true_distances_at_the_points_of_the_image(monkeypatch):
    seen = []
    monkeypatch.setattr(
        "floorgent_ros.training.samples.observe", lambda *a: seen.append(observe(*a)) or seen[-1]
    )
    for seed in range(6):
        sample = draw_sample(SITE, HORIZON_M, np.random.default_rng(seed))
        observation = seen[-1]
        truth = Truth.of(SITE.plan, observation.window.viewpoint)
        cells = lattice(observation.frame, observation.window)
        inside = cells != OUTSIDE
        assert np.all(sample.ways[:, ~inside] == NOWHERE)
        null = saturated(unknown_is_free(observation.states)).ravel()[cells[inside]]
        assert np.abs(sample.ways[0, inside] / 100 - null).max() <= 0.0051
        assert np.all(sample.ways[1, inside] + 1 >= sample.ways[0, inside])
        counted = truth.counted.ravel()[cells[inside]]
        assert np.array_equal(sample.ways[2, inside] != NOWHERE, counted)
        true = truth.distance.ravel()[cells[inside]][counted]
        assert np.abs(sample.ways[2, inside][counted] / 100 - true).max() <= 0.0051
        assert counted.sum() > 40


def test_images_show_what_the_network_expects(samples):
    for sample in samples:
        assert sample.image.shape == (WINDOW_CELLS, WINDOW_CELLS)
        assert sample.image.dtype == np.int8
        assert set(np.unique(sample.image)) <= {UNKNOWN, FREE, OCCUPIED}
    seen = [sample for sample in samples if (sample.image == OCCUPIED).sum() > 30]
    assert len(seen) >= 20


def test_walls_are_levels_within_the_horizon(samples):
    assert sum(len(sample.walls) for sample in samples) > 100
    for sample in samples:
        assert sample.walls.shape == (len(sample.walls), 4)
        assert ((sample.walls >= 0) & (sample.walls <= TOP)).all()
        ends = (sample.walls.reshape(-1, 2) + 0.5 - WINDOW_CELLS / 2) * CELL_M
        assert (np.hypot(*ends.T) <= HORIZON_M + 2 * CELL_M).all()


def test_targets_are_what_the_image_does_not_show(samples):
    for sample in samples:
        target = drawn(sample.walls)
        assert not (target & (sample.image == FREE)).any()
        near = cv2.dilate((sample.image == OCCUPIED).astype(np.uint8), np.ones((5, 5), np.uint8))
        assert not (target & near.astype(bool)).any()


def test_seen_and_unseen_together_are_the_building():
    """Around an undisturbed viewpoint nearly every wall cell is either in the image or in the target."""
    settings_ = WalkSettings()
    found = 0
    for seed in range(60):
        if draw_settings(np.random.default_rng(seed)) != settings_:
            continue
        found += 1
        rng = np.random.default_rng(seed)
        sample = draw_sample(SITE, HORIZON_M, rng)
        shown = (sample.image != UNKNOWN) | drawn(sample.walls)
        replay = np.random.default_rng(seed)
        draw_settings(replay)
        x, y = SITE.draw_viewpoint(replay)
        walls = (SITE.plan.segments - (x, y)) / CELL_M + WINDOW_CELLS / 2
        rows, columns = np.nonzero(drawn(np.floor(walls)))
        reach = np.hypot(columns - 127.5, rows - 127.5) < HORIZON_M / CELL_M - 2
        near = cv2.dilate(shown.astype(np.uint8), np.ones((5, 5), np.uint8)).astype(bool)
        assert near[rows[reach], columns[reach]].all()
    assert found >= 5


def test_half_of_the_draws_are_exact_and_half_are_single_scans():
    rng = np.random.default_rng(0)
    drawn_settings = [draw_settings(rng) for _ in range(600)]
    exact = [s for s in drawn_settings if s == WalkSettings(scans=s.scans)]
    assert len(exact) / 600 == pytest.approx(0.5, abs=0.06)
    for group in (exact, [s for s in drawn_settings if s not in exact]):
        assert np.mean([s.scans == 1 for s in group]) == pytest.approx(0.5, abs=0.1)
        assert {s.scans for s in group} == set(range(1, 13))
    for s in drawn_settings:
        assert 5.0 <= s.lidar.range_m <= 15.0
        assert 0 <= s.lidar.noise_m <= 0.03
        assert 0 <= s.lidar.dropout <= 0.2
        assert s.resolution in (0.025, 0.05, 0.10)
        assert -math.pi <= s.map_yaw <= math.pi
    assert LidarSettings() in [s.lidar for s in exact]


def test_disturbed_scenes_keep_the_walls_and_the_plans_place():
    rng = np.random.default_rng(0)
    solid = Site.of(Plan(wing().walls, np.zeros((0, 2, 2)), wing().spaces)).scene.cells
    assert solid.shape == SITE.scene.cells.shape
    missing = thicker = same_ = 0
    for _ in range(80):
        scene = _disturbed(SITE, SITE.draw_viewpoint(rng), rng)
        assert (scene.cells.shape, scene.origin) == (SITE.scene.cells.shape, SITE.scene.origin)
        assert not (solid & ~scene.cells).any()
        missing += bool((SITE.scene.cells & ~scene.cells).any())
        thicker += bool((scene.cells & ~SITE.scene.cells).any())
        same_ += np.array_equal(scene.cells, SITE.scene.cells)
    assert missing > 5  # glass that the LIDAR misses
    assert thicker > 30  # thick walls, furniture
    assert same_ > 10


def test_thick_walls_do_not_bring_back_the_glass_that_was_missed():
    rng = np.random.default_rng(0)
    glass = SITE.scene.with_segments(SITE.plan.windows).cells
    solid = SITE.scene.with_segments(SITE.plan.walls, thickness_m=0.20).cells
    missing_behind_thick = 0
    for _ in range(300):
        cells = _disturbed(SITE, (1e3, 1e3), rng).cells
        thick = (cells & ~SITE.scene.cells & solid).sum() > 0.5 * (solid & ~SITE.scene.cells).sum()
        missing_behind_thick += bool(thick and (glass & ~solid & ~cells).any())
    assert missing_behind_thick > 5


def test_a_robot_never_stands_in_its_furniture():
    rng = np.random.default_rng(0)
    for _ in range(60):
        x, y = SITE.draw_viewpoint(rng)
        scene = _disturbed(SITE, (x, y), rng)
        rows, columns = np.nonzero(scene.cells)
        centres = (np.stack([columns, rows], 1) + 0.5) * scene.resolution + scene.origin
        assert np.hypot(*(centres - (x, y)).T).min() > 0.4
