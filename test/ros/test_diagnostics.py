"""/diagnostics and floorgent/timings: what they say, and what they do not call a fault."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Any

import pytest
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus
from ros_harness import Bench, FakePredictor, Robot, map_message, pose_message, room

from floorgent_ros.msg import DistanceGrid, StageTimings
from floorgent_ros.ros import diagnostics

OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class Doctor:
    """A robot, a node and its newest status."""

    def __init__(self, bench: Bench, predictor: FakePredictor, **parameters: Any) -> None:
        self.bench = bench
        self.robot = Robot(bench, namespace="robot1")
        self.heard = self.robot.hear("/diagnostics", DiagnosticArray, 10)
        self.distances = self.robot.hear("floorgent/distance", DistanceGrid)
        self.node = bench.floorgent(
            predictor, namespace="robot1", pose_source="pose", max_rate=100.0, **parameters
        )
        self.robot.connected()

    def status(self, condition: Callable[[DiagnosticStatus, dict[str, str]], Any]) -> dict[str, str]:
        """The values of the first status from now on that meets the condition."""
        self.heard.clear()

        def found() -> Any:
            statuses = [message.status[0] for message in self.heard]
            self.values = [{item.key: item.value for item in status.values} for status in statuses]
            pairs = zip(statuses, self.values, strict=True)
            return next((values for status, values in pairs if condition(status, values)), None)

        return dict(self.bench.until(found, f"a status; the last one is {self.heard[-1:]}"))


def test_status_holds_device_network_ages_latency_and_counts(bench: Bench, predictor: FakePredictor) -> None:
    doctor = Doctor(bench, predictor)
    doctor.status(lambda status, _: status.level == WARN and "no map yet on /robot1/map" in status.message)
    doctor.robot.maps.publish(map_message())
    doctor.status(lambda status, _: status.level == WARN and "no pose yet" in status.message)
    for count in range(3):
        doctor.robot.maps.publish(map_message(room(60 + count)))
        doctor.robot.poses.publish(pose_message())
        bench.until(lambda wanted=count: len(doctor.distances) > wanted, "a result")
    values = doctor.status(lambda status, values: status.level == OK and values["predictions"] == "3")
    assert doctor.heard[-1].status[0].name == "robot1/floorgent: prediction"
    assert doctor.heard[-1].header.stamp.sec > 0
    assert (values["state"], values["device"], values["network"]) == ("active", "cpu", "fake predictor")
    assert float(values["map age [s]"]) >= 0
    assert float(values["pose age [s]"]) >= 0
    assert 0 < float(values["latency median [s]"]) + 0.01 <= float(values["latency 95 % [s]"]) + 0.02
    assert (values["refused maps"], values["failed predictions"]) == ("0", "0")


def test_refused_maps_are_counted_with_the_last_reason_until_a_good_one_comes(
    bench: Bench, predictor: FakePredictor
) -> None:
    doctor = Doctor(bench, predictor)
    doctor.robot.poses.publish(pose_message())
    bad = map_message()
    bad.data = array("b", [0] * 7)
    doctor.robot.maps.publish(bad)
    values = doctor.status(lambda status, values: status.level == WARN and values["refused maps"] == "1")
    assert "7 values for 80 x 60 cells" in values["last refusal"]
    doctor.robot.maps.publish(map_message())
    values = doctor.status(lambda status, _: status.level == OK)
    assert (values["refused maps"], values["maps"]) == ("1", "2")


def test_maps_that_a_newer_one_replaced_are_counted_as_skipped(
    bench: Bench, predictor: FakePredictor
) -> None:
    doctor = Doctor(bench, predictor)
    predictor.go.clear()
    doctor.robot.poses.publish(pose_message())
    for count in range(5):
        doctor.robot.maps.publish(map_message(room(60 + count), stamp_s=count))
        bench.until(lambda wanted=count: doctor.node.pipeline.maps.received > wanted, "the map")
        bench.until(lambda: predictor.asked, "the first prediction")
    predictor.go.set()
    values = doctor.status(lambda _, values: values["predictions"] == "2")
    assert values["skipped maps"] == "3"


def test_failing_predictions_are_an_error_until_one_succeeds(bench: Bench, predictor: FakePredictor) -> None:
    doctor = Doctor(bench, predictor)
    predictor.error = ValueError("math domain error")
    doctor.robot.poses.publish(pose_message())
    doctor.robot.maps.publish(map_message())
    values = doctor.status(lambda status, _: status.level == ERROR and "math domain" in status.message)
    assert values["failed predictions"] == "1"
    predictor.error = None
    doctor.robot.maps.publish(map_message(room(61)))
    doctor.status(lambda status, _: status.level == OK)


def test_a_call_that_succeeds_ends_the_error_of_one_that_failed(
    bench: Bench, predictor: FakePredictor
) -> None:
    doctor = Doctor(bench, predictor)
    doctor.robot.poses.publish(pose_message())
    doctor.robot.maps.publish(map_message())
    bench.until(lambda: doctor.distances, "a result")
    pipeline = doctor.node.pipeline
    newest = pipeline.maps.latest
    for error, level in ((ValueError("math domain error"), ERROR), (None, OK)):
        predictor.error = error
        answer = pipeline.ask(newest, pipeline.poses.pose_in("map"), newest.arrived)
        bench.until(answer.done, "the answer")
        doctor.status(lambda status, _, level=level: status.level == level)


def test_a_map_every_five_seconds_and_a_latched_one_are_no_fault(
    bench: Bench, predictor: FakePredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.2 Hz, or one message for ever, is how maps come: the age is told and not judged."""
    doctor = Doctor(bench, predictor)
    doctor.robot.poses.publish(pose_message())
    doctor.robot.maps.publish(map_message())
    bench.until(lambda: doctor.distances, "a result")
    later = diagnostics.time.monotonic() + 3600
    monkeypatch.setattr(diagnostics.time, "monotonic", lambda: later)
    newest = doctor.node.pipeline
    level, text = diagnostics.judgement("active", newest)
    assert "map" not in text
    monkeypatch.setattr(newest.poses, "age_s", lambda: 0.1)
    assert diagnostics.judgement("active", newest) == (OK, "active")
    assert float(dict(diagnostics.figures(newest))["map age [s]"]) > 3000
    assert level == WARN  # of the pose, which really is an hour old


