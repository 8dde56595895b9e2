"""Our path from the map's message to the distances' message, by stage and as a whole."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.benchmark.timing import both_clocks, milliseconds
from floorgent_ros.geometry import distance
from floorgent_ros.geometry.direction import dominant_direction
from floorgent_ros.geometry.grid import OccupancyMap, crop
from floorgent_ros.geometry.observation import Observation, observe, walls_around
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.predictor import DistanceField, DistancePredictor
from floorgent_ros.schedule import identity

# what `DistancePredictor.predict` times itself, under the names of the report
PREDICTED = {
    "trim": "trim and doors",
    "rasterise": "rasterise",
    "distance": "distance",
    "choose": "choose",
    "summarise": "median",
}
WHOLE_CPU = "end to end, processor time"
STAGES = (
    "message to grid",
    "crop",
    "tracing",
    "observation",
    "encoder",
    "decode",
    *PREDICTED.values(),
    "message fill",
)


class Pipeline:
    """One map and viewpoint, again and again; without ROS there are no message stages."""

    def __init__(
        self, predictor: DistancePredictor, grid: OccupancyMap, viewpoint: tuple[float, float]
    ) -> None:
        self.predictor, self.grid, self.viewpoint = predictor, grid, viewpoint
        self._ros = conversions()
        self._message: Any = self._ros.map_message(grid, "map") if self._ros else None

    def receive(self) -> OccupancyMap:
        """What the node's callback does with a map: message to grid, and whether it is a new one."""
        if self._ros is None:
            return self.grid
        grid = self._ros.occupancy_map(self._message)
        identity(grid, "map")
        return grid

    def fill(self, field: DistanceField) -> Any:
        """The message that is published."""
        if self._ros is None:
            return None
        message = self._message
        info = self._ros.window_info(field, message.info.map_load_time)
        return self._ros.distance_grid(field, message.header, info, message.header.stamp)

    def __call__(self) -> DistanceField:
        """From callback entry to the filled message."""
        field = self.predictor.predict(self.receive(), self.viewpoint)
        self.fill(field)
        return field

    def stages(self) -> dict[str, float]:
        """Milliseconds of each stage of one pass, of the whole, and the walls drawn a completion."""
        found: dict[str, float] = {}
        fields: list[DistanceField] = []

        def keep() -> None:
            fields.append(self())

        found["end to end"], found[WHOLE_CPU] = both_clocks(keep)
        field = fields[0]
        found |= {PREDICTED[name]: field.timings[name] for name in PREDICTED if name in field.timings}
        known = (*PREDICTED, "observe", "complete")
        found |= self.predictor.sampler.fastest.milliseconds
        found |= {name: value for name, value in field.timings.items() if name not in known}
        found |= self._observing(field.observation)
        if self._ros is not None:
            found["message to grid"] = milliseconds(self.receive)
            found["message fill"] = milliseconds(lambda: self.fill(field))
        found["walls a completion"] = float(np.mean([len(walls) for walls in field.completions]))
        return found

    def _observing(self, seen: Observation) -> dict[str, float]:
        """The parts of `observe`, which the predictor times as one."""
        settings = self.predictor.observation
        turned = seen.frame.angle != 0.0

        def crops() -> None:
            crop(self.grid, seen.window, settings)
            if turned:
                crop(self.grid, seen.frame, settings)

        def tracing() -> None:
            dominant_direction(walls_around(self.grid, self.viewpoint, settings))

        whole = milliseconds(lambda: observe(self.grid, self.viewpoint, settings))
        parts = {"crop": milliseconds(crops), "tracing": milliseconds(tracing)}
        drawing = milliseconds(lambda: rasterise_metres(seen.walls, seen.frame))
        return {**parts, "observation": max(drawing, whole - sum(parts.values()))}


def conversions() -> Any:
    """The node's conversions, or None where ROS is not installed."""
    try:
        return importlib.import_module("floorgent_ros.ros.conversions")
    except ImportError:
        return None


def blocked_of(field: DistanceField, inflation_radius_m: float) -> NDArray[np.bool_]:
    """The cells that each completion's search cannot enter, (N, 256, 256) bool."""
    states, window = field.observation.states, field.observation.window
    rasters = [rasterise_metres(walls, window) for walls in field.completions]
    return np.stack([distance.blocked(states, raster, inflation_radius_m) for raster in rasters])
