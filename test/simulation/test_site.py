"""A site: where a robot can stand, and walks that keep to the protocol."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from floorgent_ros.errors import PlanError
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN
from floorgent_ros.plans.plan import Plan
from floorgent_ros.simulation.lidar import LidarSettings, Scene
from floorgent_ros.simulation.site import (
    STEP_CLEARANCE_M,
    STEP_M,
    VIEWPOINT_CLEARANCE_M,
    Site,
    WalkSettings,
    map_from,
    walk,
    with_clutter,
)

CELL = 0.05
RAYS = LidarSettings(rays=360)


def rectangle(x0, y0, x1, y1):
    return np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)], float)


def sides(corners):
    return np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)


def two_rooms():
    """10 m x 5 m and a second room of 6 m x 5 m to its right; a door of 1 m joins them."""
    walls = np.array(
        [
            [[0, 0], [16, 0]],
            [[0, 5], [16, 5]],
            [[0, 0], [0, 5]],
            [[16, 0], [16, 5]],
            [[10, 0], [10, 2]],
            [[10, 3], [10, 5]],
        ],
        float,
    )
    return Plan(walls, spaces=(rectangle(0, 0, 10, 5), rectangle(10, 0, 16, 5)), name="two rooms")


SITE = Site.of(two_rooms())


def distance_to_walls(points):
    segments = SITE.plan.segments
    start, along = segments[:, 0], segments[:, 1] - segments[:, 0]
    off = np.asarray(points)[:, None] - start
    share = np.clip((off * along).sum(-1) / (along**2).sum(-1), 0, 1)
    return np.hypot(*np.moveaxis(off - share[..., None] * along, -1, 0)).min(1)


def test_clearance_is_the_distance_to_the_nearest_wall():
    points = np.random.default_rng(0).uniform((-0.9, -0.9), (16.9, 5.9), (400, 2))
    clearance = [SITE.clearance_at(point) for point in points]
    assert np.abs(clearance - distance_to_walls(points)).max() < 1.5 * CELL


@pytest.mark.parametrize("point", [(-50, 2), (8, 50), (-1.2, 2.0), (8.0, -1.2), (17.2, 2.0)])
def test_there_is_no_clearance_outside_the_scene(point):
    assert SITE.clearance_at(np.array(point, float)) == 0.0


def test_indoors_is_where_the_rooms_are():
    rows, columns = np.indices(SITE.scene.cells.shape)
    x = (columns + 0.5) * CELL + SITE.scene.origin[0]
    y = (rows + 0.5) * CELL + SITE.scene.origin[1]
    assert np.array_equal(SITE.indoor, (x > 0) & (x < 16) & (y > 0) & (y < 5))


def test_windows_are_part_of_the_scene():
    plan = two_rooms()
    glazed = Site.of(Plan(plan.walls[1:], plan.walls[:1], plan.spaces))
    assert np.array_equal(glazed.scene.cells, SITE.scene.cells)


def test_viewpoints_keep_their_clearance_and_lie_all_over_the_rooms():
    rng = np.random.default_rng(0)
    points = np.array([SITE.draw_viewpoint(rng) for _ in range(400)])
    assert ((points > 0) & (points < (16, 5))).all()
    assert min(SITE.clearance_at(point) for point in points) > VIEWPOINT_CLEARANCE_M
    assert distance_to_walls(points).min() > VIEWPOINT_CLEARANCE_M - CELL
    # evenly: of 8.8 m x 3.8 m on the left and 4.8 m x 3.8 m on the right, some way through the door
    assert abs((points[:, 0] < 10).mean() - 8.8 / 13.6) < 0.1
    assert points[:, 0].min() < 1
    assert points[:, 0].max() > 15
    assert points[:, 1].min() < 1
    assert points[:, 1].max() > 4


def test_viewpoints_are_seeded():
    first, again, other = (SITE.draw_viewpoint(np.random.default_rng(seed)) for seed in (4, 4, 5))
    assert first == again != other


def test_a_site_without_room_for_a_robot_is_refused_in_one_line():
    closet = rectangle(0, 0, 1.2, 3)
    for plan in (
        Plan(sides(closet), spaces=(closet,), name="closet"),
        Plan(two_rooms().walls, name="closet"),
    ):
        with pytest.raises(PlanError, match="closet") as refusal:
            Site.of(plan).draw_viewpoint(np.random.default_rng(0))
        assert "\n" not in str(refusal.value)


def places_of(seed, start, scans, **options):
    """Maps and last places after 1, 2, … scans of one and the same walk: an exact LIDAR draws nothing."""
    steps = []
    for count in range(1, scans + 1):
        settings = WalkSettings(scans=count, lidar=RAYS, **options)
        grid, places = walk(SITE, start, settings, np.random.default_rng(seed))
        assert len(places) == count
        assert np.array_equal(
            map_from(SITE.scene, places, settings, np.random.default_rng(0)).cells, grid.cells
        )
        steps.append((grid, places[-1]))
    return steps


@pytest.mark.parametrize("map_yaw", [0.0, 0.6])
@pytest.mark.parametrize("seed", range(6))
def test_a_walk_keeps_to_the_protocol(seed, map_yaw):
    start = SITE.draw_viewpoint(np.random.default_rng(seed))
    steps = places_of(seed, start, 6, map_yaw=map_yaw)
    assert steps[0][1] == start
    for (grid, place), (later, following) in itertools.pairwise(steps):
        assert STEP_M[0] <= math.dist(place, following) <= STEP_M[1]
        assert SITE.clearance_at(np.array(following)) > STEP_CLEARANCE_M
        column, row = np.floor(grid.to_cell(following)).astype(int)
        assert grid.cells[row, column] == FREE
        assert (later.cells != UNKNOWN).sum() > (grid.cells != UNKNOWN).sum()


def test_walks_come_through_the_door():
    ends = [places_of(seed, (8.5, 2.5), 6)[-1][1] for seed in range(8)]
    assert any(x > 10 for x, _ in ends)
    assert any(x < 10 for x, _ in ends)


def test_a_robot_that_finds_no_next_place_stays():
    closet = rectangle(0, 0, 1.5, 1.5)
    site = Site.of(Plan(sides(closet), spaces=(closet,)))
    start = site.draw_viewpoint(np.random.default_rng(0))
    grid, places = walk(site, start, WalkSettings(scans=5, lidar=RAYS), np.random.default_rng(0))
    once, _ = walk(site, start, WalkSettings(scans=1, lidar=RAYS), np.random.default_rng(0))
    assert places == [start]
    assert np.array_equal(grid.cells, once.cells)


def test_walks_are_seeded_noise_and_all():
    settings = WalkSettings(
        scans=4,
        lidar=LidarSettings(rays=360, noise_m=0.02, dropout=0.1),
        resolution=0.1,
        map_yaw=0.3,
        jitter_m=0.02,
        jitter_rad=0.005,
    )

    def walked(seed):
        return walk(SITE, (4.0, 2.5), settings, np.random.default_rng(seed))

    (grid, place), (same_grid, same_place), (other_grid, other_place) = walked(1), walked(1), walked(2)
    assert np.array_equal(grid.cells, same_grid.cells)
    assert (grid.origin, place) == (same_grid.origin, same_place)
    assert place != other_place
    assert grid.cells.shape != other_grid.cells.shape or not np.array_equal(grid.cells, other_grid.cells)
    assert (grid.resolution, grid.yaw) == (0.1, 0.3)


def wall_places(grid):
    rows, columns = np.nonzero(grid.cells == OCCUPIED)
    return grid.to_frame(np.stack([columns + 0.5, rows + 0.5], 1))


def test_localisation_errors_blur_the_walls_by_their_size():
    exact, _ = walk(SITE, (5.0, 2.5), WalkSettings(lidar=RAYS), np.random.default_rng(0))
    lost = WalkSettings(lidar=RAYS, jitter_m=0.3)
    errors = []
    for seed in range(12):
        blurred, places = walk(SITE, (5.0, 2.5), lost, np.random.default_rng(seed))
        assert places == [(5.0, 2.5)]  # the place is the true one
        errors.append(distance_to_walls(wall_places(blurred)).max())
    assert distance_to_walls(wall_places(exact)).max() < 2 * CELL
    assert 0.1 < np.median(errors) < 0.9


def test_a_walk_may_scan_another_scene_than_the_site():
    table = sides(rectangle(6.0, 2.0, 7.0, 3.0))
    scene = Scene.from_segments(np.concatenate([SITE.plan.segments, table]))
    grid, _ = walk(SITE, (4.0, 2.5), WalkSettings(), np.random.default_rng(0), scene)
    places = wall_places(grid)
    assert (np.hypot(*(places - (6.0, 2.5)).T) < 0.2).any()
    plain, _ = walk(SITE, (4.0, 2.5), WalkSettings(), np.random.default_rng(0))
    assert not (np.hypot(*(wall_places(plain) - (6.0, 2.5)).T) < 0.2).any()


def test_clutter_adds_boxes_of_furniture_size_on_indoor_cells():
    rng = np.random.default_rng(0)
    before = SITE.scene.cells.copy()
    for _ in range(20):
        scene = with_clutter(SITE.scene, SITE.indoor, 1, rng)
        added = scene.cells & ~before
        assert not (before & ~scene.cells).any()
        rows, columns = np.nonzero(added)
        size = (np.array([np.ptp(rows), np.ptp(columns)]) + 1) * CELL
        assert ((size >= CELL) & (size <= 1.25 + 1e-9)).all()
        assert (added & SITE.indoor).any()
    assert np.array_equal(SITE.scene.cells, before)
    assert (scene.origin, scene.resolution) == (SITE.scene.origin, SITE.scene.resolution)


def test_clutter_at_the_border_stays_there():
    empty = Scene(np.zeros((40, 40), bool), CELL, (0.0, 0.0))
    corner = np.zeros((40, 40), bool)
    corner[0, 0] = corner[39, 39] = True
    cells = with_clutter(empty, corner, 30, np.random.default_rng(0)).cells
    assert cells[0, 0]
    assert cells[39, 39]
    assert cells.mean() < 0.4
    assert not cells[0, 39]


def test_without_indoor_cells_there_is_no_clutter():
    scene = with_clutter(SITE.scene, np.zeros_like(SITE.indoor), 5, np.random.default_rng(0))
    assert np.array_equal(scene.cells, SITE.scene.cells)
