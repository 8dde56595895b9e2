"""The demo's numbers: how many, how fast, and how far the predictions are from the building as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.config import PredictorSettings
from floorgent_ros.demo.records import Record
from floorgent_ros.geometry.distance import blocked, distance_fields
from floorgent_ros.geometry.grid import FREE, UNKNOWN, WINDOW_M, Window, crop
from floorgent_ros.simulation.world import World


@dataclass(frozen=True)
class Quality:
    """One prediction beside the building; all over the window's cells that a robot can really get to.

    reach: share with a finite predicted distance. seen: share that the robot has already mapped as free.
    error_m: mean absolute error of the distance, saturated at 40 m; null_error_m: that of a planner that
    takes the unseen as free.
    """

    reach: float
    seen: float
    error_m: float
    null_error_m: float


@dataclass(frozen=True)
class Summary:
    """What the demo prints."""

    maps: int
    predictions: int
    latency_s: tuple[float, float]  # median, 95 %
    age_s: tuple[float, float]
    quality: Quality | None


def summarise(records: Sequence[Record], world: World) -> Summary:
    """Count, and average over the predictions; records must not be empty."""
    qualities = [quality for record in records if (quality := compare(record, world))]
    rows = np.array([(q.reach, q.seen, q.error_m, q.null_error_m) for q in qualities])
    return Summary(
        maps=records[-1].maps,
        predictions=len(records),
        latency_s=_median_and_95([record.latency_s for record in records]),
        age_s=_median_and_95([record.age_s for record in records]),
        quality=Quality(*rows.mean(0).tolist()) if qualities else None,
    )


def compare(record: Record, world: World) -> Quality | None:
    """Measure one prediction; None where the robot's place is not one of the building's."""
    window, radius = Window(record.snapshot.source), PredictorSettings().inflation_radius_m
    building, observed = crop(world.truth, window), crop(record.snapshot.grid, window)
    nothing = np.zeros(building.shape, bool)
    shut = blocked(building, nothing, radius) | (building == UNKNOWN)
    truth, null = distance_fields(np.stack([shut, blocked(observed, nothing, radius)]))
    floor = np.isfinite(truth)
    if not floor.any():
        return None

    def error(distance: NDArray[np.floating]) -> float:
        return float(np.abs(_saturated(distance[floor]) - _saturated(truth[floor])).mean())

    predicted = record.snapshot.distance
    return Quality(
        reach=float(np.isfinite(predicted[floor]).mean()),
        seen=float((observed[floor] == FREE).mean()),
        error_m=error(predicted),
        null_error_m=error(null),
    )


def table(summary: Summary) -> str:
    """The summary in a few lines."""
    lines = [
        f"maps in      {summary.maps}",
        f"predictions  {summary.predictions}",
        f"latency      {_times(summary.latency_s)}  map or pose in the node → distances published",
        f"age          {_times(summary.age_s)}  map's stamp → distances at the planner",
    ]
    if summary.quality:
        q = summary.quality
        lines += [
            f"seen         {q.seen:.1%} of the floor that a robot can get to within the window was mapped",
            f"reach        {q.reach:.1%} of it had a finite predicted distance",
            f"error        {q.error_m:.2f} m on it; {q.null_error_m:.2f} m if unseen is free (mean absolute)",
        ]
    return "\n".join(lines)


def _saturated(distance: NDArray[np.floating]) -> NDArray[np.floating]:
    """At most 40 m; what is occupied or unreachable counts 40 m."""
    return np.minimum(np.nan_to_num(distance, nan=np.inf), WINDOW_M)


def _median_and_95(values: Sequence[float]) -> tuple[float, float]:
    median, high = np.percentile(values, (50, 95)).tolist()
    return median, high


def _times(pair: tuple[float, float]) -> str:
    return f"median {pair[0]:.2f} s, 95 % {pair[1]:.2f} s"
