"""A planner's look-up in a DistanceGrid."""

from __future__ import annotations

import math
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from floorgent_ros.distance_lookup import distance_at
from floorgent_ros.errors import MapError


def grid_message(yaw: float = 0.0, width: int = 4, height: int = 3, resolution: float = 0.5) -> Any:
    """A window of width x height cells whose corner is at (10, -5); cell k holds the distance k."""
    turn = SimpleNamespace(x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))
    origin = SimpleNamespace(position=SimpleNamespace(x=10.0, y=-5.0), orientation=turn)
    info = SimpleNamespace(width=width, height=height, resolution=resolution, origin=origin)
    return SimpleNamespace(info=info, distance=np.arange(width * height, dtype=np.float32))


@pytest.mark.parametrize("yaw", [0.0, math.radians(30), -2.0])
def test_centre_of_every_cell_gives_its_value(yaw: float) -> None:
    message = grid_message(yaw)
    for row in range(3):
        for column in range(4):
            across, up = (column + 0.5) * 0.5, (row + 0.5) * 0.5
            x = 10 + across * math.cos(yaw) - up * math.sin(yaw)
            y = -5 + across * math.sin(yaw) + up * math.cos(yaw)
            assert distance_at(message, x, y) == row * 4 + column


def test_a_cell_owns_its_lower_left_border() -> None:
    message = grid_message()
    assert distance_at(message, 10.0, -5.0) == 0
    assert distance_at(message, 10.5, -5.0) == 1
    assert distance_at(message, 10.0, -4.5) == 4


@pytest.mark.parametrize(
    ("x", "y"), [(9.99, -4.9), (12.0, -4.9), (10.1, -5.01), (10.1, -3.5), (math.nan, -4.9), (10.1, math.inf)]
)
def test_outside_the_window_is_refused(x: float, y: float) -> None:
    with pytest.raises(MapError, match="outside the window"):
        distance_at(grid_message(), x, y)


def test_infinity_and_nan_come_through() -> None:
    message = grid_message()
    message.distance[:2] = np.inf, np.nan
    assert distance_at(message, 10.1, -4.9) == math.inf
    assert math.isnan(distance_at(message, 10.6, -4.9))


def test_needs_neither_rclpy_nor_torch() -> None:
    code = (
        "import sys; sys.modules['rclpy'] = sys.modules['torch'] = None; "
        "from floorgent_ros import distance_at; print(distance_at.__module__)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert shown.stdout.strip() == "floorgent_ros.distance_lookup"
