"""Protocol E4: the error of predicted distances on simulated LIDAR maps, beside the planner's own guesses."""

from __future__ import annotations

import argparse
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from floorgent_ros.config import PredictorSettings
from floorgent_ros.errors import ConfigError, PlanError
from floorgent_ros.evaluation.baselines import best_multiple
from floorgent_ros.evaluation.cases import KINDS, VIEWPOINTS, Case, cases
from floorgent_ros.evaluation.detours import Detours, shares
from floorgent_ros.evaluation.detours import table as detour_table
from floorgent_ros.evaluation.interval import ratio_interval
from floorgent_ros.evaluation.oracle import oracle
from floorgent_ros.evaluation.peers import THRESHOLD, Peers, kept, rows
from floorgent_ros.evaluation.reliability import Claims, reliability, reliability_figure
from floorgent_ros.evaluation.turns import sweep, turn_table
from floorgent_ros.geometry.assumptions import (
    SATURATION_M,
    saturated,
    unknown_costs,
    unknown_is_free,
    unknown_is_wall,
)
from floorgent_ros.geometry.grid import UNKNOWN, Window, crop
from floorgent_ros.geometry.raster import rasterise_metres
from floorgent_ros.plans.split import FloorFile, floors, training_floors
from floorgent_ros.plots import save
from floorgent_ros.predictor import DistanceField, DistancePredictor

NOTICEABLE_M = 0.2  # cells where prediction and null are both closer than this are left out of the MAE
RINGS_M = ((0.0, 5.0), (5.0, 10.0), (10.0, 20.0))  # straight-line distance from the viewpoint
METHODS = ("prediction", "null", "multiple", "unknown_costs", "unknown_is_wall")
LABEL = 36  # columns of a row's name in the text report


@dataclass(frozen=True, eq=False)
class Outcome:
    """One case's counted cells: truth (C,), each method's distances (C,), saturated, m; radius (C,), m.

    unreachable (C,) bool: the prediction is not finite. added_iou: mean over pairs of completions. walls:
    mean over completions. claims: for the reliability of reach and spread. detours: true and drawn.
    """

    kind: str
    building: str
    truth: NDArray[np.float64]
    methods: dict[str, NDArray[np.float64]]
    unreachable: NDArray[np.bool_]
    radius: NDArray[np.float64]
    added_iou: float
    seconds: float
    walls: float
    claims: Claims
    detours: Detours


def judge(case: Case, field: DistanceField, multiple: float) -> Outcome:
    """Compare a prediction and the baselines with a case's truth."""
    states, counted = field.observation.states, case.counted
    null = saturated(unknown_is_free(states))
    methods = {
        "prediction": saturated(field.distance.astype(float)),
        "null": null,
        "multiple": np.minimum(multiple * null, SATURATION_M),
        "unknown_costs": saturated(unknown_costs(states)),
        "unknown_is_wall": saturated(unknown_is_wall(states)),
    }
    truth = saturated(case.truth)[counted]
    return Outcome(
        kind=case.kind,
        building=case.building,
        truth=truth,
        methods={name: distance[counted] for name, distance in methods.items()},
        unreachable=~np.isfinite(field.distance[counted]),
        radius=_radius(case.viewpoint)[counted],
        added_iou=_added_iou(field),
        seconds=sum(field.timings.values()) / 1e3,
        walls=float(np.mean([len(walls) for walls in field.completions])) if field.completions else 0.0,
        claims=Claims.of(case, field),
        detours=Detours.of(null[counted], truth, field.blocked, counted),
    )


def summarise(outcomes: list[Outcome]) -> dict[str, Any]:
    """The protocol's figures over all cases of a kind together.

    ratio_low, ratio_high: how sure the ratio is, over buildings.
    """
    truth = np.concatenate([o.truth for o in outcomes])
    methods = {name: np.concatenate([o.methods[name] for o in outcomes]) for name in METHODS}
    errors = {name: distance - truth for name, distance in methods.items()}
    radius = np.concatenate([o.radius for o in outcomes])
    ours, nulls = ([_summed(outcome, name) for outcome in outcomes] for name in ("prediction", "null"))
    low, high = ratio_interval(ours, nulls, [outcome.building for outcome in outcomes])
    noticed = np.maximum(np.abs(errors["prediction"]), np.abs(errors["null"])) >= NOTICEABLE_M
    return {
        "ratio": _ratio(errors, "prediction"),
        "ratio_low": low,
        "ratio_high": high,
        "mae_m": float(np.abs(errors["prediction"][noticed]).mean()),
        "null_mae_m": float(np.abs(errors["null"][noticed]).mean()),
        "bias_m": float(errors["prediction"][noticed].mean()),
        "null_bias_m": float(errors["null"][noticed].mean()),
        "win_share": _mean_of_known([_wins(o) for o in outcomes]),
        "falsely_unreachable": float(np.concatenate([o.unreachable for o in outcomes]).mean()),
        "cases": len(outcomes),
        "ratio_multiple": _ratio(errors, "multiple"),
        "ratio_unknown_costs": _ratio(errors, "unknown_costs"),
        "ratio_unknown_is_wall": _ratio(errors, "unknown_is_wall"),
        "ratio_by_distance": {
            f"{low:.0f}-{high:.0f} m": _ratio(errors, "prediction", (radius >= low) & (radius < high))
            for low, high in RINGS_M
        },
        "added_wall_iou": _mean_of_known([o.added_iou for o in outcomes]),
        "walls_per_completion": float(np.mean([o.walls for o in outcomes])),
        "median_prediction_s": float(np.median([o.seconds for o in outcomes])),
    }


