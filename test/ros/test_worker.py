"""The thread that predicts: newest wins, nothing twice, nothing stops it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from queue import Empty, Queue
from typing import Any

import pytest
from builtin_interfaces.msg import Time
from ros_harness import FakePredictor, room

from floorgent_ros.config import NodeSettings
from floorgent_ros.errors import CheckpointError
from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros.maps import MapUpdate
from floorgent_ros.ros.parameters import Settings
from floorgent_ros.ros.poses import Pose
from floorgent_ros.ros.worker import Broken, Failed, Predicted, Ready, Report, Request, Worker

GRID = OccupancyMap(room(), 0.05)


class Desk:
    """A worker and its reports."""

    def __init__(self, load: Callable[[], Any], **settings: float) -> None:
        self.settings = Settings(node=NodeSettings(**{"max_rate": 100.0, **settings}))  # type: ignore[arg-type]
        self.reports: Queue[Report] = Queue()
        self.worker = Worker(load, lambda: self.settings, self.reports.put)
        self.worker.start()

    def offer(self, version: int, x: float = 0.0, y: float = 0.0) -> float:
        now = time.monotonic()
        self.worker.offer(
            MapUpdate(GRID, "map", Time(), Time(), now, version), Pose(x, y, "map", Time(), now)
        )
        return now

    def next(self, kind: type) -> Any:
        report = self.reports.get(timeout=20)
        assert isinstance(report, kind), report
        return report

    def silent(self, duration_s: float = 0.15) -> bool:
        try:
            self.reports.get(timeout=duration_s)
        except Empty:
            return True
        return False


@pytest.fixture
def desk(predictor: FakePredictor) -> Iterator[Desk]:
    desk = Desk(lambda: predictor)
    assert desk.next(Ready).description == "fake predictor"
    yield desk
    predictor.go.set()
    assert desk.worker.stop(20)


def test_newest_map_wins(desk: Desk, predictor: FakePredictor) -> None:
    predictor.go.clear()
    desk.offer(1)
    while not predictor.asked:
        time.sleep(0.001)
    for version in range(2, 50):
        arrived = desk.offer(version)
    predictor.go.set()
    assert desk.next(Predicted).request.map.identity == 1
    last = desk.next(Predicted).request
    assert (last.map.identity, last.arrived) == (49, arrived)
    assert desk.silent()
    assert len(predictor.asked) == 2


def test_same_map_and_pose_are_never_predicted_twice(desk: Desk, predictor: FakePredictor) -> None:
    for _ in range(5):
        desk.offer(1)
    desk.next(Predicted)
    desk.offer(1)
    desk.offer(1, x=0.49)
    assert desk.silent()
    assert len(predictor.asked) == 1


def test_offers_during_a_prediction_of_the_same_are_not_repeated(
    desk: Desk, predictor: FakePredictor
) -> None:
    predictor.go.clear()
    desk.offer(1)
    while not predictor.asked:
        time.sleep(0.001)
    desk.offer(1)
    predictor.go.set()
    desk.next(Predicted)
    assert desk.silent()


def test_travel_calls_for_a_prediction_on_the_same_map(desk: Desk, predictor: FakePredictor) -> None:
    desk.offer(1)
    desk.next(Predicted)
    desk.offer(1, x=0.3, y=0.4)
    desk.next(Predicted)
    assert [viewpoint for _, viewpoint, *_ in predictor.asked] == [(0.0, 0.0), (0.3, 0.4)]


def test_without_min_travel_a_standing_robot_still_waits(desk: Desk, predictor: FakePredictor) -> None:
    desk.settings = Settings(node=NodeSettings(min_travel=0.0, max_rate=100.0))
    desk.offer(1)
    desk.next(Predicted)
    desk.offer(1)
    assert desk.silent()
    desk.offer(1, x=0.001)
    desk.next(Predicted)


def test_a_robot_that_came_back_needs_no_prediction(desk: Desk, predictor: FakePredictor) -> None:
    desk.settings = Settings(node=NodeSettings(max_rate=2.0))
    desk.offer(1)
    desk.next(Predicted)
    desk.offer(1, x=1.0)  # waits for max_rate
    desk.offer(1, x=0.0)
    assert desk.silent(0.7)


def test_max_rate_is_kept_and_the_wait_is_part_of_the_latency(predictor: FakePredictor) -> None:
    desk = Desk(lambda: predictor, max_rate=4.0)
    desk.next(Ready)
    starts = []
    for version in range(1, 4):
        arrived = desk.offer(version)
        request = desk.next(Predicted).request
        starts.append(time.monotonic())
        assert request.arrived == arrived
    assert starts[2] - starts[0] > 0.45
    assert desk.worker.stop(20)


def test_a_waiting_map_keeps_its_arrival_while_poses_come(desk: Desk, predictor: FakePredictor) -> None:
    predictor.go.clear()
    desk.offer(1)
    while not predictor.asked:
        time.sleep(0.001)
    arrived = desk.offer(2)
    desk.offer(2, x=0.1)
    predictor.go.set()
    desk.next(Predicted)
    request = desk.next(Predicted).request
    assert (request.arrived, request.pose.x) == (arrived, 0.1)


def test_a_failed_prediction_is_reported_and_the_next_one_works(desk: Desk, predictor: FakePredictor) -> None:
    predictor.error = RuntimeError("CUDA out of memory")
    desk.offer(1)
    assert str(desk.next(Failed).error) == "CUDA out of memory"
    predictor.error = None
    desk.offer(2)
    desk.next(Predicted)


def test_settings_of_the_moment_reach_the_predictor(desk: Desk, predictor: FakePredictor) -> None:
    desk.settings = desk.settings.changed({"completions": 3, "seed": 17, "occupied_threshold": 80})
    desk.offer(1)
    desk.next(Predicted)
    _, _, settings, observation = predictor.asked[-1]
    assert (settings.completions, settings.seed, observation.occupied_threshold) == (3, 17, 80)


def test_broken_checkpoint_is_reported() -> None:
    def load() -> Any:
        raise CheckpointError("no checkpoint at /nowhere: train one or leave the parameter empty")

    desk = Desk(load)
    assert "/nowhere" in str(desk.next(Broken).error)
    assert desk.worker.stop(20)


def test_a_failing_warm_up_is_said_and_not_fatal(predictor: FakePredictor) -> None:
    def warm_up() -> None:
        raise RuntimeError("no kernel image")

    predictor.warm_up = warm_up  # type: ignore[method-assign]
    desk = Desk(lambda: predictor)
    assert "kernel" in str(desk.next(Failed).error)
    desk.next(Ready)
    desk.offer(1)
    desk.next(Predicted)
    assert desk.worker.stop(20)


def test_stop_does_not_wait_for_a_prediction_and_silences_it(predictor: FakePredictor) -> None:
    desk = Desk(lambda: predictor)
    desk.next(Ready)
    predictor.go.clear()
    desk.offer(1)
    while not predictor.asked:
        time.sleep(0.001)
    before = time.monotonic()
    assert not desk.worker.stop(0.05)
    assert time.monotonic() - before < 1
    predictor.go.set()
    assert desk.worker.stop(20)
    assert desk.silent(0.01)
    assert not any(thread.name == "prediction" for thread in threading.enumerate())


def call(desk: Desk, name: str) -> bool:
    now = time.monotonic()
    newest = MapUpdate(GRID, "map", Time(), Time(), now, 0)
    return desk.worker.ask(Request(newest, Pose(0.0, 0.0, "map", Time(), now), now, name))


def test_calls_one_after_the_other_do_not_starve_the_robot(desk: Desk, predictor: FakePredictor) -> None:
    predictor.go.clear()
    assert call(desk, "first")
    while not predictor.asked:
        time.sleep(0.001)
    desk.offer(1)
    assert call(desk, "second")
    predictor.go.set()
    assert [desk.next(Predicted).request.call for _ in range(3)] == ["first", None, "second"]


def test_a_call_goes_before_a_robot_that_has_to_wait_for_its_rate(predictor: FakePredictor) -> None:
    desk = Desk(lambda: predictor, max_rate=0.5)
    desk.next(Ready)
    desk.offer(1)
    assert desk.next(Predicted).request.call is None
    desk.offer(2)
    for name in ("first", "second"):
        assert call(desk, name)
        assert desk.next(Predicted).request.call == name
    desk.worker.stop(20)


def test_a_higher_rate_shortens_the_wait_that_has_begun(predictor: FakePredictor) -> None:
    desk = Desk(lambda: predictor, max_rate=0.01)
    desk.next(Ready)
    desk.offer(1)
    desk.next(Predicted)
    desk.settings = Settings(node=NodeSettings(max_rate=100.0))
    desk.offer(2)
    desk.next(Predicted)
    desk.worker.stop(20)


def test_a_call_that_was_hung_up_is_not_predicted_and_leaves_room(
    desk: Desk, predictor: FakePredictor
) -> None:
    predictor.go.clear()
    assert call(desk, "running")
    while not predictor.asked:
        time.sleep(0.001)
    assert call(desk, "dropped")
    assert not call(desk, "refused")
    desk.worker.hang_up()
    assert call(desk, "next")
    predictor.go.set()
    assert [desk.next(Predicted).request.call for _ in range(2)] == ["running", "next"]
