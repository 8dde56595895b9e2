"""Protocol E1: bits a token and accuracies on held-out buildings, beside the paper's Table I."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from floorgent_ros.evaluation import neighbours
from floorgent_ros.evaluation.scoring import TOP, Chosen, Tally, checkpoint, choose, load, scored
from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.plans.split import training_floors

KNOWN_WINDOWS, ASKED_WINDOWS = 300_000, 2_000  # of the nearest neighbours; all would take days


@dataclass(frozen=True)
class PaperRow:
    """A row of Table I: name of our checkpoint, title, the paper's bits, top-1 and top-5 (shares)."""

    name: str
    title: str
    bits: float | None = None
    top1: float | None = None
    top5: float | None = None


TABLE = (
    PaperRow("uniform", "Uniform", 8.02, 0.004, 0.019),
    PaperRow("neighbours", "Nearest neighbours", None, 0.597, 0.633),
    PaperRow("mlp", "Equivalent MLP", 1.87, 0.682, 0.843),
    PaperRow("floorgent", "FloorGenT", 1.09, 0.814, 0.918),
    PaperRow("no_opcodes", "− opcode tokens", 1.12, 0.810, 0.915),
    PaperRow("no_positions", "− position embedding", 1.34, 0.778, 0.900),
    PaperRow("images", "FloorGenT images (25 segments)", 0.83, 0.843, 0.950),
    PaperRow("images_no_positions", "− position embedding", 0.99, 0.817, 0.935),
    PaperRow("all_resnet", "+ all segments, ResNet", 0.50, 0.895, 0.982),
    PaperRow("all_mixer", "+ all segments, MLP Mixer", 0.40, 0.914, 0.989),
    PaperRow("segments", "one step a segment"),
    PaperRow("segments_images", "one step a segment, images (25 segments)"),
    PaperRow("segments_all", "one step a segment, all segments"),
)


@dataclass(frozen=True)
class Measured:
    """Our numbers of a row; None where a model has none."""

    bits: float | None
    top1: float
    top5: float
    tokens: int
    parameters: int = 0


def uniform(tokens: int) -> Measured:
    """Every token as likely as any other: log₂ 259 bits."""
    size = SequenceConfig.vocabulary
    return Measured(math.log2(size), 1 / size, TOP / size, tokens)


def nearest_neighbours(known: Chosen, asked: Chosen, seed: int = 0) -> Measured:
    """Section IV-B2 on random subsets of both sides (`KNOWN_WINDOWS`, `ASKED_WINDOWS`)."""
    rng = np.random.default_rng(seed)
    sides = []
    for samples, count in ((known, KNOWN_WINDOWS), (asked, ASKED_WINDOWS)):
        places = rng.permutation(samples.places)[: max(1, count // 20)]
        before, after = neighbours.windows([samples.folder[int(place)] for place in places])
        rows = rng.permutation(len(after))[:count]
        sides.append((before[rows], after[rows]))
    (windows, follows), (queries, truth) = sides
    rank = neighbours.ranks(windows, follows, queries, truth, SequenceConfig.vocabulary)
    return Measured(None, float((rank == 0).mean()), float((rank < TOP).mean()), len(rank))


def measure(network: SequenceNet, samples: Chosen, title: str = "scoring") -> Measured:
    """A network's likelihood and accuracies."""
    tally = Tally()
    for scores in scored(network, samples, title):
        tally.add(scores)
    size = sum(parameter.numel() for parameter in network.parameters())
    return Measured(tally.bits, tally.top1, tally.top5, tally.tokens, size)


def evaluate(
    data: Path, split: str, count: int, checkpoints: Path | None = None, device: str = "cpu"
) -> dict[str, Any]:
    """Measure every row whose checkpoint is there; rows without one have ours = None."""
    samples = choose(data, split, count)
    rows = []
    for row in TABLE:
        path = checkpoint(row.name, checkpoints)
        measured = None
        if row.name == "uniform":
            measured = uniform(sum(6 * len(levels) + 1 for levels in samples))
        elif row.name == "neighbours" and training_floors(data):
            measured = nearest_neighbours(choose(data, "train", 0), samples)
        elif path is not None:
            measured = measure(load(path, device), samples, row.title)
        rows.append({"paper": asdict(row), "ours": None if measured is None else asdict(measured)})
    return {"split": split, "samples": len(samples), "rows": rows}


def table(report: dict[str, Any]) -> str:
    """The report as text: ours, then the paper's."""
    head = f"{'':42s}{'bits':>7s}{'top-1':>8s}{'top-5':>8s}  {'paper':>7s}{'top-1':>8s}{'top-5':>8s}"
    lines = [head]
    for row in report["rows"]:
        ours, paper = row["ours"], row["paper"]
        numbers = "no checkpoint".rjust(23) if ours is None else _numbers(ours)
        lines.append(f"{paper['title']:42s}{numbers}  {_numbers(paper)}")
    lines.append(f"{report['samples']} samples of split {report['split']}")
    return "\n".join(lines)


def _numbers(values: dict[str, Any]) -> str:
    bits = "—".rjust(7) if values["bits"] is None else f"{values['bits']:7.2f}"
    shares = ("—".rjust(8) if values[n] is None else f"{values[n]:8.1%}" for n in ("top1", "top5"))
    return bits + "".join(shares)


def main_from_cli(args: argparse.Namespace) -> int:
    """`floorgent evaluate likelihood`."""
    report = evaluate(args.data, args.split, args.samples, args.checkpoints, args.device)
    print(json.dumps(report, indent=2) if args.json else table(report))
    if args.pictures:
        from floorgent_ros.evaluation import figures  # noqa: PLC0415 (matplotlib is slow to load)

        figures.samples(args.data, args.split, args.pictures, args.checkpoints)
    return 0
