"""Our own format for users' floor plans: JSON, everything in metres, y upwards.

    {"format": "floorgent-plan-1", "name": "second floor", "building": "town hall",
     "walls":   [[[0, 0], [8, 0]], [[8, 0], [8, 3]]],     segments [[x0, y0], [x1, y1]]; leave doors open
     "windows": [[[8, 3], [8, 6]]],                       optional, the same; they count as walls
     "spaces":  [[[0, 0], [8, 0], [8, 6], [0, 6]]]}       polygons of rooms, corridors: where a robot can be

Floors of one building share its name. Which split a floor is in says the folder's ``index.json``, if there
is one, by the building's name there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.plan import Plan
from floorgent_ros.whole_file import whole_file

FORMAT = "floorgent-plan-1"
FIELDS = {"format", "name", "building", "walls", "windows", "spaces"}


def read_own(path: Path | str, scale_correction: float = 1.0) -> Plan:
    """Read one floor; scale_correction multiplies its metres.

    Raises `PlanError`, one line with the path and what is wrong, also for a plan without walls.
    """
    path = Path(path)
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PlanError(f"{path}: not a readable JSON plan ({error})") from error
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise PlanError(f'{path}: give an object with "format": "{FORMAT}"')
    if set(values) - FIELDS:
        raise PlanError(
            f"{path}: unknown field {sorted(set(values) - FIELDS)}; use {', '.join(sorted(FIELDS))}"
        )
    walls, windows = (
        _array(path, name, values.get(name, []), (-1, 2, 2)) * scale_correction
        for name in ("walls", "windows")
    )
    if len(walls) == 0:
        raise PlanError(f"{path}: the plan has no wall")
    spaces = values.get("spaces", [])
    if not isinstance(spaces, list):
        raise PlanError(f"{path}: spaces is no list of polygons")
    polygons = [_array(path, f"space {index}", space, (-1, 2)) for index, space in enumerate(spaces)]
    for index, polygon in enumerate(polygons):
        if len(polygon) < 3:
            raise PlanError(f"{path}: space {index} has {len(polygon)} corners; give at least 3")
    return Plan(
        walls=walls,
        windows=windows,
        spaces=tuple(polygon * scale_correction for polygon in polygons),
        name=str(values.get("name", path.stem)),
        building=str(values.get("building", path.stem)),
    )


def write_own(plan: Plan, path: Path | str) -> None:
    """Write any plan in this format; a reader never sees half a file."""
    values = {
        "format": FORMAT,
        "name": plan.name,
        "building": plan.building,
        "walls": plan.walls.tolist(),
        "windows": plan.windows.tolist(),
        "spaces": [space.tolist() for space in plan.spaces],
    }
    with whole_file(Path(path)) as part:
        part.write_text(json.dumps(values), encoding="utf-8")


def _array(path: Path, name: str, values: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """A list of finite numbers as an array of this shape; raises `PlanError`."""
    try:
        found = np.array(values, float)
        if found.size == 0:
            return np.zeros((0, *shape[1:]))
        if found.shape[1:] != shape[1:] or not np.isfinite(found).all():
            raise ValueError(f"shape {found.shape}")
    except (ValueError, TypeError) as error:
        what = "[[x0, y0], [x1, y1]] segments" if len(shape) == 3 else "[x, y] corners"
        raise PlanError(f"{path}: {name} is no list of {what} of finite numbers ({error})") from None
    return found
