"""launch/predict.launch.py: its arguments reach the node, and nothing else does."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import rclpy
import yaml

import launch_standin as standin
from floorgent_ros.config import NodeSettings, PredictorSettings

ROOT = Path(__file__).parents[1]
LAUNCH_FILE = ROOT / "launch" / "predict.launch.py"
TOOL = Path(standin.__file__)

ARGUMENTS = {
    *(
        "namespace",
        "params_file",
        "use_sim_time",
        "autostart",
        "map_topic",
        "pose_source",
        "pose_topic",
        "max_pose_age",
        "robot_base_frame",
    ),
    *("device", "precision", "checkpoint", "wall_log_odds", "seed", "respawn", "rviz", "log_level"),
}


def predict(**arguments: str) -> Any:
    """The node's process with these launch arguments."""
    (process,) = standin.describe(LAUNCH_FILE, arguments)
    return process


@pytest.fixture(scope="module")
def context() -> Iterator[rclpy.Context]:
    context = rclpy.Context()
    rclpy.init(context=context)
    yield context
    context.try_shutdown()


def parameters(process: Any, context: rclpy.Context) -> dict[str, Any]:
    """The parameters that rcl reads from the process's own command line."""
    node = rclpy.create_node(
        "other_name",
        context=context,
        cli_args=process.argv[1:],
        use_global_arguments=False,
        automatically_declare_parameters_from_overrides=True,
    )
    try:
        assert node.get_fully_qualified_name() == process.name
        values = {name: item.value for name, item in node.get_parameters_by_prefix("").items()}
    finally:
        node.destroy_node()
    everywhere = {"use_sim_time": False, "start_type_description_service": True}
    return {name: value for name, value in values.items() if (name, value) not in everywhere.items()}


def test_arguments_and_their_documentation() -> None:
    result = subprocess.run(
        [sys.executable, str(TOOL), "-s", str(LAUNCH_FILE)], capture_output=True, text=True, check=True
    )
    names = re.findall(r"^(\w+):=(.*)\n    (.+)$", result.stdout, re.MULTILINE)
    assert {name for name, _, _ in names} == ARGUMENTS
    settings = {item.name: item for group in (NodeSettings, PredictorSettings) for item in fields(group)}
    for name, _, text in names:
        if name in settings:
            assert settings[name].metadata["text"] in text
            assert f"{settings[name].default!r}" in text


def test_without_arguments_the_node_gets_no_parameter(context: rclpy.Context) -> None:
    process = predict()
    assert process.name == "/floorgent"
    assert process.argv[0].endswith("/lib/floorgent_ros/predict")
    assert "--params-file" not in process.argv
    assert parameters(process, context) == {}


def test_given_arguments_become_parameters_of_the_right_type(context: rclpy.Context) -> None:
    given = {
        "autostart": "false",
        "pose_source": "odometry",
        "pose_topic": "7",
        "max_pose_age": "0",
        "robot_base_frame": "true",
        "device": "cpu",
        "precision": "bfloat16",
        "checkpoint": "/models/big one.safetensors",
        "wall_log_odds": "-0.5",
        "seed": "9223372036854775807",
    }
    wanted: dict[str, Any] = given | {"autostart": False, "seed": 2**63 - 1, "use_sim_time": True}
    wanted |= {"max_pose_age": 0.0, "wall_log_odds": -0.5}
    assert parameters(predict(use_sim_time="true", **given), context) == wanted


@pytest.mark.parametrize("namespace", ["", "robot1"])
def test_argument_wins_over_file_and_file_over_default(
    context: rclpy.Context, tmp_path: Path, namespace: str
) -> None:
    """The defaults stay out of the launch file, so nothing of it hides what a user's file says."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        yaml.safe_dump({"/**": {"ros__parameters": {"seed": 5, "completions": 3, "pose_topic": "odom"}}}),
        encoding="utf-8",
    )
    assert parameters(predict(params_file=str(path), namespace=namespace, seed="7"), context) == {
        "seed": 7,
        "completions": 3,
        "pose_topic": "odom",
    }
    assert parameters(predict(params_file=str(path), namespace=namespace), context)["seed"] == 5


def test_the_shipped_parameter_file_is_accepted(context: rclpy.Context) -> None:
    values = parameters(predict(params_file=str(ROOT / "config" / "predict.yaml")), context)
    assert values["seed"] == PredictorSettings().seed
    assert values["pose_source"] == NodeSettings().pose_source


def test_namespace_map_topic_and_log_level() -> None:
    argv = predict(namespace="robot1", map_topic="/shared/map", log_level="debug").argv
    text = " ".join(argv)
    assert "-r __ns:=/robot1" in text
    assert "-r map:=/shared/map" in text
    assert "--log-level debug" in text


def test_memory_is_kept_and_threads_sleep_unless_the_user_says_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    monkeypatch.setenv("MALLOC_MMAP_THRESHOLD_", "65536")
    env = predict().env
    assert env["MALLOC_MMAP_THRESHOLD_"] == "65536"
    assert int(env["MALLOC_TRIM_THRESHOLD_"]) > 2**30
    assert env["OMP_WAIT_POLICY"] == "passive"


def test_the_node_is_started_again_only_where_that_is_asked_for() -> None:
    assert predict(respawn="true").respawn
    assert not predict().respawn


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": "many"}, "seed:=many: use a whole number"),
        ({"wall_log_odds": "few"}, "wall_log_odds:=few: use a number"),
        ({"pose_source": "gps"}, "use one of .*auto, tf, pose, odometry"),
        ({"use_sim_time": "yes"}, "use one of"),
        ({"autostart": "no"}, "use one of"),
        ({"rviz": "perhaps"}, "use one of"),
        ({"params_file": "/none.yaml"}, "no parameter file /none.yaml"),
        ({"topic": "map"}, "has no argument topic"),
    ],
)
def test_bad_arguments_are_told(arguments: dict[str, str], message: str) -> None:
    with pytest.raises(standin.LaunchError, match=message):
        predict(**arguments)


def test_rviz_shows_the_topics_of_the_namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rviz2 = tmp_path / "lib" / "rviz2" / "rviz2"
    rviz2.parent.mkdir(parents=True)
    rviz2.write_text("#!/bin/sh\n", encoding="utf-8")
    rviz2.chmod(0o755)
    monkeypatch.setenv("AMENT_PREFIX_PATH", f"{sys.prefix}:{tmp_path}")

    node, rviz = standin.describe(
        LAUNCH_FILE, {"rviz": "true", "namespace": "robot1", "map_topic": "/shared/map"}
    )

    assert node.name == "/robot1/floorgent"
    config = Path(rviz.argv[rviz.argv.index("-d") + 1])
    shown = set(re.findall(r"Value: (/\S+)", config.read_text(encoding="utf-8")))
    shown = {topic for topic in shown if not topic.endswith("_updates")}
    remapped = dict(text.split(":=") for text in rviz.argv if text.startswith("/") and ":=" in text)
    assert shown == set(remapped)
    assert remapped.pop("/map") == "/shared/map"
    assert all(new == old.removeprefix("/") for old, new in remapped.items())


def test_a_node_that_cannot_start_ends_the_launch_with_its_code() -> None:
    command = [sys.executable, str(TOOL), str(LAUNCH_FILE), "seed:=-1"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 2
    assert "seed" in result.stderr
