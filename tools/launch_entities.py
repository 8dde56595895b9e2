"""Stand-ins for the classes of ROS's ``launch`` and ``launch_ros``, for `launch_standin`.

They record their arguments, and a Node becomes the command line and environment that launch_ros would build.
Only what this package's launch files use is here.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml


@dataclass(frozen=True)
class NodeProcess:
    """One process to start: its node's full name, command line and whole environment.

    respawn: whether launch would start it again when it ends; the stand-in does not.
    """

    name: str
    argv: list[str]
    env: dict[str, str]
    respawn: bool = False


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
