"""What can be asked of the node, while it predicts and while it does not."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import Point
from ros_harness import Bench, FakePredictor, Robot, map_message, pose_message
from std_srvs.srv import SetBool

from floorgent_ros.distance_lookup import distance_at
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.srv import GetDistances, Predict


class Asked:
    """A running node, a robot, and clients of the node's services."""

    def __init__(self, bench: Bench, **parameters: Any) -> None:
        self.bench, self.predictor = bench, FakePredictor()
        self.robot = Robot(bench)
        self.distances = self.robot.hear("floorgent/distance", DistanceGrid)
        self.node = bench.floorgent(
            self.predictor, pose_source="pose", max_rate=100.0, republish_period=0, **parameters
        )
        self.robot.connected()
        kinds = {"get_distances": GetDistances, "predict": Predict, "enable": SetBool}
        self.clients = {
            name: self.robot.node.create_client(kind, f"floorgent/{name}") for name, kind in kinds.items()
        }
        bench.until(lambda: all(c.service_is_ready() for c in self.clients.values()), "the services")

    def send(self, name: str, request: Any) -> Any:
        return self.clients[name].call_async(request)

    def call(self, name: str, request: Any) -> Any:
        answer = self.send(name, request)
        self.bench.until(answer.done, f"the answer of {name}")
        return answer.result()

    def predicted(self, x: float = 2.0) -> DistanceGrid:
        """The distances of the first map."""
        self.robot.poses.publish(pose_message(x))
        self.robot.maps.publish(map_message())
        self.bench.until(lambda: self.distances, "a result")
        return self.distances[-1]

    def busy(self) -> None:
        """Hold the worker in a prediction."""
        self.predictor.go.clear()
        count = len(self.predictor.asked)
        self.robot.poses.publish(pose_message(2.9))
        self.bench.until(lambda: len(self.predictor.asked) > count, "a prediction")


@pytest.fixture
def asked(bench: Bench) -> Iterator[Asked]:
    asked = Asked(bench)
    yield asked
    asked.predictor.go.set()


def pairs(sources: list[Any], targets: list[Any], frame: str = "map") -> GetDistances.Request:
    request = GetDistances.Request(frame_id=frame)
    request.sources = [Point(x=float(x), y=float(y)) for x, y in sources]
    request.targets = [Point(x=float(x), y=float(y)) for x, y in targets]
    return request


def test_distances_between_frontiers_come_from_the_last_prediction_while_the_next_one_runs(
    asked: Asked,
) -> None:
    grid = asked.predicted()
    asked.busy()
    targets = [(5.0, 1.5), (2.0, 9.0), (100.0, 0.0)]
    before = time.monotonic()
    answer = asked.call("get_distances", pairs([(2.0, 1.5), (4.0, 1.5)], targets, frame="/map"))
    assert time.monotonic() - before < 30  # the prediction would never end; some ms on an idle machine
    assert answer.success
    assert (answer.header, answer.pose_stamp) == (grid.header, grid.pose_stamp)
    assert (answer.completions, answer.seed) == (grid.completions, grid.seed)
    table = np.asarray(answer.distance).reshape(2, 3)
    assert table[0, :2] == pytest.approx([3.0, 7.5], abs=0.16)  # the fake's completions are empty floors
    assert table[1, 0] == pytest.approx(1.0, abs=0.16)
    assert np.isinf(table[:, 2]).all()
    assert "1 points lie outside" in answer.message
    assert np.asarray(answer.reach_probability).reshape(2, 3).tolist() == [[1, 1, 0], [1, 1, 0]]
    assert len(answer.spread) == 6


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (pairs([(0, 0)] * 65, [(0, 0)]), "65 sources: give 1 to 64"),
        (pairs([(0, 0)], [(0, 0)] * 1025), "1025 targets"),
        (pairs([], [(0, 0)]), "0 sources"),
        (pairs([(0, 0)], [(0, math.nan)]), "not finite"),
        (pairs([(0, 0)], [(0, 0)], frame="odom"), "in frame 'odom', the map in 'map'"),
    ],
    ids=["sources", "targets", "nothing", "nan", "frame"],
)
def test_distances_that_cannot_be_had_are_refused_with_a_reason(
    asked: Asked, request_: Any, says: str
) -> None:
    asked.predicted()
    answer = asked.call("get_distances", request_)
    assert not answer.success
    assert says in answer.message
    assert len(answer.distance) == 0


def test_before_the_first_prediction_the_services_say_what_is_missing(asked: Asked) -> None:
    answer = asked.call("get_distances", pairs([(0, 0)], [(1, 1)]))
    assert not answer.success
    assert "no map yet on /map" in answer.message
    assert answer.ready_in_s > 0
    assert "no map yet on /map" in asked.call("predict", Predict.Request(at_robot=True)).message


