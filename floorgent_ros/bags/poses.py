"""Where the robot was in a bag: from a topic of poses, or from /tf."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

from floorgent_ros.bags.recording import POSE_TYPES, TF_TYPE, Recorded, Recording
from floorgent_ros.bags.transforms import TransformTree
from floorgent_ros.errors import BagError
from floorgent_ros.messages import clean_frame, position

TF_TOPICS = ("/tf", "/tf_static")
TF_PERIOD_NS = 200_000_000  # the node looks up its pose this often


@dataclass(frozen=True)
class Pose:
    """The robot's position in a frame, m. stamp_ns: when it was there. arrived_ns: bag time."""

    x: float
    y: float
    frame: str
    stamp_ns: int
    arrived_ns: int


class PoseSource(Protocol):
    """Follows the robot through a bag."""

    @property
    def topics(self) -> tuple[str, ...]:
        """Where its messages are."""
        ...

    def receive(self, recorded: Recorded) -> bool:
        """Take a message of one of the topics; whether it calls for a look at the pose."""
        ...

    def pose_in(self, frame: str, now_ns: int) -> Pose | str:
        """The newest pose in the frame, or one line that says what is missing."""
        ...


class TopicPose:
    """The newest pose of a topic; it must be given in the map's frame."""

    def __init__(self, topic: str) -> None:
        self.topics = (topic,)
        self._pose: Pose | None = None
        self._refusal = ""

    def receive(self, recorded: Recorded) -> bool:
        """Take the newest pose."""
        message = recorded.message
        x, y = position(message)
        self._refusal = "" if math.isfinite(x) and math.isfinite(y) else f"position ({x}, {y}) is not finite"
        if not self._refusal:
            frame = clean_frame(message.header.frame_id)
            self._pose = Pose(x, y, frame, stamp_ns(message.header.stamp), recorded.time_ns)
        return True

    def pose_in(self, frame: str, now_ns: int) -> Pose | str:  # noqa: ARG002
        """The newest pose, or why it cannot be used."""
        if self._refusal:
            return f"pose on {self.topics[0]} refused: {self._refusal}"
        if self._pose is None:
            return f"no pose yet on {self.topics[0]}"
        if self._pose.frame != frame:
            return (
                f"the pose on {self.topics[0]} is in frame '{self._pose.frame}', the map in '{frame}': "
                "give another --pose-topic, or /tf"
            )
        return self._pose


class TfPose:
    """The robot's frame looked up in the recorded transforms."""

    def __init__(self, base_frame: str) -> None:
        self.topics = TF_TOPICS
        self._base_frame = clean_frame(base_frame)
        self._tree = TransformTree()
        self._looked_ns = -TF_PERIOD_NS
        self._last: Pose | None = None

    def receive(self, recorded: Recorded) -> bool:
        """Take the transforms; look at the pose as seldom as the node does."""
        for transform in recorded.message.transforms:
            turn, move = transform.transform.rotation, transform.transform.translation
            self._tree.add(
                clean_frame(transform.header.frame_id),
                clean_frame(transform.child_frame_id),
                stamp_ns(transform.header.stamp),
                (turn.x, turn.y, turn.z, turn.w),
                (move.x, move.y, move.z),
                static=recorded.topic == TF_TOPICS[1],
            )
        if 0 <= recorded.time_ns - self._looked_ns < TF_PERIOD_NS:
            return False
        self._looked_ns = recorded.time_ns
        return True

    def pose_in(self, frame: str, now_ns: int) -> Pose | str:
        """The robot's latest position in the frame, or why there is none."""
        found = self._tree.latest(frame, self._base_frame)
        if isinstance(found, str):
            if self._last is not None and self._last.frame == frame:  # as the node, which tells its age
                return self._last
            return f"no transform from '{self._base_frame}' to '{frame}' on /tf and /tf_static: {found}"
        x, y, stamp = found
        self._last = Pose(x, y, frame, stamp, now_ns)
        return self._last


def pose_source(recording: Recording, topic: str | None, base_frame: str) -> PoseSource:
    """The source that is asked for; without one /tf where the bag has it, else its only topic of poses.

    Raises `BagError` that lists what the bag has instead.
    """
    candidates = recording.topics_of(*POSE_TYPES)
    has_tf = recording.types.get(TF_TOPICS[0]) == TF_TYPE
    if topic is None:
        if not has_tf and len(candidates) != 1:
            raise BagError(f"{_found(candidates)}, and no /tf: say which with --pose-topic")
        topic = TF_TOPICS[0] if has_tf else candidates[0]
    if topic == TF_TOPICS[0] and has_tf:
        return TfPose(base_frame)
    if topic not in candidates:
        there = [*candidates, *([TF_TOPICS[0]] if has_tf else [])]
        raise BagError(f"no poses on {topic}: {_found(there)}")
    return TopicPose(topic)


def stamp_ns(stamp: Any) -> int:
    """A builtin_interfaces/Time in nanoseconds."""
    return int(stamp.sec) * 10**9 + int(stamp.nanosec)


def _found(topics: list[str]) -> str:
    return f"the bag has poses on {', '.join(topics)}" if topics else "the bag has no poses"
