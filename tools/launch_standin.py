"""Starts a ROS 2 launch file where ROS's own ``launch`` is missing, as with the wheels of ROS packages.

    python tools/launch_standin.py launch/predict.launch.py seed:=1 rviz:=false      (Ctrl-C stops it)

It runs the launch file itself, with small stand-ins for the classes of ``launch`` and ``launch_ros`` that
record their arguments, and starts each Node with the command line and environment that launch_ros would
build. From Python: `describe` gives these, `start` runs them. Where launch_ros is installed, `start` runs
``ros2 launch``. Only what this package's launch files use is here.
"""

from __future__ import annotations

import argparse
import atexit
import importlib.util
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import yaml


class LaunchError(Exception):
    """A launch file or its arguments cannot be used; one line."""


@dataclass(frozen=True)
class NodeProcess:
    """One process to start: its node's full name, command line and whole environment.

    respawn: whether launch would start it again when it ends; the stand-in does not.
    """

    name: str
    argv: list[str]
    env: dict[str, str]
    respawn: bool = False


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


# --- the stand-ins: what launch files import ---------------------------------------------------------------


class LaunchContext:
    """Carries arguments and environment through the description and collects the processes."""

    def __init__(self, arguments: Mapping[str, str], env: Mapping[str, str]) -> None:
        self.launch_configurations = dict(arguments)
        self.environment = {"AMENT_PREFIX_PATH": sys.prefix, **env}
        self.declared: set[str] = set()
        self.processes: list[NodeProcess] = []

    def visit(self, entities: Iterable[Any]) -> None:
        """Execute actions whose conditions hold, and what they return."""
        for entity in entities:
            if entity.condition is None or entity.condition.evaluate(self):
                self.visit(entity.execute(self) or [])


class LaunchDescription:
    """A list of actions."""

    def __init__(self, entities: Iterable[Any] = ()) -> None:
        self.entities = list(entities)


class LaunchConfiguration:
    """The value of a launch argument."""

    def __init__(self, name: str) -> None:
        self.name = name

    def perform(self, context: LaunchContext) -> str:
        """Return the value; RuntimeError when no such argument was declared or given."""
        if self.name not in context.launch_configurations:
            raise RuntimeError(f"there is no argument {self.name}: declare it first")
        return context.launch_configurations[self.name]


class IfCondition:
    """Holds when its text is true or 1."""

    def __init__(self, predicate: Any) -> None:
        self.predicate = predicate

    def evaluate(self, context: LaunchContext) -> bool:
        """Return whether the condition holds; RuntimeError for other words."""
        text = performed(self.predicate, context).strip().lower()
        if text not in ("true", "1", "false", "0"):
            raise RuntimeError(f"{text!r} is no condition: use true or false")
        return text in ("true", "1")


@dataclass
class DeclareLaunchArgument:
    """An argument of the launch file with its default."""

    name: str
    default_value: str | None = None
    description: str = ""
    choices: Sequence[str] | None = None
    condition: IfCondition | None = None

    def execute(self, context: LaunchContext) -> None:
        """Give the argument its default unless it is given, and check it."""
        context.declared.add(self.name)
        if self.default_value is None and self.name not in context.launch_configurations:
            raise RuntimeError(f"argument {self.name} is missing: give {self.name}:=VALUE")
        value = context.launch_configurations.setdefault(self.name, self.default_value or "")
        if self.choices is not None and value not in self.choices:
            allowed = ", ".join(choice or "(empty)" for choice in self.choices)
            raise RuntimeError(f"{self.name}:={value}: use one of {allowed}")


@dataclass
class OpaqueFunction:
    """A function of the context that returns further actions."""

    function: Callable[..., Sequence[Any] | None]
    condition: IfCondition | None = None

    def execute(self, context: LaunchContext) -> Sequence[Any] | None:
        """Call it."""
        return self.function(context)


@dataclass
class SetEnvironmentVariable:
    """A variable for all processes that start after it."""

    name: str
    value: Any
    condition: IfCondition | None = None

    def execute(self, context: LaunchContext) -> None:
        """Set it."""
        context.environment[self.name] = performed(self.value, context)


