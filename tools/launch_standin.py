"""Starts a ROS 2 launch file where ROS's own ``launch`` is missing, as with the wheels of ROS packages.

    python tools/launch_standin.py launch/predict.launch.py seed:=1 rviz:=false      (Ctrl-C stops it)

It runs the launch file itself, with the stand-ins of `launch_entities` in the place of the classes of
``launch`` and ``launch_ros``, and starts each Node with the command line and environment that launch_ros
would build. From Python: `describe` gives these, `start` runs them. Where launch_ros is installed, `start`
runs ``ros2 launch``.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from launch_entities import DeclareLaunchArgument, LaunchContext, LaunchDescription, NodeProcess, standins


class LaunchError(Exception):
    """A launch file or its arguments cannot be used; one line."""


def describe(
    launch_file: str | Path,
    arguments: Mapping[str, str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
) -> list[NodeProcess]:
    """Return the processes that the launch file starts with these arguments, in its order.

    Parameters given as dictionaries become files of a temporary folder, which goes when this process ends.
    env: the environment to extend, `os.environ` by default. Raises `LaunchError`.
    """
    context = LaunchContext(arguments or {}, os.environ if env is None else env)
    try:
        context.visit(_description(Path(launch_file)).entities)
    except RuntimeError as error:
        raise LaunchError(f"{launch_file}: {error}") from error
    unknown = set(arguments or {}) - context.declared
    if unknown:
        raise LaunchError(f"{launch_file} has no argument {', '.join(sorted(unknown))}: try --show-args")
    return context.processes


class Running:
    """Started processes; stops them at the end of a ``with`` block."""

    def __init__(self, processes: Mapping[str, subprocess.Popen[Any]]) -> None:
        self.processes = dict(processes)

    def poll(self) -> dict[str, int | None]:
        """Return each process's exit code, None while it runs."""
        return {name: process.poll() for name, process in self.processes.items()}

    def stop(self, patience_s: float = 10.0) -> dict[str, int]:
        """Interrupt what still runs, terminate, then kill what does not obey; return the exit codes."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for process in self.processes.values():
                if process.poll() is None:
                    process.send_signal(number)
            deadline = time.monotonic() + patience_s
            while None in self.poll().values() and time.monotonic() < deadline:
                time.sleep(0.02)
        return {name: process.wait() for name, process in self.processes.items()}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    launch_file: str | Path,
    arguments: Mapping[str, str] | None = None,
    *,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> Running:
    """Start what the launch file describes; ``options`` (stdout, cwd, …) go to `subprocess.Popen`.

    The processes get sessions of their own, so that Ctrl-C in a terminal reaches them only through `stop`.
    """
    options = {"stdin": subprocess.DEVNULL, "start_new_session": True, **options}
    if importlib.util.find_spec("launch_ros"):
        argv = ["ros2", "launch", str(launch_file), *(f"{k}:={v}" for k, v in (arguments or {}).items())]
        return Running({"launch": subprocess.Popen(argv, env=env, **options)})
    processes: dict[str, subprocess.Popen[Any]] = {}
    try:
        for node in describe(launch_file, arguments, env=env):
            processes[node.name] = subprocess.Popen(node.argv, env=node.env, **options)
    except BaseException:
        Running(processes).stop()
        raise
    return Running(processes)


def _description(launch_file: Path) -> LaunchDescription:
    """Run the launch file and return its description."""
    if not launch_file.is_file():
        raise LaunchError(f"there is no launch file {launch_file}")
    with standins():
        try:
            description = runpy.run_path(str(launch_file))["generate_launch_description"]()
        except ImportError as error:
            raise LaunchError(f"{launch_file}: {error}; the stand-in may lack it") from error
    if not isinstance(description, LaunchDescription):
        raise LaunchError(f"{launch_file}: generate_launch_description must return a LaunchDescription")
    return description


# --- the command line --------------------------------------------------------------------------------------


def main() -> int:
    """Run a launch file until its processes end or Ctrl-C; return 0 or the first failure's exit code."""
    parser = argparse.ArgumentParser(description="Start a launch file where ROS's own launch is missing.")
    parser.add_argument("launch_file", type=Path)
    parser.add_argument("arguments", nargs="*", type=_pair, metavar="name:=value")
    parser.add_argument("-s", "--show-args", action="store_true", help="list the launch file's arguments")
    options = parser.parse_args()
    try:
        if options.show_args:
            return show_arguments(options.launch_file)
        return run(options.launch_file, dict(options.arguments))
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 2


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition(":=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r}: write name:=value")
    return name, value


def run(launch_file: Path, arguments: Mapping[str, str]) -> int:
    """Start the launch file and wait for its processes, Ctrl-C or SIGTERM."""
    # No exception: a second signal would cut off the stopping, one during the start leave a process behind.
    asked: list[int] = []
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda got, _: asked.append(got))
    # Whoever gave this process a session of its own can end all in it: then the nodes must be in there, too.
    leads = os.getsid(0) == os.getpid()
    with start(launch_file, arguments, start_new_session=not leads) as running:
        while not asked and None in running.poll().values():
            time.sleep(0.1)
    codes = running.poll().values()
    return next((code for code in codes if code), 0)


def show_arguments(launch_file: Path) -> int:
    """Print the launch file's arguments."""
    for entity in _description(launch_file).entities:
        if isinstance(entity, DeclareLaunchArgument):
            print(f"{entity.name}:={entity.default_value or ''}\n    {entity.description}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
