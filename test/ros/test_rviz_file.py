"""config/predict.rviz against the node's real topics, types and quality of service."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import yaml
from ros_harness import Bench, FakePredictor

from floorgent_ros.geometry.grid import WINDOW_M
from floorgent_ros.ros.outputs import VISUALS

RVIZ_FILE = Path(__file__).parents[2] / "config" / "predict.rviz"
MANAGER = yaml.safe_load(RVIZ_FILE.read_text())["Visualization Manager"]
SHOWS = {
    "rviz_default_plugins/Map": "nav_msgs/msg/OccupancyGrid",
    "rviz_default_plugins/MarkerArray": "visualization_msgs/msg/MarkerArray",
    "rviz_default_plugins/Image": "sensor_msgs/msg/Image",
}


def displays() -> dict[str, Any]:
    """Display of each topic."""
    return {display["Topic"]["Value"]: display for display in MANAGER["Displays"] if "Topic" in display}


def test_every_topic_for_viewers_has_a_display_of_its_type(bench: Bench) -> None:
    node = bench.floorgent(FakePredictor())

    def published() -> dict[str, list[str]]:
        mine = node.get_publisher_names_and_types_by_node("floorgent", "/")
        return {topic: types for topic, types in mine if topic.startswith("/floorgent/")}

    bench.until(lambda: {"/floorgent/distance", "/floorgent/observation"} <= set(published()), "the graph")
    visual = {topic: types for topic, types in published().items() if topic.removeprefix("/") in VISUALS}
    assert len(visual) == len(VISUALS)  # RViz cannot show our own types, nor the states of the lifecycle
    for topic, types in {**visual, "/map": ["nav_msgs/msg/OccupancyGrid"]}.items():
        assert [SHOWS[displays()[topic]["Class"]]] == types
    assert set(displays()) == {*visual, "/map"}


def test_displays_ask_for_the_qos_that_the_node_offers(bench: Bench) -> None:
    node = bench.floorgent(FakePredictor())
    for topic, display in displays().items():
        asked = display["Topic"]
        find = node.get_subscriptions_info_by_topic if topic == "/map" else node.get_publishers_info_by_topic
        for info in bench.until(lambda wanted=topic, look=find: look(wanted), topic):
            offered = info.qos_profile
            assert asked["Reliability Policy"].lower() == offered.reliability.name.lower()
            assert asked["Durability Policy"].lower().replace(" ", "_") == offered.durability.name.lower()
        assert (asked["History Policy"], asked["Depth"]) == ("Keep Last", 1)


def test_the_frame_is_the_map_and_distances_are_coloured() -> None:
    assert MANAGER["Global Options"]["Fixed Frame"] == "map"
    assert displays()["/floorgent/distance_map"]["Color Scheme"] == "costmap"
    assert displays()["/map"]["Color Scheme"] == "map"
    assert MANAGER["Views"]["Current"]["Class"] == "rviz_default_plugins/TopDownOrtho"
    assert 0 < MANAGER["Views"]["Current"]["Scale"] * WINDOW_M <= 1400  # pixels: the window fits the screen
    assert [d["Name"] for d in MANAGER["Displays"]].count("Map") == 1


def test_every_display_is_whole() -> None:
    """RViz fills in what is missing without a word, and a typing error with it."""
    names = [display["Name"] for display in MANAGER["Displays"]]
    assert len(set(names)) == len(names)
    for display in MANAGER["Displays"]:
        assert display["Class"].startswith("rviz_default_plugins/")
        assert display["Enabled"] is display["Value"]
        topic = display.get("Topic")
        assert topic is None or set(topic) >= {"Depth", "Durability Policy", "Reliability Policy", "Value"}
        if display["Class"].endswith("/Map"):
            assert display["Update Topic"]["Value"] == f"{topic['Value']}_updates"
            assert display["Use Timestamp"] is False  # a map is valid until the next one
            assert 0 < display["Alpha"] <= 1


def test_what_lies_below_does_not_hide_what_lies_above() -> None:
    drawn = [display["Name"] for display in MANAGER["Displays"]]
    assert drawn.index("Map") < drawn.index("Distance") < drawn.index("Walls, observed and predicted")
    assert displays()["/map"]["Draw Behind"] is True
    assert displays()["/floorgent/distance_map"]["Alpha"] < 1


def test_panels_and_docks_fit_each_other() -> None:
    content = yaml.safe_load(RVIZ_FILE.read_text())
    panels = {panel["Name"] for panel in content["Panels"]}
    images = {d["Name"] for d in MANAGER["Displays"] if d["Class"] == "rviz_default_plugins/Image"}
    docks = {name for name, value in content["Window Geometry"].items() if isinstance(value, dict)}
    assert docks == panels | images
    tools = [tool["Class"] for tool in MANAGER["Tools"]]
    assert "rviz_default_plugins/Measure" in tools  # to compare a way with its distance


def test_a_namespace_moves_every_topic_of_the_file() -> None:
    """The topics are absolute in the file; the launch file remaps them, by names that it must know."""
    source = (RVIZ_FILE.parents[1] / "launch" / "predict.launch.py").read_text(encoding="utf-8")
    line = re.search(r"^RVIZ_TOPICS = (\(.*?\))$", source, re.MULTILINE)
    assert line
    remapped = {f"/floorgent/{name}" for name in ast.literal_eval(line.group(1))}
    assert remapped | {"/map"} == set(displays())
