"""One floor as every reader returns it: walls, windows and spaces in metres."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled

CellTransform = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def _no_segments() -> NDArray[np.float64]:
    return np.zeros((0, 2, 2))


@dataclass(frozen=True)
class Plan:
    """A floor plan in metres, y upwards.

    walls, windows: (N, 2, 2) float64 segments [segment, end, xy]; a robot's LIDAR sees both, and both
    block the way (section III-C). spaces: closed polygons (K, 2) of rooms and corridors; portals, the
    openings between them, are simply absent from walls.
    """

    walls: NDArray[np.float64]
    windows: NDArray[np.float64] = field(default_factory=_no_segments)
    spaces: tuple[NDArray[np.float64], ...] = ()
    name: str = ""
    building: str = ""

    @property
    def segments(self) -> NDArray[np.float64]:
        """Walls and windows together, (N, 2, 2)."""
        return np.concatenate([self.walls, self.windows])

    @property
    def bounds(self) -> NDArray[np.float64]:
        """[[x_min, y_min], [x_max, y_max]] of all segments."""
        points = self.segments.reshape(-1, 2)
        return np.stack([points.min(0), points.max(0)])

    def turned(self, angle: float) -> Plan:
        """The same floor turned counter-clockwise about the origin, rad."""
        walls, windows = turned(self.walls, angle), turned(self.windows, angle)
        spaces = tuple(turned(space, angle) for space in self.spaces)
        return replace(self, walls=walls, windows=windows, spaces=spaces)

    def indoor(self, to_cell: CellTransform, shape: tuple[int, int]) -> NDArray[np.bool_]:
        """Cells (rows, columns) whose centre lies in a space; its holes (even-odd rule) are not in it.

        to_cell maps (N, 2) metres to (N, 2) cell coordinates (column, row), as `Window.to_cell` does.
        """
        mask = np.zeros(shape, np.bool_)
        for space in self.spaces:
            _fill(mask, to_cell(space) - 0.5)  # a cell's centre is its index + 0.5
        return mask


def turned(points: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    """Points (…, 2) turned counter-clockwise about the origin, rad."""
    cos, sin = math.cos(angle), math.sin(angle)
    return np.asarray(points, float) @ np.array([[cos, sin], [-sin, cos]])


@compiled
def _fill(mask: NDArray[np.bool_], corners: NDArray[np.float64]) -> None:
    """Set the cells whose index lies in the polygon of (K, 2) corners (column, row).

    Row by row and exact: OpenCV's fillPoly adds the outline to the inside, is off by up to ten cells where
    a polygon reaches beyond the mask, and seeded viewpoints would depend on its version.
    """
    height, width = mask.shape
    count = corners.shape[0]
    flips = np.zeros(width + 1, np.bool_)  # columns where a row enters or leaves the polygon
    low, high = corners[:, 1].min(), corners[:, 1].max()
    for row in range(int(math.ceil(max(low, 0.0))), int(math.floor(min(high, height - 1.0))) + 1):
        for k in range(count):
            x0, y0 = corners[k]
            x1, y1 = corners[(k + 1) % count]
            if (y0 > row) != (y1 > row):
                x = x0 + (row - y0) * (x1 - x0) / (y1 - y0)
                at = int(math.ceil(min(max(x, 0.0), float(width))))
                flips[at] = not flips[at]
        inside = False
        for column in range(width + 1):
            inside = inside != flips[column]
            flips[column] = False
            if inside:
                mask[row, column] = True
