"""Arguments of the paper's evaluation protocols, E1 to E3."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_paper_protocols(protocols: Any) -> None:
    """Add ``likelihood``, ``calibration`` and ``distance`` to the sub-parsers of ``evaluate``."""
    likelihood = protocols.add_parser(
        "likelihood",
        help="bits a token beside the paper's Table I",
        description="Bits a token and accuracies of every model, beside the paper's Table I.",
    )
    _add_data(likelihood, samples=1000)
    likelihood.add_argument(
        "--checkpoints",
        type=Path,
        metavar="DIR",
        help="folder of runs by the table's names (default: the shipped weights)",
    )
    likelihood.set_defaults(command=_likelihood)
    calibration = protocols.add_parser(
        "calibration",
        help="predicted probability against accuracy",
        description="Predicted probability against accuracy by segment (figure 4).",
    )
    _add_data(calibration, samples=1000)
    _add_checkpoint(calibration, "images")
    calibration.set_defaults(command=_calibration)
    distance = protocols.add_parser(
        "distance",
        help="error of the distances in the paper's setting",
        description="Error of the distances after observing the 25 nearest segments (section IV-E).",
    )
    _add_data(distance, samples=64)
    _add_checkpoint(distance, "segments")
    distance.add_argument("--seed", type=int, default=0, help="of the completions (default %(default)s)")
    distance.set_defaults(command=_distance)


def _add_data(parser: argparse.ArgumentParser, samples: int) -> None:
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of floor plans")
    parser.add_argument(
        "--split", default="test", choices=("train", "val", "test", "all"), help="default: %(default)s"
    )
    parser.add_argument(
        "--samples", type=int, default=samples, metavar="N", help="viewpoints, 0: all (default %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="draw the paper's figures there")
    parser.add_argument("--device", default="cpu", metavar="D", help="cpu or cuda (default %(default)s)")


def _add_checkpoint(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="F",
        help=f"of the paper's family (default: the shipped model `{name}`)",
    )


def _likelihood(options: argparse.Namespace) -> int:
    from floorgent_ros.evaluation.likelihood import main_from_cli

    return main_from_cli(options)


def _calibration(options: argparse.Namespace) -> int:
    from floorgent_ros.evaluation.calibration import main_from_cli

    return main_from_cli(options)


def _distance(options: argparse.Namespace) -> int:
    from floorgent_ros.evaluation.distance_error import main_from_cli

    return main_from_cli(options)
