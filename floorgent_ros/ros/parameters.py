"""Node parameters made from the dataclasses of `floorgent_ros.config`: no default is written twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass, field, fields, replace
from typing import Any

from rcl_interfaces.msg import (
    FloatingPointRange,
    IntegerRange,
    ParameterDescriptor,
    SetParametersResult,
)
from rclpy.exceptions import InvalidParameterValueException
from rclpy.node import Node
from rclpy.parameter import Parameter

from floorgent_ros.config import NodeSettings, ObservationSettings, PredictorSettings
from floorgent_ros.errors import ConfigError


@dataclass(frozen=True)
class Settings:
    """All parameters of the node, in their groups."""

    node: NodeSettings = field(default_factory=NodeSettings)
    predictor: PredictorSettings = field(default_factory=PredictorSettings)
    observation: ObservationSettings = field(default_factory=ObservationSettings)

    def items(self) -> Iterator[tuple[Field[Any], Any]]:
        """Every setting's field and value."""
        for group in (self.node, self.predictor, self.observation):
            for item in fields(group):
                yield item, getattr(group, item.name)

    def changed(self, values: Mapping[str, Any]) -> Settings:
        """Return a copy with some values changed; `ConfigError` says which one cannot be and why."""
        groups = {}
        for group in fields(self):
            old = getattr(self, group.name)
            new = {
                item.name: _coerced(item, values[item.name]) for item in fields(old) if item.name in values
            }
            groups[group.name] = replace(old, **new)
        return Settings(**groups)


class Parameters:
    """Declares the parameters on a node and keeps `settings` equal to them.

    Raises `ConfigError` when a value given at start-up cannot be used. `on_change` is called after each
    accepted change with the new settings.
    """

    def __init__(self, node: Node, on_change: Callable[[Settings], None]) -> None:
        defaults = Settings()
        self.settings = defaults.changed({item.name: _declared(node, item) for item, _ in defaults.items()})
        self._on_change = on_change
        node.add_on_set_parameters_callback(self._check)
        node.add_post_set_parameters_callback(self._apply)

    def _check(self, parameters: list[Parameter[Any]]) -> SetParametersResult:
        try:
            self.settings.changed(_values(parameters))
        except ConfigError as error:
            return SetParametersResult(successful=False, reason=str(error))
        return SetParametersResult(successful=True)

    def _apply(self, parameters: list[Parameter[Any]]) -> None:
        self.settings = self.settings.changed(_values(parameters))
        self._on_change(self.settings)


def descriptor(item: Field[Any]) -> ParameterDescriptor:
    """What `ros2 param describe` shows of a setting."""
    meta = item.metadata
    unit = f" [{meta['unit']}]" if meta["unit"] else ""
    description = ParameterDescriptor(
        name=item.name,
        description=meta["text"] + unit,
        additional_constraints=f"one of {', '.join(meta['choices'])}" if meta["choices"] else "",
        read_only=meta["read_only"],
        dynamic_typing=True,  # so that 50 is as good as 50.0; `_coerced` checks the type
    )
    if meta["low"] is not None and meta["high"] is not None:
        if isinstance(item.default, int):
            description.integer_range = [
                IntegerRange(from_value=int(meta["low"]), to_value=int(meta["high"]))
            ]
        else:
            span = FloatingPointRange(from_value=float(meta["low"]), to_value=float(meta["high"]))
            description.floating_point_range = [span]
    return description


def _declared(node: Node, item: Field[Any]) -> Any:
    """Declare one parameter and return its value, the given one or the default."""
    try:
        return node.declare_parameter(item.name, item.default, descriptor(item)).value
    except InvalidParameterValueException as error:
        raise ConfigError(f"parameter {item.name}: {error}") from error


def _coerced(item: Field[Any], value: Any) -> Any:
    """The value in the type of the setting's default; a whole number serves as a float."""
    wanted = type(item.default)
    if wanted is float and type(value) is int:
        return float(value)
    if type(value) is not wanted:
        names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
        raise ConfigError(f"{item.name} = {value!r}: use {names[wanted]}")
    return value


def _values(parameters: list[Parameter[Any]]) -> dict[str, Any]:
    return {parameter.name: parameter.value for parameter in parameters}
