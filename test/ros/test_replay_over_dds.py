"""A recorded bag's messages, played over DDS through the real node, give what a replay gives, bit for bit."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid
from rclpy.serialization import deserialize_message
from ros_harness import Bench
from ros_process import NodeProcess, ros_arguments
from rosbags.rosbag2 import Reader
from small_bag import STORAGES, walk, write_bag
from small_checkpoint import small_checkpoint

from floorgent_ros.bags.output import PredictionBag
from floorgent_ros.bags.poses import TopicPose
from floorgent_ros.bags.recording import Recording
from floorgent_ros.bags.replay import Replay
from floorgent_ros.config import NodeSettings, PredictorSettings
from floorgent_ros.msg import DistanceGrid
from floorgent_ros.predictor import DistancePredictor
from floorgent_ros.ros.listener import LATCHED

# as in the node's process: sums of another order differ in their last bits
pytestmark = pytest.mark.usefixtures("one_thread")

NODE = [sys.executable, "-m", "floorgent_ros.ros.node"]
FIRST_PREDICTION_S = 200.0
RULES = NodeSettings(min_travel=0.5, max_rate=100.0)

Key = tuple[int, int, int, int]


def key(message: Any) -> Key:
    """Which map and pose a prediction was made from."""
    stamp, pose = message.header.stamp, message.pose_stamp
    return stamp.sec, stamp.nanosec, pose.sec, pose.nanosec


def replay(bag: Path, out: Path, checkpoint: Path) -> dict[Key, tuple[int, DistanceGrid]]:
    """Bag time and message of each prediction, read back from the bag that the replay wrote, by rclpy."""
    predictor = DistancePredictor.from_checkpoint(
        checkpoint, device="cpu", settings=PredictorSettings(completions=2, seed=7)
    )
    with Recording.open(bag) as recording:
        run = Replay(recording, "/map", TopicPose("/pose"), predictor, RULES)
        with PredictionBag.create(out, recording.store, recording.storage, "", 40.0) as written:
            for item in run.run():
                written.write(item)
    with Reader(out) as reader:
        wanted = [c for c in reader.connections if c.topic == "/floorgent/distance"]
        messages = [
            (time_ns, deserialize_message(raw, DistanceGrid)) for _, time_ns, raw in reader.messages(wanted)
        ]
    return {key(message): (time_ns, message) for time_ns, message in messages}


@pytest.mark.parametrize("storage", STORAGES)
def test_the_node_hears_what_was_recorded_and_says_what_the_replay_wrote(
    bench: Bench, start: Callable[..., NodeProcess], tmp_path: Path, storage: str
) -> None:
    checkpoint = small_checkpoint(tmp_path / "small.safetensors")
    bag = write_bag(tmp_path / "walk", walk(seconds=5.0), storage)
    expected = replay(bag, tmp_path / "predictions", checkpoint)
    assert len(expected) >= 9
    process = start(
        NODE,
        *ros_arguments(
            checkpoint=checkpoint,
            device="cpu",
            completions=2,
            seed=7,
            min_travel=RULES.min_travel,
            max_rate=RULES.max_rate,
            republish_period=0,
        ),
    )
    player = bench.node("player")
    publishers = {
        "/map": player.create_publisher(OccupancyGrid, "/map", LATCHED),
        "/pose": player.create_publisher(PoseStamped, "/pose", LATCHED),
    }
    heard: dict[Key, DistanceGrid] = {}
    player.create_subscription(
        DistanceGrid, "/floorgent/distance", lambda m: heard.setdefault(key(m), m), LATCHED
    )
    for topic, publisher in publishers.items():
        bench.until(publisher.get_subscription_count, f"a subscription of {topic}\n{process.said()}")
    with Reader(bag) as reader:
        for connection, time_ns, raw in reader.messages():
            publishers[connection.topic].publish(bytes(raw))
            due = {name for name, (at_ns, _) in expected.items() if at_ns <= time_ns}
            bench.until(lambda wanted=due: wanted <= set(heard), process.said(), FIRST_PREDICTION_S)
            bench.spin_for(0.01)  # so that messages on two topics stay in order
    bench.spin_for(0.5)
    assert set(heard) == set(expected)  # and nothing more
    for name, (_, replayed) in expected.items():
        published = heard[name]
        for field in ("distance", "spread", "reach_probability"):
            assert (
                np.asarray(getattr(replayed, field)).tobytes()
                == np.asarray(getattr(published, field)).tobytes()
            ), field
        for field in ("header", "pose_stamp", "info", "source", "completions", "seed", "horizon_m"):
            assert getattr(published, field) == getattr(replayed, field), field
    assert process.stop(signal.SIGTERM) == 0
