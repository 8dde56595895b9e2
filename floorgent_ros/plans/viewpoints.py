"""Viewpoints of a floor: rejection sampling and a subset that is far apart (section III-C, equation 4)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.canonical import distance_to
from floorgent_ros.plans.plan import Plan

CANDIDATES = 1000  # a plan
APART_M = 0.5  # d_pmin
CLEARANCE_M = 0.4  # of the nearest segment (section IV)
_MASK_M = 0.1  # cells in which "inside a space" is decided
_ROUND = 1000  # points a round of rejection
_ROUNDS = 200  # a plan in which this many rounds find too little has no more room

Points = NDArray[np.float64]


def viewpoints(plan: Plan, segments: NDArray[np.float64], rng: np.random.Generator) -> Points:
    """(K, 2) metres in the plan's spaces, at least 0.4 m off the (N, 2, 2) segments and 0.5 m apart.

    Empty for a plan without spaces, or without room in them.
    """
    return far_apart(candidates(plan, segments, CANDIDATES, rng), APART_M)


def candidates(plan: Plan, segments: NDArray[np.float64], count: int, rng: np.random.Generator) -> Points:
    """At most `count` points, uniform over the bounding box and kept where they may be (III-C)."""
    low, high = plan.bounds
    shape = np.maximum(np.ceil((high - low) / _MASK_M).astype(int), 1)
    inside = plan.indoor(lambda points: (points - low) / _MASK_M, (int(shape[1]), int(shape[0])))
    found = np.zeros((0, 2))
    for _ in range(_ROUNDS if inside.any() else 0):
        points = rng.uniform(low, high, (_ROUND, 2))
        column, row = np.minimum(((points - low) / _MASK_M).astype(int), shape - 1).T
        points = points[inside[row, column]]
        clear = [distance_to(segments, (x, y)).min() >= CLEARANCE_M for x, y in points[: 2 * count]]
        found = np.concatenate([found, points[: 2 * count][clear]])
        if len(found) >= count:
            break
    return found[:count]


def far_apart(points: Points, apart: float) -> Points:
    """Equation 4: from the first on, always the point farthest from all chosen, until closer than `apart`."""
    if len(points) == 0:
        return points
    chosen = [0]
    near = np.linalg.norm(points - points[0], axis=1)
    while near.max() >= apart:
        chosen.append(int(near.argmax()))
        near = np.minimum(near, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return points[chosen]
