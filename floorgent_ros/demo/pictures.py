"""The demo's pictures: one prediction in full, and the walk as an animation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from numpy.typing import NDArray
from tqdm import tqdm

from floorgent_ros import plots
from floorgent_ros.demo.records import Record
from floorgent_ros.geometry.grid import OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.simulation.world import World

MAX_FRAMES = 48
_MARGIN_M = 1.5


def draw(records: Sequence[Record], world: World, out: Path) -> list[Path]:
    """Write demo.png (a prediction early in the walk, when most is unseen) and walk.gif into the folder."""
    shown = records[len(records) // 4]
    title = "FloorGenT completes the floor that the robot has not seen"
    picture = plots.save(plots.prediction_figure(shown.snapshot, title), out / "demo.png")
    return [picture, animate(records, world, out / "walk.gif")]


def animate(records: Sequence[Record], world: World, path: Path) -> Path:
    """Write the walk as a GIF: the robot's map, and the distances that it was given."""
    chosen = np.unique(np.linspace(0, len(records) - 1, MAX_FRAMES).round().astype(int))
    film = Film(world.truth, plots.distance_scale([records[index].snapshot.distance for index in chosen]))
    bar = tqdm(chosen, desc="drawing the walk", bar_format="{desc:<20}{bar:30} {n}/{total} frames")
    plots.save_animation((film.frame(records[index]) for index in bar), path)
    return path


class Film:
    """Draws moments of a walk: axes and scale once, then in each frame only what changes."""

    def __init__(self, truth: OccupancyMap, max_m: float) -> None:
        """truth: the building, its walls drawn faintly, for the viewer alone. max_m: end of the scale."""
        self._truth, self._max_m = truth, max_m
        limits = _limits(truth)
        across, up = limits[1] - limits[0], limits[3] - limits[2]
        wide = across > up
        size = 6.2 / max(across, up)  # in a metre
        if wide:
            figure = plots.new_figure(across * size + 0.9, 2 * up * size + 2.4)
            self._axes = figure.subplots(2, 1)
        else:
            figure = plots.new_figure(2 * across * size + 1.8, up * size + 1.9)
            self._axes = figure.subplots(1, 2)
        self._figure = figure
        figure.set_dpi(90)
        titles = ("The robot's map and its way", "Predicted distance to everywhere, seen or not")
        for axes, title in zip(self._axes, titles, strict=True):
            plots.frame_axes(axes, title, limits)
        height = 1.0 / figure.get_figheight()  # an inch
        inset = 1.0 / figure.get_figwidth()
        figure.subplots_adjust(
            left=0.6 * inset, right=1 - 0.15 * inset, top=1 - 0.35 * height, bottom=1.25 * height, hspace=0.32
        )
        scale = figure.add_axes((0.2, 0.48 * height, 0.6, 0.13 * height))
        nothing = plots.draw_distance(self._axes[1], np.full((2, 2), np.inf), (0.0, 0.0), max_m)
        plots.colour_bar(figure, nothing, scale, "horizontal")
        nothing.remove()
        plots.pixels(figure)
        self._canvas = plots.agg_canvas(figure)
        self._empty = self._canvas.copy_from_bbox(figure.bbox)
        self._buildings = [_draw_building(axes, truth) for axes in self._axes]

    def frame(self, record: Record) -> NDArray[np.uint8]:
        """Draw one moment, (rows, columns, RGB)."""
        left, right = self._axes
        snapshot = record.snapshot
        shown: list[Artist | None] = [
            plots.draw_map(left, snapshot.grid),
            plots.draw_distance(right, snapshot.distance, snapshot.origin, self._max_m),
            plots.draw_contours(right, snapshot.distance, snapshot.origin),
            *self._buildings,
            *left.plot(*record.path.T, color=plots.PATH_COLOUR, linewidth=1.3),
            plots.draw_robot(left, *snapshot.source),
            plots.draw_robot(right, *snapshot.source),
        ]
        self._canvas.restore_region(self._empty)
        renderer = self._canvas.get_renderer()
        for artist in filter(None, shown):
            artist.draw(renderer)
            if artist not in self._buildings:
                artist.remove()
        for axes in self._axes:
            for spine in axes.spines.values():  # the pictures cover its inner half
                spine.draw(renderer)
        return plots.canvas_pixels(self._figure)


def _draw_building(axes: Axes, truth: OccupancyMap) -> Artist:
    """The real walls, faint."""
    cells = np.where(truth.cells == OCCUPIED, OCCUPIED, UNKNOWN).astype(np.int8)
    walls = plots.draw_map(axes, OccupancyMap(cells, truth.resolution, truth.origin, truth.yaw))
    walls.set_alpha(0.25)
    return walls


def _limits(truth: OccupancyMap) -> plots.Limits:
    """The building's sides in the map frame, with a margin."""
    rows, columns = np.nonzero(truth.cells != UNKNOWN)
    spans = [(x, y) for x in (columns.min(), columns.max() + 1) for y in (rows.min(), rows.max() + 1)]
    corners = truth.to_frame(spans)
    (x0, y0), (x1, y1) = corners.min(0) - _MARGIN_M, corners.max(0) + _MARGIN_M
    return (float(x0), float(x1), float(y0), float(y1))
