"""An invented school floor, so that the demo and the tests need nobody's data.

About 50 m x 25 m: a main corridor along the building, a second one that leaves it at a right angle, a third
that ends blind, classrooms and offices along them, a stair core with a lift, and a hall with columns. As in
the KTH plans every space has its own contour, so a wall between two rooms is two parallel lines.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.plans.plan import Plan

LENGTH_M, DEPTH_M = 50.0, 25.0
DOOR_M = 0.9
_HALF_WALL_M = 0.07
_WINDOW_M, _PIER_M = 1.4, 0.7  # glass, and the masonry between two windows
_ROOM_WIDTHS_M = (3.6, 4.2, 4.8, 5.4, 6.6, 7.8)

Rectangle = tuple[float, float, float, float]  # x low, y low, x high, y high, on the walls' middle lines


@dataclass(frozen=True)
class _Gap:
    """An opening in the wall along ``xy[axis] = at``, from low to high on the other axis."""

    axis: int
    at: float
    low: float
    high: float


@dataclass
class _Floor:
    """The floor while it is being built."""

    rng: np.random.Generator
    spaces: list[Rectangle] = field(default_factory=list)
    windowless: set[int] = field(default_factory=set)  # indices of spaces
    gaps: list[_Gap] = field(default_factory=list)
    furniture: list[NDArray[np.float64]] = field(default_factory=list)  # walls that bound no space: (K, 2, 2)

    def add(self, space: Rectangle, *, windows: bool = True) -> None:
        if not windows:
            self.windowless.add(len(self.spaces))
        self.spaces.append(space)

    def door(self, axis: int, at: float, low: float, high: float, width: float = DOOR_M) -> None:
        """Put a door in the stretch of wall from low to high, near one of its ends as builders do."""
        slack = high - low - width - 2 * (_HALF_WALL_M + 0.25)
        start = low + _HALF_WALL_M + 0.25 + max(slack, 0.0) * self.rng.choice([0.0, 0.5, 1.0])
        self.gaps.append(_Gap(axis, at, start, start + width))

    def row(self, axis: int, start: float, stop: float, near: float, far: float) -> None:
        """Fill a strip with rooms side by side from start to stop along axis, each with a door at near."""
        cuts = self._cuts(start, stop)
        for index, (low, high) in enumerate(pairwise(cuts)):
            across = (min(near, far), max(near, far))
            self.add((low, across[0], high, across[1]) if axis == 0 else (across[0], low, across[1], high))
            parts = [low, (low + high) / 2, high] if high - low > 6.5 else [low, high]
            for part in pairwise(parts):
                self.door(1 - axis, near, *part)
            if index and self.rng.random() < 0.2:
                self.door(axis, low, *across)

    def _cuts(self, start: float, stop: float) -> list[float]:
        """Where the walls between a strip's rooms stand: widths of the list, the remainder shared evenly."""
        widths: list[float] = []
        while sum(widths) < stop - start - min(_ROOM_WIDTHS_M) / 2:
            widths.append(float(self.rng.choice(_ROOM_WIDTHS_M)))
        scale = (stop - start) / sum(widths)
        return [start, *(start + scale * np.cumsum(widths[:-1])), stop]


def example_plan(seed: int = 0) -> Plan:
    """Build the floor; another seed gives other rooms, doors and offsets, and perhaps its mirror image.

    The first space is the main corridor.
    """
    floor = _Floor(np.random.default_rng(seed))
    _lay_out(floor)
    walls: list[NDArray[np.float64]] = [*floor.furniture]
    windows: list[NDArray[np.float64]] = []
    for index, space in enumerate(floor.spaces):
        for axis, at, outward, low, high in _sides(space):
            pieces = _cut(low, high, [gap for gap in floor.gaps if _same_line(gap, axis, at)])
            line = at - outward * _HALF_WALL_M
            glass = _glazing(pieces) if index not in floor.windowless and _on_facade(axis, at) else []
            windows += [_segment(axis, line, *piece) for piece in glass]
            solid = [part for piece in pieces for part in _cut(*piece, [_Gap(axis, at, *g) for g in glass])]
            walls += [_segment(axis, line, *piece) for piece in solid]
    walls += [jamb for gap in floor.gaps for jamb in _jambs(gap)]
    mirror = _Mirror(floor.rng)
    return Plan(
        walls=mirror(np.concatenate([np.reshape(wall, (-1, 2, 2)) for wall in walls])),
        windows=mirror(np.reshape(windows, (-1, 2, 2))),
        spaces=tuple(mirror(_corners(space)) for space in floor.spaces),
        name=f"example_{seed}",
        building="example",
    )


