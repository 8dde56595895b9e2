"""Which floors belong to training, validation and test: by building, never by floor."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.kth import read_kth
from floorgent_ros.plans.plan import Plan

SPLITS = ("train", "val", "test", "all")


@dataclass(frozen=True)
class FloorFile:
    """A plan on disk with what the index says of it."""

    path: Path
    building: str
    split: str
    scale_correction: float = 1.0

    def read(self) -> Plan:
        """Read the plan; raises `PlanError`."""
        return read_kth(self.path, self.scale_correction)


def floors(data: Path | str, split: str = "all") -> list[FloorFile]:
    """List a data folder's floors of one split, in the index's order.

    A folder without ``index.json`` is one split, ``all``, of every ``*.xml`` below it. Raises
    `PlanError` when nothing is found or when a building stands in two splits.
    """
    data = Path(data)
    if split not in SPLITS:
        raise PlanError(f"split {split!r}: use one of {', '.join(SPLITS)}")
    if not data.is_dir():
        raise PlanError(f"{data}: no such folder; give --data a folder of floor plans")
    found = _indexed(data) if (data / "index.json").is_file() else _unindexed(data)
    chosen = [floor for floor in found if split in ("all", floor.split)]
    if not chosen:
        raise PlanError(f"{data}: no floor plan of split {split!r} in it")
    return chosen


def _indexed(data: Path) -> list[FloorFile]:
    index = data / "index.json"
    try:
        entries = json.loads(index.read_text(encoding="utf-8"))
        found = [
            FloorFile(data / e["file"], e["building"], e["split"], float(e.get("scale_correction", 1.0)))
            for e in entries
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PlanError(f"{index}: not a readable index ({error})") from error
    splits: dict[str, str] = {}
    for floor in found:
        if splits.setdefault(floor.building, floor.split) != floor.split:
            raise PlanError(f"{index}: building {floor.building} is in two splits; keep a building in one")
    return found


def _unindexed(data: Path) -> list[FloorFile]:
    return [FloorFile(path, path.parent.name, "all") for path in sorted(data.rglob("*.xml"))]