def evaluate(
    predictor: DistancePredictor,
    chosen: list[FloorFile],
    fitted_on: list[FloorFile],
    seed: int = 0,
    oracle_horizon_m: float | None = None,
    turn_rad: float = 0.0,
    peers: Peers | None = None,
    jitter_cells: float = 0.0,
) -> dict[str, Any]:
    """Run the protocol.

    fitted_on: floors on which the constant multiple of the null is fitted. oracle_horizon_m: judge the true
    walls within this horizon in the predictor's place. turn_rad: turn the buildings in the map frame. peers:
    judged on the same observations; report["peers"] holds the figures of each of their rows. jitter_cells:
    of the oracle's walls.
    """
    multiples = fit_multiple(fitted_on, seed)
    outcomes: dict[str, list[Outcome]] = defaultdict(list)
    painted: dict[str, dict[str, list[Outcome]]] = defaultdict(lambda: defaultdict(list))
    for floor in tqdm(chosen, desc="floors", unit="floor"):
        for case in _safe_cases(floor, seed, turn_rad=turn_rad):
            if oracle_horizon_m is None:
                field = predictor.predict(case.grid, case.viewpoint, seed=seed)
            else:
                field = oracle(case, oracle_horizon_m, jitter_cells, predictor.settings, seed)
            outcomes[case.kind].append(judge(case, field, multiples[case.kind]))
            for name, other in (peers.fields(case.grid, field.observation) if peers else {}).items():
                painted[name][case.kind].append(judge(case, other, multiples[case.kind]))
    if not outcomes:
        raise PlanError("none of the floors gave a case; see the lines above")
    report: dict[str, Any] = {kind: summarise(outcomes[kind]) for kind in KINDS}
    report["per_building"] = {
        kind: {name: summarise(group)["ratio"] for name, group in _by_building(outcomes[kind]).items()}
        for kind in KINDS
    }
    report["detours"] = {kind: shares([o.detours for o in outcomes[kind]]) for kind in KINDS}
    report["reliability"] = {kind: reliability([o.claims for o in outcomes[kind]]) for kind in KINDS}
    if peers:
        report["peers"] = {
            name: {kind: kept(summarise(found[kind])) for kind in KINDS} for name, found in painted.items()
        }
        report["peer_threshold"] = peers.threshold
    report["multiple"] = multiples
    report["seed"] = seed
    report["model"] = (
        predictor.description
        if oracle_horizon_m is None
        else f"true walls, {oracle_horizon_m:g} m, jitter {jitter_cells:g} cells"
    )
    return report


def fit_multiple(fitted_on: list[FloorFile], seed: int) -> dict[str, float]:
    """The best constant multiple of the null a kind, from one viewpoint a floor; 1 without floors."""
    nulls: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    truths: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    for floor in tqdm(fitted_on, desc="fitting the null's multiple", unit="floor"):
        for case in _safe_cases(floor, seed, viewpoints=1):
            null = saturated(unknown_is_free(crop(case.grid, Window(case.viewpoint))))
            nulls[case.kind].append(null[case.counted])
            truths[case.kind].append(saturated(case.truth)[case.counted])
    return {kind: best_multiple(nulls[kind], truths[kind]) if nulls[kind] else 1.0 for kind in KINDS}


