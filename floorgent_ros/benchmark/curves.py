"""Cost against completions, against walls and against the map's size, and their picture."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from floorgent_ros import plots
from floorgent_ros.benchmark.case import enlarged
from floorgent_ros.benchmark.pipeline import WHOLE_CPU, Pipeline

COMPLETIONS = (1, 8, 32, 128)
LOG_ODDS = (-2.0, -1.0, -0.5, 0.0, 0.25)
MAP_SIDES = (400, 1000, 2000, 4000)
SHOWN = ("end to end", WHOLE_CPU, "decode", "distance")

Point = dict[str, float]


def measure(pipeline: Pipeline, rounds: int) -> dict[str, list[Point]]:
    """Medians of the stages, ms, along each of the three axes."""
    predictor, standard = pipeline.predictor, pipeline.predictor.settings
    curves: dict[str, list[Point]] = {"completions": [], "walls": [], "map side": []}
    try:
        for count in COMPLETIONS:
            predictor.settings = dataclasses.replace(standard, completions=count)
            curves["completions"].append({"completions": count, **_medians(pipeline, rounds)})
        for odds in LOG_ODDS:
            predictor.settings = dataclasses.replace(standard, wall_log_odds=odds)
            curves["walls"].append({"wall_log_odds": odds, **_medians(pipeline, rounds)})
    finally:
        predictor.settings = standard
    for side in MAP_SIDES:
        large = Pipeline(predictor, enlarged(pipeline.grid, side), pipeline.viewpoint)
        curves["map side"].append({"map side": side, **_medians(large, rounds)})
    return curves


def _medians(pipeline: Pipeline, rounds: int) -> Point:
    pipeline.stages()
    passes = [pipeline.stages() for _ in range(rounds)]
    return {name: round(float(np.median([found[name] for found in passes])), 2) for name in passes[0]}


def draw(report: dict[str, Any], path: Path) -> None:
    """One panel for each axis, all in ms."""
    curves: dict[str, list[Point]] = report["curves"]
    figure = plots.new_figure(13, 4.2)
    axes = figure.subplots(1, 3)
    panels = (
        ("completions", "completions", "completions"),
        ("walls", "walls a completion", "walls a completion, by wall_log_odds"),
        ("map side", "map side", "cells a side of the map"),
    )
    for panel, (curve, key, label) in zip(axes, panels, strict=True):
        points = sorted(curves[curve], key=lambda point: point[key])
        for name in filter(points[0].__contains__, SHOWN):
            panel.plot(
                [point[key] for point in points], [point[name] / 1e3 for point in points], "o-", label=name
            )
        panel.set_xlabel(label)
        panel.set_xlim(left=0)
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
    axes[0].set_ylabel("s")
    axes[0].legend(frameon=False)
    machine = report["machine"]
    figure.suptitle(f"{machine['device']}, {machine['threads']} threads, {machine['precision']}")
    plots.save(figure, path)
