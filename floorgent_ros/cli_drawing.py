"""Arguments on how completions are drawn, made from `PredictorSettings`."""

from __future__ import annotations

import argparse
from dataclasses import fields

from floorgent_ros.config import PredictorSettings


def add_drawing(parser: argparse.ArgumentParser, *names: str) -> None:
    """Add an argument for each of these numbers, ``--wall-log-odds`` for wall_log_odds, with its default."""
    for item in fields(PredictorSettings):
        if item.name in names:
            parser.add_argument(
                f"--{item.name.replace('_', '-')}",
                type={"int": int, "float": float}[str(item.type)],
                default=item.default,
                metavar=item.metadata["unit"].upper() or "N",
                help=f"{item.metadata['text'].replace('%', '%%')} (default %(default)s)",
            )
