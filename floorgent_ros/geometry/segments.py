"""Canonical wall segments on the window's cells, and the part of them that has not been observed.

The wide form (section III-D without splitting at crossings and subdividing): walls are clipped to the
horizon, rounded to the cells of the window, straight ones are made exactly horizontal or vertical,
overlapping or touching collinear ones are joined into their union, the two faces of one wall become one
line, and so does a facade whose windows stand a cell behind it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled
from floorgent_ros.geometry.grid import CELL_M, FREE, OCCUPIED, WINDOW_CELLS, Window

Segments = NDArray[np.float64]
Levels = NDArray[np.int64]

STRAIGHT_RAD = np.deg2rad(3.0)  # method of the data: 95 % of the wall length lies within this of an axis
FACE_CELLS = 2  # two parallel lines at most this far apart are the faces of one wall
JOIN_CELLS = 1  # collinear lines with at most this gap are one
SEEN_CELLS = 2  # a wall cell this close to an observed occupied cell counts as observed
MIN_UNSEEN_CELLS = 3  # shorter unseen rests are rounding, not walls


def canonical_walls(segments: Segments, frame: Window, horizon_m: float) -> Levels:
    """Return (N, 4) cells x0, y0, x1, y1 of the walls within horizon_m of the frame's viewpoint.

    segments: (M, 2, 2) metres, map frame. Each wall stands left to right, or bottom to top (III-D).
    """
    cells = clip_to_disc(frame.to_cell(segments), WINDOW_CELLS / 2, min(horizon_m / CELL_M, WINDOW_CELLS / 2))
    if len(cells) == 0:
        return np.zeros((0, 4), np.int64)
    levels = np.clip(np.floor(_straighten(cells)), 0, WINDOW_CELLS - 1).astype(np.int64).reshape(-1, 4)
    levels = _left_to_right(levels)
    horizontal, vertical = levels[:, 1] == levels[:, 3], levels[:, 0] == levels[:, 2]
    free = np.unique(levels[~horizontal & ~vertical], axis=0)
    rows = _join(levels[horizontal & ~vertical][:, [1, 0, 2]])
    columns = _join(levels[vertical & ~horizontal][:, [0, 1, 3]])
    return np.concatenate([rows[:, [1, 0, 2, 0]], columns[:, [0, 1, 0, 2]], free])


def clip_to_disc(cells: Segments, centre: float, radius: float) -> Segments:
    """Keep the parts of (N, 2, 2) segments inside the disc around (centre, centre), in cells."""
    start, along = cells[:, 0] - centre, cells[:, 1] - cells[:, 0]
    a = np.maximum((along**2).sum(1), 1e-12)
    b = (start * along).sum(1)
    root = b**2 - a * ((start**2).sum(1) - radius**2)
    meets = root > 0
    half = np.sqrt(np.where(meets, root, 0.0))
    low, high = np.clip((-b - half) / a, 0, 1), np.clip((-b + half) / a, 0, 1)
    keep = meets & (high > low)
    ends = np.stack([low, high], 1)[keep]
    return cells[keep, :1] + ends[:, :, None] * along[keep, None]


def unseen_walls(walls: Levels, image: NDArray[np.int8]) -> Levels:
    """Return (K, 4): the runs of (N, 4) walls whose cells the image (256, 256) of −1/0/100 does not show.

    A cell is shown when it was seen free, or lies within `SEEN_CELLS` of an observed occupied cell.
    """
    near = grown(image == OCCUPIED, SEEN_CELLS)
    return _runs(walls, near | (image == FREE), MIN_UNSEEN_CELLS)


def target_walls(segments: Segments, frame: Window, image: NDArray[np.int8], horizon_m: float) -> Levels:
    """What the model is taught to draw, (K, 4): the canonical walls that the image does not show."""
    return unseen_walls(canonical_walls(segments, frame, horizon_m), image)


def to_metres(walls: Levels, frame: Window) -> Segments:
    """(N, 4) cells of the frame → (N, 2, 2) metres in the map frame, through the cells' centres."""
    return frame.to_frame(walls.reshape(-1, 2, 2) + 0.5)


def grown(cells: NDArray[np.bool_], by: int) -> NDArray[np.bool_]:
    """Cells (H, W) and all that lie within `by` cells of one in x and in y."""
    near = cells.copy()
    for _ in range(by):
        wider = near.copy()
        wider[1:] |= near[:-1]
        wider[:-1] |= near[1:]
        near = wider.copy()
        near[:, 1:] |= wider[:, :-1]
        near[:, :-1] |= wider[:, 1:]
    return near


