"""How far it is to everywhere when a planner assumes something of the unknown instead of predicting it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import PredictorSettings
from floorgent_ros.geometry import distance as distances
from floorgent_ros.geometry.costs import cheapest
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN

SURCHARGE = 0.13  # what a cell of unknown space costs more than a free one; the best on train

SATURATION_M = 40.0  # protocol E4: longer is as bad as unreachable

Field = NDArray[np.float64]


def saturated(field: Field) -> Field:
    """(…) metres with inf and NaN; everything beyond `SATURATION_M`, or without a number, becomes it."""
    return np.minimum(np.where(np.isnan(field), SATURATION_M, field), SATURATION_M)


def unknown_is_free(states: NDArray[np.int8]) -> Field:
    """The null hypothesis: only observed walls exist (section IV-E)."""
    return _search(distances.dilate(states == OCCUPIED, PredictorSettings.inflation_radius_m))


def unknown_is_wall(states: NDArray[np.int8]) -> Field:
    """The cautious planner: only what was seen free can be entered."""
    walls = distances.dilate(states == OCCUPIED, PredictorSettings.inflation_radius_m)
    return _search(walls | (states != FREE))


def unknown_costs(states: NDArray[np.int8], surcharge: float = SURCHARGE) -> Field:
    """The null, but every unknown cell costs 1 + surcharge: there may be walls, nobody knows where."""
    return weighted_distance(states, np.where(states == UNKNOWN, surcharge, 0.0))


def weighted_distance(states: NDArray[np.int8], surcharge: Field) -> Field:
    """(256, 256) m: the cheapest way past the observed walls, where a cell costs 1 + surcharge."""
    blocked = distances.dilate(states == OCCUPIED, PredictorSettings.inflation_radius_m)
    return cheapest(blocked, 1.0 + surcharge)


def _search(blocked: NDArray[np.bool_]) -> Field:
    return distances.distance_fields(blocked[None])[0]
