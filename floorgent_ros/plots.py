"""Pictures of maps, predicted walls and distances, with matplotlib and no display.

One look everywhere: observed walls black, each completion a colour of its own (the one that RViz shows),
distances from violet (near) to yellow (far), unreachable grey, occupied black; axes in metres.
"""

from __future__ import annotations

import colorsys
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection
from matplotlib.colors import Colormap, ListedColormap, to_rgb
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.transforms import Affine2D
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from floorgent_ros.geometry.grid import WINDOW_M, OccupancyMap
from floorgent_ros.whole_file import whole_file

if TYPE_CHECKING:
    from floorgent_ros.predictor import DistanceField

UNSEEN_COLOUR, ROBOT_COLOUR, PATH_COLOUR = "#d5d8dc", "#d62728", "#d62728"
MAX_SHOWN = 8  # completions
FRAME_MS, LAST_FRAME_MS = 220, 2500
Limits = tuple[float, float, float, float]  # x low, x high, y low, y high


@dataclass(frozen=True, eq=False)
class Snapshot:
    """One prediction as it is drawn, whether it came from the predictor or over topics; map frame, metres.

    distance: (256, 256) m, +inf unreachable, NaN occupied, its corner at origin. walls: (N, 2, 2) observed.
    completions: each (K, 2, 2).
    """

    grid: OccupancyMap
    source: tuple[float, float]
    origin: tuple[float, float]
    distance: NDArray[np.float32]
    walls: NDArray[np.float64]
    completions: Sequence[NDArray[np.float32]]

    @classmethod
    def of(cls, grid: OccupancyMap, field: DistanceField) -> Snapshot:
        """Take what is drawn from a prediction on a map."""
        walls, completions = field.observation.walls, field.completions
        return cls(grid, field.source, field.origin, field.distance, walls, completions)

    @property
    def limits(self) -> Limits:
        """The window's sides."""
        x, y = self.origin
        return (x, x + WINDOW_M, y, y + WINDOW_M)


def completion_colour(index: int, count: int) -> tuple[float, float, float]:
    """Red, green, blue of a completion: the hues of the node's markers, darker for white paper."""
    return colorsys.hsv_to_rgb(0.12 + 0.75 * index / max(count, 1), 0.95, 0.8)


def distance_colours() -> Colormap:
    """Viridis without its darkest end, which could be taken for a wall; grey where nothing reaches."""
    colours = ListedColormap(mpl.colormaps["viridis"](np.linspace(0.12, 1.0, 256)), "distance")
    return colours.with_extremes(bad="black", over=UNSEEN_COLOUR)


def frame_axes(axes: Axes, title: str, limits: Limits | None = None, *, labels: bool = True) -> None:
    """Metres on both axes, equal aspect, a title."""
    axes.set_aspect("equal")
    axes.set_facecolor(UNSEEN_COLOUR)
    axes.set_title(title, fontsize=11 if labels else 9, pad=6 if labels else 3)
    if limits:
        axes.set_xlim(*limits[:2])
        axes.set_ylim(*limits[2:])
    if labels:
        axes.set_xlabel("x [m]")
        axes.set_ylabel("y [m]")
    else:
        axes.set_xticks([])
        axes.set_yticks([])


def draw_map(axes: Axes, grid: OccupancyMap, *, fade: float = 0.0) -> AxesImage:
    """Free white, occupied black, unknown clear, turned as the map is; fade 1 leaves nothing of the black.

    The axes' limits stay as they are.
    """
    limits = (axes.get_xlim(), axes.get_ylim())
    shades = np.zeros((*grid.cells.shape, 4), np.uint8)  # unknown stays clear: the axes' own colour
    known = grid.cells >= 0
    blackness = np.clip(grid.cells[known, None] / 100, 0, 1) * (1 - fade)
    shades[known, :3] = (255 * (1 - blackness)).astype(np.uint8)
    shades[known, 3] = 255
    height, width = grid.cells.shape
    image = axes.imshow(
        shades,
        origin="lower",
        extent=(0, width * grid.resolution, 0, height * grid.resolution),
        interpolation="antialiased",
        zorder=0,
    )
    placed = Affine2D().rotate(grid.yaw).translate(*grid.origin)
    image.set_transform(placed + axes.transData)
    axes.set(xlim=limits[0], ylim=limits[1])
    return image


