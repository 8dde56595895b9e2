"""A node started as its own process, for the ROS tests."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from ros_harness import LIMIT_S, Bench

ROOT = Path(__file__).parents[2]


class NodeProcess:
    """A started node and what it says."""

    def __init__(self, bench: Bench, log: Path, command: list[str]) -> None:
        self.bench, self.log = bench, log
        # one thread: a small network waits for its threads, and the machine has other things to do
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        # the wheels' start-up hook must set the library path anew in a child
        environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
        with log.open("wb") as stream:
            self.child = subprocess.Popen(command, stdout=stream, stderr=stream, env=environment)

    def said(self) -> str:
        return self.log.read_text()

    def until_said(self, text: str) -> None:
        self.bench.until(lambda: text in self.said(), f"'{text}' in\n{self.said()}")

    def exit_code(self, limit_s: float = LIMIT_S) -> int:
        return self.child.wait(limit_s)

    def stop(self, number: int, limit_s: float = 2.0) -> int:
        """Send the signal; the exit code, which must come within the limit and without a traceback."""
        self.child.send_signal(number)
        code = self.exit_code(limit_s)
        assert "Traceback" not in self.said(), self.said()
        return code


def ros_arguments(**parameters: object) -> list[str]:
    given = {"pose_source": "pose", "max_rate": 100.0, **parameters}
    return ["--ros-args", *(part for name, value in given.items() for part in ("-p", f"{name}:={value}"))]
