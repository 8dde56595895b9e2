"""Exceptions and other troubles as log lines, and what led to them as files."""

from __future__ import annotations

import json
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from floorgent_ros.errors import FloorgentError
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.whole_file import whole_file

if TYPE_CHECKING:
    from floorgent_ros.ros.parameters import Settings

LONGEST_LINE = 500
MAX_CASES = 20
CASE_NAMES = "floorgent_failure_*.npz"


def short_line(text: str) -> str:
    """The text in one line that fits a log, whatever a message's frame or a library's error brought in."""
    cut = f"{text[:LONGEST_LINE]} …" if len(text) > LONGEST_LINE else text
    return " ".join(cut.split())


def one_line(error: BaseException) -> str:
    """An exception in one line: ours say all themselves, others need their type."""
    text = " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError):
        return f"{text} in {sys.executable}: install it for this Python (README, 'torch')"
    return text if isinstance(error, FloorgentError) else f"{type(error).__name__}: {text}"


def save_case(
    settings: Settings, grid: OccupancyMap, viewpoint: tuple[float, float], error: Exception
) -> str:
    """Write what a failed prediction was made from to the folder `save_failures`, if there is one.

    At most 20 files; each holds cells, resolution, origin, yaw and viewpoint of the prediction, settings
    (JSON) and error (the traceback), and can be read without pickle. Returns a line about it, '' when
    nothing was asked for. Raises nothing: a full disk must not hide the failure itself.
    """
    if not settings.node.save_failures:
        return ""
    try:
        folder = Path(settings.node.save_failures).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        if len(list(folder.glob(CASE_NAMES))) >= MAX_CASES:
            return f"its case is not saved, {folder} holds {MAX_CASES} already: move them away"
        free = (folder / CASE_NAMES.replace("*", f"{number:02d}") for number in range(1, MAX_CASES + 1))
        path = next(place for place in free if not place.exists())
        with whole_file(path) as part, part.open("wb") as file:
            np.savez_compressed(
                file,
                cells=grid.cells,
                resolution=np.array(grid.resolution),
                origin=np.array(grid.origin),
                yaw=np.array(grid.yaw),
                viewpoint=np.array(viewpoint),
                settings=np.array(json.dumps({item.name: value for item, value in settings.items()})),
                error=np.array("".join(traceback.format_exception(error))),
            )
    except (OSError, RuntimeError, ValueError) as problem:  # no home, a path that no system takes
        return f"its case could not be saved: {one_line(problem)}"
    return f"its case is saved as {path}"
