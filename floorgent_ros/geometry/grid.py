"""Occupancy grids, the window around a viewpoint, and the way from one to the other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from floorgent_ros.config import ObservationSettings
from floorgent_ros.errors import MapError
from floorgent_ros.geometry.compiled import compiled

UNKNOWN, FREE, OCCUPIED = -1, 0, 100
WINDOW_CELLS = 256
WINDOW_M = 40.0
CELL_M = WINDOW_M / WINDOW_CELLS  # 0.15625

# A map-cell centre this close below a window line counts as on it, hence to the cell above: which side it
# falls on must not depend on rounding, or walls would flicker whenever a growing map moves its origin.
TIE_CELLS = 1e-6

# One sum per window cell counts the map cells that it holds, the free and the occupied ones among them.
ONE_HELD, ONE_FREE, ONE_OCCUPIED = 1, 2**20, 2**40


@dataclass(frozen=True, eq=False)
class OccupancyMap:
    """An occupancy grid with its pose in the map frame, as in nav_msgs/OccupancyGrid.

    cells: (H, W) int8, −1 unknown, 0…100 free to occupied; row 0 is the lowest y of the map's own axes
    resolution: side of a cell, m
    origin: map-frame position of the outer corner of cell (0, 0), m
    yaw: direction of the map's x axis in the map frame, rad

    Raises `MapError` when one of them cannot be used.
    """

    cells: NDArray[np.int8]
    resolution: float
    origin: tuple[float, float] = (0.0, 0.0)
    yaw: float = 0.0

    def __post_init__(self) -> None:
        cells = self.cells
        if not isinstance(cells, np.ndarray) or cells.ndim != 2 or cells.dtype != np.int8:
            found = f"{cells.dtype} {cells.shape}" if isinstance(cells, np.ndarray) else type(cells).__name__
            raise MapError(f"map cells are {found}: pass a NumPy array of int8 (rows, columns)")
        if cells.size == 0:
            raise MapError(
                f"the map has {cells.shape[1]} x {cells.shape[0]} cells: wait for a map that has some"
            )
        if not (math.isfinite(self.resolution) and self.resolution > 0):
            raise MapError(f"map resolution is {self.resolution}: give metres per cell above 0")
        if len(self.origin) != 2 or not all(map(math.isfinite, (*self.origin, self.yaw))):
            raise MapError(f"map origin is {self.origin}, yaw {self.yaw}: give finite x, y (m) and yaw (rad)")

    @classmethod
    def from_file(cls, path: str | Path) -> OccupancyMap:
        """Read a map_server pair (YAML and image); `MapError` in one line when it cannot be read."""
        from floorgent_ros.geometry.map_file import read_map  # noqa: PLC0415 (it imports this module)

        return read_map(path)

    def save(self, path: str | Path) -> None:
        """Write a map_server pair: `path` (YAML) and, beside it, a PNG of the same stem."""
        from floorgent_ros.geometry.map_file import write_map  # noqa: PLC0415

        write_map(self, path)

    def to_cell(self, points: ArrayLike) -> NDArray[np.float64]:
        """(…, 2) map-frame metres → (…, 2) cell coordinates (column, row); their floor is the cell."""
        return _turned(np.asarray(points, np.float64) - self.origin, -self.yaw) / self.resolution

    def to_frame(self, cells: ArrayLike) -> NDArray[np.float64]:
        """(…, 2) cell coordinates (column, row) → (…, 2) map-frame metres; a cell's centre is index + 0.5."""
        return _turned(np.asarray(cells, np.float64) * self.resolution, self.yaw) + self.origin


@dataclass(frozen=True)
class Window:
    """256 × 256 cells over 40 m around a viewpoint, which is cell corner (128, 128): method decision 1.

    viewpoint: map-frame position, m
    angle: direction of the window's x axis in the map frame, rad
    """

    viewpoint: tuple[float, float]
    angle: float = 0.0

    def __post_init__(self) -> None:
        if len(self.viewpoint) != 2 or not all(map(math.isfinite, (*self.viewpoint, self.angle))):
            raise MapError(
                f"viewpoint is {self.viewpoint}, angle {self.angle}: give finite x, y (m) and angle (rad)"
            )

    @property
    def origin(self) -> tuple[float, float]:
        """Map-frame position of the outer corner of cell (0, 0); viewpoint − 20 m exactly when angle is 0."""
        x, y = self.to_frame((0.0, 0.0))
        return float(x), float(y)

    def to_cell(self, points: ArrayLike) -> NDArray[np.float64]:
        """(…, 2) map-frame metres → (…, 2) cell coordinates (column, row); their floor is the cell."""
        offset = np.asarray(points, np.float64) - self.viewpoint
        return _turned(offset, -self.angle) / CELL_M + WINDOW_CELLS / 2

    def to_frame(self, cells: ArrayLike) -> NDArray[np.float64]:
        """(…, 2) cell coordinates (column, row) → (…, 2) map-frame metres; a cell's centre is index + 0.5."""
        offset = (np.asarray(cells, np.float64) - WINDOW_CELLS / 2) * CELL_M
        return _turned(offset, self.angle) + self.viewpoint


