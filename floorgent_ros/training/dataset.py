"""Samples on disk: drawn once in parallel, read by memory map, turned and batched by length.

A folder of samples holds ``images.npy`` (N, L, L / 4) uint8, four states a byte; ``walls.npy`` (M, 4)
uint8; ``offsets.npy`` (N + 1,) int64, sample i owning walls offsets[i] to offsets[i + 1]; ``ways.npy``
(N, 3, P, P) uint16 as `Sample.ways`; and ``settings.json``, what they were drawn from. One encoded example:
the byte 0b10010010 is occupied, unknown, free, occupied, read from the lowest two bits (0 unknown, 1 free,
2 occupied).
"""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from floorgent_ros.errors import FloorgentError, PlanError
from floorgent_ros.geometry.grid import FREE, OCCUPIED, UNKNOWN, WINDOW_CELLS
from floorgent_ros.geometry.lattice import POINTS
from floorgent_ros.geometry.raster import rasterise
from floorgent_ros.geometry.symmetry import SYMMETRIES
from floorgent_ros.model.network import Batch
from floorgent_ros.model.sequence import Layout
from floorgent_ros.plans.split import FloorFile
from floorgent_ros.simulation.site import Site
from floorgent_ros.training.samples import Sample, draw_sample

Collated = TypeVar("Collated")

_STATES = np.array([UNKNOWN, FREE, OCCUPIED, UNKNOWN], np.int8)
_CHUNK = 64  # samples a worker draws in one task
_VERSION = 2  # of the drawing; a change of what it does makes older samples stale
_SETTINGS = "settings.json"


def pack(image: NDArray[np.int8]) -> NDArray[np.uint8]:
    """(L, L) states → (L, L / 4) bytes."""
    codes = (image == FREE).astype(np.uint8) + 2 * (image == OCCUPIED).astype(np.uint8)
    quads = codes.reshape(len(image), -1, 4)
    return (quads << np.array([0, 2, 4, 6], np.uint8)).sum(2, dtype=np.uint8)


def unpack(packed: NDArray[np.uint8]) -> NDArray[np.int8]:
    """(L, L / 4) bytes → (L, L) states."""
    codes = (packed[:, :, None] >> np.array([0, 2, 4, 6], np.uint8)) & 3
    return _STATES[codes].reshape(len(packed), -1)


@dataclass(frozen=True)
class Draw:
    """A task of a worker: samples of given floors with a seed of its own; spares replace unusable floors."""

    floors: tuple[FloorFile, ...]
    seed: int
    horizon_m: float
    spares: tuple[FloorFile, ...] = ()


def prepare_once(
    folder: Path,
    floors: Callable[[], list[FloorFile]],
    count: int,
    horizon_m: float,
    seed: int,
    workers: int,
) -> None:
    """Draw into the folder as `prepare` does, unless it holds just these samples already.

    Samples of other plans or settings are drawn anew. A folder that does not say what it was drawn from is
    taken as it is, with a line that says so.
    """
    if (folder / "offsets.npy").is_file():
        if not (folder / _SETTINGS).is_file():
            tqdm.write(f"{folder}: samples of unknown settings; delete the folder to draw them anew")
            return
        stored = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
        if stored == _made_from(floors(), count, horizon_m, seed):
            return
        tqdm.write(f"{folder}: samples of other plans or settings; drawing them anew")
    prepare(folder, floors(), count, horizon_m, seed, workers)


def _made_from(floors: list[FloorFile], count: int, horizon_m: float, seed: int) -> dict[str, Any]:
    plans = [[floor.building, floor.path.name, floor.scale_correction, floor.checksum()] for floor in floors]
    return {"version": _VERSION, "count": count, "horizon_m": horizon_m, "seed": seed, "plans": plans}


