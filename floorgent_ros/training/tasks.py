"""What a run learns: the samples, how they become batches and what its likelihood is counted in.

The trainer knows networks only by their likelihood; a task is the rest. `WallTask` is the unseen walls of a
robot's map (the wide setting), `PaintTask` the same for the inpainting peer, `CriticTask` how far it is in
them, `SequenceTask` the paper's sequences.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from floorgent_ros.config import TrainingSettings
from floorgent_ros.errors import PlanError
from floorgent_ros.geometry.assumptions import SATURATION_M
from floorgent_ros.geometry.grid import UNKNOWN
from floorgent_ros.model.checkpoint import Config
from floorgent_ros.model.config import ModelConfig
from floorgent_ros.model.critic import BOUNDS_M, IGNORED, CriticBatch, CriticConfig
from floorgent_ros.model.inpainting import InpaintingConfig
from floorgent_ros.model.paper.config import SequenceConfig, UnseenConfig
from floorgent_ros.model.paper.network import SequenceBatch
from floorgent_ros.model.paper.unseen import NOT_TOLD, beyond, free_image, joined, told, touching
from floorgent_ros.model.sequence import Layout
from floorgent_ros.plans.split import floors
from floorgent_ros.training.dataset import SampleFolder, batches, collate, prepare_once, turned_draws
from floorgent_ros.training.processes import Processes
from floorgent_ros.training.samples import NOWHERE, Sample
from floorgent_ros.training.sequences import SequenceFolder, sequences

WHOLE = slice(None)


class Task(Protocol):
    """unit: what bits are counted in. val: validation batches, the same for the whole run."""

    unit: str
    val: list[Any]

    def batches(self, first: int, share: slice) -> Iterator[Any]:
        """Endless batches from the first on, or a process's share of each."""

    def counted(self, batch: Any) -> Tensor:
        """How many units a batch holds."""


def task_of(
    config: Config, settings: TrainingSettings, data: Path, out: Path, processes: Processes | None = None
) -> Task:
    """The task that a network of this configuration is trained for; draws its samples where need be."""
    processes = processes or Processes()
    if isinstance(config, UnseenConfig):
        return UnseenTask(config, settings, data, out, processes)
    if isinstance(config, SequenceConfig):
        return SequenceTask(config, settings, data, processes)
    task: type[WallTask] = WallTask
    if isinstance(config, InpaintingConfig):
        task = PaintTask
    elif isinstance(config, CriticConfig):
        task = CriticTask
    return task(config, settings, data, out, processes)


class WallTask:
    """Unseen walls given a simulated robot's map; samples in the run's own folder."""

    unit = "wall"

    def __init__(
        self,
        config: ModelConfig | InpaintingConfig | UnseenConfig | CriticConfig,
        settings: TrainingSettings,
        data: Path,
        out: Path,
        processes: Processes,
    ) -> None:
        self.config, self.settings, self.out, self.processes = config, settings, out, processes
        self.samples = self.drawn(data, "train", settings.samples, settings.seed)
        self.val = self.in_batches(self.drawn(data, "val", settings.val_samples, settings.seed + 1))

    def batches(self, first: int, share: slice) -> Iterator[Any]:
        """Turned batches of similar length."""
        settings = self.settings
        return batches(self.samples, self.collated, settings.batch, settings.seed, first, share)

    def collated(self, samples: list[Sample]) -> Any:
        """A batch of these samples."""
        return collate(samples, self.layout, self.config.max_segments)

    @cached_property
    def layout(self) -> Layout:
        """Of the sweep decoder's walls; once a run, since its tables are."""
        assert not isinstance(self.config, UnseenConfig)  # noqa: S101 (its task makes others)
        return Layout(self.config.levels, self.config.patch)

    def counted(self, batch: Any) -> Tensor:
        """Walls."""
        return batch.lengths.sum()

    def drawn(self, data: Path, split: str, count: int, seed: int) -> SampleFolder:
        """The split's samples, drawn unless the run's folder holds them already."""
        folder = self.out / "samples" / split
        if self.processes.first:
            horizon_m, workers = self.config.horizon_m, os.cpu_count() or 1
            prepare_once(folder, lambda: floors(data, split), count, horizon_m, seed, workers)
        self.processes.wait()
        return SampleFolder(folder)

    def in_batches(self, samples: SampleFolder) -> list[Any]:
        """All samples once, by length."""
        groups = _by_length(samples.lengths, self.settings.batch)
        return [self.collated([samples[i] for i in group]) for group in groups]


class PaintTask(WallTask):
    """The same samples as a raster, every unknown cell for itself."""

    unit = "cell"

    def counted(self, batch: Any) -> Tensor:
        """Unknown cells."""
        return (batch.image == UNKNOWN).sum()


class CriticTask(WallTask):
    """The same samples as assumed and true distances."""

    unit = "point"

    def collated(self, samples: list[Sample]) -> CriticBatch:
        """Assumed distances and the classes of true detours."""
        ways = np.stack([sample.ways for sample in samples])
        metres = ways / np.float32(100)
        detours = metres[:, 2] - metres[:, 0]
        classes = 1 + np.searchsorted(BOUNDS_M, detours, side="right")
        classes[ways[:, 2] == NOWHERE] = 0
        outside = ways[:, 0] == NOWHERE
        classes[outside] = IGNORED
        assumed = np.where(outside[:, None], np.float32(SATURATION_M), metres[:, :2])
        image = np.stack([sample.image for sample in samples])
        return CriticBatch(torch.from_numpy(image), torch.from_numpy(assumed), torch.from_numpy(classes))

    def counted(self, batch: CriticBatch) -> Tensor:
        """Points within the window."""
        return (batch.classes != IGNORED).sum()


