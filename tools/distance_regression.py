"""What can be known of the distances: a U-Net that regresses them, trained on protocol E4's own error.

    python tools/distance_regression.py --data DIR --minutes 25

It sees what the null and the rule "an unknown cell costs 1.13" say, beside the observation, and begins as the
rule. It draws no walls and is no model of this package: its ratio on val and test is what a network of this
size learns of the distances alone, from as many floors. Cases are the protocol's, on train floors with
another seed. Prints the ratios on val while it trains, and those of the best step on val and test.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from tqdm import tqdm

from floorgent_ros.errors import FloorgentError
from floorgent_ros.evaluation.cases import KINDS, cases
from floorgent_ros.evaluation.interval import ratio_interval
from floorgent_ros.geometry.assumptions import SATURATION_M, saturated, unknown_costs, unknown_is_free
from floorgent_ros.geometry.grid import UNKNOWN, Window, crop
from floorgent_ros.model.encoder import STATES, UNSHUFFLE, states_of
from floorgent_ros.model.inpainting import Inpainter, InpaintingConfig
from floorgent_ros.plans.split import FloorFile, floors

BATCH, RATE, WARM_UP, EVERY = 8, 1.5e-3, 100, 200
CHANNELS = STATES + 3  # the null, what the rule adds, whether the null reaches
TRAIN_VIEWPOINTS, TRAIN_SEED = 24, 1
WIDTHS = (24, 48, 96, 128, 128)
Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Task:
    """A floor's cases with this seed."""

    floor: FloorFile
    seed: int
    viewpoints: int


def draw(task: Task) -> list[Arrays]:
    """The floor's cases as arrays; none where the floor gives none."""
    found: list[Arrays] = []
    try:
        for case in cases(task.floor, task.seed, viewpoints=task.viewpoints):
            states = crop(case.grid, Window(case.viewpoint))
            found.append(
                {
                    "states": states,
                    "null": saturated(unknown_is_free(states)).astype(np.float16),
                    "rule": saturated(unknown_costs(states)).astype(np.float16),
                    "truth": saturated(case.truth).astype(np.float16),
                    "counted": case.counted,
                    "kind": np.array(case.kind),
                    "building": np.array(case.building),
                }
            )
    except FloorgentError as error:
        tqdm.write(f"left out: {error}")
    return found


def drawn(data: Path, split: str, seed: int, viewpoints: int) -> Arrays:
    """All cases of a split, stacked."""
    tasks = [Task(floor, seed, viewpoints) for floor in floors(data, split)]
    with get_context("spawn").Pool() as pool:
        parts = list(tqdm(pool.imap(draw, tasks), total=len(tasks), desc=f"cases of {split}"))
    every = [case for part in parts for case in part]
    return {name: np.stack([case[name] for case in every]) for name in every[0]}


class Regression(Inpainter):
    """The peer's U-Net with distances as further channels, and distances as what comes out."""

    def __init__(self, config: InpaintingConfig) -> None:
        super().__init__(config)
        width = config.widths[0]
        self.stem = nn.Conv2d(CHANNELS * UNSHUFFLE**2, width, 3, padding=1)
        self.head = nn.Conv2d(width, 2 * UNSHUFFLE**2, 3, padding=1)
        self.drop = nn.Dropout2d(0.2)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)  # type: ignore[arg-type]

    def distances(self, states: Tensor, null: Tensor, rule: Tensor) -> Tensor:
        """(B, L, L) states and distances, m → (B, L, L) m: the null, more or less of the rule's surcharge."""
        facts = torch.stack([null / 20, (rule - null) / 3, (null >= SATURATION_M - 0.1).float()], 1)
        x = functional.pixel_unshuffle(torch.cat([states_of(states).float(), facts], 1), UNSHUFFLE)
        x = self.stem(x) + self.place
        skips = []
        for level, down in enumerate(self.downs):
            x = down(self.shrink[level - 1](x) if level else x)
            skips.append(x)
        x = self.drop(self.ups[-1](skips.pop()))
        for up, grow in zip(reversed(self.ups[:-1]), reversed(self.grow), strict=True):
            x = up(skips.pop() + functional.pixel_shuffle(grow(x), 2))
        share, more = functional.pixel_shuffle(self.head(functional.relu(self.norm(x))), UNSHUFFLE).unbind(1)
        return (null + (rule - null) * share.clamp(-3, 3).exp() + 2 * more).clamp(max=SATURATION_M)


