"""The command `floorgent`: arguments in, one call, a line or a picture out.

Sub-commands import what they need when they run, so that ``--help`` is quick and works without torch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from floorgent_ros.cli_evaluate import add_paper_protocols
from floorgent_ros.config import PredictorSettings
from floorgent_ros.errors import FloorgentError

EXIT_OK, EXIT_BAD_INPUT, EXIT_INTERRUPTED = 0, 2, 130

Command = Callable[[argparse.Namespace], int | None]


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Exit with code 2."""
        self.exit(EXIT_BAD_INPUT, f"floorgent: {message} ({self.prog} --help)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code: 0, 2 with one line for bad input, 130 after Ctrl-C."""
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        return command(options) or EXIT_OK
    except FloorgentError as error:
        print(f"floorgent: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser() -> Parser:
    parser = Parser("floorgent", description="Predict the unseen walls around a robot and the ways there.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_predict(commands)
    _add_demo(commands)
    _add_train(commands)
    _add_evaluate(commands)
    return parser


def _add_predict(commands: argparse._SubParsersAction[Parser]) -> None:
    defaults = PredictorSettings()
    parser = commands.add_parser(
        "predict",
        help="complete a map around a viewpoint and measure the distances",
        description="Read a map_server map, complete it around a viewpoint and compute the median distances.",
    )
    parser.add_argument("map", type=Path, metavar="MAP.yaml", help="a map_server map")
    parser.add_argument(
        "--viewpoint", type=float, nargs=2, required=True, metavar=("X", "Y"), help="m, in the map's frame"
    )
    parser.add_argument("--seed", type=int, default=defaults.seed, help="random seed (default %(default)s)")
    parser.add_argument(
        "--completions", type=int, default=defaults.completions, help="how many (default %(default)s)"
    )
    _add_network(parser)
    parser.add_argument("--out", type=Path, metavar="F.npz", help="write the arrays there")
    parser.add_argument("--png", type=Path, metavar="F.png", help="draw map, completions and distance there")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(command=_predict)


def _add_demo(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "demo",
        help="node, mapping robot and planner as three processes, with pictures of the walk",
        description="Run node, simulated mapping robot and planner as three processes; draw the walk.",
    )
    parser.add_argument("--map", type=Path, metavar="MAP.yaml", help="walk in this map_server map")
    parser.add_argument(
        "--start",
        type=float,
        nargs=2,
        metavar=("X", "Y"),
        help="where the robot begins, m (default: a place it finds)",
    )
    parser.add_argument(
        "--seconds", type=float, default=55.0, help="how long the robot walks (default %(default)g)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the invented building (default %(default)s)")
    parser.add_argument(
        "--out", type=Path, default=Path("demo_output"), help="folder of the pictures (default %(default)s)"
    )
    _add_network(parser)
    parser.set_defaults(command=_demo)


def _add_train(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "train", help="train a model on floor plans", description="Train a model on floor plans."
    )
    parser.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of floor plans")
    parser.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder of the run")
    parser.add_argument("--config", type=Path, metavar="YAML", help="settings that differ from the defaults")
    parser.add_argument("--resume", action="store_true", help="go on where the run in --out stopped")
    parser.add_argument("--minutes", type=float, help="stop after this time, with a checkpoint")
    parser.set_defaults(command=_train)


def _add_evaluate(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser("evaluate", help="measure a model", description="Measure a model.")
    protocols = parser.add_subparsers(title="protocols", required=True, metavar="PROTOCOL")
    lidar = protocols.add_parser(
        "lidar",
        help="error of the distances after simulated scans",
        description="Error of the distances after simulated scans (kinds scan and walk), beside baselines.",
    )
    lidar.add_argument("--data", type=Path, required=True, metavar="DIR", help="folder of floor plans")
    lidar.add_argument(
        "--split", choices=("train", "val", "test", "all"), help="default: val; without an index: all"
    )
    lidar.add_argument("--floors", type=int, metavar="N", help="only the first N floors")
    lidar.add_argument("--json", action="store_true", help="print the numbers as JSON")
    lidar.add_argument(
        "--top-p", type=float, metavar="P", help="nucleus of the sampling, instead of the default"
    )
    lidar.add_argument(
        "--temperature", type=float, metavar="T", help="of the sampling, instead of the default"
    )
    lidar.add_argument(
        "--wall-log-odds", type=float, metavar="O", help="of the sampling, instead of the default"
    )
    lidar.add_argument(
        "--detour-m", type=float, metavar="M", help="of the doors in completions, instead of the default"
    )
    lidar.add_argument("--seed", type=int, default=0, metavar="N", help="of viewpoints and completions")
    lidar.add_argument(
        "--turn", type=float, default=0.0, metavar="DEG", help="turn the buildings in the map frame"
    )
    lidar.add_argument(
        "--reliability", type=Path, metavar="PNG", help="draw what reach probability and spread are worth"
    )
    lidar.add_argument(
        "--oracle",
        type=float,
        metavar="M",
        help="judge the true unseen walls within M metres instead of a model",
    )
    _add_network(lidar)
    lidar.set_defaults(command=_evaluate_lidar)
    add_paper_protocols(protocols)


def _add_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, metavar="F", help="default: the shipped weights")
    parser.add_argument("--device", default="auto", metavar="D", help="auto, cpu, cuda or cuda:N")


def _predict(options: argparse.Namespace) -> int:
    from floorgent_ros.cli_predict import run

    return run(options)


def _demo(options: argparse.Namespace) -> int:
    from floorgent_ros.demo.run import run

    return run(options)


def _train(options: argparse.Namespace) -> int | None:
    from floorgent_ros.training.trainer import main_from_cli

    result: int | None = main_from_cli(options)
    return result


def _evaluate_lidar(options: argparse.Namespace) -> int | None:
    from floorgent_ros.evaluation.lidar import main_from_cli

    if options.split is None:
        options.split = "val" if (options.data / "index.json").is_file() else "all"
    result: int | None = main_from_cli(options)
    return result


if __name__ == "__main__":
    sys.exit(main())
