"""`floorgent benchmark`: measure, print, draw."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from floorgent_ros.benchmark import curves, full_size, machine, peers, report, straightforward
from floorgent_ros.benchmark.case import standard_case
from floorgent_ros.benchmark.full_size import FullSize
from floorgent_ros.benchmark.pipeline import Pipeline, blocked_of
from floorgent_ros.benchmark.straightforward import TokenByToken
from floorgent_ros.benchmark.timing import Times, both_clocks, take_turns
from floorgent_ros.config import PredictorSettings
from floorgent_ros.errors import ConfigError
from floorgent_ros.geometry.distance import distance_fields
from floorgent_ros.geometry.observation import Observation
from floorgent_ros.model.checkpoint import Network
from floorgent_ros.model.completion import given_of
from floorgent_ros.model.network import FloorNet
from floorgent_ros.model.paper.config import SequenceConfig
from floorgent_ros.model.sampling import EagerSampler, Nucleus
from floorgent_ros.predictor import DistanceField, DistancePredictor
from floorgent_ros.whole_file import check_file

AGREE_M = 1e-6  # two exact searches differ by the rounding of sums
AFTER_WARM_UP = 10  # predictions, the first of which must be as fast as the last
PARTS = ("encoder", "decode", "distance")
ENSEMBLE, LARGE_SIDE, SMALL_SIDE = 3, 512, 256


def main_from_cli(options: argparse.Namespace) -> int:
    """Run as the options say; raises `FloorgentError`."""
    if options.runs < 1:
        raise ConfigError(f"--runs {options.runs}: use at least 1")
    if not 0 <= options.full_size <= SequenceConfig.max_segments:
        raise ConfigError(f"--full-size {options.full_size}: use 0 to {SequenceConfig.max_segments}")
    if options.png:
        check_file(options.png)
    predictor = DistancePredictor.from_checkpoint(
        options.checkpoint,
        device=options.device,
        precision=options.precision,
        settings=PredictorSettings.of(options),
    )
    found = measure(
        predictor,
        options.runs,
        with_peers=not options.no_peers,
        with_curves=bool(options.png),
        full_size_segments=options.full_size,
    )
    if options.png:
        curves.draw(found, options.png)
    print(json.dumps(found) if options.json else report.text(found))
    return 0


def measure(
    predictor: DistancePredictor,
    runs: int,
    *,
    with_peers: bool = True,
    with_curves: bool = False,
    full_size_segments: int = 0,
) -> dict[str, Any]:
    """All numbers, as JSON can hold them. The contestants take turns in the same process.

    full_size_segments: of the completions of the paper's token model at its full size; 0 leaves it out.
    """
    device, dtype = predictor.device, next(predictor.network.parameters()).dtype
    pipeline = Pipeline(predictor, *standard_case())
    predictor.warm_up()
    after_warm_up = [both_clocks(pipeline) for _ in range(AFTER_WARM_UP)]
    pipeline.stages()
    passes = [pipeline.stages() for _ in range(runs)]
    stages = {name: Times(tuple(found[name] for found in passes)) for name in passes[0]}
    walls = stages.pop("walls a completion").median
    field, peak = pipeline(), machine.peak_mib(device)
    synchronise = (lambda: torch.cuda.synchronize(device)) if device.type == "cuda" else (lambda: None)
    few = max(1, runs // 5)  # what takes seconds
    same = take_turns(_straightforward(pipeline, field), few, synchronise=synchronise)
    whole: FullSize | None = None
    if full_size_segments:
        count, seen = predictor.settings.completions, field.observation
        whole = full_size.measure(seen, count, full_size_segments, few, device, dtype, synchronise)
    network_times, notes = _peers(device, few, synchronise) if with_peers else ({}, {})
    result: dict[str, Any] = {
        "model": predictor.description,
        "machine": machine.describe(device, str(dtype).removeprefix("torch.")),
        "completions": predictor.settings.completions,
        "candidates": predictor.settings.candidates,
        "walls_a_completion": walls,
        "wall_log_odds": predictor.settings.wall_log_odds,
        "map_cells": list(pipeline.grid.cells.shape),
        "peak_mib": round(peak, 1),
        "stages": {name: times.summary() for name, times in stages.items()},
        "after_warm_up": [{"ms": round(ms, 3), "cpu_ms": round(cpu, 3)} for ms, cpu in after_warm_up],
        "straightforward": {name: times.summary() for name, times in same.items()},
        "peers": {name: times.summary() for name, times in network_times.items()},
        "ratios": _ratios(stages, same, network_times),
        "notes": notes,
    }
    if whole is not None:
        times = {name: found.summary() for name, found in whole.times.items()}
        result["full_size"] = {"times": times, "ratios": _over_ours(whole.times), "note": whole.note}
    if with_curves:
        result["curves"] = curves.measure(pipeline, few)
    return result


def _straightforward(pipeline: Pipeline, field: DistanceField) -> dict[str, Callable[[], object]]:
    """The same work done in the ways that come to mind first, and ours beside them in the same rounds."""
    predictor, settings = pipeline.predictor, pipeline.predictor.settings
    network, sampler, observation = predictor.network, predictor.sampler.sampler, field.observation
    nucleus = Nucleus(settings.top_p, settings.temperature, settings.wall_log_odds)
    eager, observed, plainly = _eager(network, observation)
    count = settings.completions
    memory, eager_memory = sampler.look(observed), eager.look(plainly)
    blocked = blocked_of(field, settings.inflation_radius_m)
    ours = distance_fields(blocked)
    found: dict[str, Callable[[], object]] = {
        "encoder, ours": lambda: sampler.look(observed),
        "encoder, as in training": lambda: eager.look(plainly),
        f"decode, {sampler.description}": lambda: sampler.draw(memory, count, 0, nucleus),
        f"decode, {eager.description} with KV cache": lambda: eager.draw(eager_memory, count, 0, nucleus),
        "distance, compiled buckets in threads": lambda: distance_fields(blocked),
    }
    for name, search in straightforward.contestants().items():
        theirs = search(blocked)
        reached = np.isfinite(ours)
        apart = float(np.abs(ours[reached] - theirs[reached]).max(initial=0.0))
        if not (apart <= AGREE_M and np.array_equal(reached, np.isfinite(theirs))):
            raise ConfigError(f"{name} finds other distances (by {apart:g} m): this is a defect, report it")
        found[f"distance, {name}"] = lambda search=search: search(blocked)  # type: ignore[misc]
    return found


def _eager(network: Network, observation: Observation) -> tuple[Any, Any, Any]:
    """The straightforward sampler, what ours looks at, and what it looks at."""
    if isinstance(network, FloorNet):
        return EagerSampler(network), observation.image, observation.image
    return TokenByToken(network), observation, given_of(network, observation)


def _peers(
    device: torch.device, runs: int, synchronise: Callable[[], object]
) -> tuple[dict[str, Times], dict[str, str]]:
    """Forward passes of the networks that others use, and how large these are."""
    kinds = {
        f"U-Net with residual encoder, {LARGE_SIDE}²": (peers.ResidualUNet, LARGE_SIDE, ENSEMBLE),
        f"plain U-Net, {SMALL_SIDE}²": (peers.PlainUNet, SMALL_SIDE, 1),
    }
    contestants: dict[str, Callable[[], object]] = {}
    notes: dict[str, str] = {}
    for name, (make, side, copies) in kinds.items():
        network = make().eval().to(device)
        image = torch.zeros(1, 3, side, side, device=device)

        def forward(
            network: torch.nn.Module = network, image: torch.Tensor = image, copies: int = copies
        ) -> None:
            with torch.inference_mode():
                for _ in range(copies):
                    network(image)

        title = f"{copies} × {name}" if copies > 1 else name
        contestants[title] = forward
        size, work = peers.parameters(network), peers.operations(make(), side)
        notes[name] = f"{size / 1e6:.1f} M parameters, {work / 1e9:.1f} GFLOP a forward pass"
    return take_turns(contestants, runs, synchronise=synchronise), notes


def _ratios(stages: dict[str, Times], same: dict[str, Times], networks: dict[str, Times]) -> dict[str, float]:
    """How much faster ours is; each ratio within one run."""
    ratios = _over_ours(same)
    for name, times in networks.items():
        ratios[f"{name} over our end to end"] = round(times.median / stages["end to end"].median, 2)
    return ratios


def _over_ours(same: dict[str, Times]) -> dict[str, float]:
    """By part, how much longer the other ways take; ours comes first."""
    ratios: dict[str, float] = {}
    for part in PARTS:
        ours, *others = [name for name in same if name.startswith(part)] or [""]
        ratios |= {f"{name}, over ours": round(same[name].median / same[ours].median, 2) for name in others}
    return ratios
