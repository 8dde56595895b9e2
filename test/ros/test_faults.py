"""What goes wrong on robots: failing predictions, a dead worker, kills, signals in every state."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from ros_harness import Bench, FakePredictor, Robot, map_message, pose_message, room
from ros_process import NodeProcess, ros_arguments

from floorgent_ros.config import NodeSettings
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros import failures
from floorgent_ros.ros.failures import CASE_NAMES, MAX_CASES, save_case
from floorgent_ros.ros.parameters import Settings

FAKE = [sys.executable, str(Path(__file__).parent / "fake_node.py")]
Start = Callable[..., NodeProcess]


def saving(folder: Path | str) -> Settings:
    return Settings(node=NodeSettings(save_failures=str(folder)))


def failure() -> ValueError:
    try:
        raise ValueError("math domain error")
    except ValueError as error:
        return error


def test_the_case_of_a_failed_prediction_can_be_run_again(
    bench: Bench, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    predictor, robot, folder = FakePredictor(), Robot(bench), tmp_path / "cases"
    distances = robot.hear("floorgent/distance", DistanceGrid)
    bench.floorgent(predictor, pose_source="pose", max_rate=100.0, seed=7, save_failures=str(folder))
    robot.connected()
    predictor.error = ValueError("math domain error")
    robot.poses.publish(pose_message(2.0, 1.5))
    robot.maps.publish(map_message(origin=(-1.0, 2.0), yaw=0.5))
    said = bench.until_said(capfd, "prediction failed")
    (path,) = folder.iterdir()
    assert f"ValueError: math domain error; its case is saved as {path}" in said
    with np.load(path) as case:
        grid = OccupancyMap(
            case["cells"], float(case["resolution"]), tuple(case["origin"].tolist()), float(case["yaw"])
        )
        settings = json.loads(str(case["settings"]))
        assert "ValueError: math domain error" in str(case["error"])
        viewpoint = tuple(case["viewpoint"].tolist())
    asked, place, *_ = predictor.asked[0]
    assert np.array_equal(grid.cells, asked.cells)
    assert (grid.resolution, grid.origin, grid.yaw) == (asked.resolution, asked.origin, asked.yaw)
    assert viewpoint == place == (2.0, 1.5)
    assert settings["seed"] == 7
    assert Settings().changed(settings).predictor.seed == 7
    predictor.error = None
    robot.maps.publish(map_message(room(61)))
    bench.until(lambda: distances, "a result")


def test_cases_on_disk_are_bounded_in_number(tmp_path: Path) -> None:
    grid = OccupancyMap(room(6, 8), 0.05)
    said = [save_case(saving(tmp_path), grid, (0.0, 0.0), failure()) for _ in range(MAX_CASES + 3)]
    assert len(list(tmp_path.iterdir())) == MAX_CASES == len(list(tmp_path.glob(CASE_NAMES)))
    assert "is saved as" in said[MAX_CASES - 1]
    assert f"holds {MAX_CASES} already" in said[MAX_CASES]
    next(tmp_path.iterdir()).unlink()
    assert "is saved as" in save_case(saving(tmp_path), grid, (0.0, 0.0), failure())


def test_no_case_is_saved_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert save_case(Settings(), OccupancyMap(room(6, 8), 0.05), (0.0, 0.0), failure()) == ""
    assert not list(tmp_path.iterdir())


def test_a_case_that_cannot_be_saved_hides_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = OccupancyMap(room(6, 8), 0.05)
    (tmp_path / "file").write_text("")
    for nowhere in (tmp_path / "file", "~nobody_by_this_name/failures", "fail\0ures"):
        said = save_case(saving(nowhere), grid, (0.0, 0.0), failure())
        assert "could not be saved" in said
        assert "\n" not in said

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(failures.np, "savez_compressed", full)
    assert "No space left" in save_case(saving(tmp_path / "cases"), grid, (0.0, 0.0), failure())
    assert not list((tmp_path / "cases").iterdir())


def test_death_of_the_worker_ends_the_process_with_a_line_for_respawn(bench: Bench, start: Start) -> None:
    robot = Robot(bench)
    process = start([*FAKE, "die"], *ros_arguments())
    robot.connected()
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message())
    bench.until(lambda: process.child.poll() is not None, "the end")
    assert process.exit_code() == 1
    assert "something ended the thread" in process.said()
    assert "Traceback" not in process.said()


def test_a_killed_node_that_is_started_again_has_the_latched_map_at_once(bench: Bench, start: Start) -> None:
    robot = Robot(bench)
    distances = robot.hear("floorgent/distance", DistanceGrid)
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message(stamp_s=5))  # once, before anybody listens
    for count in (1, 2):
        distances.clear()
        process = start([*FAKE, "answer"], *ros_arguments(republish_period=0))
        bench.until(lambda: distances, f"the result of start {count}: {process.said()}")
        assert distances[0].header.stamp.sec == 5
        process.child.kill()
        process.child.wait(10)


@pytest.mark.parametrize(
    ("transitions", "number"),
    [
        ((), signal.SIGTERM),
        ((Transition.TRANSITION_CONFIGURE,), signal.SIGINT),
        ((Transition.TRANSITION_CONFIGURE, Transition.TRANSITION_ACTIVATE), signal.SIGTERM),
        ((Transition.TRANSITION_UNCONFIGURED_SHUTDOWN,), signal.SIGINT),
    ],
    ids=["unconfigured", "inactive", "active", "finalized"],
)
def test_signal_in_any_state_exits_0_at_once(
    bench: Bench, start: Start, transitions: tuple[int, ...], number: int
) -> None:
    process = start([*FAKE, "answer"], *ros_arguments(autostart="false"))
    client = bench.node().create_client(ChangeState, "/floorgent/change_state")
    bench.until_served(client)
    for transition in transitions:
        answer = client.call_async(ChangeState.Request(transition=Transition(id=transition)))
        bench.until(answer.done, "the transition")
        assert answer.result().success
    assert process.stop(number) == 0, process.said()


def test_signal_while_configure_waits_for_the_checkpoint_exits_0_at_once(bench: Bench, start: Start) -> None:
    process = start([*FAKE, "load"], *ros_arguments(autostart="false"))
    client = bench.node().create_client(ChangeState, "/floorgent/change_state")
    bench.until_served(client)
    client.call_async(ChangeState.Request(transition=Transition(id=Transition.TRANSITION_CONFIGURE)))
    process.until_said("loading")
    before = time.monotonic()
    assert process.stop(signal.SIGTERM) == 0, process.said()
    assert time.monotonic() - before < 2