def crop(grid: OccupancyMap, window: Window, settings: ObservationSettings | None = None) -> NDArray[np.int8]:
    """The window's (256, 256) int8 states −1, 0, 100: method decision 2.

    A window cell is occupied if any map cell whose centre lies in it is occupied; else free if at least
    half of those map cells are free; else unknown. A window cell that holds no centre (coarse maps) takes
    the map cell at its own centre; beyond the map all is unknown. The cost depends on the window's share
    of the map only.
    """
    settings = settings or ObservationSettings()
    area = _area(grid, window)
    # A copy has always the same memory layout, so numba compiles once, for read-only and strided maps too.
    cells = np.array(grid.cells[area], order="C")
    states = np.full((WINDOW_CELLS, WINDOW_CELLS), UNKNOWN, np.int8)
    if cells.size:
        corner = window.to_cell(grid.to_frame((area[1].start, area[0].start)))
        scale, turn = grid.resolution / CELL_M, grid.yaw - window.angle
        _fill(
            states,
            cells.view(np.uint8),
            _weights(settings),
            scale * math.cos(turn),
            scale * math.sin(turn),
            corner[0],
            corner[1],
        )
    return states


def _turned(vectors: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    """(…, 2) vectors turned counter-clockwise by `angle` (rad); untouched, bit for bit, by an angle of 0."""
    if angle == 0.0:
        return vectors
    cos, sin = math.cos(angle), math.sin(angle)
    x, y = vectors[..., 0], vectors[..., 1]
    return np.stack([cos * x - sin * y, sin * x + cos * y], axis=-1)


def _area(grid: OccupancyMap, window: Window) -> tuple[slice, slice]:
    """Rows and columns of the map that hold the window's bounding box."""
    corners = window.to_frame([(x, y) for x in (0, WINDOW_CELLS) for y in (0, WINDOW_CELLS)])
    corners = grid.to_cell(corners)
    height, width = grid.cells.shape
    low = np.clip(np.floor(corners.min(0)) - 1, 0, (width, height)).astype(int)
    high = np.clip(np.ceil(corners.max(0)) + 1, 0, (width, height)).astype(int)
    return slice(int(low[1]), int(high[1])), slice(int(low[0]), int(high[0]))


def _weights(settings: ObservationSettings) -> NDArray[np.int64]:
    """What a map cell adds to its window cell's sum, by its value read as uint8."""
    values = np.arange(256).astype(np.uint8).view(np.int8)
    free = (values >= 0) & (values <= settings.free_threshold)
    return ONE_HELD + ONE_FREE * free + ONE_OCCUPIED * (values >= settings.occupied_threshold)


@compiled
def _fill(
    states: NDArray[np.int8],
    cells: NDArray[np.uint8],
    weights: NDArray[np.int64],
    cos: float,
    sin: float,
    corner_x: float,
    corner_y: float,
) -> None:
    """Decision 2 over the map cells of the area; (cos, sin) and corner place them in window cells."""
    size = states.shape[0]
    height, width = cells.shape
    sums = np.zeros((size, size), np.int64)
    for row in range(height):
        start_x = corner_x + TIE_CELLS + 0.5 * cos - (row + 0.5) * sin
        start_y = corner_y + TIE_CELLS + 0.5 * sin + (row + 0.5) * cos
        for column in range(width):
            x = start_x + column * cos
            y = start_y + column * sin
            if x >= 0.0 and y >= 0.0 and x < size and y < size:
                sums[int(y), int(x)] += weights[cells[row, column]]

    square = cos * cos + sin * sin
    for i in range(size):
        for j in range(size):
            total = sums[i, j]
            if total == 0:  # no centre: the map cell at this cell's own centre
                x, y = j + 0.5 - corner_x, i + 0.5 - corner_y
                column = int(np.floor((x * cos + y * sin) / square + TIE_CELLS))
                row = int(np.floor((y * cos - x * sin) / square + TIE_CELLS))
                if 0 <= row < height and 0 <= column < width:
                    total = weights[cells[row, column]]
            if total >= ONE_OCCUPIED:
                states[i, j] = OCCUPIED
            elif total > 0 and 2 * (total // ONE_FREE) >= total % ONE_FREE:
                states[i, j] = FREE