def prepare(
    folder: Path, floors: list[FloorFile], count: int, horizon_m: float, seed: int, workers: int
) -> None:
    """Draw `count` samples into the folder, floors in turn; nothing is left behind when it fails."""
    order = np.sort(np.arange(count) % len(floors))  # a worker reads few floors
    parts = [order[first : first + _CHUNK] for first in range(0, count, _CHUNK)]
    tasks = [
        Draw(
            tuple(floors[i] for i in part),
            seed * 1_000_003 + index * _CHUNK,
            horizon_m,
            spares=(*floors[part[-1] + 1 :], *floors[: part[0]]),
        )
        for index, part in enumerate(parts)
    ]
    images = np.zeros((count, WINDOW_CELLS, WINDOW_CELLS // 4), np.uint8)
    ways = np.zeros((count, 3, POINTS, POINTS), np.uint16)
    walls: list[NDArray[np.uint8]] = []
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        for samples in tqdm(
            pool.imap(draw_many, tasks), total=len(tasks), desc="drawing samples", unit="batch"
        ):
            for image, wall, way in samples:
                images[len(walls)], ways[len(walls)] = image, way
                walls.append(wall)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "offsets.npy").unlink(missing_ok=True)
    np.save(folder / "walls.npy", np.concatenate(walls))
    np.save(folder / "images.npy", images)
    np.save(folder / "ways.npy", ways)
    made_from = json.dumps(_made_from(floors, count, horizon_m, seed), indent=1)
    (folder / _SETTINGS).write_text(made_from, encoding="utf-8")
    offsets = np.concatenate([[0], np.cumsum([len(wall) for wall in walls])])
    np.save(folder / "offsets.npy", offsets)  # last: its presence says that the folder is whole


def draw_many(task: Draw) -> list[tuple[NDArray[np.uint8], NDArray[np.uint8], NDArray[np.uint16]]]:
    """Draw a task's samples, packed. A floor that gives none is replaced by one of the task, or a spare."""
    rng = np.random.default_rng(task.seed)
    sites: dict[Path, Site | None] = {}
    others = tuple(dict.fromkeys((*task.floors, *task.spares)))
    samples = (_draw_one((floor, *others), sites, task.horizon_m, rng) for floor in task.floors)
    return [(pack(sample.image), sample.walls.astype(np.uint8), sample.ways) for sample in samples]


def _draw_one(
    floors: tuple[FloorFile, ...], sites: dict[Path, Site | None], horizon_m: float, rng: np.random.Generator
) -> Sample:
    """Draw from the first floor that gives a sample; sites caches them, None for one that gives none."""
    for floor in floors:
        try:
            if floor.path not in sites:
                sites[floor.path] = Site.of(floor.read())
            site = sites[floor.path]
            if site is not None:
                return draw_sample(site, horizon_m, rng)
        except FloorgentError as error:
            sites[floor.path] = None
            tqdm.write(f"left out: {error}")
    raise PlanError(f"{floors[0].path}: no viewpoint on this floor nor on any other")


class SampleFolder:
    """Random access to a prepared folder."""

    def __init__(self, folder: Path) -> None:
        """Raise `PlanError` when the folder is not whole."""
        try:
            self._offsets = np.load(folder / "offsets.npy")
            self._images = np.load(folder / "images.npy", mmap_mode="r")
            self._walls = np.load(folder / "walls.npy")
            self._ways = np.load(folder / "ways.npy", mmap_mode="r")
        except (OSError, ValueError, EOFError) as error:
            raise PlanError(
                f"{folder}: samples missing or broken ({error}); delete the folder to draw again"
            ) from None

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(N,) walls of each sample."""
        lengths: NDArray[np.int64] = np.diff(self._offsets)
        return lengths

    def __getitem__(self, index: int) -> Sample:
        walls = self._walls[self._offsets[index] : self._offsets[index + 1]].astype(np.int64)
        return Sample(unpack(self._images[index]), walls, np.array(self._ways[index]))


def collate(samples: list[Sample], layout: Layout, max_segments: int) -> Batch:
    """Encode, pad and stack samples; the farthest walls of a sample over max_segments are left out."""
    rows = [layout.encode(sample.walls)[:max_segments] for sample in samples]
    levels = [layout.decode(row) for row in rows]
    lengths = np.array([len(row) for row in rows])
    padded = np.zeros((len(rows), max(1, lengths.max()), rows[0].shape[1]), np.int64)
    padded_levels = np.zeros((*padded.shape[:2], 4), np.int64)
    for index, (row, level) in enumerate(zip(rows, levels, strict=True)):
        padded[index, : len(row)], padded_levels[index, : len(row)] = row, level
    raster = np.stack([rasterise(level.reshape(-1, 2, 2) + 0.5) for level in levels])
    return Batch(
        torch.from_numpy(np.stack([sample.image for sample in samples])),
        torch.from_numpy(padded),
        torch.from_numpy(padded_levels),
        torch.from_numpy(lengths),
        torch.from_numpy(raster),
    )


def batches(
    samples: SampleFolder,
    collated: Callable[[list[Sample]], Collated],
    size: int,
    seed: int,
    first: int = 0,
    share: slice = slice(None),
) -> Iterator[Collated]:
    """Endless shuffled, turned batches of similar length; batch k depends on seed and k only.

    collated: makes a batch of samples. first: the batch to begin with, for exact resume. share: which samples
    of each batch to yield, for one of several processes; all shares together are the batch.
    """
    if len(samples) < size:
        raise PlanError(f"{len(samples)} samples do not fill a batch of {size}; draw more")
    for chosen in turned_draws(samples.lengths, size, seed, first, share):
        yield collated([samples[i].turned(turn) for i, turn in chosen])


def turned_draws(
    lengths: NDArray[np.int64], size: int, seed: int, first: int, share: slice
) -> Iterator[list[tuple[int, int]]]:
    """Endless batches of (sample, symmetry), from batch `first` on; batch k depends on seed and k only.

    lengths (N ≥ size,): a batch holds samples of similar length. share: as in `batches`.
    """
    per_epoch = len(lengths) // size
    step = first
    while True:
        epoch, within = divmod(step, per_epoch)
        order = _epoch_order(lengths, size, seed, epoch)
        for batch in range(within, per_epoch):
            turns = np.random.default_rng((seed, epoch, batch)).integers(SYMMETRIES, size=size).tolist()
            yield list(zip(order[batch].tolist(), turns, strict=True))[share]
        step = (epoch + 1) * per_epoch


def _epoch_order(lengths: NDArray[np.int64], size: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """(batches, size) indices: shuffled, sorted by length within blocks of 32 batches, batches shuffled."""
    rng = np.random.default_rng((seed, epoch))
    order = rng.permutation(len(lengths))[: len(lengths) // size * size]
    block = 32 * size
    for first in range(0, len(order), block):
        part = order[first : first + block]
        order[first : first + block] = part[np.argsort(lengths[part], kind="stable")]
    return rng.permutation(order.reshape(-1, size))