def test_many_calls_at_once_are_answered_or_told_when_to_ask_again(asked: Asked) -> None:
    asked.predicted()
    answers = [asked.send("get_distances", pairs([(2, 1)] * 8, [(3, 1)])) for _ in range(8)]  # DDS keeps 10
    asked.bench.until(lambda: all(answer.done() for answer in answers), "all answers")
    results = [answer.result() for answer in answers]
    assert any(result.success for result in results)
    assert all(
        result.success or (result.ready_in_s > 0 and "ask again" in result.message) for result in results
    )


def test_predict_now_at_a_given_place_is_answered_and_not_published(asked: Asked) -> None:
    asked.predicted()
    request = Predict.Request(pose=pose_message(1.25, -0.5, frame="/map", stamp_s=77))
    answer = asked.call("predict", request)
    assert answer.success
    grid = answer.grid
    assert (grid.source.x, grid.source.y, grid.pose_stamp.sec) == (1.25, -0.5, 77)
    assert grid.header == asked.distances[-1].header
    assert distance_at(grid, 1.25, -0.5) == pytest.approx(32.896, abs=0.001)  # the fake's own numbers
    assert 0 < grid.latency_s < 30
    assert len(asked.distances) == 1
    at_robot = asked.call("predict", Predict.Request(at_robot=True))
    assert (at_robot.grid.source.x, at_robot.grid.source.y) == (2.0, 1.5)


def test_predict_waits_for_the_prediction_in_progress_and_a_second_call_is_told_when(asked: Asked) -> None:
    asked.predicted()
    asked.busy()
    first = asked.send("predict", Predict.Request(pose=pose_message(1.0)))
    asked.bench.until(lambda: asked.node.pipeline.worker._call, "the first call in its place")
    second = asked.call("predict", Predict.Request(pose=pose_message(0.0)))
    assert not second.success
    assert second.ready_in_s > 0
    assert not first.done()
    asked.predictor.go.set()
    asked.bench.until(first.done, "the first answer")
    assert first.result().grid.source.x == 1.0


def test_predict_refuses_other_frames_and_places_that_are_none(asked: Asked) -> None:
    asked.predicted()
    other = asked.call("predict", Predict.Request(pose=pose_message(frame="odom")))
    assert not other.success
    assert "'odom'" in other.message
    nowhere = asked.call("predict", Predict.Request(pose=pose_message(math.inf)))
    assert "not finite" in nowhere.message


def test_a_failing_prediction_is_the_answer_and_the_node_goes_on(asked: Asked) -> None:
    asked.predicted()
    asked.predictor.error = ValueError("math domain error")
    answer = asked.call("predict", Predict.Request(at_robot=True))
    assert not answer.success
    assert "ValueError: math domain error" in answer.message
    asked.predictor.error = None
    assert asked.call("predict", Predict.Request(at_robot=True)).success


def test_disabled_node_is_silent_refuses_and_goes_on_when_enabled(asked: Asked) -> None:
    asked.predicted()
    assert asked.call("enable", SetBool.Request(data=False)).success
    assert asked.node.state == "inactive"
    asked.robot.poses.publish(pose_message(9.0))
    asked.bench.spin_for(0.3)
    assert len(asked.distances) == len(asked.predictor.asked) == 1
    assert "not active" in asked.call("get_distances", pairs([(0, 0)], [(1, 1)])).message
    assert "not active" in asked.call("predict", Predict.Request(at_robot=True)).message
    again = asked.call("enable", SetBool.Request(data=False))
    assert again.success
    assert "already" in again.message
    assert asked.call("enable", SetBool.Request(data=True)).success
    asked.bench.until(lambda: len(asked.distances) == 2, "the next result")
    assert asked.distances[-1].source.x == 9.0  # what was heard meanwhile


def test_a_call_that_waits_when_the_node_is_disabled_is_answered(asked: Asked) -> None:
    asked.predicted()
    asked.busy()
    waiting = asked.send("predict", Predict.Request(pose=pose_message(1.0)))
    asked.bench.until(lambda: asked.node.pipeline.worker._call, "the call in its place")
    assert asked.call("enable", SetBool.Request(data=False)).success
    asked.bench.until(waiting.done, "the answer")
    assert "not active" in waiting.result().message
    asked.predictor.go.set()


def test_what_keeps_the_first_prediction_from_coming_is_said(asked: Asked) -> None:
    asked.robot.maps.publish(map_message())
    asked.robot.poses.publish(pose_message(frame="odom"))
    asked.bench.until(lambda: asked.node.pipeline.maps.latest, "the map")
    asked.bench.until(lambda: not asked.node.pipeline.poses.missing(), "the pose")
    assert (
        "in frame 'odom', the map in 'map'" in asked.call("get_distances", pairs([(0, 0)], [(1, 1)])).message
    )
    asked.predictor.error = ValueError("math domain error")
    asked.robot.poses.publish(pose_message())
    asked.bench.until(lambda: asked.node.pipeline.tally.failing, "the failure")
    assert "math domain error" in asked.call("get_distances", pairs([(0, 0)], [(1, 1)])).message
