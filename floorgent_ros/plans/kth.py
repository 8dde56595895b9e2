"""Reader of the KTH campus floor plans (Aydemir, Jensfelt, Folkesson, IROS 2012).

The format: ``<floor><Scale PixelDistance RealDistance/><space><contour><linesegment x1 y1 x2 y2
type="Wall|Window|Portal"/>…``. Metres are pixels times RealDistance / PixelDistance, y grows downwards
in the file. Windows count as walls and portals are left out (section III-C).
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.plan import Plan

Contour = list[tuple[str, list[float]]]  # (type, [x1, y1, x2, y2] in pixels) of its lines, in file order


def read_kth(path: Path | str, scale_correction: float = 1.0) -> Plan:
    """Read one floor; scale_correction multiplies the file's own scale.

    Raises `PlanError`, one line with the path, for a file that is no KTH plan or has no wall.
    """
    path = Path(path)
    try:
        floor = ET.parse(path).getroot()
        scale = floor.find("Scale")
        if scale is None:
            raise PlanError(f"{path}: no <Scale>; is this a KTH floor plan?")
        factor = scale_correction * _number(scale, "RealDistance") / _number(scale, "PixelDistance")
        contours = [_read_contour(space) for space in floor.iter("space")]
    except PlanError:
        raise
    # an unknown encoding is a LookupError
    except (OSError, ET.ParseError, LookupError, ValueError, ZeroDivisionError) as error:
        raise PlanError(f"{path}: not a readable KTH floor plan ({error})") from error
    if not math.isfinite(factor) or factor <= 0:
        raise PlanError(f"{path}: its scale is {factor}; give RealDistance and PixelDistance above 0")
    return _to_plan(path, floor, contours, factor)


def _number(element: ET.Element, key: str) -> float:
    """Return an attribute; raises ValueError with its name."""
    text = element.get(key)
    if text is None:
        raise ValueError(f"<{element.tag}> without {key}")
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{key} of <{element.tag}> is {number}")
    return number


def _read_contour(space: ET.Element) -> Contour:
    return [
        (line.get("type", ""), [_number(line, key) for key in ("x1", "y1", "x2", "y2")])
        for line in space.findall("contour/linesegment")
    ]


def _to_plan(path: Path, floor: ET.Element, contours: list[Contour], factor: float) -> Plan:
    def metres(kind: str) -> NDArray[np.float64]:
        lines = [numbers for contour in contours for name, numbers in contour if name == kind]
        return np.asarray(lines, float).reshape(-1, 2, 2) * (factor, -factor)

    walls = metres("Wall")
    if len(walls) == 0:
        raise PlanError(f"{path}: the plan has no wall")
    corners = [_corners(contour) for contour in contours]
    return Plan(
        walls=walls,
        windows=metres("Window"),
        spaces=tuple(np.asarray(space) * (factor, -factor) for space in corners if len(space) >= 3),
        name=path.stem,
        building=floor.get("BuildingName", path.parent.name),
    )


def _corners(contour: Contour) -> list[list[float]]:
    """Corners of the space's polygon in pixels.

    Contours are not always closed, nor in one piece: an end where no next line starts is a corner too.
    """
    lines = [numbers for _, numbers in contour]
    corners: list[list[float]] = []
    for line, following in zip(lines, [*lines[1:], *lines[:1]], strict=True):
        corners.append(line[:2])
        if line[2:] != following[:2]:
            corners.append(line[2:])
    return corners
