"""Draws what is predicted in real maps: ``map_gallery.py MAPS OUT`` makes one picture a map_server map.

A row a viewpoint, five of them, far from each other, in free cells away from walls: what the network sees,
all completions, the median distance.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from tqdm import tqdm

from floorgent_ros.geometry.grid import FREE, OccupancyMap
from floorgent_ros.plots import (
    Snapshot,
    completion_colour,
    draw_contours,
    draw_distance,
    draw_map,
    draw_robot,
    draw_walls,
    frame_axes,
    new_figure,
    save,
)
from floorgent_ros.predictor import DistanceField, DistancePredictor

CLEARANCE_M = (0.5, 2.0)  # to the nearest obstacle: off the walls, but not on the open ground outside
MAX_M = 40.0


def viewpoints(grid: OccupancyMap, count: int) -> NDArray[np.float64]:
    """(count, 2) free places, metres, map frame: the clearest first, then always the farthest from those."""
    free = ((grid.cells >= 0) & (grid.cells <= 25)).astype(np.uint8)
    clearance = (
        cv2.distanceTransform(np.pad(free, 1, constant_values=1), cv2.DIST_L2, 5)[1:-1, 1:-1]
        * grid.resolution
    )
    low, high = CLEARANCE_M
    rows, columns = np.nonzero((clearance > low) & (clearance < high))
    places = grid.to_frame(np.stack([columns, rows], -1) + 0.5)
    chosen = [int(np.argmax(clearance[rows, columns]))]
    nearest = np.full(len(places), np.inf)
    while len(chosen) < count:
        nearest = np.minimum(nearest, np.linalg.norm(places - places[chosen[-1]], axis=1))
        chosen.append(int(np.argmax(nearest)))
    return places[chosen]


def gallery(grid: OccupancyMap, name: str, predictor: DistancePredictor, count: int) -> Figure:
    """Predict at `count` viewpoints and draw a row for each."""
    figure = new_figure(13.5, 4.2 * count)
    rows = figure.subplots(count, 3, squeeze=False)
    for row, (x, y) in zip(rows, viewpoints(grid, count), strict=True):
        field = predictor.predict(grid, (float(x), float(y)))
        snapshot = Snapshot.of(grid, field)
        observed, completed, distance = row
        _draw_observation(observed, field)
        draw_map(completed, grid, fade=0.75)
        for index, walls in enumerate(field.completions):
            draw_walls(completed, walls, completion_colour(index, len(field.completions)), 0.9, 0.7)
        draw_walls(completed, field.observation.walls, "black", 1.1)
        draw_robot(completed, *field.source, size=20)
        frame_axes(completed, f"{len(field.completions)} completions", snapshot.limits)
        draw_distance(distance, field.distance, field.origin, MAX_M)
        draw_contours(distance, field.distance, field.origin)
        draw_robot(distance, *field.source, size=20)
        frame_axes(distance, f"median distance, 0 to {MAX_M:g} m", snapshot.limits)
    figure.suptitle(name, fontsize=14)
    figure.tight_layout(rect=(0, 0, 1, 0.99))
    return figure


def _draw_observation(axes: Axes, field: DistanceField) -> None:
    image = field.observation.image
    shades = np.where(image == FREE, 255, np.where(image > 0, 0, 213)).astype(np.uint8)
    axes.imshow(shades, origin="lower", cmap="gray", vmin=0, vmax=255)
    axes.set_title("what the network sees", fontsize=11)
    axes.set_xticks([])
    axes.set_yticks([])


def main() -> None:
    """Draw every map of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("maps", type=Path, help="folder of map_server maps (.yaml)")
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--viewpoints", type=int, default=5)
    options = parser.parse_args()
    predictor = DistancePredictor.from_checkpoint()
    for path in tqdm(sorted(options.maps.glob("*.yaml")), unit="map"):
        figure = gallery(OccupancyMap.from_file(path), path.stem, predictor, options.viewpoints)
        save(figure, options.out / f"real_{path.stem}.png")


if __name__ == "__main__":
    main()
