"""One floor as every reader returns it: walls, windows and spaces in metres."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import cv2
import numpy as np
from numpy.typing import NDArray

CellTransform = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_SUBCELL = 256  # cv2 draws polygons in fixed point; 8 fractional bits keep a cell's 1/256


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

    def indoor(self, to_cell: CellTransform, shape: tuple[int, int]) -> NDArray[np.bool_]:
        """Cells (rows, columns) whose centre lies in a space.

        to_cell maps (N, 2) metres to (N, 2) cell coordinates (column, row), as `Window.to_cell` does.
        """
        mask = np.zeros(shape, np.uint8)
        for space in self.spaces:
            corners = to_cell(space)
            # a cell's centre is its index + 0.5; cv2 puts it at the index
            fixed = np.round((corners - 0.5) * _SUBCELL).astype(np.int32)
            cv2.fillPoly(mask, [fixed], 1, shift=8)
        return mask.astype(bool)
