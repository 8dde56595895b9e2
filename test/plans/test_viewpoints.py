"""Viewpoints: where a robot can be (III-C), and far apart (equation 4)."""

from __future__ import annotations

import numpy as np

from floorgent_ros.geometry.canonical import distance_to
from floorgent_ros.plans.plan import Plan
from floorgent_ros.plans.viewpoints import APART_M, CLEARANCE_M, candidates, far_apart, viewpoints

SQUARE = np.array([[0.0, 0], [6, 0], [6, 4], [0, 4]])
WALLS = np.stack([SQUARE, np.roll(SQUARE, -1, axis=0)], 1)
AWAY = np.array([[[20.0, 0], [20, 4]]])
PLAN = Plan(np.concatenate([WALLS, AWAY]), spaces=(SQUARE,))


def test_viewpoints_are_inside_clear_of_walls_and_apart():
    points = viewpoints(PLAN, PLAN.segments, np.random.default_rng(0))
    assert len(points) > 20
    assert (points > CLEARANCE_M).all()
    assert (points < np.array([6, 4]) - CLEARANCE_M).all()
    assert min(distance_to(PLAN.segments, tuple(point)).min() for point in points) >= CLEARANCE_M
    gaps = np.linalg.norm(points[:, None] - points, axis=2) + np.eye(len(points)) * 9
    assert gaps.min() >= APART_M


def test_the_choice_is_the_farthest_point_each_time():
    points = np.random.default_rng(1).uniform(0, 5, (40, 2))
    chosen = far_apart(points, 1.0)
    assert (chosen[0] == points[0]).all()
    for count in range(1, len(chosen)):
        gaps = np.linalg.norm(points[:, None] - chosen[:count], axis=2).min(1)
        assert (chosen[count] == points[gaps.argmax()]).all()
    assert np.linalg.norm(points[:, None] - chosen, axis=2).min(1).max() < 1.0  # none is left that is far


def test_nothing_where_there_is_no_room_or_no_space():
    rng = np.random.default_rng(0)
    assert viewpoints(Plan(WALLS), WALLS, rng).shape == (0, 2)
    narrow = SQUARE * 0.1
    shed = Plan(np.stack([narrow, np.roll(narrow, -1, axis=0)], 1), spaces=(narrow,))
    assert candidates(shed, shed.segments, 10, rng).shape == (0, 2)
