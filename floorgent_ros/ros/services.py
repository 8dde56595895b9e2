"""What planners and people can ask of the node, in any of its states."""

from __future__ import annotations

import math
import time
from array import array
from collections.abc import Callable
from concurrent.futures import Future as Computation
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from rclpy.callback_groups import ReentrantCallbackGroup
from rclpy.node import Node
from rclpy.task import Future
from std_srvs.srv import SetBool

from floorgent_ros.geometry.routes import Routes, routes
from floorgent_ros.ros.conversions import clean_frame, packed
from floorgent_ros.ros.failures import one_line
from floorgent_ros.ros.outputs import Result, message_of, result_of
from floorgent_ros.ros.pipeline import Pipeline
from floorgent_ros.ros.poses import Pose
from floorgent_ros.ros.worker import Predicted
from floorgent_ros.srv import GetDistances, Predict

DISTANCES_SERVICE, PREDICT_SERVICE, ENABLE_SERVICE = (
    "floorgent/get_distances",
    "floorgent/predict",
    "floorgent/enable",
)
MAX_PENDING = 2  # calls of get_distances that are computed or wait for it
NOT_ACTIVE = "the node is not active: enable or activate it first"


class Refusal(Exception):  # noqa: N818  a call is refused; nothing is wrong with the node
    """Why a call cannot be answered, in one line. ready_in_s: when to ask again, 0 for no particular time."""

    def __init__(self, text: str, ready_in_s: float = 0.0) -> None:
        super().__init__(text)
        self.ready_in_s = ready_in_s


