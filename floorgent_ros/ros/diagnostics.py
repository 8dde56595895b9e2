"""How the node is: one status on /diagnostics, every second, in any state."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from diagnostic_msgs.msg import DiagnosticArray, DiagnosticStatus, KeyValue
from rclpy.node import Node

from floorgent_ros.ros.failures import short_line
from floorgent_ros.ros.pipeline import Pipeline

TOPIC = "/diagnostics"  # absolute, as everybody's, so that one aggregator hears all robots
OK, WARN, ERROR = DiagnosticStatus.OK, DiagnosticStatus.WARN, DiagnosticStatus.ERROR


class Diagnostics:
    """Publishes the state of a node.

    The thresholds are its own: a map that comes every five seconds, or never again after the first, is no
    fault, so frequencies are not judged.
    """

    def __init__(self, node: Node) -> None:
        self._node = node
        self._name = f"{node.get_fully_qualified_name().lstrip('/')}: prediction"
        self._publisher = node.create_publisher(DiagnosticArray, TOPIC, 1)

    def publish(self, state: str, pipeline: Pipeline | None) -> None:
        """Publish the status of this moment. state: the lifecycle's."""
        level, text = (OK, state) if pipeline is None else judgement(state, pipeline)
        values = {"state": state, **({} if pipeline is None else dict(figures(pipeline)))}
        status = DiagnosticStatus(level=level, name=self._name, message=short_line(text))
        status.values = [KeyValue(key=key, value=short_line(value)) for key, value in values.items()]
        message = DiagnosticArray(status=[status])
        message.header.stamp = self._node.get_clock().now().to_msg()
        self._publisher.publish(message)


def judgement(state: str, pipeline: Pipeline) -> tuple[bytes, str]:
    """Level and one line: the worst thing there is to say."""
    if not pipeline.active:
        return OK, state if pipeline.worker.warm.is_set() else f"{state}: the network is being loaded"
    tally, maps, poses = pipeline.tally, pipeline.maps, pipeline.poses
    if tally.failing:
        return ERROR, f"the last prediction failed: {tally.failing}"
    missing = maps.missing() or poses.missing()
    if maps.latest is not None and not missing:
        pose = poses.pose_in(maps.latest.frame)
        missing = pose if isinstance(pose, str) else ""
    for warning in (maps.last_was_refused and maps.refusal, missing, pipeline.stale(), *tally.fallbacks[-1:]):
        if warning:
            return WARN, warning
    return OK, state


def figures(pipeline: Pipeline) -> Iterator[tuple[str, str]]:
    """Names and values, units in the names; what is not known yet is empty."""
    tally, maps = pipeline.tally, pipeline.maps
    arrived = None if maps.latest is None else time.monotonic() - maps.latest.arrived
    latencies = list(tally.latencies_s)
    yield "network", tally.network
    yield "device", tally.device
    yield "map age [s]", seconds(arrived)
    yield "pose age [s]", seconds(pipeline.poses.age_s())
    yield "latency median [s]", seconds(float(np.median(latencies)) if latencies else None)
    yield "latency 95 % [s]", seconds(float(np.quantile(latencies, 0.95)) if latencies else None)
    yield "predictions", str(tally.published)
    yield "failed predictions", str(tally.failed)
    yield "last failure", tally.failing
    yield "maps", str(maps.received)
    yield "skipped maps", str(pipeline.worker.skipped)
    yield "refused maps", str(maps.refused)
    yield "last refusal", maps.refusal
    yield "out-of-memory fallbacks", str(len(tally.fallbacks))


def seconds(value: float | None) -> str:
    """Two decimals, '' for None."""
    return "" if value is None else f"{value:.2f}"
