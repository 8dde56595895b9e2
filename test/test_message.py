"""The compiled message: its fields, and that it crosses the wire whole. Also part of colcon test."""

from __future__ import annotations

import re
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ament_index_python.packages import get_package_share_directory
from rclpy.serialization import deserialize_message, serialize_message

from floorgent_ros.msg import DistanceGrid, StageTimings
from floorgent_ros.srv import GetDistances, Predict

FIELDS = {
    "header": "std_msgs/Header",
    "pose_stamp": "builtin_interfaces/Time",
    "info": "nav_msgs/MapMetaData",
    "source": "geometry_msgs/Point",
    "distance": "sequence<float>",
    "spread": "sequence<float>",
    "reach_probability": "sequence<float>",
    "completions": "uint32",
    "seed": "uint64",
    "horizon_m": "float",
    "latency_s": "float",
}


def test_fields_and_their_types() -> None:
    assert DistanceGrid.get_fields_and_field_types() == FIELDS


def test_survives_serialisation() -> None:
    message = DistanceGrid(completions=8, seed=2**64 - 1, horizon_m=15.0, latency_s=0.25)
    message.header.frame_id = "map"
    message.pose_stamp.sec = 7
    message.info.width, message.info.height, message.info.resolution = 3, 2, 0.15625
    message.source.x = -2.5
    values = np.array([0.0, 1.5, np.inf, np.nan, 40.0, 3.25], np.float32)
    message.distance = array("f", values)
    message.spread = array("f", values[::-1])
    message.reach_probability = array("f", [0.0, 0.125, 0.5, np.nan, 1.0, 1.0])

    received = deserialize_message(serialize_message(message), DistanceGrid)

    np.testing.assert_array_equal(np.asarray(received.distance, np.float32), values)
    np.testing.assert_array_equal(np.asarray(received.spread, np.float32), values[::-1])
    assert received.reach_probability[1] == 0.125
    assert (received.completions, received.seed) == (8, 2**64 - 1)
    assert (received.horizon_m, received.latency_s) == (15.0, 0.25)
    assert received.header.frame_id == "map"
    assert (received.info.width, received.info.height) == (3, 2)
    assert received.source.x == -2.5
    assert received.pose_stamp.sec == 7


@pytest.mark.parametrize("field", ["distance", "spread", "reach_probability"])
def test_grids_hold_no_doubles(field: str) -> None:
    with pytest.raises(AssertionError):
        setattr(DistanceGrid(), field, array("d", [1.0]))


@pytest.mark.parametrize(
    ("path", "kind", "metric"),
    [
        ("msg/DistanceGrid.msg", DistanceGrid, {"distance", "spread", "horizon_m"}),
        ("msg/StageTimings.msg", StageTimings, set()),
        ("srv/GetDistances.srv", GetDistances, {"sources", "targets", "distance", "spread"}),
        ("srv/Predict.srv", Predict, {"pose"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_field_is_commented(path: str, kind: Any, metric: set[str]) -> None:
    """What `ros2 interface show` prints tells unit and rule above each field."""
    source = Path(get_package_share_directory("floorgent_ros")) / path
    blocks = re.split(r"\n\s*\n", source.read_text(encoding="utf-8").strip())
    declared = {}
    for block in blocks:
        comment = [line for line in block.splitlines() if line.startswith("#")]
        for line in block.splitlines():
            if line and not line.startswith(("#", "---")) and "=" not in line:
                declared[line.split()[1]] = " ".join(comment)
    halves = [kind] if path.startswith("msg") else [kind.Request, kind.Response]
    assert list(declared) == [name for half in halves for name in half.get_fields_and_field_types()]
    assert all(len(comment) > 20 for comment in declared.values())
    for name in metric:
        assert "[m]" in declared[name]


def test_calls_are_bounded_by_what_their_service_says() -> None:
    assert (GetDistances.Request.MAX_SOURCES, GetDistances.Request.MAX_TARGETS) == (64, 1024)
