"""Which floors belong to training, validation and test: by building, never by floor."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
import zlib
from dataclasses import dataclass
from pathlib import Path

from floorgent_ros.errors import PlanError
from floorgent_ros.plans.kth import read_kth
from floorgent_ros.plans.own import FORMAT, read_own
from floorgent_ros.plans.plan import Plan
from floorgent_ros.plans.school import read_school

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
        """Read the plan in whichever of the formats it is; raises `PlanError`."""
        return read_plan(self.path, self.scale_correction)

    def checksum(self) -> int:
        """Of the file's content, so that samples of a changed plan are known as stale; 0 where unreadable."""
        try:
            return zlib.crc32(self.path.read_bytes())
        except OSError:
            return 0


def read_plan(path: Path, scale_correction: float = 1.0) -> Plan:
    """Read a plan: JSON is our own format, XML that of the KTH floors or of the schools by its root."""
    if path.suffix == ".json":
        return read_own(path, scale_correction)
    is_school = _root(path) == "building"
    return read_school(path, scale_correction) if is_school else read_kth(path, scale_correction)


def _root(path: Path) -> str:
    """Name of an XML file's root; '' where it cannot be read, which is the reader's to say."""
    try:
        with path.open("rb") as file:
            return next((element.tag for _, element in ET.iterparse(file, ["start"])), "")
    except (OSError, ET.ParseError, LookupError, ValueError):
        return ""


def floors(data: Path | str, split: str = ALL) -> list[FloorFile]:
    """List a data folder's floors of one split, in the index's order.

    A folder without ``index.json`` is one split, ``all``, of every ``*.xml`` below it and every ``*.json``
    of our own format. Raises `PlanError` when nothing is found, when the index names another split or a
    building in two.
    """
    data = Path(data)
    if split not in SPLITS:
        raise PlanError(f"split {split!r}: use one of {', '.join(SPLITS)}")
    if not data.is_dir():
        raise PlanError(f"{data}: no such folder; give --data a folder of floor plans")
    indexed = (data / "index.json").is_file()
    found = _indexed(data) if indexed else _unindexed(data)
    if not found:
        raise PlanError(f"{data}: no floor plan (*.xml, *.json) in it; give --data a folder of floor plans")
    chosen = [floor for floor in found if split in (ALL, floor.split)]
    if not chosen:
        cure = "give" if indexed else "use split all or give"
        raise PlanError(f"{data}: no floor plan of split {split!r}; {cure} some in its index.json")
    return chosen


def training_floors(data: Path | str) -> list[FloorFile]:
    """The floors that an index calls train, for what evaluation fits there; without any, none."""
    data = Path(data)
    indexed = _indexed(data) if (data / "index.json").is_file() else []
    return [floor for floor in indexed if floor.split == "train"]


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
    own = [path for path in data.rglob("*.json") if _is_own(path)]
    return [FloorFile(path, path.parent.name, ALL) for path in sorted([*data.rglob("*.xml"), *own])]


def _is_own(path: Path) -> bool:
    """Whether a JSON file says that it is a plan; other files may lie beside plans."""
    try:
        return FORMAT in path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
