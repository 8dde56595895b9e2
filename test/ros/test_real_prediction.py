"""The node as its own process with the real predictor and a small checkpoint."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
from ros_harness import Bench, Robot, fake_field, map_message, pose_message, room
from ros_process import NodeProcess, ros_arguments
from sensor_msgs.msg import Image
from small_checkpoint import small_checkpoint
from visualization_msgs.msg import MarkerArray

from floorgent_ros.config import PredictorSettings
from floorgent_ros.distance_lookup import distance_at
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.predictor import DistanceField, DistancePredictor

# as in the node's process (`ros_process`): sums of another order differ in their last bits
pytestmark = pytest.mark.usefixtures("one_thread")

NODE = [sys.executable, "-m", "floorgent_ros.ros.node"]
COMPLETIONS = 2
FIRST_PREDICTION_S = 120.0  # torch and numba load, on a machine that may be busy


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_checkpoint(tmp_path_factory.mktemp("weights") / "small.safetensors")


def test_fake_of_the_other_tests_has_what_a_real_field_has() -> None:
    assert set(vars(fake_field())) == {item.name for item in fields(DistanceField)}


def test_node_publishes_what_the_predictor_predicts(
    bench: Bench, start: Callable[..., NodeProcess], checkpoint: Path
) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    walls, images = robot.hear("floorgent/walls", MarkerArray), robot.hear("floorgent/observation", Image)
    process = start(
        NODE,
        *ros_arguments(
            checkpoint=checkpoint, device="cpu", completions=COMPLETIONS, seed=3, republish_period=0
        ),
    )
    robot.connected()
    predictor = DistancePredictor.from_checkpoint(
        checkpoint, device="cpu", settings=PredictorSettings(completions=COMPLETIONS, seed=3)
    )
    cells = room()
    cells[25:35, :2] = -1  # a gap, behind which nothing is known
    inside, in_a_wall, far_away = (2.0, 1.5), (0.05, 0.5), (500.0, 0.0)
    for count, place in enumerate([inside, in_a_wall, far_away], 1):
        robot.poses.publish(pose_message(*place, stamp_s=count))
        if count == 1:
            robot.maps.publish(map_message(cells, origin=(-0.3, 0.2)))
        bench.until(
            lambda wanted=count: distances and distances[-1].pose_stamp.sec == wanted,
            f"result {count} of {process.said()}",
            FIRST_PREDICTION_S,
        )
        message = distances[-1]
        expected = predictor.predict(OccupancyMap(cells, 0.05, (-0.3, 0.2)), place)
        for name in ("distance", "spread", "reach_probability"):
            values = np.asarray(getattr(message, name), np.float32).reshape(256, 256)
            assert np.array_equal(values, getattr(expected, name), equal_nan=True), (name, place)
        assert expected.source_note in process.said()  # in the wall, outside the map: said, and answered
        assert bool(expected.source_note) == (place != inside)
        assert (message.completions, message.seed, message.horizon_m) == (COMPLETIONS, 3, predictor.horizon_m)
    assert distance_at(distances[0], *inside) < 0.2
    assert np.isfinite(distance_at(distances[0], 3.0, 2.0))
    assert len(images[0].data) == 256 * 256
    assert walls[0].markers[1].ns == "observed"
    assert process.said().count(predictor.description) == 1
    assert process.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize("fault", ["missing", "broken"])
def test_checkpoint_that_cannot_be_used_ends_the_node_with_one_line(
    start: Callable[..., NodeProcess], tmp_path: Path, fault: str
) -> None:
    path = tmp_path / "weights.safetensors"
    if fault == "broken":
        path.write_bytes(b"not a checkpoint")
    process = start(NODE, *ros_arguments(checkpoint=path))
    assert process.exit_code(FIRST_PREDICTION_S) == 2
    lines = process.said().splitlines()
    assert len([line for line in lines if str(path) in line]) == 1
    assert "leave it empty" in lines[-1]
    assert "Traceback" not in process.said()
