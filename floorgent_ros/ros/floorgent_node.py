"""The node `floorgent`: its parameters, its lifecycle and what is offered in all of its states."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

from rclpy.lifecycle import LifecycleNode, LifecycleState, TransitionCallbackReturn

from floorgent_ros.errors import ConfigError
from floorgent_ros.ros.diagnostics import Diagnostics
from floorgent_ros.ros.failures import one_line
from floorgent_ros.ros.parameters import Parameters, Settings
from floorgent_ros.ros.pipeline import Pipeline
from floorgent_ros.ros.services import Services
from floorgent_ros.ros.steady_time import steady_timer
from floorgent_ros.ros.worker import Predictor

WATCH_PERIOD_S = 1.0

SUCCESS, FAILURE, ERROR = (
    TransitionCallbackReturn.SUCCESS,
    TransitionCallbackReturn.FAILURE,
    TransitionCallbackReturn.ERROR,
)
Transition = Callable[["FloorgentNode", LifecycleState], TransitionCallbackReturn]


def load_predictor(settings: Settings) -> Predictor:
    """The shipped predictor; torch is imported here, in the worker's thread."""
    from floorgent_ros.predictor import DistancePredictor  # noqa: PLC0415

    wanted = settings.predictor
    return DistancePredictor.from_checkpoint(
        wanted.checkpoint or None,
        device=wanted.device,
        precision=wanted.precision,
        settings=wanted,
        observation=settings.observation,
    )


def logged(transition: Transition) -> Transition:
    """Log an exception of a transition, which rclpy would swallow."""

    def guarded(node: FloorgentNode, state: LifecycleState) -> TransitionCallbackReturn:
        try:
            return transition(node, state)
        except Exception as error:  # noqa: BLE001  the state machine goes to its error state
            text = f"{transition.__name__}: {one_line(error)}"
            node.get_logger().error(text)
            if node.starting:
                node.failure = text
            node.get_logger().debug("".join(traceback.format_exception(error)))
            return ERROR

    return guarded


