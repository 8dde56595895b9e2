"""The demo's third process: a planner that subscribes to the distances and keeps what it hears."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from floorgent_ros.demo.records import Record
from floorgent_ros.ros.demo_planner import Heard, listen


def main(arguments: Sequence[str] | None = None) -> int:
    """Listen until a signal comes, with a file and a line of JSON on standard output for each prediction."""
    parser = argparse.ArgumentParser("floorgent_ros.demo.planner", description=__doc__)
    parser.add_argument("--records", type=Path, required=True)
    options = parser.parse_args(arguments)
    count = 0

    def keep(heard: Heard) -> None:
        nonlocal count
        count += 1
        Record.save(heard, options.records / f"{count:04d}.npz")
        print(json.dumps({"predictions": count, "latency_s": round(heard.latency_s, 3)}), flush=True)

    listen(keep)
    return 0


if __name__ == "__main__":
    sys.exit(main())