class SequenceTask:
    """The paper's sequences, with or without an image; samples in the user's cache, shared by all runs."""

    unit = "token"

    def __init__(
        self, config: SequenceConfig, settings: TrainingSettings, data: Path, processes: Processes
    ) -> None:
        self.config, self.settings = config, settings
        self.samples = _prepared(config, data, "train", processes)
        val = _prepared(config, data, "val", processes)
        chosen = np.linspace(0, len(val) - 1, min(settings.val_samples, len(val))).astype(np.int64)
        self.val = [
            collate_sequences([val[int(chosen[i])] for i in group], config)
            for group in _by_length(val.lengths[chosen], settings.batch)
        ]

    def batches(self, first: int, share: slice) -> Iterator[SequenceBatch]:
        """Shuffled, turned batches of similar length; batch k depends on seed and k only."""
        samples, size, seed = self.samples, self.settings.batch, self.settings.seed
        if len(samples) < size:
            raise PlanError(f"{samples.folder}: {len(samples)} samples do not fill a batch of {size}")
        for chosen in turned_draws(samples.lengths, size, seed, first, share):
            turned = [samples.frame.turned(samples[i], turn) for i, turn in chosen]
            yield collate_sequences(turned, self.config)

    def counted(self, batch: SequenceBatch) -> Tensor:
        """Tokens, left-out opcodes included (method note 9)."""
        return batch.tokens


class UnseenTask(WallTask):
    """The unseen walls as a sequence that goes on after the seen ones (`model.paper.unseen`)."""

    config: UnseenConfig

    def collated(self, samples: list[Sample]) -> SequenceBatch:
        """What is told and asked of these samples."""
        return collate_unseen(samples, self.config)

    def counted(self, batch: SequenceBatch) -> Tensor:
        """Unseen walls."""
        return batch.asked.sum()


def collate_unseen(samples: list[Sample], config: UnseenConfig) -> SequenceBatch:
    """Pad what is told and asked of simulated observations; over max_segments the farthest are left out."""
    known = [told(sample.image, config) for sample in samples]
    asked = [_asked(sample, seen, config) for sample, seen in zip(samples, known, strict=True)]
    levels = [
        np.concatenate([seen, unseen[: config.max_segments - len(seen)]])
        for seen, unseen in zip(known, asked, strict=True)
    ]
    padded, lengths = _padded(levels)
    return SequenceBatch(
        padded,
        lengths,
        torch.from_numpy(np.stack([free_image(sample.image, config) for sample in samples])),
        torch.tensor([len(seen) for seen in known]),
        _open_ends(known, samples, padded.shape[1]) if config.beyond else None,
    )


def _asked(sample: Sample, seen: np.ndarray[Any, Any], config: UnseenConfig) -> np.ndarray[Any, Any]:
    """(n, 4) walls that the network is asked for, in order; seen: what it is told."""
    walls = sample.walls if config.asked == "all" else sample.walls[touching(sample.walls, sample.image)]
    return config.frame.ordered(joined(walls, seen[:-1]) if config.joined else walls)


def _open_ends(known: list[np.ndarray[Any, Any]], samples: list[Sample], count: int) -> Tensor:
    """(B, count, 2) of `beyond` of what is told."""
    classes = torch.full((len(known), count, 2), NOT_TOLD)
    for row, seen, sample in zip(classes, known, samples, strict=True):
        row[: len(seen)] = torch.from_numpy(beyond(seen, sample.image))
    return classes


def collate_sequences(samples: list[np.ndarray[Any, Any]], config: SequenceConfig) -> SequenceBatch:
    """Pad (n, 4) levels and draw the image that the configuration's observation shows."""
    image = np.zeros((len(samples), 0, 0), np.bool_)
    if config.seen:
        image = np.stack(
            [config.frame.image(levels[: config.seen], config.image_cells) for levels in samples]
        )
    return SequenceBatch(*_padded(samples), torch.from_numpy(image))


def _padded(samples: list[np.ndarray[Any, Any]]) -> tuple[Tensor, Tensor]:
    """(n, 4) levels each → (B, n, 4), zero behind the end of each, and lengths (B,)."""
    lengths = [len(levels) for levels in samples]
    padded = np.zeros((len(samples), max(1, *lengths), 4), np.int64)
    for row, levels in zip(padded, samples, strict=True):
        row[: len(levels)] = levels
    return torch.from_numpy(padded), torch.tensor(lengths)


def _prepared(config: SequenceConfig, data: Path, split: str, processes: Processes) -> SequenceFolder:
    if not processes.first:
        processes.wait()
    samples = sequences(floors(data, split), config.frame)
    if processes.first:
        processes.wait()
    return samples


def _by_length(lengths: np.ndarray[Any, Any], size: int) -> list[list[int]]:
    order: list[int] = lengths.argsort(kind="stable").tolist()
    return [order[first : first + size] for first in range(0, len(order), size)]