class FloorgentNode(LifecycleNode):  # type: ignore[misc]
    """A managed node that predicts distances from a map and a pose.

    Unconfigured: parameters and services only. Inactive: the network is loaded, maps and poses are heard.
    Active: distances are predicted and published.

    With `autostart` it takes itself there; loading then happens beside the executor, so that parameters and
    services answer meanwhile. Without, the transitions that a lifecycle manager asks for wait: configure for
    the checkpoint, activate for the warm-up.

    pipeline: what exists from configure to cleanup. failure: the exit line when there is nothing that the
    node can do; was_ready: whether it could before. Raises `ConfigError` when a parameter cannot be used.
    """

    def __init__(self, load: Callable[[Settings], Predictor] = load_predictor, **node_options: Any) -> None:
        super().__init__("floorgent", **node_options)
        self.failure = ""
        self.was_ready = False
        self.pipeline: Pipeline | None = None
        self._load = load
        self._activate_when_ready = False
        self._applied = Settings()
        try:
            self._configuration = Parameters(self, self._on_settings)
            self._applied = self.settings
            self._diagnostics = Diagnostics(self)
            self._offers = Services(self, lambda: self.pipeline, self.enable)
            steady_timer(self, WATCH_PERIOD_S, self._watch)
            if self.settings.node.autostart:
                self._autostart()
        except ConfigError:
            self.destroy_node()
            raise

    @property
    def settings(self) -> Settings:
        """The parameters at present."""
        return self._configuration.settings

    @property
    def state(self) -> str:
        """The name of the lifecycle state: unconfigured, inactive, active or finalized."""
        name: str = self._state_machine.current_state[1]
        return name

    @property
    def starting(self) -> bool:
        """Whether it takes itself to active at present: what keeps it from that ends the process."""
        return self._activate_when_ready

    def enable(self, wanted: bool) -> tuple[bool, str]:
        """Activate or deactivate, on request of a service; whether it worked, and a line about it."""
        if self.pipeline is None:
            return False, f"the node is {self.state}: configure it first (ros2 lifecycle set)"
        if not self.was_ready:  # loading, beside the executor
            self._activate_when_ready = wanted
            return True, "active once the network is loaded" if wanted else "stays inactive once loaded"
        if self.pipeline.active == wanted:
            return True, f"the node is {self.state} already"
        done = (self.trigger_activate if wanted else self.trigger_deactivate)()
        return done == SUCCESS, f"the node is {self.state}"

    @logged
    def on_configure(self, _: LifecycleState) -> TransitionCallbackReturn:
        """Open inputs and outputs and load the checkpoint."""
        try:
            pipeline = Pipeline(self, self._load, lambda: self.settings, self._on_ready, self._on_broken)
        except ConfigError as error:
            return self._refuse(error)
        self.pipeline = pipeline
        if not self._activate_when_ready and not pipeline.wait(pipeline.worker.loaded):
            self._close()
            return self._refuse(pipeline.worker.error or RuntimeError("the node was shut down meanwhile"))
        return SUCCESS

    @logged
    def on_activate(self, _: LifecycleState) -> TransitionCallbackReturn:
        """Predict and publish, once the network is warm."""
        if self.pipeline is None or not self.pipeline.wait(self.pipeline.worker.warm):
            return FAILURE
        self._activate_when_ready = False
        self.pipeline.activate()
        return SUCCESS

    @logged
    def on_deactivate(self, _: LifecycleState) -> TransitionCallbackReturn:
        """Publish nothing more."""
        if self.pipeline is not None:
            self.pipeline.deactivate()
        return SUCCESS

    @logged
    def on_cleanup(self, _: LifecycleState) -> TransitionCallbackReturn:
        """Close inputs and outputs and free the network."""
        self._close()
        return SUCCESS

    @logged
    def on_shutdown(self, _: LifecycleState) -> TransitionCallbackReturn:
        """As cleanup, for good."""
        self._close()
        return SUCCESS

    @logged
    def on_error(self, _: LifecycleState) -> TransitionCallbackReturn:
        """Begin anew, unconfigured, after a transition that raised an exception."""
        self._close()
        return SUCCESS

    def destroy_node(self) -> None:
        """End the worker and free what the node holds."""
        if self.pipeline is not None:
            self.pipeline.stop()
        super().destroy_node()
        self._state_machine.destroy_when_not_in_use()  # rclpy forgets it, and it keeps the node in the graph

    def _autostart(self) -> None:
        self._activate_when_ready = True
        if self.trigger_configure() != SUCCESS:
            raise ConfigError(self.failure)

    def _refuse(self, error: BaseException) -> TransitionCallbackReturn:
        if self._activate_when_ready:
            self.failure = one_line(error)  # the process's last line
        else:
            self.get_logger().error(one_line(error))
        return FAILURE

    def _close(self) -> None:
        self.was_ready = self._activate_when_ready = False
        pipeline, self.pipeline = self.pipeline, None
        if pipeline is not None and not pipeline.close():
            self.get_logger().info("the network's memory is freed when the present prediction ends")

    def _watch(self) -> None:
        if self.pipeline is not None:
            self.pipeline.watch()
        self._diagnostics.publish(self.state, self.pipeline)

    def _on_settings(self, settings: Settings) -> None:
        before, self._applied = self._applied, settings
        if self.pipeline is not None:
            self.pipeline.outputs.restart_timer()
            if settings.node.distance_map_max_m != before.node.distance_map_max_m:
                self.pipeline.outputs.redraw()
            if (settings.predictor, settings.observation) != (before.predictor, before.observation):
                self.pipeline.anew()  # a standing robot on a still map would never see what they change

    def _on_ready(self) -> None:
        self.was_ready = True
        if self._activate_when_ready:
            self.trigger_activate()

    def _on_broken(self, error: BaseException) -> None:
        self.failure = one_line(error)
        self.get_logger().fatal(self.failure)
        self.context.try_shutdown()
