"""Fitted lines to walls: merge what is collinear or the other face of a wall, meet at corners."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.compiled import compiled

GAP_M = 0.40  # as in fitting: below the narrowest door
COLLINEAR_M = 0.10  # both ends of the shorter line this near to the longer one's course
FACES_M = 0.20  # lines side by side this near are the two faces of one wall
CORNER_M = 0.30  # an end this near to where two lines cross is moved there
CORNER_RAD = math.radians(20)  # lines at a smaller angle make no corner


def join_lines(lines: NDArray[np.float64], resolution: float, min_wall_m: float) -> NDArray[np.float64]:
    """Lines (N, 5) of `fit_lines` → segments (M, 2, 2) in cells, each at least ``min_wall_m`` long."""
    order = np.argsort(-np.hypot(lines[:, 2] - lines[:, 0], lines[:, 3] - lines[:, 1]), kind="stable")
    walls = lines[order].copy()
    alive = _merge(walls, GAP_M / resolution, COLLINEAR_M / resolution, FACES_M / resolution)
    walls = walls[alive]
    _meet(walls, CORNER_M / resolution)
    segments = walls[:, :4].reshape(-1, 2, 2)
    # the ends are cell centres: half a cell of wall goes on past each
    length = np.hypot(*(segments[:, 1] - segments[:, 0]).T) + 1.0
    return np.asarray(segments[length * resolution >= min_wall_m])


@compiled
def _merge(walls: NDArray[np.float64], gap: float, collinear: float, faces: float) -> NDArray[np.bool_]:
    """Fold shorter lines into longer ones, in place, until nothing changes; says which lines remain."""
    n = walls.shape[0]
    alive = np.ones(n, np.bool_)
    changed = True
    while changed:
        changed = False
        for i in range(n):
            for j in range(i + 1, n):
                if alive[i] and alive[j] and _fold(walls, i, j, gap, collinear, faces):
                    alive[j] = False
                    changed = True
    return alive


@compiled
def _fold(walls: NDArray[np.float64], i: int, j: int, gap: float, collinear: float, faces: float) -> bool:
    """Take line j into line i if they are one wall."""
    x0, y0, x1, y1, thick = walls[i]
    length = math.hypot(x1 - x0, y1 - y0)
    ux, uy = (x1 - x0) / length, (y1 - y0) / length
    ax, ay, bx, by, other_thick = walls[j]
    ta, tb = (ax - x0) * ux + (ay - y0) * uy, (bx - x0) * ux + (by - y0) * uy
    low, high = min(ta, tb), max(ta, tb)
    if low > length + gap or high < -gap:
        return False
    na, nb = (ay - y0) * ux - (ax - x0) * uy, (by - y0) * ux - (bx - x0) * uy
    other = math.hypot(bx - ax, by - ay)
    if abs(nb - na) > 0.34 * other:
        return False
    overlap = min(high, length) - max(low, 0.0)
    tolerance = faces if overlap > 0.5 * (high - low) else collinear
    if max(abs(na), abs(nb)) > tolerance:
        return False
    # length-weighted moments of the two lines give the course of their union
    total = length + other
    mx = (length * 0.5 * (x0 + x1) + other * 0.5 * (ax + bx)) / total
    my = (length * 0.5 * (y0 + y1) + other * 0.5 * (ay + by)) / total
    cxx, cyy, cxy = 0.0, 0.0, 0.0
    for k in (i, j):
        px, py, qx, qy = walls[k, 0], walls[k, 1], walls[k, 2], walls[k, 3]
        weight = math.hypot(qx - px, qy - py)
        ex, ey, hx, hy = 0.5 * (px + qx) - mx, 0.5 * (py + qy) - my, qx - px, qy - py
        cxx += weight * (ex * ex + hx * hx / 12)
        cyy += weight * (ey * ey + hy * hy / 12)
        cxy += weight * (ex * ey + hx * hy / 12)
    angle = 0.5 * math.atan2(2 * cxy, cxx - cyy)
    if overlap > 0.5 * (high - low):  # side by side: the longer face gives the direction
        vx, vy = ux, uy
    else:
        vx, vy = math.cos(angle), math.sin(angle)
    first, last = 1e18, -1e18
    for k in (i, j):
        for e in (0, 2):
            t = (walls[k, e] - mx) * vx + (walls[k, e + 1] - my) * vy
            first, last = min(first, t), max(last, t)
    walls[i] = (mx + first * vx, my + first * vy, mx + last * vx, my + last * vy, max(thick, other_thick))
    return True


@compiled
def _meet(walls: NDArray[np.float64], reach: float) -> None:
    """Move ends to the crossing with a wall that they nearly touch, or stick out of, in place."""
    n = walls.shape[0]
    before = walls.copy()
    for i in range(n):
        x0, y0, x1, y1, _ = before[i]
        length = math.hypot(x1 - x0, y1 - y0)
        ux, uy = (x1 - x0) / length, (y1 - y0) / length
        best_low, best_high = reach + 1.0, reach + 1.0
        move_low, move_high = 0.0, 0.0
        for j in range(n):
            ax, ay, bx, by, thick = before[j]
            other = math.hypot(bx - ax, by - ay)
            vx, vy = (bx - ax) / other, (by - ay) / other
            sine = ux * vy - uy * vx
            if j == i or abs(sine) < math.sin(CORNER_RAD):
                continue
            t = ((ax - x0) * vy - (ay - y0) * vx) / sine  # along i
            s = ((ax - x0) * uy - (ay - y0) * ux) / sine  # along j
            if s < -reach or s > other + reach:
                continue
            inside = 0.5 * thick + 2.0  # an overshoot no longer than the other wall's half thickness
            if -reach <= t <= inside and abs(t) < best_low:
                best_low, move_low = abs(t), t
            if -inside <= t - length <= reach and abs(t - length) < best_high:
                best_high, move_high = abs(t - length), t - length
        walls[i, 0], walls[i, 1] = x0 + move_low * ux, y0 + move_low * uy
        walls[i, 2], walls[i, 3] = x1 + move_high * ux, y1 + move_high * uy
