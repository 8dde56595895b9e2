"""The paper's samples on disk: every floor's viewpoints and their canonical segments, drawn once.

A folder holds ``walls.npy`` (M, 4) uint8 levels, ``offsets.npy`` (N + 1,) int64, sample i owning walls
offsets[i] to offsets[i + 1] in canonical order, ``floor.npy`` (N,) the sample's floor by its place in the
split, ``viewpoint.npy`` (N, 2) metres, and ``settings.json``: all that they were made from, the contents of
the plans included. The folder's name is a digest of that, so a changed plan or setting is another folder.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import tempfile
import zlib
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from floorgent_ros.errors import FloorgentError, PlanError
from floorgent_ros.geometry.canonical import GRID_M, SequenceFrame, canonical_segments
from floorgent_ros.plans.split import FloorFile
from floorgent_ros.plans.viewpoints import viewpoints

VERSION = 1  # of the preparation; a change of what it does makes older folders stale
LEAST_SEGMENTS = 10  # of a sample
SETTINGS = "settings.json"


@dataclass(frozen=True)
class FloorSamples:
    """K viewpoints (K, 2), m, of a floor and the levels (n, 4) seen from each; or why it gives none."""

    viewpoints: NDArray[np.float64]
    walls: list[NDArray[np.uint8]]
    reason: str = ""


@dataclass(frozen=True)
class _Task:
    floor: FloorFile
    frame: SequenceFrame
    seed: int


def draw_floor(task: _Task) -> FloorSamples:
    """Canonicalise a floor, choose its viewpoints and keep those that see at least ten segments."""
    try:
        plan = task.floor.read()
    except FloorgentError as error:
        return FloorSamples(np.zeros((0, 2)), [], str(error))
    segments = canonical_segments(plan.segments)
    if len(segments) == 0:
        reason = f"{task.floor.path}: no wall is left once it is rounded to {GRID_M:g} m; is its scale right?"
        return FloorSamples(np.zeros((0, 2)), [], reason)
    name = f"{task.floor.building}/{task.floor.path.name}"
    rng = np.random.default_rng((task.seed, zlib.crc32(name.encode())))
    points = viewpoints(plan, segments, rng)
    seen = [task.frame.sequence(segments, (float(x), float(y))) for x, y in points]
    kept = [index for index, levels in enumerate(seen) if len(levels) >= LEAST_SEGMENTS]
    reason = "" if kept else f"{task.floor.path}: no viewpoint in its spaces sees {LEAST_SEGMENTS} segments"
    return FloorSamples(points[kept], [seen[index].astype(np.uint8) for index in kept], reason)


class SequenceFolder:
    """Random access to a prepared folder."""

    def __init__(self, folder: Path, frame: SequenceFrame) -> None:
        """Raise `PlanError` when the folder is not whole."""
        self.folder, self.frame = folder, frame
        try:
            self._walls = np.load(folder / "walls.npy")
            self._offsets = np.load(folder / "offsets.npy")
            self.floor: NDArray[np.int64] = np.load(folder / "floor.npy")
            self.viewpoint: NDArray[np.float64] = np.load(folder / "viewpoint.npy")
        except (OSError, ValueError, EOFError) as error:
            raise PlanError(f"{folder}: samples missing or broken ({error}); delete the folder") from None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,) segments of each sample."""
        lengths: NDArray[np.int64] = np.diff(self._offsets)
        return lengths

    def __getitem__(self, index: int) -> NDArray[np.int64]:
        """(n, 4) levels in canonical order."""
        walls: NDArray[np.int64] = self._walls[self._offsets[index] : self._offsets[index + 1]].astype(
            np.int64
        )
        return walls


def cache_root() -> Path:
    """Where preparations are kept: ``floorgent_ros`` in $XDG_CACHE_HOME or ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "floorgent_ros"


def sequences(
    floors: list[FloorFile], frame: SequenceFrame, seed: int = 0, workers: int = 0, root: Path | None = None
) -> SequenceFolder:
    """Return the samples of these floors, drawing them in `workers` processes (0: one a core) if need be.

    A floor that cannot be used is said in one line; raises `PlanError` when none can. Nothing half-written
    stays behind.
    """
    made_from = _settings(floors, frame, seed)
    text = json.dumps(made_from, indent=1, sort_keys=True)
    folder = (root or cache_root() / "sequences") / hashlib.sha256(text.encode()).hexdigest()[:16]
    if not (folder / SETTINGS).is_file():
        drawn = _draw_all([_Task(floor, frame, seed) for floor in floors], workers or os.cpu_count() or 1)
        _write(folder, drawn, text)
    return SequenceFolder(folder, frame)


def _settings(floors: list[FloorFile], frame: SequenceFrame, seed: int) -> dict[str, Any]:
    plans = [[floor.building, floor.path.name, floor.scale_correction, floor.checksum()] for floor in floors]
    return {"version": VERSION, "frame": asdict(frame), "seed": seed, "plans": plans}


def _draw_all(tasks: list[_Task], workers: int) -> list[FloorSamples]:
    drawn = []
    with multiprocessing.get_context("spawn").Pool(min(workers, len(tasks))) as pool:
        for samples in tqdm(
            pool.imap(draw_floor, tasks), total=len(tasks), desc="preparing floors", unit="floor"
        ):
            if samples.reason:
                tqdm.write(f"left out: {samples.reason}")
            drawn.append(samples)
    if not any(samples.walls for samples in drawn):
        raise PlanError(f"{tasks[0].floor.path.parent}: none of {len(tasks)} floors gives a sample")
    return drawn


def _write(folder: Path, drawn: list[FloorSamples], settings: str) -> None:
    """Write beside the folder's place and move there when whole."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=folder.parent))
    try:
        walls = [levels for samples in drawn for levels in samples.walls]
        np.save(partial / "walls.npy", np.concatenate(walls))
        np.save(partial / "offsets.npy", np.concatenate([[0], np.cumsum([len(levels) for levels in walls])]))
        np.save(partial / "floor.npy", np.repeat(np.arange(len(drawn)), [len(s.walls) for s in drawn]))
        np.save(partial / "viewpoint.npy", np.concatenate([samples.viewpoints for samples in drawn]))
        (partial / SETTINGS).write_text(settings, encoding="utf-8")
        if not folder.exists():  # else another process was as fast, with the same result
            partial.replace(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
