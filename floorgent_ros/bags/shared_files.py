"""Files that the package ships beside its code, wherever it is installed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from floorgent_ros.errors import FloorgentError


def shared_file(name: str) -> Path:
    """Path of a shared file such as ``msg/DistanceGrid.msg``: in the source tree, else in an install prefix.

    Raises `FloorgentError` when the package was installed without it.
    """
    here = Path(__file__).resolve()
    prefixes = [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]
    above = [folder / "share" / "floorgent_ros" for folder in here.parents]  # a workspace that is not sourced
    places = [here.parents[2], *(Path(prefix) / "share" / "floorgent_ros" for prefix in prefixes), *above]
    for place in places:
        if (place / name).is_file():
            return place / name
    raise FloorgentError(f"{name} was not found: build the package with colcon or pip first")