def batch(found: Arrays, chosen: NDArray[np.int64], turns: NDArray[np.int64]) -> dict[str, Tensor]:
    """Cases turned by quarter turns, and mirrored from the fourth turn on."""
    out = {}
    for name in ("states", "null", "rule", "truth", "counted"):
        turned = [np.rot90(found[name][i], turn % 4) for i, turn in zip(chosen, turns, strict=True)]
        flipped = [array[:, ::-1] if turn >= 4 else array for array, turn in zip(turned, turns, strict=True)]
        tensor = torch.from_numpy(np.stack(flipped))
        out[name] = tensor.float() if tensor.dtype == torch.float16 else tensor
    return out


@torch.inference_mode()
def ratios(network: Regression, found: Arrays) -> dict[str, tuple[float, float, float]]:
    """By kind the ratio and its interval over buildings."""
    network.eval()
    sums: dict[str, list[tuple[float, float, str]]] = {kind: [] for kind in KINDS}
    for index in range(len(found["states"])):
        one = batch(found, np.array([index]), np.array([0]))
        predicted = network.distances(one["states"], one["null"], one["rule"])
        ours, null = (
            float(((d - one["truth"]).abs() * one["counted"]).sum()) for d in (predicted, one["null"])
        )
        sums[str(found["kind"][index])].append((ours, null, str(found["building"][index])))
    network.train()
    out = {}
    for kind, rows in sums.items():
        errors, nulls, groups = zip(*rows, strict=True)
        out[kind] = (sum(errors) / sum(nulls), *ratio_interval(errors, nulls, groups))
    return out


def train(network: Regression, known: Arrays, val: Arrays, minutes: float, seed: int) -> None:
    """Minimise the protocol's error; the network ends as it was at the best validation."""
    rng = np.random.default_rng(seed)
    optimiser = torch.optim.AdamW(network.parameters(), RATE, weight_decay=0.05)
    best, kept = float("inf"), network.state_dict()
    begun, step, share = time.monotonic(), 0, 0.0
    while share < 1:
        if step % EVERY == 0:
            found = ratios(network, val)
            print(f"{share * minutes:5.1f} min, {step} steps: {said(found)}", flush=True)
            if (score := sum(ratio for ratio, *_ in found.values())) < best:
                best, kept = score, {name: value.clone() for name, value in network.state_dict().items()}
        share = (time.monotonic() - begun) / 60 / minutes
        for group in optimiser.param_groups:
            group["lr"] = (
                RATE * min(1.0, (step + 1) / WARM_UP) * (0.5 + 0.5 * np.cos(np.pi * min(share, 1.0)))
            )
        chosen, turns = rng.integers(len(known["states"]), size=BATCH), rng.integers(8, size=BATCH)
        one = batch(known, chosen, turns)
        error = (network.distances(one["states"], one["null"], one["rule"]) - one["truth"]).abs()
        loss = (error * one["counted"]).mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        step += 1
    network.load_state_dict(kept)


def said(found: dict[str, tuple[float, float, float]]) -> str:
    """Ratios with their intervals."""
    return ", ".join(f"{kind} {r:.3f} [{low:.3f}, {high:.3f}]" for kind, (r, low, high) in found.items())


def main() -> int:
    """Draw, train, judge."""
    parser = argparse.ArgumentParser(description="What a network can know of protocol E4's distances.")
    parser.add_argument("--data", type=Path, required=True, help="floor plans with an index.json")
    parser.add_argument("--minutes", type=float, default=25.0, help="of training (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default %(default)s)")
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    known = drawn(options.data, "train", TRAIN_SEED, TRAIN_VIEWPOINTS)
    unknown = float((known["states"] == UNKNOWN).mean())
    print(f"{len(known['states'])} cases of train, {unknown:.0%} of their cells unknown")
    held = {split: drawn(options.data, split, 0, 4) for split in ("val", "test")}
    network = Regression(InpaintingConfig(widths=WIDTHS))
    train(network, known, held["val"], options.minutes, options.seed)
    for split, found in held.items():
        print(f"{split}: {said(ratios(network, found))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