def draw_walls(
    axes: Axes,
    walls: NDArray[np.floating],
    colour: ArrayLike | str = "black",
    width: float = 1.4,
    alpha: float = 1.0,
) -> None:
    """Draw segments (N, 2, 2), metres."""
    lines = LineCollection(
        list(np.asarray(walls)), colors=[colour], linewidths=width, alpha=alpha, capstyle="round", zorder=3
    )
    axes.add_collection(lines, autolim=False)


def draw_distance(
    axes: Axes, distance: NDArray[np.floating], origin: tuple[float, float], max_m: float
) -> AxesImage:
    """Draw a window of distances; the image is what a colour bar takes."""
    shown = np.where(np.isposinf(distance), 2 * max_m, np.minimum(distance, max_m))
    limits = (axes.get_xlim(), axes.get_ylim())
    image = axes.imshow(
        np.ma.masked_invalid(shown),
        origin="lower",
        extent=(origin[0], origin[0] + WINDOW_M, origin[1], origin[1] + WINDOW_M),
        cmap=distance_colours(),
        vmin=0,
        vmax=max_m,
        interpolation="nearest",
        zorder=1,
    )
    axes.set(xlim=limits[0], ylim=limits[1])
    return image


def draw_contours(
    axes: Axes, distance: NDArray[np.floating], origin: tuple[float, float], step_m: float = 5.0
) -> ContourSet | None:
    """Draw a thin line at every step_m of the distances; None where they do not reach that far."""
    reached = np.ma.masked_invalid(np.where(_smooth(distance), distance, np.nan))
    if not reached.count() or reached.max() <= step_m:
        return None
    centres = (np.arange(distance.shape[0]) + 0.5) * WINDOW_M / distance.shape[0]
    return axes.contour(
        origin[0] + centres,
        origin[1] + centres,
        reached,
        levels=np.arange(step_m, float(reached.max()) + step_m, step_m),
        colors="white",
        linewidths=0.6,
        alpha=0.7,
        zorder=2,
    )