class Services:
    """get_distances, predict and enable.

    The first two are coroutines of the executor's thread: a call waits for the worker, or for a thread that
    searches, without holding up anything else. That takes a callback group that lets others run meanwhile.
    """

    def __init__(
        self,
        node: Node,
        pipeline: Callable[[], Pipeline | None],
        enable: Callable[[bool], tuple[bool, str]],
    ) -> None:
        self._pipeline = pipeline
        self._enable = enable
        self._group = ReentrantCallbackGroup()
        # rclpy looks at a waiting coroutine when the executor wakes up, which a future does not make it do
        self._computed = node.create_guard_condition(lambda: None)
        self._searches = ThreadPoolExecutor(1, thread_name_prefix="distances")
        self._pending = 0
        self._usual_s = 0.1
        node.create_service(GetDistances, DISTANCES_SERVICE, self._get_distances, callback_group=self._group)
        node.create_service(Predict, PREDICT_SERVICE, self._predict, callback_group=self._group)
        node.create_service(SetBool, ENABLE_SERVICE, self._set_enabled)

    async def _get_distances(
        self, request: GetDistances.Request, response: GetDistances.Response
    ) -> GetDistances.Response:
        try:
            result = self._last_result(request)
            found = await self._search(result, request)
        except Refusal as refusal:
            return refused(response, refusal)
        field = result.field
        response.success = True
        response.header, response.pose_stamp = result.header, result.pose_stamp
        response.distance = packed(found.distance, np.float32)
        response.spread = packed(found.spread, np.float32)
        response.reach_probability = packed(found.reach_probability, np.float32)
        response.completions, response.seed = len(field.completions), int(field.seed)
        if found.outside:
            response.message = f"{found.outside} points lie outside the window of floorgent/distance"
        return response

    def _last_result(self, request: GetDistances.Request) -> Result:
        """The prediction that the call is about; raises Refusal."""
        pipeline = self._active_pipeline()
        result = pipeline.outputs.result
        if result is None:
            raise Refusal(f"nothing is predicted yet: {waited_for(pipeline)}", pipeline.worker.ready_in_s())
        check_frame(request.frame_id, result.header.frame_id)
        for name, points, most in (
            ("sources", request.sources, GetDistances.Request.MAX_SOURCES),
            ("targets", request.targets, GetDistances.Request.MAX_TARGETS),
        ):
            if not 0 < len(points) <= most:
                raise Refusal(f"{len(points)} {name}: give 1 to {most}")
        if self._pending >= MAX_PENDING:
            raise Refusal("other calls are being answered: ask again", self._pending * self._usual_s)
        return result

    async def _search(self, result: Result, request: GetDistances.Request) -> Routes:
        """Search in the other thread, one call at a time; raises Refusal."""
        sources, targets = places(request.sources), places(request.targets)
        found: Future = Future()
        begun = time.monotonic()

        def done(computation: Computation[Routes]) -> None:
            error = computation.exception()
            if error is not None:
                found.set_exception(Refusal(one_line(error)))
            else:
                found.set_result(computation.result())
            self._computed.trigger()

        observation = result.field.observation
        arguments = result.field.blocked, observation.states, observation.window, sources, targets
        self._pending += 1
        try:
            self._searches.submit(routes, *arguments).add_done_callback(done)
            answer: Routes = await found
        finally:
            self._pending -= 1
            self._usual_s = time.monotonic() - begun
        return answer

    async def _predict(self, request: Predict.Request, response: Predict.Response) -> Predict.Response:
        arrived = time.monotonic()
        try:
            call = self._ask(request, arrived)
            report = await call
            if not isinstance(report, Predicted):
                text = NOT_ACTIVE if report is None else f"prediction failed: {one_line(report.error)}"
                raise Refusal(text)
        except Refusal as refusal:
            return refused(response, refusal)
        response.success = True
        response.message = report.field.source_note
        response.grid = message_of(result_of(report))
        response.grid.latency_s = time.monotonic() - arrived
        return response

    def _ask(self, request: Predict.Request, arrived: float) -> Future:
        """Hand the call to the worker; raises Refusal."""
        pipeline = self._active_pipeline()
        newest = pipeline.maps.latest
        if newest is None:
            raise Refusal(pipeline.maps.missing())
        if request.at_robot:
            pose = pipeline.poses.pose_in(newest.frame)
        else:
            pose = given_pose(request, newest.frame, arrived)
        if isinstance(pose, str):
            raise Refusal(pose)
        call = pipeline.ask(newest, pose, arrived)
        if call is None:
            raise Refusal("another call waits for its prediction: ask again", pipeline.worker.ready_in_s())
        return call

    def _active_pipeline(self) -> Pipeline:
        pipeline = self._pipeline()
        if pipeline is None or not pipeline.active:
            raise Refusal(NOT_ACTIVE)
        return pipeline

    def _set_enabled(self, request: SetBool.Request, response: SetBool.Response) -> SetBool.Response:
        response.success, response.message = self._enable(request.data)
        return response


def refused(response: Any, refusal: Refusal) -> Any:
    """The response that says why there is none."""
    response.success = False
    response.message = str(refusal)
    response.ready_in_s = refusal.ready_in_s
    return response


def waited_for(pipeline: Pipeline) -> str:
    """What is missing for the first prediction."""
    newest = pipeline.maps.latest
    if newest is None:
        return pipeline.maps.missing()
    pose = pipeline.poses.pose_in(newest.frame)
    if isinstance(pose, str):
        return pose
    failing = pipeline.tally.failing
    return f"the last prediction failed: {failing}" if failing else "the first prediction is on its way"


def check_frame(frame: str, wanted: str) -> None:
    """Raise Refusal when a frame is given and is not the map's."""
    if clean_frame(frame) not in ("", wanted):
        raise Refusal(
            f"the points are in frame '{clean_frame(frame)}', the map in '{wanted}': transform them"
        )


def given_pose(request: Predict.Request, frame: str, arrived: float) -> Pose:
    """The pose of the call; raises Refusal."""
    header, position = request.pose.header, request.pose.pose.position
    check_frame(header.frame_id, frame)
    if not (math.isfinite(position.x) and math.isfinite(position.y)):
        raise Refusal(f"position ({position.x}, {position.y}) is not finite: give metres")
    return Pose(position.x, position.y, frame, header.stamp, arrived)


def places(points: Any) -> array[float]:
    """Points as x, y, x, y and so on."""
    return array("d", (value for point in points for value in (point.x, point.y)))