@dataclass
class ParameterValue:
    """A parameter with a type that YAML's guess must not change."""

    value: Any
    value_type: Callable[[str], Any] = yaml.safe_load


@dataclass
class Node:
    """A process that is a ROS node."""

    executable: str
    package: str
    name: str
    namespace: Any = ""
    parameters: Sequence[Any] = ()
    remappings: Sequence[tuple[Any, Any]] = ()
    arguments: Sequence[Any] = ()
    ros_arguments: Sequence[Any] = ()
    additional_env: Mapping[str, Any] = field(default_factory=dict)
    respawn: bool = False
    respawn_delay: float | None = None
    output: str = "log"
    emulate_tty: bool = False
    condition: IfCondition | None = None

    def execute(self, context: LaunchContext) -> None:
        """Build command line and environment in launch_ros's order."""
        namespace = "/" + performed(self.namespace, context).strip("/")
        full_name = f"{namespace.rstrip('/')}/{self.name}"
        argv = [executable(self.package, self.executable, context.environment["AMENT_PREFIX_PATH"])]
        argv += [performed(item, context) for item in self.arguments]
        argv += ["--ros-args", *(performed(item, context) for item in self.ros_arguments)]
        argv += ["-r", f"__node:={self.name}", "-r", f"__ns:={namespace}"]
        for source in self.parameters:
            argv += ["--params-file", parameter_file(source, full_name, context)]
        for old, new in self.remappings:
            argv += ["-r", f"{performed(old, context)}:={performed(new, context)}"]
        extra = {name: performed(value, context) for name, value in self.additional_env.items()}
        environment = {**context.environment, **extra}
        context.processes.append(NodeProcess(full_name, argv, environment, self.respawn))


def performed(value: Any, context: LaunchContext) -> str:
    """Return a text, a substitution or a list of them as text."""
    if isinstance(value, (list, tuple)):
        return "".join(performed(item, context) for item in value)
    return str(value.perform(context)) if hasattr(value, "perform") else str(value)


def parameter_file(source: Any, node: str, context: LaunchContext) -> str:
    """Return the path of a parameter file; a dictionary is written to one."""
    if not isinstance(source, Mapping):
        path = performed(source, context)
        if not Path(path).is_file():
            raise RuntimeError(f"there is no parameter file {path}")
        return path
    folder = tempfile.mkdtemp(prefix="launch_params_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = str(Path(folder) / "parameters.yaml")
    values = {name: parameter(value, context) for name, value in source.items()}
    Path(path).write_text(yaml.safe_dump({node: {"ros__parameters": values}}), encoding="utf-8")
    return path


def parameter(value: Any, context: LaunchContext) -> Any:
    """Return a parameter's value: texts and substitutions are read as YAML, unless a type is given."""
    if isinstance(value, ParameterValue):
        return value.value_type(performed(value.value, context))
    if isinstance(value, str) or hasattr(value, "perform"):
        return yaml.safe_load(performed(value, context))
    return value


def executable(package: str, name: str, prefixes: str) -> str:
    """Return the path of a package's executable in the first prefix that has the package."""
    for prefix in prefixes.split(os.pathsep):
        path = Path(prefix) / "lib" / package / name
        if os.access(path, os.X_OK):
            return str(path)
    raise RuntimeError(
        f"no executable {name!r} of package {package!r} in {prefixes}: install the package first"
    )


STANDINS: dict[str, tuple[Any, ...]] = {
    "launch": (LaunchDescription, LaunchContext),
    "launch.actions": (DeclareLaunchArgument, OpaqueFunction, SetEnvironmentVariable),
    "launch.conditions": (IfCondition,),
    "launch.substitutions": (LaunchConfiguration,),
    "launch_ros": (),
    "launch_ros.actions": (Node,),
    "launch_ros.parameter_descriptions": (ParameterValue,),
}


@contextmanager
def standins() -> Iterator[None]:
    """Put the stand-ins in the place of the real modules for a while."""
    before = {name: sys.modules[name] for name in STANDINS if name in sys.modules}
    for name, members in STANDINS.items():
        module = ModuleType(name)
        vars(module).update({member.__name__: member for member in members})
        sys.modules[name] = module
    try:
        yield
    finally:
        for name in STANDINS:
            del sys.modules[name]
        sys.modules.update(before)


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
