"""Short trainings of variations of the second decoder, one after the other: bits and protocol E4, on val.

    python tools/tries.py --data DIR --out DIR --minutes 6                 all of them
    python tools/tries.py --data DIR --out DIR --minutes 6 "6 layers"      those named

All but those with another horizon share the samples that the first run draws. A run whose folder holds a
result is not repeated. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from floorgent_ros.model.checkpoint import load_checkpoint

CONFIG = Path(__file__).parents[1] / "config/training/unseen.yaml"
FLOORGENT = (sys.executable, "-m", "floorgent_ros.cli")
SAMPLING = ("--wall-log-odds", "0", "--top-p", "1", "--detour-m", "5")
BASE = "as it is"
VARIATIONS: dict[str, dict[str, dict[str, Any]]] = {
    BASE: {},
    "256 context vectors": {"model": {"image_cells": 128}},
    "1024 context vectors": {"model": {"image_cells": 256}},
    "one seen wall told": {"model": {"observed_segments": 1}},
    "16 seen walls told": {"model": {"observed_segments": 16}},
    "width 128": {"model": {"width": 128, "feed": 256}},
    "width 256": {"model": {"width": 256, "feed": 512}},
    "2 layers": {"model": {"layers": 2}},
    "6 layers": {"model": {"layers": 6}},
    "dropout 0.1": {"model": {"dropout": 0.1}},
    "deeper encoder": {"model": {"encoder_blocks": [2, 4]}},
    "batches of 16": {"training": {"batch": 16}},
    "weights not averaged": {"training": {"average": 0.0}},
    "horizon 15 m": {"model": {"horizon_m": 15.0}},
}


def settings(name: str, minutes: float, batch: int) -> dict[str, Any]:
    """The configuration file of a variation."""
    training = {"batch": batch, "minutes": minutes, "val_minutes": 1e6}
    changes = VARIATIONS[name]
    return {
        "base": str(CONFIG),
        "model": changes.get("model", {}),
        "training": training | changes.get("training", {}),
    }


def run(name: str, options: argparse.Namespace) -> list[str]:
    """Train a variation and judge it: the table's row."""
    out = options.out / name.replace(" ", "_")
    report = out / "lidar.json"
    if not report.is_file():
        out.mkdir(parents=True, exist_ok=True)
        _share_samples(out, options)
        config = out / "config.yaml"
        config.write_text(yaml.safe_dump(settings(name, options.minutes, options.batch)), encoding="utf-8")
        _floorgent("train", "--config", str(config), "--data", str(options.data), "--out", str(out))
        judged = ("--checkpoint", str(out / "best.safetensors"), "--split", "val", "--json", *SAMPLING)
        printed = _floorgent("evaluate", "lidar", "--data", str(options.val), *judged, kept=True)
        report.write_text(printed, encoding="utf-8")
    found = json.loads(report.read_text(encoding="utf-8"))
    _, notes = load_checkpoint(out / "best.safetensors")
    ratios = " / ".join(f"{found[kind]['ratio']:.3f}" for kind in ("scan", "walk"))
    walls = " / ".join(f"{found[kind]['walls_per_completion']:.0f}" for kind in ("scan", "walk"))
    return [name, notes["samples_seen"], notes["val_bits_per_wall"], ratios, walls]


def _share_samples(out: Path, options: argparse.Namespace) -> None:
    """Let a run use the samples of the first one; a link that is there stays."""
    shared = options.samples or options.out / BASE.replace(" ", "_") / "samples"
    link = out / "samples"
    if "horizon" not in out.name and shared.is_dir() and shared != link and not link.exists():
        link.symlink_to(shared.resolve(), target_is_directory=True)


def _floorgent(*arguments: str, kept: bool = False) -> str:
    """Run the command; what it printed, if that is kept."""
    pipe = subprocess.PIPE if kept else None
    done = subprocess.run([*FLOORGENT, *arguments], check=True, stdout=pipe, text=True)
    return done.stdout or ""


def main() -> int:
    """Run those that are asked for."""
    parser = argparse.ArgumentParser(description="Short trainings of variations of the second decoder.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of: {', '.join(VARIATIONS)}")
    parser.add_argument("--data", type=Path, required=True, help="floor plans with an index.json")
    parser.add_argument("--val", type=Path, help="floor plans to judge on (default: --data)")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--samples", type=Path, help="samples of an earlier run: train and val in it")
    parser.add_argument("--minutes", type=float, default=6.0, help="of each training (default %(default)s)")
    parser.add_argument("--batch", type=int, default=4, help="samples a step (default %(default)s)")
    options = parser.parse_args()
    options.val = options.val or options.data
    unknown = sorted(set(options.names) - set(VARIATIONS))
    if unknown:
        parser.error(f"no such variation: {', '.join(unknown)}; there are {', '.join(VARIATIONS)}")
    rows = [run(name, options) for name in options.names or VARIATIONS]
    print("| variation | samples seen | bits a wall | ratios, scan / walk | walls a completion |")
    print("|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
