"""A recorded bag: its topics, and its messages in the order in which they were recorded."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rosbags.interfaces import Connection
from rosbags.rosbag2 import Reader, StoragePlugin
from rosbags.typesys import Stores, get_types_from_msg, get_typestore
from rosbags.typesys.store import Typestore

from floorgent_ros.bags.shared_files import shared_file
from floorgent_ros.errors import BagError

MAP_TYPE = "nav_msgs/msg/OccupancyGrid"
POSE_TYPES = (
    "geometry_msgs/msg/PoseStamped",
    "nav_msgs/msg/Odometry",
    "geometry_msgs/msg/PoseWithCovarianceStamped",
)
TF_TYPE = "tf2_msgs/msg/TFMessage"
DISTANCE_TYPE = "floorgent_ros/msg/DistanceGrid"


class Recorded(NamedTuple):
    """A message of a bag. time_ns: when it was recorded."""

    topic: str
    time_ns: int
    message: Any


def type_store() -> Typestore:
    """ROS 2's common message types and ours."""
    store = get_typestore(Stores.ROS2_KILTED)
    text = shared_file("msg/DistanceGrid.msg").read_text(encoding="utf-8")
    store.register(get_types_from_msg(text, DISTANCE_TYPE))
    return store


class Recording:
    """An open bag.

    types: the type of each topic. storage: how it is stored. start_ns, end_ns: of its messages.
    """

    def __init__(self, reader: Reader, path: Path) -> None:
        self._reader = reader
        self._path = path
        self.store = type_store()
        self.types = {connection.topic: connection.msgtype for connection in reader.connections}
        self.storage = _storage(path)
        self.start_ns, self.end_ns = (reader.start_time, reader.end_time) if reader.message_count else (0, 0)

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[Recording]:
        """Open a bag: its folder, or a single .mcap or .db3 file; `BagError` in one line if there is none."""
        if not path.exists():
            raise BagError(f"{path}: no such bag; give the folder that `ros2 bag record` made")
        try:
            reader = Reader(path)
            reader.open()
        except Exception as error:
            raise BagError(f"{path}: cannot be read as a ROS 2 bag ({_line(error)})") from error
        try:
            yield cls(reader, path)
        finally:
            reader.close()

    def topics_of(self, *types: str) -> list[str]:
        """The topics of these types, sorted."""
        return sorted(topic for topic, kind in self.types.items() if kind in types)

    def messages(self, topics: Collection[str]) -> Iterator[Recorded]:
        """The topics' messages in the order of their recording; `BagError` for what cannot be read."""
        wanted: list[Connection] = [item for item in self._reader.connections if item.topic in topics]
        if not wanted:
            return
        messages = self._reader.messages(wanted)
        while True:
            try:
                connection, time_ns, raw = next(messages)
                message = self.store.deserialize_cdr(raw, connection.msgtype)
            except StopIteration:
                return
            except Exception as error:
                raise BagError(
                    f"{self._path}: broken after {self._path.name} began ({_line(error)})"
                ) from error
            yield Recorded(connection.topic, time_ns, message)


def _storage(path: Path) -> StoragePlugin:
    is_mcap = path.suffix == ".mcap" or (path.is_dir() and any(path.glob("*.mcap*")))
    return StoragePlugin.MCAP if is_mcap else StoragePlugin.SQLITE3


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__
