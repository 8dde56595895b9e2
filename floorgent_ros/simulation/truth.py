"""How far it really is: distances with every wall and window of a plan known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import PredictorSettings
from floorgent_ros.geometry.distance import dilate, distance_fields
from floorgent_ros.geometry.grid import Window
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.plans.plan import Plan


@dataclass(frozen=True, eq=False)
class Truth:
    """In the published window, (256, 256) each; blocked: walls with their inflation.

    distance: m, +inf where no way leads, from where a prediction's search would begin. indoor: cells inside
    a space of the plan.
    """

    distance: NDArray[np.float64]
    blocked: NDArray[np.bool_]
    indoor: NDArray[np.bool_]

    @classmethod
    def of(cls, plan: Plan, viewpoint: tuple[float, float]) -> Truth:
        """From a viewpoint, map frame, m."""
        window = Window(viewpoint)
        blocked = dilate(rasterise_metres(plan.segments, window), PredictorSettings.inflation_radius_m)
        indoor = plan.indoor(window.to_cell, blocked.shape)
        return cls(distance_fields(blocked[None])[0], blocked, indoor)

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Cells that protocol E4 counts: indoors, and a way leads there."""
        return self.indoor & np.isfinite(self.distance)

    @property
    def shut(self) -> NDArray[np.bool_]:
        """Indoor cells off the walls that no way leads to."""
        return self.indoor & ~np.isfinite(self.distance) & ~self.blocked