def _lay_out(floor: _Floor) -> None:
    """Place corridors, rooms, stair core and hall."""
    rng = floor.rng
    south = 5.9 + rng.uniform(-0.3, 0.3)
    north = south + 2.4  # the main corridor lies between these two
    west = 8.0 + rng.uniform(-0.6, 0.6)
    east = west + 2.2  # the second corridor
    back = north + 4.9
    blind = (back + 4.3, back + 6.3)  # the corridor that ends blind
    hall_x = 37.5 + rng.uniform(-1.0, 1.0)
    hall_top = north + 10.0

    floor.add((0.0, south, LENGTH_M, north))
    floor.add((west, north, east, DEPTH_M))
    floor.add((east, blind[0], hall_x, blind[1]))
    floor.gaps.append(_Gap(1, north, west + _HALF_WALL_M, east - _HALF_WALL_M))
    floor.gaps.append(_Gap(0, east, blind[0] + _HALF_WALL_M, blind[1] - _HALF_WALL_M))

    core = 21.0 + rng.uniform(-3.0, 3.0)
    floor.row(0, 0.0, core, south, 0.0)
    _stair_core(floor, core, south)
    floor.row(0, core + 5.2, LENGTH_M, south, 0.0)
    floor.row(1, north, DEPTH_M, west, 0.0)
    floor.row(0, east, hall_x, north, back)
    floor.row(0, east, hall_x, blind[0], back)
    floor.row(0, east, hall_x, blind[1], DEPTH_M)
    _hall(floor, (hall_x, north, LENGTH_M, hall_top))
    floor.row(0, hall_x, LENGTH_M, hall_top, DEPTH_M)


def _stair_core(floor: _Floor, x: float, south: float) -> None:
    """A stair of two flights around a spine, a closed lift shaft, and a store behind the shaft."""
    stair, shaft = x + 3.0, south - 2.3
    floor.add((x, 0.0, stair, south))
    floor.door(1, south, x, stair, 1.4)
    floor.furniture.append(np.array([[[x + 1.5, 1.6], [x + 1.5, south - 1.7]]]))
    floor.add((stair, shaft, x + 5.2, south), windows=False)
    floor.add((stair, 0.0, x + 5.2, shaft), windows=False)
    floor.door(0, x + 5.2, 0.0, shaft)


def _hall(floor: _Floor, space: Rectangle) -> None:
    """A hall with a double door to the main corridor and two rows of columns."""
    x0, y0, x1, y1 = space
    floor.add(space)
    floor.door(1, y0, x0 + 1.0, x1 - 1.0, 1.8)
    for x in np.linspace(x0, x1, 4)[1:-1]:
        for y in np.linspace(y0, y1, 4)[1:-1]:
            floor.furniture.append(_outline((x - 0.2, y - 0.2, x + 0.2, y + 0.2)))


def _sides(space: Rectangle) -> list[tuple[int, float, int, float, float]]:
    """Return (axis, at, outward ±1, low, high) of a space's four sides, low and high on its own contour."""
    x0, y0, x1, y1 = space
    rows = (y0 + _HALF_WALL_M, y1 - _HALF_WALL_M)
    columns = (x0 + _HALF_WALL_M, x1 - _HALF_WALL_M)
    return [(0, x0, -1, *rows), (0, x1, 1, *rows), (1, y0, -1, *columns), (1, y1, 1, *columns)]


def _same_line(gap: _Gap, axis: int, at: float) -> bool:
    return gap.axis == axis and abs(gap.at - at) < 1e-9


def _on_facade(axis: int, at: float) -> bool:
    return min(abs(at), abs(at - (LENGTH_M, DEPTH_M)[axis])) < 1e-9


def _cut(low: float, high: float, gaps: list[_Gap]) -> list[tuple[float, float]]:
    """Return what the gaps leave of the stretch from low to high."""
    pieces = [(low, high)]
    for gap in gaps:
        halves = [half for a, b in pieces for half in ((a, min(b, gap.low)), (max(a, gap.high), b))]
        # a gap beside the piece gives the whole piece and an inverted one
        pieces = [(a, b) for a, b in halves if b - a > 1e-6]
    return pieces


def _glazing(pieces: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Spread windows evenly over stretches of façade."""
    windows = []
    for low, high in pieces:
        count = int((high - low - _PIER_M) / (_WINDOW_M + _PIER_M))
        for index in range(count):
            middle = low + (index + 0.5) * (high - low) / count
            windows.append((middle - _WINDOW_M / 2, middle + _WINDOW_M / 2))
    return windows


def _segment(axis: int, at: float, low: float, high: float) -> NDArray[np.float64]:
    return np.array([[at, low], [at, high]] if axis == 0 else [[low, at], [high, at]])


def _jambs(gap: _Gap) -> list[NDArray[np.float64]]:
    """Close the wall's hollow on both sides of a gap."""
    across = (gap.at - _HALF_WALL_M, gap.at + _HALF_WALL_M)
    return [_segment(1 - gap.axis, end, *across) for end in (gap.low, gap.high)]


def _outline(rectangle: Rectangle) -> NDArray[np.float64]:
    """The four sides, (4, 2, 2)."""
    x0, y0, x1, y1 = rectangle
    corners = np.array([[x0, y0], [x1, y0], [x1, y1], [x0, y1]])
    return np.stack([corners, np.roll(corners, -1, axis=0)], axis=1)


def _corners(space: Rectangle) -> NDArray[np.float64]:
    """The space's own contour, (4, 2)."""
    x0, y0, x1, y1 = space
    inset = (x0 + _HALF_WALL_M, y0 + _HALF_WALL_M, x1 - _HALF_WALL_M, y1 - _HALF_WALL_M)
    return _outline(inset)[:, 0]


class _Mirror:
    """A random choice of the building or its mirror image, kept in the same rectangle."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.flip = np.where(rng.random(2) < 0.5, -1.0, 1.0)

    def __call__(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        return points * self.flip + np.where(self.flip < 0, (LENGTH_M, DEPTH_M), 0.0)
