"""The bound: what a model would score that knew the unseen walls exactly."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import PredictorSettings
from floorgent_ros.evaluation.cases import Case
from floorgent_ros.geometry.grid import CELL_M
from floorgent_ros.geometry.observation import Observation, observe
from floorgent_ros.geometry.segments import target_walls, to_metres
from floorgent_ros.predictor import DistanceField, distance_field_of, with_doors


def oracle(
    case: Case,
    horizon_m: float,
    jitter_cells: float = 0.0,
    settings: PredictorSettings | None = None,
    seed: int = 0,
) -> DistanceField:
    """Complete the case with the training target itself: its true unseen walls within horizon_m.

    What is left of the error comes from the target's rounding, from the horizon, and from observed walls that
    are a cell thicker in the window than in the truth.

    jitter_cells: what a model would score that knew every wall but for a shift of its own, normal with this
    σ in x and in y; then as many completions as the settings say are drawn, with doors.
    """
    settings = settings or PredictorSettings()
    observation = observe(case.grid, case.viewpoint)
    levels = target_walls(case.segments, observation.frame, observation.image, horizon_m)
    walls = to_metres(levels, observation.frame).astype(np.float32)
    return distance_field_of(
        case.grid,
        observation,
        _jittered(walls, observation, jitter_cells, settings, seed) if jitter_cells else [walls],
        inflation_radius_m=settings.inflation_radius_m,
        seed=seed,
        horizon_m=horizon_m,
    )


def _jittered(
    walls: NDArray[np.float32],
    observation: Observation,
    jitter_cells: float,
    settings: PredictorSettings,
    seed: int,
) -> list[NDArray[np.float32]]:
    """Completions (K, 2, 2) of walls (K, 2, 2), m, each wall shifted by itself."""
    rng = np.random.default_rng(seed)
    shifts = rng.normal(0.0, jitter_cells * CELL_M, (settings.completions, len(walls), 1, 2))
    return with_doors(list((walls + shifts).astype(np.float32)), observation, settings)
