"""Reader of the KTH campus floor plans (Aydemir, Jensfelt, Folkesson, IROS 2012).

The format: ``<floor><Scale PixelDistance RealDistance/><space><contour><linesegment x1 y1 x2 y2
type="Wall|Window|Portal"/>…``. Metres are pixels times RealDistance / PixelDistance, y grows downwards
in the file. Windows count as walls and portals are left out (section III-C).
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.plan import Plan


def read_kth(path: Path | str, scale_correction: float = 1.0) -> Plan:
    """Read one floor; scale_correction multiplies the file's own scale.

    Raises `PlanError`, one line with the path, for a file that is no KTH plan or has no wall.
    """
    path = Path(path)
    try:
        floor = ElementTree.parse(path).getroot()
        scale = floor.find("Scale")
        if scale is None:
            raise PlanError(f"{path}: no <Scale>; is this a KTH floor plan?")
        factor = scale_correction * float(scale.attrib["RealDistance"]) / float(scale.attrib["PixelDistance"])
        spaces = [_read_contour(space) for space in floor.iter("space")]
    except PlanError:
        raise
    except (OSError, ElementTree.ParseError, KeyError, ValueError, ZeroDivisionError) as error:
        raise PlanError(f"{path}: not a readable KTH floor plan ({error})") from error
    if not math.isfinite(factor) or factor <= 0:
        raise PlanError(f"{path}: its scale is {factor}; give RealDistance and PixelDistance above 0")
    return _to_plan(path, floor, spaces, factor)


def _read_contour(space: ElementTree.Element) -> list[tuple[str, list[float]]]:
    """Return the contour's (type, [x1, y1, x2, y2]) in file order."""
    lines = space.findall("contour/linesegment")
    return [(line.get("type", ""), [float(line.attrib[key]) for key in ("x1", "y1", "x2", "y2")]) for line in lines]


def _to_plan(
    path: Path, floor: ElementTree.Element, spaces: list[list[tuple[str, list[float]]]], factor: float
) -> Plan:
    def metres(kind: str) -> NDArray[np.float64]:
        lines = [numbers for space in spaces for name, numbers in space if name == kind]
        return np.asarray(lines, float).reshape(-1, 2, 2) * (factor, -factor)

    # the contour need not be closed in the file; a polygon's corners close it
    polygons = [np.asarray([numbers[:2] for _, numbers in space], float) for space in spaces if len(space) >= 3]
    plan = Plan(
        walls=metres("Wall"),
        windows=metres("Window"),
        spaces=tuple(polygon * (factor, -factor) for polygon in polygons),
        name=path.stem,
        building=floor.get("BuildingName", path.parent.name),
    )
    if len(plan.walls) == 0:
        raise PlanError(f"{path}: the plan has no wall")
    if not np.isfinite(plan.segments).all():
        raise PlanError(f"{path}: a coordinate is not a number")
    return plan