def _straighten(cells: Segments) -> Segments:
    """Give lines within `STRAIGHT_RAD` of an axis one coordinate, that of their middle."""
    delta = np.abs(cells[:, 1] - cells[:, 0])
    straight = np.tan(STRAIGHT_RAD)
    out = cells.copy()
    for axis in (0, 1):
        near = delta[:, axis] <= straight * delta[:, 1 - axis]
        out[near, :, axis] = cells[near, :, axis].mean(1, keepdims=True)
    return out


def _left_to_right(levels: Levels) -> Levels:
    swap = (levels[:, 0] > levels[:, 2]) | ((levels[:, 0] == levels[:, 2]) & (levels[:, 1] > levels[:, 3]))
    return np.where(swap[:, None], levels[:, [2, 3, 0, 1]], levels)


def _join(lines: Levels) -> Levels:
    """(N, 3) of offset, low, high → the same for joined collinear lines, faces of a wall fused."""
    if len(lines) == 0:
        return np.zeros((0, 3), np.int64)
    lines = lines[np.lexsort((lines[:, 2], lines[:, 1], lines[:, 0]))]
    united = _unite(lines)
    by_length = np.argsort(united[:, 1] - united[:, 2], kind="stable")
    fused = _fuse(united[by_length])
    return _link(fused[np.argsort(fused[:, 1] - fused[:, 2], kind="stable")])


@compiled
def _unite(lines: Levels) -> Levels:
    """Join sorted lines of equal offset that overlap or nearly touch."""
    out = np.empty_like(lines)
    count = 0
    for i in range(lines.shape[0]):
        if count and out[count - 1, 0] == lines[i, 0] and lines[i, 1] <= out[count - 1, 2] + JOIN_CELLS:
            out[count - 1, 2] = max(out[count - 1, 2], lines[i, 2])
        else:
            out[count] = lines[i]
            count += 1
    return out[:count]


@compiled
def _fuse(lines: Levels) -> Levels:
    """Longest first, take away from each line what runs beside an earlier one; keep rests of ≥ 3 cells."""
    size = WINDOW_CELLS
    taken = np.zeros((size, size), np.bool_)
    out = np.empty((lines.shape[0] * 4 + 4, 3), np.int64)
    count = 0
    for i in range(lines.shape[0]):
        offset, low, high = lines[i]
        start = -1
        whole = high - low + 1
        for t in range(low, high + 2):
            free = t <= high
            if free:
                for other in range(max(0, offset - FACE_CELLS), min(size, offset + FACE_CELLS + 1)):
                    free = free and not taken[other, t]
            if free and start < 0:
                start = t
            if not free and start >= 0:
                if (t - start >= MIN_UNSEEN_CELLS or t - start == whole) and count < out.shape[0]:
                    out[count] = (offset, start, t - 1)
                    count += 1
                start = -1
        for k in range(low, high + 1):
            taken[offset, k] = True
    return out[:count]


@compiled
def _link(lines: Levels) -> Levels:
    """Longest first, join lines that go on within `JOIN_CELLS` of an end and beside it (facade windows)."""
    out = lines.copy()
    alive = np.ones(out.shape[0], np.bool_)
    for i in range(out.shape[0]):
        changed = alive[i]
        while changed:
            changed = False
            for j in range(out.shape[0]):
                if j == i or not alive[j] or abs(out[i, 0] - out[j, 0]) > JOIN_CELLS:
                    continue
                if out[j, 1] <= out[i, 2] + 1 + JOIN_CELLS and out[j, 2] >= out[i, 1] - 1 - JOIN_CELLS:
                    out[i, 1], out[i, 2] = min(out[i, 1], out[j, 1]), max(out[i, 2], out[j, 2])
                    alive[j] = False
                    changed = True
    return out[alive]


@compiled
def _runs(walls: Levels, shown: NDArray[np.bool_], shortest: int) -> Levels:
    """Return the runs of cells along each wall that are not shown and at least `shortest` cells long."""
    out = np.empty((walls.shape[0] * 8 + 8, 4), np.int64)
    count = 0
    for i in range(walls.shape[0]):
        x0, y0, x1, y1 = walls[i]
        steps = max(abs(x1 - x0), abs(y1 - y0))
        start = -1
        for t in range(steps + 2):
            hidden = False
            if t <= steps:
                share = t / max(steps, 1)
                x, y = int(round(x0 + share * (x1 - x0))), int(round(y0 + share * (y1 - y0)))
                hidden = not shown[y, x]
            if hidden and start < 0:
                start = t
            if not hidden and start >= 0:
                if t - start >= shortest and count < out.shape[0]:
                    a, b = start / max(steps, 1), (t - 1) / max(steps, 1)
                    out[count, 0] = int(round(x0 + a * (x1 - x0)))
                    out[count, 1] = int(round(y0 + a * (y1 - y0)))
                    out[count, 2] = int(round(x0 + b * (x1 - x0)))
                    out[count, 3] = int(round(y0 + b * (y1 - y0)))
                    count += 1
                start = -1
    return out[:count]
