"""A replay as an animation: the robot's map with the predicted walls, and the distances, as it moves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from floorgent_ros import plots
from floorgent_ros.bags.replay import Replayed
from floorgent_ros.geometry.grid import WINDOW_M, OccupancyMap
from floorgent_ros.whole_file import whole_file

MAX_FRAMES = 48


class Film:
    """Keeps at most 2 x `MAX_FRAMES` moments, evenly spread, however many come."""

    def __init__(self) -> None:
        self._kept: list[tuple[plots.Snapshot, int]] = []
        self._path: list[tuple[float, float]] = []
        self._step, self._count = 1, 0

    def add(self, replayed: Replayed) -> None:
        """Take the next moment."""
        self._path.append(replayed.field.source)
        if self._count % self._step == 0:
            snapshot = plots.Snapshot.of(
                _nearby(replayed.request.map.grid, replayed.field.source), replayed.field
            )
            self._kept.append((snapshot, len(self._path)))
        self._count += 1
        if len(self._kept) >= 2 * MAX_FRAMES:
            self._kept, self._step = self._kept[::2], 2 * self._step

    def save(self, path: Path) -> None:
        """Write the GIF, whole or not at all."""
        chosen = np.unique(np.linspace(0, len(self._kept) - 1, MAX_FRAMES).round().astype(int))
        kept = [self._kept[index] for index in chosen]
        max_m = plots.distance_scale([snapshot.distance for snapshot, _ in kept])
        way = np.array(self._path, float)
        frames = [_frame(snapshot, way[:length], max_m) for snapshot, length in kept]
        with whole_file(path) as part:
            plots.save_animation(frames, part)


def _nearby(grid: OccupancyMap, place: tuple[float, float]) -> OccupancyMap:
    """The map's part that a window around the place can show, as a copy: whole maps would fill the memory."""
    column, row = grid.to_cell(place)
    reach = WINDOW_M / np.sqrt(2) / grid.resolution + 1  # the window's corners, whatever the map's yaw
    height, width = grid.cells.shape
    left, right = (int(np.clip(column + side * reach, 0, width)) for side in (-1, 1))
    low, high = (int(np.clip(row + side * reach, 0, height)) for side in (-1, 1))
    if left == right or low == high:
        return OccupancyMap(np.full((1, 1), -1, np.int8), grid.resolution, grid.origin, grid.yaw)
    x, y = grid.to_frame((left, low)).tolist()
    return OccupancyMap(grid.cells[low:high, left:right].copy(), grid.resolution, (x, y), grid.yaw)


def _frame(snapshot: plots.Snapshot, way: NDArray[np.float64], max_m: float) -> NDArray[np.uint8]:
    """One moment, (rows, columns, RGB)."""
    figure = plots.new_figure(10.4, 5.2)
    figure.set_dpi(90)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.06, right=0.91, top=0.93, bottom=0.1, wspace=0.16)
    plots.draw_map(left, snapshot.grid, fade=0.6)
    for index, walls in enumerate(snapshot.completions):
        colour = plots.completion_colour(index, len(snapshot.completions))
        plots.draw_walls(left, walls, colour, 1.0, 0.7)
    plots.draw_walls(left, snapshot.walls, "black", 1.4)
    left.plot(*way.T, color=plots.PATH_COLOUR, linewidth=1.2)
    image = plots.draw_distance(right, snapshot.distance, snapshot.origin, max_m)
    plots.draw_contours(right, snapshot.distance, snapshot.origin)
    titles = ("The robot's map, predicted walls in colour", "Predicted distance")
    for axes, title in zip((left, right), titles, strict=True):
        plots.draw_robot(axes, *snapshot.source)
        plots.frame_axes(axes, title, snapshot.limits)
    plots.colour_bar(figure, image, figure.add_axes((0.925, 0.1, 0.015, 0.83)))
    return plots.pixels(figure)
