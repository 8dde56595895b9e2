"""The command `floorgent`: arguments in, one call, a line or a picture out.

Sub-commands import what they need when they run, so that ``--help`` is quick and works without torch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from floorgent_ros.cli_drawing import add_drawing
from floorgent_ros.cli_evaluate import add_paper_protocols
from floorgent_ros.config import NodeSettings
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
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        reason = error.strerror or " ".join(str(error).split())
        print(f"floorgent: {where}{reason}: give a place that can be read and written", file=sys.stderr)
        return EXIT_BAD_INPUT
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _parser() -> Parser:
    parser = Parser("floorgent", description="Predict the unseen walls around a robot and the ways there.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    _add_predict(commands)
    _add_warm_up(commands)
    _add_replay(commands)
    _add_view(commands)
    _add_demo(commands)
    _add_train(commands)
    _add_evaluate(commands)
    _add_benchmark(commands)
    return parser


def _add_predict(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "predict",
        help="complete a map around a viewpoint and measure the distances",
        description="Read a map_server map, complete it around a viewpoint and compute the median distances.",
    )
    parser.add_argument("map", type=Path, metavar="MAP.yaml", help="a map_server map")
    parser.add_argument(
        "--viewpoint", type=float, nargs=2, required=True, metavar=("X", "Y"), help="m, in the map's frame"
    )
    add_drawing(parser, "seed", "completions", "candidates", "wall_log_odds")
    _add_network(parser)
    parser.add_argument("--out", type=Path, metavar="F.npz", help="write the arrays there")
    parser.add_argument("--png", type=Path, metavar="F.png", help="draw map, completions and distance there")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(command=_predict)


def _add_warm_up(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "warm-up",
        help="compile now what the first start of an installation would compile",
        description="Predict once, so that the node's first start is as quick as the next: in a container's "
        "build, or after an update. The machine code is kept beside the sources or in the user's cache.",
    )
    _add_network(parser)
    parser.set_defaults(command=_warm_up)


def _add_replay(commands: argparse._SubParsersAction[Parser]) -> None:
    rules = NodeSettings()
    parser = commands.add_parser(
        "replay",
        help="what the node would have predicted while a bag was recorded",
        description="Run the pipeline over a recorded map and pose, with the node's rules, without ROS.",
    )
    parser.add_argument("bag", type=Path, metavar="BAG", help="a ROS 2 bag, sqlite3 or MCAP")
    parser.add_argument("--map-topic", default="/map", metavar="T", help="default: %(default)s")
    parser.add_argument(
        "--pose-topic",
        metavar="T",
        help="of PoseStamped, Odometry or PoseWithCovarianceStamped messages, or /tf "
        "(default: /tf where the bag has it, else the only topic of poses)",
    )
    parser.add_argument(
        "--base-frame",
        default=rules.robot_base_frame,
        metavar="F",
        help="the robot's frame in /tf (default %(default)s)",
    )
    parser.add_argument(
        "--min-travel",
        type=float,
        default=rules.min_travel,
        metavar="M",
        help="travel in m that calls for a new prediction on the same map (default %(default)s)",
    )
    parser.add_argument(
        "--max-rate",
        type=float,
        default=rules.max_rate,
        metavar="HZ",
        help="at most this many predictions a second of the bag (default %(default)s)",
    )
    add_drawing(parser, "seed", "completions", "candidates", "wall_log_odds")
    _add_network(parser)
    parser.add_argument("--out", type=Path, metavar="BAG2", help="write the predictions there, as a new bag")
    parser.add_argument("--gif", type=Path, metavar="F.gif", help="draw the replay there")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    parser.set_defaults(command=_replay)


def _add_view(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "view",
        help="a live page in the browser of what the node publishes",
        description="Serve a live page of the map, the predicted walls and the distances; needs ROS 2.",
    )
    parser.add_argument("--namespace", default="", metavar="NS", help="the robot's, such as robot1")
    parser.add_argument(
        "--map-topic", default="map", metavar="T", help="in the namespace (default %(default)s)"
    )
    parser.add_argument(
        "--pose-topic",
        default="pose",
        metavar="T",
        help="of PoseStamped messages; without them the robot is shown where the last prediction began "
        "(default %(default)s)",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", metavar="H", help="address to listen on (default %(default)s)"
    )
    parser.add_argument(
        "--port", type=int, default=8765, metavar="P", help="0: any free one (default %(default)s)"
    )
    parser.set_defaults(command=_view)


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
    begin = parser.add_mutually_exclusive_group()
    begin.add_argument("--resume", action="store_true", help="go on where the run in --out stopped")
    begin.add_argument(
        "--from", type=Path, dest="start", metavar="F", help="begin with the weights of this checkpoint"
    )
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
    add_drawing(lidar, "top_p", "temperature", "wall_log_odds", "detour_m", "completions", "candidates")
    lidar.add_argument("--critic", type=Path, metavar="F", help="that chooses (default: the shipped one)")
    lidar.add_argument("--seed", type=int, default=0, metavar="N", help="of viewpoints and completions")
    lidar.add_argument(
        "--turn",
        type=float,
        nargs="+",
        default=[0.0],
        metavar="DEG",
        help="turn the buildings in the map frame; several angles give a table of the ratios at each",
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
    lidar.add_argument(
        "--jitter",
        type=float,
        default=0.0,
        metavar="CELLS",
        help="shift each of the oracle's walls by so much (σ), anew in each completion",
    )
    lidar.add_argument(
        "--peers",
        type=Path,
        nargs="*",
        metavar="F",
        help="judge inpainting networks beside the model (default of the checkpoints: the shipped ones)",
    )
    lidar.add_argument(
        "--peer-threshold", type=float, metavar="P", help="wall probability of a wall, instead of the default"
    )
    _add_network(lidar)
    lidar.set_defaults(command=_evaluate_lidar)
    add_paper_protocols(protocols)


def _add_benchmark(commands: argparse._SubParsersAction[Parser]) -> None:
    parser = commands.add_parser(
        "benchmark",
        help="milliseconds of every stage, beside other ways and other networks",
        description="Time every stage from map message to distances, beside other ways and other networks.",
    )
    _add_network(parser)
    parser.add_argument("--precision", default="auto", metavar="P", help="auto, float32, bfloat16 or float16")
    add_drawing(parser, "completions", "candidates", "wall_log_odds")
    parser.add_argument(
        "--runs", type=int, default=20, metavar="N", help="measured predictions (default %(default)s)"
    )
    parser.add_argument("--no-peers", action="store_true", help="leave the other networks out")
    parser.add_argument(
        "--full-size",
        type=int,
        default=60,
        metavar="N",
        help="segments a completion of the paper's full-size token model, 0: none (default %(default)s)",
    )
    parser.add_argument(
        "--png", type=Path, metavar="F.png", help="measure the cost curves, too, and draw them there"
    )
    parser.add_argument("--json", action="store_true", help="print the numbers as JSON")
    parser.set_defaults(command=_benchmark)


def _add_network(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--checkpoint", type=Path, metavar="F", help="default: the shipped weights")
    parser.add_argument("--device", default="auto", metavar="D", help="auto, cpu, cuda or cuda:N")


def _predict(options: argparse.Namespace) -> int:
    from floorgent_ros.cli_predict import run

    return run(options)


def _warm_up(options: argparse.Namespace) -> int:
    from floorgent_ros.cli_warm_up import run

    return run(options)


def _replay(options: argparse.Namespace) -> int:
    from floorgent_ros.cli_replay import run

    return run(options)


def _view(options: argparse.Namespace) -> int:
    from floorgent_ros.cli_view import run

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


def _benchmark(options: argparse.Namespace) -> int:
    from floorgent_ros.benchmark.run import main_from_cli

    return main_from_cli(options)


if __name__ == "__main__":
    sys.exit(main())
