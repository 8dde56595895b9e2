"""Protocol E3: predicted distances in the paper's setting (section IV-E).

Observed are the 25 nearest segments, whole. The truth is measured twice: in the sample's own segments, as far
as the model draws, and in the whole plan.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from floorgent_ros.errors import CheckpointError
from floorgent_ros.evaluation.interval import ratio_interval
from floorgent_ros.evaluation.lidar import without_nan
from floorgent_ros.evaluation.scoring import Chosen, checkpoint, choose, load
from floorgent_ros.geometry import distance as distances
from floorgent_ros.geometry.canonical import SequenceFrame
from floorgent_ros.geometry.grid import CELL_M, Window
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.sampling import Given, draw
from floorgent_ros.model.sampling import Nucleus

COMPLETIONS = 8
INFLATION_M = 4 * CELL_M  # four cells
OBSERVED = 25
BEST = "segments"  # of the shipped models, chosen on val
SAME_M = 1e-3  # cells where prediction, null and truth agree within this are trivial
SATURATION_M = 40.0  # what an unreached cell counts in the saturated figures
TRUTHS = ("sample", "plan")
PAPER = {"mae_m": 6.21, "null_mae_m": 9.65, "ratio": 0.643, "bias_m": -4.03, "null_bias_m": -9.65}

Field = NDArray[np.float64]
Segments = NDArray[np.float64]
HERE = Window((0.0, 0.0))  # segments are relative to the viewpoint


@dataclass(frozen=True, eq=False)
class Case:
    """A sample's distances (256, 256), m, +inf unreachable, and the segments they are measured in, m.

    observed: (25, 2, 2). completions: each (K, 2, 2), observed included. own: the sample's. truth: by the
    names of `TRUTHS`. building: whose plan it is.
    """

    observed: Segments
    completions: list[Segments]
    own: Segments
    prediction: Field
    null: Field
    truth: dict[str, Field]
    building: str = ""


def distance(segments: Segments) -> Field:
    """Distances (256, 256) from the viewpoint among (N, 2, 2) segments, m."""
    return distances.distance_field(distances.dilate(rasterise_metres(segments, HERE), INFLATION_M))


def complete(
    network: SequenceNet, levels: NDArray[np.int64], seed: int, count: int = COMPLETIONS
) -> list[NDArray[np.int64]]:
    """Draw completions of the 25 nearest of (n, 4) levels: from their image, or as a prompt without one."""
    config, observed = network.config, levels[:OBSERVED]
    if config.seen:
        given = Given(images=config.frame.image(observed, config.image_cells)[None])
    else:
        given = Given(prompt=observed[None])
    return draw(network, count, seed, given=given, nucleus=Nucleus(top_p=0.9))


def judge(
    drawn: list[NDArray[np.int64]],
    levels: NDArray[np.int64],
    plan: Segments,
    frame: SequenceFrame,
    building: str = "",
) -> Case:
    """Distances of a sample (n, 4) with its completions; plan: (M, 2, 2) relative to the viewpoint, m."""
    own = frame.to_metres(levels)
    observed = own[:OBSERVED]
    completions = [np.concatenate([observed, frame.to_metres(one)]) for one in drawn]
    return Case(
        observed,
        completions,
        own,
        prediction=distances.median(np.stack([distance(walls) for walls in completions])),
        null=distance(observed),
        truth={"sample": distance(own), "plan": distance(plan)},
        building=building,
    )


def cases(network: SequenceNet, samples: Chosen, seed: int) -> list[Case]:
    """Complete and judge every sample."""
    frame, found = network.config.frame, []
    plans: dict[int, Segments] = {}
    for place in tqdm(samples.places.tolist(), desc="completing", unit="sample", leave=False):
        floor = int(samples.folder.floor[place])
        if floor not in plans:
            plans[floor] = samples.floors[floor].read().segments
        levels = samples.folder[place]
        drawn = complete(network, levels, seed + place)
        plan = plans[floor] - samples.folder.viewpoint[place]
        found.append(judge(drawn, levels, plan, frame, samples.floors[floor].building))
    return found


def errors(case: Case, truth: str) -> tuple[Field, Field, Field, dict[str, float]]:
    """Errors d − d̂ of prediction and null (C,), m, and the truth, in cells that count; shares left out.

    Cells count where the truth is finite and not all three agree. Where the prediction does not reach, its
    error is +inf.
    """
    true = case.truth[truth]
    finite = np.isfinite(true)
    with np.errstate(invalid="ignore"):
        same = (np.abs(case.prediction - true) < SAME_M) & (np.abs(case.null - true) < SAME_M)
    counted = finite & ~same
    shares = {"truth_unreachable": float((~finite).mean()), "trivial": float((finite & same).mean())}
    ours, null, true = (field[counted] for field in (case.prediction, case.null, true))
    return ours - true, null - true, true, shares


def summarise(found: list[Case], truth: str) -> dict[str, float]:
    """The protocol's figures over all cases' cells together.

    Figures are of cells that prediction and null reach, as finite means need; `unreached` is the share of
    counted cells that the prediction does not reach, and the saturated ones count those 40 m. `ratio_low`
    and `ratio_high`: how sure the ratio is, over buildings.
    """
    parts = [errors(case, truth) for case in found]
    ours, null, true = (np.concatenate([part[index] for part in parts]) for index in range(3))
    reached = np.isfinite(ours) & np.isfinite(null)
    cut = np.minimum(true, SATURATION_M)
    saturated = [np.abs(np.minimum(true + error, SATURATION_M) - cut) for error in (ours, null)]
    if not reached.any():
        return {"cells": 0.0}
    sums = [_sums(ours, null) for ours, null, *_ in parts]
    low, high = ratio_interval([a for a, _ in sums], [b for _, b in sums], [case.building for case in found])
    mae, null_mae = float(np.abs(ours[reached]).mean()), float(np.abs(null[reached]).mean())
    shares = {name: float(np.mean([part[3][name] for part in parts])) for name in parts[0][3]}
    return {
        "ratio": mae / null_mae if null_mae else float("nan"),
        "ratio_low": low,
        "ratio_high": high,
        "mae_m": mae,
        "null_mae_m": null_mae,
        "bias_m": float(ours[reached].mean()),
        "null_bias_m": float(null[reached].mean()),
        "unreached": float(1 - np.isfinite(ours).mean()),
        "saturated_ratio": float(saturated[0].sum() / max(saturated[1].sum(), 1e-9)),
        **shares,
        "cells": float(reached.sum()),
    }


def _sums(ours: Field, null: Field) -> tuple[float, float]:
    """Summed absolute errors of a case where both reach."""
    reached = np.isfinite(ours) & np.isfinite(null)
    return float(np.abs(ours[reached]).sum()), float(np.abs(null[reached]).sum())


def table(report: dict[str, Any]) -> str:
    """The report as text: ours by truth, then the paper's."""
    lines = [f"{'':20s}" + "".join(f"{name:>12s}" for name in (*TRUTHS, "paper"))]
    for key in report["sample"]:
        paper = f"{PAPER[key]:12.3f}" if key in PAPER else f"{'—':>12s}"
        lines.append(f"{key:20s}" + "".join(f"{report[t].get(key, np.nan):12.3f}" for t in TRUTHS) + paper)
    lines.append(f"{report['samples']} samples of split {report['split']}, seed {report['seed']}")
    return "\n".join(lines)


def main_from_cli(args: argparse.Namespace) -> int:
    """`floorgent evaluate distance`."""
    path = args.checkpoint or checkpoint(BEST)
    if path is None:
        raise CheckpointError(f"no checkpoint {BEST!r} is shipped; give one with --checkpoint")
    network = load(path, args.device)
    samples = choose(args.data, args.split, args.samples, network.config.frame)
    found = cases(network, samples, args.seed)
    report: dict[str, Any] = {truth: summarise(found, truth) for truth in TRUTHS}
    report |= {"paper": PAPER, "samples": len(found), "split": args.split, "seed": args.seed}
    print(json.dumps(without_nan(report), indent=2) if args.json else table(report))
    if args.pictures:
        from floorgent_ros.evaluation import figures  # noqa: PLC0415 (matplotlib is slow to load)

        figures.distance_errors(found, args.pictures)
        # of the samples the one in which most cells are not trivial: in a closed room there is nothing to see
        figures.distance_example(max(found, key=lambda case: len(errors(case, "sample")[0])), args.pictures)
    return 0
