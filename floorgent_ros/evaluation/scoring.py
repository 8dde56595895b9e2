"""Samples of a split scored token by token by networks of the paper's family (protocols E1 and E2)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from floorgent_ros.errors import CheckpointError
from floorgent_ros.geometry.canonical import SequenceFrame
from floorgent_ros.model.checkpoint import load_checkpoint, shipped
from floorgent_ros.model.paper.config import UnseenConfig
from floorgent_ros.model.paper.network import Scores, SequenceNet
from floorgent_ros.plans.split import FloorFile, floors
from floorgent_ros.training.sequences import SequenceFolder, sequences
from floorgent_ros.training.tasks import collate_sequences

BATCH = 16
TOP = 5


@dataclass
class Tally:
    """Sums over tokens; a token counts as found when it is the likeliest, or among the five likeliest."""

    nats: float = 0.0
    first: int = 0
    among: int = 0
    tokens: int = 0

    def add(self, scores: Scores) -> None:
        """Count a batch."""
        counted = scores.counted
        self.nats += float(scores.nats[counted].double().sum())
        self.first += int((scores.rank[counted] == 0).sum())
        self.among += int((scores.rank[counted] < TOP).sum())
        self.tokens += int(counted.sum())

    @property
    def bits(self) -> float:
        """Mean bits a token."""
        return self.nats / math.log(2) / self.tokens

    @property
    def top1(self) -> float:
        """Share of tokens that are the likeliest."""
        return self.first / self.tokens

    @property
    def top5(self) -> float:
        """Share of tokens among the five likeliest."""
        return self.among / self.tokens


@dataclass(frozen=True)
class Chosen:
    """Samples of a split, evenly spread over all of its viewpoints: their places in the folder."""

    folder: SequenceFolder
    places: NDArray[np.int64]
    floors: list[FloorFile] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.places)

    def __iter__(self) -> Iterator[NDArray[np.int64]]:
        return (self.folder[int(place)] for place in self.places)


def choose(data: Path, split: str, count: int, frame: SequenceFrame | None = None) -> Chosen:
    """At most `count` samples of the split, 0: all; draws them when they are not in the cache."""
    listed = floors(data, split)
    folder = sequences(listed, frame or SequenceFrame())
    size = len(folder)
    places = np.linspace(0, size - 1, min(count or size, size)).astype(np.int64)
    return Chosen(folder, places, listed)


def scored(network: SequenceNet, samples: Chosen, title: str) -> Iterator[Scores]:
    """Scores of batches of similar length, on the CPU."""
    device = next(network.parameters()).device
    every = sorted(samples, key=len)
    starts = range(0, len(every), BATCH)
    for first in tqdm(starts, desc=title, unit="batch", leave=False):
        batch = collate_sequences(every[first : first + BATCH], network.config).to(device)
        scores = network.scores(batch)
        yield Scores(*(getattr(scores, name).cpu() for name in Scores.__dataclass_fields__))


def load(path: Path, device: str = "cpu") -> SequenceNet:
    """Load a network of the paper's family; `CheckpointError` in one line for another architecture."""
    network, _ = load_checkpoint(path)
    if not isinstance(network, SequenceNet) or isinstance(network.config, UnseenConfig):
        raise CheckpointError(
            f"{path}: architecture {network.config.architecture!r} does not draw the paper's sequences; give "
            "a checkpoint of one that does"
        )
    return network.to(torch.device(device))


def checkpoint(name: str, folder: Path | None = None) -> Path | None:
    """Where a model of the table is: ``paper_NAME.safetensors`` or a run ``NAME`` in the folder, or nowhere.

    folder: by default that of the shipped weights.
    """
    folder = folder or shipped().parent
    places = (folder / f"paper_{name}.safetensors", folder / name / "best.safetensors")
    return next((place for place in places if place.is_file()), None)
