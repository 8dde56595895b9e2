"""Parameters come from the dataclasses, and wrong values never get in."""

from __future__ import annotations

from dataclasses import Field
from pathlib import Path
from typing import Any

import pytest
import rclpy
import yaml
from rcl_interfaces.srv import SetParameters
from ros_harness import Bench, FakePredictor

from floorgent_ros.errors import ConfigError
from floorgent_ros.ros.parameters import Settings, descriptor

PARAMETERS_FILE = Path(__file__).parents[2] / "config" / "predict.yaml"
ITEMS = [item for item, _ in Settings().items()]
DYNAMIC = [item for item in ITEMS if not item.metadata["read_only"]]


def named(item: Field[Any]) -> str:
    return item.name


def outcome(node: Any, name: str, value: Any) -> Any:
    return node.set_parameters([rclpy.Parameter(name, value=value)])[0]


def test_no_name_is_used_twice() -> None:
    assert len({item.name for item in ITEMS}) == len(ITEMS)


@pytest.mark.parametrize("item", ITEMS, ids=named)
def test_descriptor_tells_what_the_dataclass_says(item: Field[Any]) -> None:
    meta, shown = item.metadata, descriptor(item)
    assert shown.description.startswith(meta["text"])
    assert not meta["unit"] or f"[{meta['unit']}]" in shown.description
    assert shown.read_only == meta["read_only"]
    assert all(choice in shown.additional_constraints for choice in meta["choices"])
    if meta["low"] is not None:
        (span,) = [*shown.integer_range, *shown.floating_point_range]
        assert (span.from_value, span.to_value) == (meta["low"], meta["high"])


def test_parameters_file_holds_every_parameter_with_its_default_and_text() -> None:
    text = PARAMETERS_FILE.read_text()
    values = yaml.safe_load(text)["/**"]["ros__parameters"]
    assert values == {item.name: value for item, value in Settings().items()}
    assert all(type(values[item.name]) is type(item.default) for item in ITEMS)
    comments = " ".join(line.strip(" #") for line in text.splitlines() if line.strip().startswith("#"))
    assert all(item.metadata["text"] in comments for item in ITEMS)
    lines = {line.split(":")[0].strip(): line for line in text.splitlines()}
    for item in ITEMS:
        assert ("read-only" in lines[item.name]) == item.metadata["read_only"]
        assert item.metadata["unit"] in lines[item.name]


def test_node_declares_every_parameter(bench: Bench) -> None:
    node = bench.floorgent(FakePredictor())
    for item, value in Settings().items():
        assert node.get_parameter(item.name).value == value
        assert node.describe_parameter(item.name).description == descriptor(item).description


def test_changes_are_checked_and_applied(bench: Bench) -> None:
    node = bench.floorgent(FakePredictor())
    assert outcome(node, "max_rate", 50).successful  # a whole number serves as a float
    assert outcome(node, "inflation_radius_m", 0.625).successful
    assert outcome(node, "completions", 4).successful
    assert (node.settings.node.max_rate, node.settings.predictor.completions) == (50.0, 4)
    assert node.settings.predictor.inflation_radius_m == 0.625
    assert isinstance(node.settings.node.max_rate, float)


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("max_rate", 0.0, "max_rate"),
        ("max_rate", 1000, "100"),
        ("max_rate", "fast", "a number"),
        ("max_rate", True, "a number"),
        ("min_travel", float("nan"), "min_travel"),
        ("completions", 0, "completions"),
        ("completions", 8.0, "a whole number"),
        ("seed", -1, "seed"),
        ("top_p", 1.5, "top_p"),
        ("free_threshold", 70, "occupied_threshold"),
        ("device", "cpu", "read-only"),
        ("pose_source", "odometry", "read-only"),
        ("completions", None, "a whole number"),
    ],
)
def test_wrong_change_is_refused_with_a_reason(bench: Bench, name: str, value: Any, reason: str) -> None:
    node = bench.floorgent(FakePredictor())
    result = outcome(node, name, value)
    assert not result.successful
    assert reason in result.reason
    assert "\n" not in result.reason
    assert node.settings == Settings()
    assert node.get_parameter(name).value == {item.name: value for item, value in Settings().items()}[name]


@pytest.mark.parametrize(
    ("name", "value"), [("max_rate", "fast"), ("max_rate", 0.0), ("pose_source", "gps"), ("completions", 500)]
)
def test_wrong_value_at_start_up_is_a_config_error_of_one_line(bench: Bench, name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=name) as refusal:
        bench.floorgent(FakePredictor(), **{name: value})
    assert "\n" not in str(refusal.value)


def test_whole_numbers_serve_as_floats_at_start_up(bench: Bench) -> None:
    node = bench.floorgent(FakePredictor(), max_rate=5, distance_map_max_m=50)
    assert node.settings.node.max_rate == 5.0
    assert node.settings.node.distance_map_max_m == 50.0


def test_thresholds_that_only_fit_together_can_be_set_together(bench: Bench) -> None:
    node = bench.floorgent(FakePredictor())
    both = [rclpy.Parameter("free_threshold", value=70), rclpy.Parameter("occupied_threshold", value=90)]
    assert node.set_parameters_atomically(both).successful
    assert (node.settings.observation.free_threshold, node.settings.observation.occupied_threshold) == (
        70,
        90,
    )


def test_parameters_can_be_set_over_ros_while_a_prediction_runs(bench: Bench) -> None:
    predictor = FakePredictor()
    predictor.go.clear()
    bench.floorgent(predictor)
    client = bench.node().create_client(SetParameters, "/floorgent/set_parameters")
    bench.until(client.service_is_ready, "the parameter service")
    wish = rclpy.Parameter("top_p", value=0.5).to_parameter_msg()
    answer = client.call_async(SetParameters.Request(parameters=[wish]))
    bench.until(answer.done, "the answer")
    assert answer.result().results[0].successful
    predictor.go.set()
