"""Completions drawn in the published window and searched from its viewpoint."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.distance import blocked, distance_fields
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.stopwatch import Stopwatch


@dataclass(frozen=True, eq=False)
class Searched:
    """Of N completions: rasters and blocked (N, 256, 256) bool, fields (N, 256, 256) m, +inf unreachable."""

    rasters: NDArray[np.bool_]
    blocked: NDArray[np.bool_]
    fields: NDArray[np.float64]

    @classmethod
    def of(
        cls,
        observation: Observation,
        completions: list[NDArray[np.float32]],
        inflation_radius_m: float,
        watch: Stopwatch,
        rasters: NDArray[np.bool_] | None = None,
    ) -> Searched:
        """Draw the walls, N arrays (K, 2, 2), m, map frame, and search each completion.

        rasters (N, 256, 256): completions that are drawn already, whatever the walls say. watch: gets the
        stages rasterise and distance.
        """
        with watch("rasterise"):
            if rasters is None:
                rasters = np.stack([rasterise_metres(walls, observation.window) for walls in completions])
            states = observation.states
            shut = np.stack([blocked(states, raster, inflation_radius_m) for raster in rasters])
        with watch("distance"):
            fields = distance_fields(shut)
        return cls(rasters, shut, fields)

    def only(self, chosen: NDArray[np.int64]) -> Searched:
        """The completions of these indices (K,) alone, in that order."""
        return Searched(self.rasters[chosen], self.blocked[chosen], self.fields[chosen])
