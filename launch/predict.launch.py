"""Start the prediction node, and RViz beside it if wanted.

Only what is given on the command line reaches the node, after the parameters of ``params_file``. So an
argument wins over the file, the file wins over the node's defaults, and no default is written down here.
"""

import os
from dataclasses import fields
from pathlib import Path

from launch import LaunchDescription
from launch.actions import DeclareLaunchArgument, OpaqueFunction
from launch.conditions import IfCondition
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node
from launch_ros.parameter_descriptions import ParameterValue

from floorgent_ros.config import NodeSettings, PredictorSettings

# Arguments that are parameters of the node by the same name; the dataclasses say what they mean.
PARAMETERS = (
    "autostart",
    "pose_source",
    "pose_topic",
    "max_pose_age",
    "robot_base_frame",
    "device",
    "precision",
    "checkpoint",
    "wall_log_odds",
    "seed",
)
SETTINGS = {item.name: item for group in (NodeSettings, PredictorSettings) for item in fields(group)}
LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")
BOOLEANS = {"true": True, "True": True, "false": False, "False": False}

# Memory that glibc hands back after each tensor and faults in again costs most of the time of a small network
# on a virtual machine: let the node keep it. And OpenMP's threads that wait for one another by spinning keep
# from the CPU those they wait for, on a computer that is busy with other work: let them sleep.
# Values from the user's own environment stay.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": "1073741824",
    "MALLOC_TRIM_THRESHOLD_": "17179869184",
    "OMP_WAIT_POLICY": "passive",
}

# The topics of predict.rviz, absolute there, follow the namespace.
RVIZ_TOPICS = ("walls", "observation", "occupancy", "distance_map")


def generate_launch_description():
    """Return the description: one node `floorgent`, and RViz with ``rviz:=true``."""
    return LaunchDescription([*declarations(), OpaqueFunction(function=nodes)])


def declarations():
    """Declare the launch arguments; an empty default leaves a setting to ``params_file`` and the node."""
    yield argument("namespace", "namespace of the node and its topics")
    yield argument("params_file", "YAML file of node parameters")
    yield argument("use_sim_time", "take the time from /clock", choices=["", *BOOLEANS])
    yield argument("map_topic", "occupancy grid that is read", default="map")
    for name in PARAMETERS:
        meta = SETTINGS[name].metadata
        default = SETTINGS[name].default
        text = f"{meta['text']} (the node's default: {default!r})"
        choices = [*BOOLEANS] if isinstance(default, bool) else meta["choices"]
        yield argument(name, text, choices=["", *choices] if choices else None)
    yield argument("respawn", "start the node again when it ends", default="false", choices=[*BOOLEANS])
    yield argument("rviz", "show map, walls and observation in RViz", default="false", choices=[*BOOLEANS])
    yield argument("log_level", "least severe level that is logged", choices=["", *LOG_LEVELS])


def argument(name, description, *, default="", choices=None):
    """Declare one launch argument."""
    return DeclareLaunchArgument(name, default_value=default, description=description, choices=choices)


def nodes(context):
    """Return the node, and RViz under its condition."""

    def given(name):
        return LaunchConfiguration(name).perform(context)

    clock = {"use_sim_time": BOOLEANS[given("use_sim_time")]} if given("use_sim_time") else {}
    overrides = clock | {name: parameter(name, given(name)) for name in PARAMETERS if given(name)}
    parameter_sources = [given("params_file")] if given("params_file") else []
    if overrides:
        parameter_sources.append(overrides)
    predict = Node(
        package="floorgent_ros",
        executable="predict",
        name="floorgent",
        namespace=given("namespace"),
        parameters=parameter_sources,
        remappings=[("map", given("map_topic"))],
        ros_arguments=["--log-level", given("log_level")] if given("log_level") else [],
        additional_env={name: os.environ.get(name, value) for name, value in ENVIRONMENT.items()},
        respawn=BOOLEANS[given("respawn")],
        respawn_delay=1.0,
        output="screen",
        emulate_tty=True,
    )
    rviz = Node(
        package="rviz2",
        executable="rviz2",
        name="floorgent_rviz",
        namespace=given("namespace"),
        arguments=["-d", str(Path(__file__).parent.parent / "config" / "predict.rviz")],
        parameters=[clock] if clock else [],
        remappings=[
            ("/map", given("map_topic")),
            *((f"/floorgent/{topic}", f"floorgent/{topic}") for topic in RVIZ_TOPICS),
        ],
        condition=IfCondition(LaunchConfiguration("rviz")),
        output="screen",
    )
    return [predict, rviz]


def parameter(name, text):
    """Return a given argument as a parameter of its setting's type."""
    if isinstance(SETTINGS[name].default, bool):
        return BOOLEANS[text]
    for kind, wanted in ((int, "a whole number"), (float, "a number")):
        if isinstance(SETTINGS[name].default, kind):
            try:
                return kind(text)
            except ValueError:
                raise RuntimeError(f"{name}:={text}: use {wanted}") from None
    # Without the type a topic called 1 would become a number.
    return ParameterValue(text, value_type=str)
