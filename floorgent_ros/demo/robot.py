"""The demo's second process: a robot that explores the building and publishes its map and pose."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from floorgent_ros.demo.building import building
from floorgent_ros.errors import FloorgentError
from floorgent_ros.ros.demo_robot import walk
from floorgent_ros.simulation.robot import explore


def main(arguments: Sequence[str] | None = None) -> int:
    """Walk, with a line of JSON on standard output for each step: seconds walked, maps published."""
    parser = argparse.ArgumentParser("floorgent_ros.demo.robot", description=__doc__)
    parser.add_argument("--map", type=Path)
    parser.add_argument("--start", type=float, nargs=2, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, required=True)
    options = parser.parse_args(arguments)
    x, y = options.start
    try:
        walk(explore(building(options.map, options.seed), (x, y), seed=options.seed), options.seconds, _tell)
    except FloorgentError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


def _tell(seconds: float, maps: int) -> None:
    print(json.dumps({"seconds": round(seconds, 2), "maps": maps}), flush=True)


if __name__ == "__main__":
    sys.exit(main())