def test_a_stale_pose_is_said_once_and_shown(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str]
) -> None:
    doctor = Doctor(bench, predictor, max_pose_age=0.3)
    doctor.robot.poses.publish(pose_message())
    doctor.robot.maps.publish(map_message())
    said = bench.until_said(capfd, "max_pose_age")
    doctor.status(lambda status, _: status.level == WARN and "the pose on /robot1/pose is" in status.message)
    said += capfd.readouterr().err
    assert said.count("max_pose_age") == 1
    assert doctor.distances  # it is used all the same


def test_an_out_of_memory_fallback_is_logged_counted_and_shown(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str]
) -> None:
    doctor = Doctor(bench, predictor)
    predictor.fallbacks.append("out of GPU memory: from now on completions are drawn 2 at once")
    doctor.robot.poses.publish(pose_message())
    doctor.robot.maps.publish(map_message())
    values = doctor.status(lambda status, _: status.level == WARN and "out of GPU memory" in status.message)
    assert values["out-of-memory fallbacks"] == "1"
    doctor.robot.maps.publish(map_message(room(61)))
    bench.until(lambda: len(doctor.distances) == 2, "the next result")
    assert capfd.readouterr().err.count("out of GPU memory") == 1


def test_an_inactive_node_is_well(bench: Bench, predictor: FakePredictor) -> None:
    doctor = Doctor(bench, predictor)
    bench.until(lambda: doctor.node.state == "active", "the active state")
    doctor.node.enable(False)
    values = doctor.status(lambda status, _: status.level == OK and status.message == "inactive")
    assert values["state"] == "inactive"
    doctor.node.trigger_cleanup()
    assert doctor.status(lambda status, _: status.message == "unconfigured") == {"state": "unconfigured"}


def test_timings_name_every_stage_and_add_up(
    bench: Bench, predictor: FakePredictor, monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor = Doctor(bench, predictor)
    heard = doctor.robot.hear("floorgent/timings", StageTimings)
    bench.until(doctor.node.pipeline.outputs._timings.get_subscription_count, "the subscription")
    doctor.robot.poses.publish(pose_message())
    doctor.robot.maps.publish(map_message(stamp_s=4))
    bench.until(lambda: heard, "timings")
    (message,) = heard
    assert message.header.stamp.sec == 4
    assert list(message.stages) == ["wait", "complete", "publish"]
    assert message.milliseconds[1] == 40.0
    assert all(value >= 0 for value in message.milliseconds)
    assert message.milliseconds[0] <= message.total_ms
