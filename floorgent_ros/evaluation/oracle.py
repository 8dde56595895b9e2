"""The bound: what a model would score that knew the unseen walls exactly."""

from __future__ import annotations

import numpy as np

from floorgent_ros.config import PredictorSettings
from floorgent_ros.evaluation.cases import Case
from floorgent_ros.geometry.observation import observe
from floorgent_ros.geometry.segments import target_walls, to_metres
from floorgent_ros.predictor import DistanceField, distance_field_of


def oracle(case: Case, horizon_m: float) -> DistanceField:
    """Complete the case with the training target itself: its true unseen walls within horizon_m.

    What is left of the error comes from the target's rounding, from the horizon, and from observed walls that
    are a cell thicker in the window than in the truth.
    """
    observation = observe(case.grid, case.viewpoint)
    walls = target_walls(case.segments, observation.frame, observation.image, horizon_m)
    return distance_field_of(
        case.grid,
        observation,
        [to_metres(walls, observation.frame).astype(np.float32)],
        inflation_radius_m=PredictorSettings.inflation_radius_m,
        seed=0,
        horizon_m=horizon_m,
    )
