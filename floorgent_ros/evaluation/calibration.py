"""Protocol E2: predicted probability against accuracy by segment index (figure 4)."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from floorgent_ros.errors import CheckpointError
from floorgent_ros.evaluation.scoring import Chosen, checkpoint, choose, load, scored
from floorgent_ros.model.paper.network import SequenceNet
from floorgent_ros.model.paper.vocabulary import LENGTH

PLACES = ("c_mu", "x_mu", "y_mu", "c_lambda", "x_lambda", "y_lambda")


@dataclass(frozen=True)
class Calibration:
    """By place of a triplet pair and segment index, (6, n + 1): sums over tokens, and how many there were.

    confidence: probability of the likeliest token. accuracy: it was the true one. Column n holds the stops of
    the longest sequences.
    """

    confidence: NDArray[np.float64]
    accuracy: NDArray[np.float64]
    count: NDArray[np.int64]

    def means(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean confidence and accuracy, (6, n + 1); NaN where there is no token."""
        count = np.where(self.count > 0, self.count, np.nan)
        return self.confidence / count, self.accuracy / count

    @property
    def error(self) -> float:
        """|confidence − accuracy| of the means, weighted by tokens."""
        confidence, accuracy = self.means()
        gaps = np.where(self.count > 0, np.abs(confidence - accuracy), 0.0)
        return float((gaps * self.count).sum() / self.count.sum())


def calibrate(network: SequenceNet, samples: Chosen) -> Calibration:
    """Score the samples and group their tokens."""
    segments = network.config.max_segments
    sums = np.zeros((3, len(PLACES), segments + 1))
    for scores in scored(network, samples, "calibrating"):
        rows, tokens = np.nonzero(scores.counted.numpy())
        at = (tokens % LENGTH, tokens // LENGTH)
        values = (scores.confidence.numpy(), scores.rank.numpy() == 0, np.ones(scores.rank.shape))
        for total, value in zip(sums, values, strict=True):
            np.add.at(total, at, value[rows, tokens])
    return Calibration(sums[0], sums[1], sums[2].astype(np.int64))


def main_from_cli(args: argparse.Namespace) -> int:
    """`floorgent evaluate calibration`."""
    path = args.checkpoint or checkpoint("images")
    if path is None:
        raise CheckpointError("no checkpoint of an image model is shipped; give one with --checkpoint")
    network = load(path, args.device)
    found = calibrate(network, choose(args.data, args.split, args.samples, network.config.frame))
    observed = network.config.seen
    print(json.dumps(_report(found, observed), indent=2) if args.json else _table(found, observed))
    if args.pictures:
        from floorgent_ros.evaluation import figures  # noqa: PLC0415 (matplotlib is slow to load)

        figures.calibration(found, observed, args.pictures)
    return 0


def _report(found: Calibration, observed: int) -> dict[str, Any]:
    confidence, accuracy = found.means()
    places = {
        name: {
            "confidence": [None if np.isnan(x) else round(float(x), 4) for x in confidence[index]],
            "accuracy": [None if np.isnan(x) else round(float(x), 4) for x in accuracy[index]],
            "tokens": found.count[index].tolist(),
        }
        for index, name in enumerate(PLACES)
    }
    return {"calibration_error": found.error, "observed_segments": observed, "places": places}


def _table(found: Calibration, observed: int) -> str:
    """Means over the segments that the image shows and over the rest."""
    lines = [
        f"{'':10s}{'seen: confidence':>18s}{'accuracy':>10s}{'unseen: confidence':>20s}{'accuracy':>10s}"
    ]
    for index, name in enumerate(PLACES):
        line = f"{name:10s}"
        for part, width in ((slice(0, observed), 18), (slice(observed, None), 20)):
            count = found.count[index, part].sum()
            shares = (
                float(x[index, part].sum() / count) if count else np.nan
                for x in (found.confidence, found.accuracy)
            )
            confidence, accuracy = shares
            line += f"{confidence:{width}.3f}{accuracy:10.3f}"
        lines.append(line)
    lines.append(f"calibration error {found.error:.3f}")
    return "\n".join(lines)
