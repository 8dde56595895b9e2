"""A ROS context, executors and node processes; ../conftest.py sets the DDS domain."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import rclpy
from ros_harness import Bench, FakePredictor
from ros_process import NodeProcess


@pytest.fixture(scope="session", autouse=True)
def ros() -> Iterator[None]:
    """One rclpy context for all ROS tests of this process; pytest keeps its Ctrl-C."""
    rclpy.init(signal_handler_options=rclpy.SignalHandlerOptions.NO)
    yield
    rclpy.try_shutdown()


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Nodes of one test in one executor, destroyed after it."""
    bench = Bench()
    yield bench
    bench.close()


@pytest.fixture
def predictor() -> FakePredictor:
    """Answers at once, without torch."""
    return FakePredictor()


@pytest.fixture
def start(bench: Bench, tmp_path: Path) -> Iterator[Callable[..., NodeProcess]]:
    """Starts node processes; whatever is left of them is killed after the test."""
    processes: list[NodeProcess] = []

    def start(command: list[str], *arguments: str) -> NodeProcess:
        log = tmp_path / f"node{len(processes)}.log"
        processes.append(NodeProcess(bench, log, [*command, *arguments]))
        return processes[-1]

    yield start
    for process in processes:
        if process.child.poll() is None:
            process.child.kill()
            process.child.wait(10)
