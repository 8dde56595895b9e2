"""A managed node: what exists and what is published in each state, and the way from one to the next."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import pytest
import rclpy
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState, GetState
from rcl_interfaces.srv import GetParameters
from ros_harness import Bench, FakePredictor, Robot, map_message, pose_message, room
from visualization_msgs.msg import MarkerArray

from floorgent_ros.errors import CheckpointError
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.ros.floorgent_node import FAILURE, SUCCESS, FloorgentNode

QUICK = {"pose_source": "pose", "max_rate": 100.0}


def managed(bench: Bench, predictor: Any) -> FloorgentNode:
    """A node that waits for its manager."""
    return bench.floorgent(predictor, autostart=False, **QUICK)


def ready_to_predict(bench: Bench, robot: Robot) -> list[DistanceGrid]:
    distances = robot.hear("floorgent/distance", DistanceGrid)
    robot.poses.publish(pose_message())
    robot.maps.publish(map_message(stamp_s=1))
    return distances


def test_autostart_takes_the_node_to_active(bench: Bench, predictor: FakePredictor) -> None:
    node = bench.floorgent(predictor)
    bench.until(lambda: node.state == "active", "the active state")


def test_a_manager_leads_the_node_through_its_states_over_ros(bench: Bench, predictor: FakePredictor) -> None:
    node = managed(bench, predictor)
    robot = Robot(bench)
    change = robot.node.create_client(ChangeState, "/floorgent/change_state")
    ask = robot.node.create_client(GetState, "/floorgent/get_state")
    bench.until(lambda: change.service_is_ready() and ask.service_is_ready(), "the lifecycle services")
    distances = ready_to_predict(bench, robot)

    def go(transition: int) -> str:
        answer = change.call_async(ChangeState.Request(transition=Transition(id=transition)))
        bench.until(answer.done, "the transition")
        assert answer.result().success
        state = ask.call_async(GetState.Request())
        bench.until(state.done, "the state")
        return state.result().current_state.label

    assert node.pipeline is None
    assert go(Transition.TRANSITION_CONFIGURE) == "inactive"
    bench.until(lambda: node.pipeline.maps.latest, "the latched map")
    bench.spin_for(0.2)
    assert not distances
    assert not predictor.asked
    assert go(Transition.TRANSITION_ACTIVATE) == "active"
    bench.until(lambda: distances, "a result")
    assert go(Transition.TRANSITION_DEACTIVATE) == "inactive"
    assert go(Transition.TRANSITION_CLEANUP) == "unconfigured"
    assert go(Transition.TRANSITION_UNCONFIGURED_SHUTDOWN) == "finalized"


def test_deactivated_node_publishes_nothing_and_predicts_the_newest_map_when_activated(
    bench: Bench, predictor: FakePredictor
) -> None:
    robot = Robot(bench)
    node = bench.floorgent(predictor, republish_period=0.05, **QUICK)
    robot.connected()
    distances = ready_to_predict(bench, robot)
    bench.until(lambda: distances, "a result")
    predictor.go.clear()
    robot.maps.publish(map_message(room(61), stamp_s=2))
    bench.until(lambda: len(predictor.asked) == 2, "the second prediction")
    assert node.trigger_deactivate() == SUCCESS
    predictor.go.set()  # its result comes too late
    bench.spin_for(0.3)
    distances.clear()
    walls = robot.hear("floorgent/walls", MarkerArray)  # nobody listened before
    robot.maps.publish(map_message(room(62), stamp_s=3))
    bench.until(lambda: node.pipeline.maps.latest.stamp.sec == 3, "the map")
    bench.spin_for(0.3)
    assert not distances
    assert not walls
    assert len(predictor.asked) == 2
    assert node.trigger_activate() == SUCCESS
    bench.until(lambda: distances and walls, "a result")
    assert distances[0].header.stamp.sec == 3


def test_cleanup_frees_the_network_and_configure_loads_it_again(bench: Bench) -> None:
    loaded: list[weakref.ref[FakePredictor]] = []

    class Loader:
        def load(self, settings: Any) -> FakePredictor:
            predictor = FakePredictor()
            loaded.append(weakref.ref(predictor))
            return predictor

    robot = Robot(bench)
    node = managed(bench, Loader())
    distances = ready_to_predict(bench, robot)
    for count in (1, 2):
        assert node.trigger_configure() == SUCCESS
        assert node.trigger_activate() == SUCCESS
        bench.until(lambda wanted=count: len(distances) >= wanted, "a result")
        assert node.trigger_deactivate() == SUCCESS
        assert node.trigger_cleanup() == SUCCESS
        bench.spin_for(0.1)
        gc.collect()
        assert len(loaded) == count
        assert loaded[-1]() is None
        assert not any(thread.name == "prediction" for thread in threading.enumerate())
        assert robot.maps.get_subscription_count() == 0 or bench.until(
            lambda: robot.maps.get_subscription_count() == 0, "closed inputs"
        )


def test_a_checkpoint_that_cannot_be_used_fails_configure_and_leaves_the_node_unconfigured(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str]
) -> None:
    class Missing:
        there = False

        def load(self, settings: Any) -> FakePredictor:
            if not self.there:
                raise CheckpointError("no such checkpoint /nowhere: leave it empty")
            return predictor

    files = Missing()
    node = managed(bench, files)
    assert node.trigger_configure() == FAILURE
    assert node.state == "unconfigured"
    assert node.pipeline is None
    assert "no such checkpoint /nowhere" in capfd.readouterr().err
    files.there = True
    assert node.trigger_configure() == SUCCESS
    assert node.state == "inactive"


def test_parameters_answer_while_the_network_is_being_loaded(bench: Bench, predictor: FakePredictor) -> None:
    go = threading.Event()

    class Slow:
        def load(self, settings: Any) -> FakePredictor:
            assert go.wait(60)
            return predictor

    node = bench.floorgent(Slow())
    client = bench.node().create_client(GetParameters, "/floorgent/get_parameters")
    bench.until(client.service_is_ready, "the parameter service")
    answer = client.call_async(GetParameters.Request(names=["seed"]))
    bench.until(answer.done, "the answer")
    assert node.state == "inactive"
    assert node.enable(False) == (True, "stays inactive once loaded")
    assert node.enable(True) == (True, "active once the network is loaded")
    go.set()
    bench.until(lambda: node.state == "active", "the active state")


def test_disabled_while_loading_stays_inactive(bench: Bench, predictor: FakePredictor) -> None:
    node = bench.floorgent(predictor)
    node.enable(False)
    bench.until(lambda: node.was_ready, "the network")
    bench.spin_for(0.1)
    assert node.state == "inactive"
    assert node.enable(True)[0]
    assert node.state == "active"


def test_an_exception_in_a_transition_is_said_and_the_node_begins_anew(
    bench: Bench, predictor: FakePredictor, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = managed(bench, predictor)
    node.trigger_configure()

    def fail() -> None:
        raise rclpy.exceptions.NotInitializedException

    monkeypatch.setattr(node.pipeline, "activate", fail)
    assert node.trigger_activate() != SUCCESS
    assert "on_activate: NotInitializedException" in capfd.readouterr().err
    assert (node.state, node.pipeline) == ("unconfigured", None)
    assert node.trigger_configure() == SUCCESS
    assert node.trigger_activate() == SUCCESS


def test_enable_of_an_unconfigured_node_says_what_to_do(bench: Bench, predictor: FakePredictor) -> None:
    done, text = managed(bench, predictor).enable(True)
    assert not done
    assert "configure" in text
