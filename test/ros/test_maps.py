"""When two map messages hold the same map."""

from __future__ import annotations

import numpy as np
import pytest
from ros_harness import room

from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros.maps import identity

MAP = OccupancyMap(room(), 0.05, (1.0, 2.0), 0.3)
ONE_CELL_OTHER = room()
ONE_CELL_OTHER[30, 40] = -1


def test_equal_maps_share_their_identity() -> None:
    assert identity(MAP, "map") == identity(OccupancyMap(room(), 0.05, (1.0, 2.0), 0.3), "map")


@pytest.mark.parametrize(
    ("other", "frame"),
    [
        (OccupancyMap(ONE_CELL_OTHER, 0.05, (1.0, 2.0), 0.3), "map"),
        (OccupancyMap(np.ascontiguousarray(room().reshape(80, 60)), 0.05, (1.0, 2.0), 0.3), "map"),
        (OccupancyMap(room(), 0.06, (1.0, 2.0), 0.3), "map"),
        (OccupancyMap(room(), 0.05, (1.0, 2.01), 0.3), "map"),
        (OccupancyMap(room(), 0.05, (1.0, 2.0), 0.0), "map"),
        (MAP, "map2"),
    ],
    ids=["a cell", "the shape", "the resolution", "the origin", "the yaw", "the frame"],
)
def test_what_makes_another_map(other: OccupancyMap, frame: str) -> None:
    assert identity(other, frame) != identity(MAP, "map")