def table(report: dict[str, Any]) -> str:
    """The report as text, a column a kind."""
    first = report["scan"]
    lines = [f"{'':{LABEL}s}" + "".join(f"{kind:>10s}" for kind in KINDS)]
    for key, value in first.items():
        if not isinstance(value, dict):
            lines.append(f"{key:{LABEL}s}" + "".join(f"{report[kind][key]:10.3f}" for kind in KINDS))
    for ring in first["ratio_by_distance"]:
        figures = (report[kind]["ratio_by_distance"][ring] for kind in KINDS)
        lines.append(f"{'ratio ' + ring:{LABEL}s}" + "".join(f"{figure:10.3f}" for figure in figures))
    for name, found in rows(report, tuple(KINDS)):
        lines.append(f"{name:{LABEL}s}" + "".join(f"{figure:10.3f}" for figure in found))
    for building in report["per_building"]["scan"]:
        figures = (report["per_building"][kind].get(building, float("nan")) for kind in KINDS)
        lines.append(f"{'ratio ' + building:{LABEL}s}" + "".join(f"{figure:10.3f}" for figure in figures))
    lines += detour_table(report["detours"], LABEL)
    return "\n".join(lines)


def main_from_cli(args: argparse.Namespace) -> int:
    """`floorgent evaluate lidar`."""
    if len(args.turn) > 1 and (args.reliability or args.peers is not None):
        raise ConfigError(
            "several angles after --turn: leave --reliability and --peers out, or give one angle"
        )
    data = Path(args.data)
    indexed = (data / "index.json").is_file()
    split = args.split if indexed else "all"
    chosen = floors(data, split)
    if args.floors:
        chosen = chosen[: args.floors]
    settings = PredictorSettings.of(args)
    predictor = DistancePredictor.from_checkpoint(args.checkpoint, device=args.device, settings=settings)
    peers = None
    if args.peers is not None:
        threshold = THRESHOLD if args.peer_threshold is None else args.peer_threshold
        peers = Peers.load(args.peers, threshold, predictor.device)

    def at(degrees: float, fitted_on: list[FloorFile]) -> dict[str, Any]:
        turn = math.radians(degrees)
        return evaluate(predictor, chosen, fitted_on, args.seed, args.oracle, turn, peers, args.jitter)

    if len(args.turn) > 1:
        report, shown = sweep(lambda degrees: at(degrees, []), args.turn), turn_table
    else:
        report, shown = at(args.turn[0], training_floors(data)), table
    report["split"] = split
    if args.reliability:
        save(reliability_figure(report["reliability"]), args.reliability)
    print(json.dumps(without_nan(report), indent=2) if args.json else shown(report))
    return 0


def _safe_cases(
    floor: FloorFile, seed: int, viewpoints: int = VIEWPOINTS, turn_rad: float = 0.0
) -> Iterable[Case]:
    """The floor's cases; a floor that cannot be used is said in one line and skipped."""
    try:
        yield from cases(floor, seed, viewpoints, turn_rad)
    except PlanError as error:
        tqdm.write(f"left out: {error}")


def _ratio(
    errors: dict[str, NDArray[np.float64]], method: str, cells: NDArray[np.bool_] | slice = slice(None)
) -> float:
    null = float(np.abs(errors["null"][cells]).sum())
    return float(np.abs(errors[method][cells]).sum()) / null if null > 0 else float("nan")


def _summed(outcome: Outcome, method: str) -> float:
    """Summed absolute error of a method over a case's cells, m."""
    return float(np.abs(outcome.methods[method] - outcome.truth).sum())


def _wins(outcome: Outcome) -> float:
    """1 where the prediction is closer than the null, 0 where not, NaN for a case without counted cells."""
    if outcome.truth.size == 0:
        return float("nan")
    ours, null = (_summed(outcome, name) for name in ("prediction", "null"))
    return float(ours < null * (1 - 1e-6))  # equal distances differ by float32's rounding


def _by_building(outcomes: list[Outcome]) -> dict[str, list[Outcome]]:
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        groups[outcome.building].append(outcome)
    return dict(sorted(groups.items()))


def _radius(viewpoint: tuple[float, float]) -> NDArray[np.float64]:
    window = Window(viewpoint)
    centres = np.stack(np.meshgrid(np.arange(256) + 0.5, np.arange(256) + 0.5), -1)
    return np.asarray(np.linalg.norm(window.to_frame(centres) - viewpoint, axis=-1))


def without_nan(value: Any) -> Any:
    """Replace NaN, which JSON does not know, by None."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    return None if isinstance(value, float) and np.isnan(value) else value


def _mean_of_known(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.mean(known)) if known else float("nan")


def _added_iou(field: DistanceField) -> float:
    """Mean intersection over union of the wall cells that two completions add to the unknown."""
    unknown = field.observation.states == UNKNOWN
    added = [rasterise_metres(walls, field.observation.window) & unknown for walls in field.completions]
    shares = [np.sum(a & b) / np.sum(a | b) for a, b in combinations(added, 2) if np.any(a | b)]
    return float(np.mean(shares)) if shares else float("nan")
