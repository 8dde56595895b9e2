"""`floorgent predict`: a map file and a viewpoint → arrays, a picture, a summary."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from floorgent_ros.config import PredictorSettings
from floorgent_ros.geometry.grid import CELL_M, OccupancyMap
from floorgent_ros.whole_file import check_file, whole_file

if TYPE_CHECKING:
    from floorgent_ros.predictor import DistanceField


def run(options: argparse.Namespace) -> int:
    """Predict as the options say; raises `FloorgentError`."""
    for path in filter(None, (options.out, options.png)):
        check_file(path)
    grid = OccupancyMap.from_file(options.map)
    settings = PredictorSettings.of(options)

    from floorgent_ros.predictor import DistancePredictor

    predictor = DistancePredictor.from_checkpoint(
        options.checkpoint, device=options.device, settings=settings
    )
    field = predictor.predict(grid, (options.viewpoint[0], options.viewpoint[1]))
    if options.out:
        save_arrays(field, options.out)
    if options.png:
        _draw(grid, field, options)
    summary = summarise(field)
    print(json.dumps(summary) if options.json else _lines(summary, predictor.description, options))
    return 0


def save_arrays(field: DistanceField, path: Path) -> None:
    """Write the prediction as .npz; completion i is walls[wall_completion == i], (K, 2, 2) metres."""
    sizes = [len(walls) for walls in field.completions]
    arrays: dict[str, Any] = {
        "distance": field.distance,
        "spread": field.spread,
        "reach_probability": field.reach_probability,
        "occupancy": field.occupancy,
        "walls": np.concatenate([*field.completions, np.zeros((0, 2, 2), np.float32)]),
        "wall_completion": np.repeat(np.arange(len(sizes)), sizes),
        "observed_walls": field.observation.walls,
        "origin": np.array(field.origin),
        "source": np.array(field.source),
        "resolution": np.array(CELL_M),
        "seed": np.array(field.seed, np.uint64),
        "horizon_m": np.array(field.horizon_m),
    }
    with whole_file(path) as part, part.open("wb") as file:  # numpy would append .npz to another name
        np.savez_compressed(file, **arrays)


def summarise(field: DistanceField) -> dict[str, Any]:
    """The prediction in a few numbers that JSON can hold."""
    reached = np.isfinite(field.distance)
    return {
        "source": [float(x) for x in field.source],
        "origin": [float(x) for x in field.origin],
        "resolution_m": CELL_M,
        "seed": int(field.seed),
        "completions": len(field.completions),
        "observed_walls": len(field.observation.walls),
        "predicted_walls": [len(walls) for walls in field.completions],
        "reached_share": float(reached.mean()),
        "farthest_m": float(field.distance[reached].max()) if reached.any() else None,
        "horizon_m": float(field.horizon_m),
        "note": field.source_note,
        "timings_ms": {name: round(float(value), 1) for name, value in field.timings.items()},
    }


def _draw(grid: OccupancyMap, field: DistanceField, options: argparse.Namespace) -> None:
    from floorgent_ros import plots

    x, y = field.source
    title = f"{options.map.stem}: the unseen floor, predicted from ({x:.1f}, {y:.1f})"
    plots.save(plots.prediction_figure(plots.Snapshot.of(grid, field), title), options.png)


def _lines(summary: dict[str, Any], description: str, options: argparse.Namespace) -> str:
    farthest = summary["farthest_m"]
    distance = "nothing reached" if farthest is None else f"up to {farthest:.1f} m away"
    walls = summary["predicted_walls"]
    lines = [
        f"model        {description}",
        f"observed     {summary['observed_walls']} walls",
        f"predicted    {min(walls)} to {max(walls)} walls in {len(walls)} completions",
        f"distance     {summary['reached_share']:.0%} of the window reached, {distance}",
    ]
    lines += [f"note         {summary['note']}"] if summary["note"] else []
    lines += [f"arrays       {options.out}"] if options.out else []
    lines += [f"picture      {options.png}"] if options.png else []
    return "\n".join(lines)
