"""Reader of the hand-traced school floors of M. Luperto's data set (the "school50" format).

The format: ``<building><scale><represented_distance><value/></…><real_distance><value/><um>cm</um></…>
</scale>…<space><bounding_polygon><point x y/>…<space_representation><linesegment><point x y/><point x y/>
<class>WALL|PORTAL</class>``. Metres are pixels times real / represented distance, y grows downwards. A
portal is a point where a door stands; the wall runs through it and is opened here.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.plan import Plan

DOOR_M = 0.9  # width that the files' own scale gives a door
BESIDE_M = 0.3  # a wall this close to a door's point is the wall that it stands in
UNITS_M = {"cm": 0.01, "m": 1.0, "mm": 0.001}

Segments = NDArray[np.float64]


def read_school(path: Path | str, scale_correction: float = 1.0) -> Plan:
    """Read one floor; scale_correction multiplies the file's own scale.

    Raises `PlanError`, one line with the path, for a file that is no such plan or has no wall.
    """
    path = Path(path)
    try:
        building = ET.parse(path).getroot()
        factor = scale_correction * _scale(building)
        if not (np.isfinite(factor) and factor > 0):
            raise ValueError(f"its scale is {factor}")
        lines = [
            (line.findtext("class", ""), _points(line))
            for line in building.iterfind(".//space_representation/linesegment")
        ]
        spaces = [_points(space) for space in building.iterfind(".//bounding_polygon")]
    except (OSError, ET.ParseError, LookupError, ValueError, TypeError, ZeroDivisionError) as error:
        raise PlanError(f"{path}: not a readable school plan ({error})") from error
    metres = np.array([factor, -factor])
    walls = [points for kind, points in lines if kind == "WALL" and len(points) == 2]
    if not walls:
        raise PlanError(f"{path}: the plan has no wall")
    doors = [points.mean(0) for kind, points in lines if kind == "PORTAL" and len(points)]
    return Plan(
        walls=_open(np.stack(walls) * metres, np.array(doors).reshape(-1, 2) * metres),
        spaces=tuple(space * metres for space in spaces if len(space) >= 3),
        name=path.stem,
        building=path.stem,
    )


def _scale(building: ET.Element) -> float:
    """Metres a pixel."""
    unit = building.findtext("scale/real_distance/um", "cm").strip()
    real, drawn = (
        float(building.findtext(f"scale/{name}/value", ""))
        for name in ("real_distance", "represented_distance")
    )
    return real * UNITS_M[unit] / drawn


def _points(parent: ET.Element) -> Segments:
    points = [[float(point.get(axis, "")) for axis in ("x", "y")] for point in parent.findall("point")]
    return np.array(points).reshape(-1, 2)


def _open(walls: Segments, doors: NDArray[np.float64]) -> Segments:
    """Take `DOOR_M` out of each (N, 2, 2) wall around every (K, 2) door that stands in it, m."""
    for door in doors:
        start, along = walls[:, 0], walls[:, 1] - walls[:, 0]
        length = np.linalg.norm(along, axis=1)
        along = along / np.maximum(length, 1e-9)[:, None]
        at = ((door - start) * along).sum(1)
        beside = np.abs((door - start)[:, 0] * along[:, 1] - (door - start)[:, 1] * along[:, 0])
        low, high = np.maximum(at - DOOR_M / 2, 0), np.minimum(at + DOOR_M / 2, length)
        holds = (beside < BESIDE_M) & (low < high)
        rests = [
            np.stack([start + first[:, None] * along, start + last[:, None] * along], 1)[
                holds & (last - first > 1e-9)
            ]
            for first, last in ((np.zeros_like(low), low), (high, length))
        ]
        walls = np.concatenate([walls[~holds], *rests])
    return walls
