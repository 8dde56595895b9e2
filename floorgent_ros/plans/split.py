"""Which floors belong to training, validation and test: by building, never by floor."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.kth import read_kth
from floorgent_ros.plans.plan import Plan

ALL = "all"
SPLITS = ("train", "val", "test", ALL)


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


def floors(data: Path | str, split: str = ALL) -> list[FloorFile]:
    """List a data folder's floors of one split, in the index's order.

    A folder without ``index.json`` is one split, ``all``, of every ``*.xml`` below it. Raises
    `PlanError` when nothing is found, when the index names another split or a building in two.
    """
    data = Path(data)
    if split not in SPLITS:
        raise PlanError(f"split {split!r}: use one of {', '.join(SPLITS)}")
    if not data.is_dir():
        raise PlanError(f"{data}: no such folder; give --data a folder of floor plans")
    indexed = (data / "index.json").is_file()
    found = _indexed(data) if indexed else _unindexed(data)
    if not found:
        raise PlanError(f"{data}: no floor plan (*.xml) in it; give --data a folder of floor plans")
    chosen = [floor for floor in found if split in (ALL, floor.split)]
    if not chosen:
        cure = "give" if indexed else "use split all or give"
        raise PlanError(f"{data}: no floor plan of split {split!r}; {cure} some in its index.json")
    return chosen


def _indexed(data: Path) -> list[FloorFile]:
    index = data / "index.json"
    try:
        entries = json.loads(index.read_text(encoding="utf-8"))
        found = [
            FloorFile(
                data / e["file"], str(e["building"]), str(e["split"]), float(e.get("scale_correction", 1.0))
            )
            for e in entries
        ]
    except KeyError as error:
        raise PlanError(f"{index}: a floor without {error}") from error
    except (OSError, ValueError, TypeError) as error:
        raise PlanError(f"{index}: not a readable index ({error})") from error
    splits: dict[str, str] = {}
    for floor in found:
        if floor.split not in SPLITS:
            known = ", ".join(SPLITS)
            raise PlanError(f"{index}: split {floor.split!r} of {floor.path.name}; use one of {known}")
        if splits.setdefault(floor.building, floor.split) != floor.split:
            raise PlanError(f"{index}: building {floor.building} is in two splits; keep a building in one")
    return found


def _unindexed(data: Path) -> list[FloorFile]:
    return [FloorFile(path, path.parent.name, ALL) for path in sorted(data.rglob("*.xml"))]
