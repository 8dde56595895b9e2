"""The real node with a predictor of a few lines, as a process of its own: `fake_node.py MODE --ros-args …`.

MODE: answer at once; in a prediction sleep, spin (never letting go of the interpreter by itself), die, or
have another thread shut ROS down; or load for ever.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any

import rclpy
from ros_harness import FakePredictor

from floorgent_ros.geometry.grid import OccupancyMap
from floorgent_ros.ros.node import main
from floorgent_ros.ros.parameters import Settings

MODE = sys.argv.pop(1)


class Predictor(FakePredictor):
    def load(self, settings: Settings) -> FakePredictor:
        if MODE == "load":
            print("loading", file=sys.stderr, flush=True)
            time.sleep(60)
        return self

    def predict(self, grid: OccupancyMap, viewpoint: tuple[float, float]) -> Any:
        print("predicting", file=sys.stderr, flush=True)
        if MODE == "die":
            raise SystemExit("something ended the thread")
        if MODE == "shutdown":
            threading.Thread(target=rclpy.shutdown).start()
        end = time.monotonic() + (60 if MODE in {"sleep", "spin"} else 0)
        while time.monotonic() < end:
            if MODE == "sleep":
                time.sleep(60)
        return super().predict(grid, viewpoint)


if __name__ == "__main__":
    main(load=Predictor().load)
