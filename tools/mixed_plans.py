"""Index the KTH floors together with four fifths of the school floors, and the other schools by themselves.

    python tools/mixed_plans.py KTH SCHOOLS OUT

OUT/index.json: the KTH floors as their own index has them, and schools as train. OUT/held_out/index.json: the
schools of every fifth building, as test, which no training sees. Plans stay where they are.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from floorgent_ros.whole_file import whole_file

EVERY = 5


def building_of(path: Path) -> str:
    """Floors whose files begin alike are taken for one building: the names say it in several ways."""
    return path.stem[:6].lower()


def indices(kth: Path, schools: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Entries of both indices."""
    known = json.loads((kth / "index.json").read_text(encoding="utf-8"))
    mixed = [{**entry, "file": str((kth / entry["file"]).resolve())} for entry in known]
    held: list[dict[str, Any]] = []
    paths = sorted(schools.glob("*.xml"))
    chosen = sorted({building_of(path) for path in paths})[EVERY - 1 :: EVERY]
    for path in paths:
        building = building_of(path)
        entry = {"file": str(path.resolve()), "building": f"school {building}"}
        if building in chosen:
            held.append({**entry, "split": "test"})
        else:
            mixed.append({**entry, "split": "train"})
    return mixed, held


def main() -> int:
    """Write both."""
    parser = argparse.ArgumentParser(description="Index KTH and school floors together.")
    parser.add_argument("kth", type=Path)
    parser.add_argument("schools", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    for folder, entries in zip(
        (options.out, options.out / "held_out"), indices(options.kth, options.schools), strict=True
    ):
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file(folder / "index.json") as part:
            part.write_text(json.dumps(entries, indent=1), encoding="utf-8")
        print(f"{folder}: {len(entries)} floors")
    return 0


if __name__ == "__main__":
    sys.exit(main())