def _smooth(distance: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Finite cells whose neighbours differ by a few steps at most; lines would pile up beside a jump."""
    finite = np.where(np.isfinite(distance), distance, np.nan)
    padded = np.pad(finite, 1, mode="edge")
    limit = 4 * WINDOW_M / distance.shape[0]
    smooth = np.isfinite(finite)
    for row, column in ((0, 1), (2, 1), (1, 0), (1, 2)):
        beside = padded[row : row + distance.shape[0], column : column + distance.shape[1]]
        smooth &= ~(np.abs(beside - finite) > limit)
    return smooth


def draw_robot(axes: Axes, x: float, y: float, size: float = 60.0) -> Artist:
    """A red dot."""
    return axes.scatter([x], [y], s=size, c=ROBOT_COLOUR, edgecolors="white", linewidths=1.2, zorder=6)


def distance_scale(distances: Sequence[NDArray[np.floating]]) -> float:
    """A round upper end (m) for the colours of these windows: what 99 % of their finite values keep."""
    finite = np.concatenate([np.asarray(d)[np.isfinite(d)] for d in distances] or [np.zeros(0)])
    return max(10.0, math.ceil(float(np.percentile(finite, 99)) / 5) * 5) if finite.size else 40.0


def prediction_figure(snapshot: Snapshot, title: str = "") -> Figure:
    """Map, completions and median distance side by side."""
    count = len(snapshot.completions)
    shown = min(count, MAX_SHOWN)
    columns = math.ceil(shown / 2)
    thumbs = 2.05 * columns  # in; two rows of them are as high as the large pictures
    figure = new_figure(11.0 + thumbs, 5.3)
    outer = figure.add_gridspec(
        1, 3, width_ratios=(4.2, thumbs, 5.0), left=0.035, right=0.965, top=0.86, bottom=0.1, wspace=0.1
    )
    axes = figure.add_subplot(outer[0])
    draw_map(axes, snapshot.grid)
    draw_robot(axes, *snapshot.source)
    frame_axes(axes, "The robot's map", snapshot.limits)
    inner = outer[1].subgridspec(2, columns, hspace=0.13, wspace=0.05)
    for index in range(shown):
        axes = figure.add_subplot(inner[index // columns, index % columns])
        draw_completion(axes, snapshot, index)
    axes = figure.add_subplot(outer[2])
    max_m = distance_scale([snapshot.distance])
    image = draw_distance(axes, snapshot.distance, snapshot.origin, max_m)
    draw_contours(axes, snapshot.distance, snapshot.origin)
    draw_robot(axes, *snapshot.source)
    frame_axes(axes, f"Median distance over {count} completions", snapshot.limits)
    colour_bar(figure, image, figure.add_axes((axes.get_position().x1 + 0.005, 0.1, 0.009, 0.76)))
    figure.suptitle(title or "FloorGenT: the unseen floor, predicted", fontsize=14, y=0.97)
    return figure


def draw_completion(axes: Axes, snapshot: Snapshot, index: int) -> None:
    """One completion: the map pale, observed walls black, predicted walls in the completion's colour."""
    count = len(snapshot.completions)
    draw_map(axes, snapshot.grid, fade=0.75)
    draw_walls(axes, snapshot.completions[index], completion_colour(index, count), 1.1)
    draw_walls(axes, snapshot.walls, "black", 1.3)
    draw_robot(axes, *snapshot.source, size=16)
    of = f" of {count}" if count > MAX_SHOWN and index == 0 else ""
    frame_axes(axes, f"completion {index + 1}{of}", snapshot.limits, labels=False)


def colour_bar(figure: Figure, image: AxesImage, axes: Axes, orientation: str = "vertical") -> None:
    """Fill axes with the scale in metres; the end beyond it is grey, as what nothing reaches."""
    bar = figure.colorbar(image, cax=axes, extend="max", orientation=orientation)
    bar.set_label("distance [m]; grey: not reached, black: occupied")


def new_figure(width_in: float, height_in: float) -> Figure:
    """A white figure that needs no display."""
    figure = Figure(figsize=(width_in, height_in), dpi=110, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: Path | str) -> Path:
    """Write a PNG, whatever its name, making its folder."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as part:
        figure.savefig(part, format="png")
    return path


def pixels(figure: Figure) -> NDArray[np.uint8]:
    """Draw the figure and return (rows, columns, RGB)."""
    figure.canvas.draw()
    return canvas_pixels(figure)


def canvas_pixels(figure: Figure) -> NDArray[np.uint8]:
    """Return what is drawn already, (rows, columns, RGB)."""
    return np.asarray(agg_canvas(figure).buffer_rgba())[..., :3].copy()


def agg_canvas(figure: Figure) -> FigureCanvasAgg:
    """Return the canvas of a figure that `new_figure` made."""
    if not isinstance(figure.canvas, FigureCanvasAgg):
        raise TypeError(f"{figure.canvas!r} is no Agg canvas: make the figure with new_figure")
    return figure.canvas


def save_animation(frames: Iterable[NDArray[np.uint8]], path: Path) -> Path:
    """Write pictures (rows, columns, RGB) of one size as a GIF that stays a while on the last one."""
    palette = _palette()
    images = [Image.fromarray(frame).quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    durations = [FRAME_MS] * (len(images) - 1) + [LAST_FRAME_MS]
    images[0].save(path, format="GIF", save_all=True, append_images=images[1:], duration=durations, loop=0)
    return path


def _palette() -> Image.Image:
    """256 colours for all frames, lest they flicker: the scale's, greys, mixtures with the robot's red."""
    scale = distance_colours()(np.linspace(0, 1, 112))[:, :3]
    greys = np.linspace(0, 1, 64)[:, None].repeat(3, axis=1)
    red = np.array(to_rgb(ROBOT_COLOUR))
    paper = (1.0, 1.0, 1.0), to_rgb(UNSEEN_COLOUR), (0.0, 0.0, 0.0), *scale[::28]
    shares = np.linspace(0, 0.9, 8)
    mixtures = [red + share * (np.array(colour) - red) for colour in paper for share in shares]
    pale = [0.6 * colour + 0.4 for colour in scale[:: len(scale) // 16]]  # contour lines over the scale
    colours = np.concatenate([scale, greys, mixtures, pale])[:256]
    image = Image.new("P", (1, 1))
    image.putpalette((255 * colours).round().astype(np.uint8).tobytes())
    return image
