"""Small bags for tests: a robot walks along a corridor while its map grows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.rosbag2 import StoragePlugin, Writer

from floorgent_ros.bags.recording import type_store

STORE = type_store()
SECOND = 10**9
START_NS = 1_700_000_000 * SECOND
STORAGES = {"sqlite3": StoragePlugin.SQLITE3, "mcap": StoragePlugin.MCAP}

Entry = tuple[str, int, Any]
"""Topic, bag time (ns), message."""


def corridor(seen_m: float = 12.0) -> NDArray[np.int8]:
    """A corridor of 12 x 2 m with a door, mapped up to `seen_m`; cells of 5 cm."""
    cells = np.full((60, 260), -1, np.int8)
    cells[10:50, 10:250] = 0
    cells[8:10, 10:250] = cells[50:52, 10:250] = 100
    cells[50:52, 100:120] = 0
    cells[:, 10 + round(seen_m / 0.05) :] = -1
    return cells


def stamp(time_ns: int) -> Any:
    return STORE.types["builtin_interfaces/msg/Time"](sec=time_ns // SECOND, nanosec=time_ns % SECOND)


def header(time_ns: int, frame: str) -> Any:
    return STORE.types["std_msgs/msg/Header"](stamp=stamp(time_ns), frame_id=frame)


def pose(x: float, y: float, yaw: float = 0.0) -> Any:
    types = STORE.types
    return types["geometry_msgs/msg/Pose"](
        position=types["geometry_msgs/msg/Point"](x=x, y=y, z=0.0),
        orientation=quaternion(yaw),
    )


def quaternion(yaw: float) -> Any:
    turn = STORE.types["geometry_msgs/msg/Quaternion"]
    return turn(x=0.0, y=0.0, z=math.sin(yaw / 2), w=math.cos(yaw / 2))


def map_message(
    cells: NDArray[np.int8], time_ns: int, *, frame: str = "map", resolution: float = 0.05, yaw: float = 0.0
) -> Any:
    types = STORE.types
    info = types["nav_msgs/msg/MapMetaData"](
        map_load_time=stamp(time_ns),
        resolution=resolution,
        width=cells.shape[1],
        height=cells.shape[0],
        origin=pose(-1.0, -1.5, yaw),
    )
    return types["nav_msgs/msg/OccupancyGrid"](
        header=header(time_ns, frame), info=info, data=cells.ravel().copy()
    )


def pose_message(x: float, y: float, time_ns: int, *, kind: str = "pose", frame: str = "map") -> Any:
    """A PoseStamped, an Odometry or a PoseWithCovarianceStamped: kind is pose, odometry or covariance."""
    types, head = STORE.types, header(time_ns, frame)
    if kind == "pose":
        return types["geometry_msgs/msg/PoseStamped"](header=head, pose=pose(x, y))
    with_covariance = types["geometry_msgs/msg/PoseWithCovariance"](pose=pose(x, y), covariance=np.zeros(36))
    if kind == "covariance":
        return types["geometry_msgs/msg/PoseWithCovarianceStamped"](header=head, pose=with_covariance)
    zero = types["geometry_msgs/msg/Vector3"](x=0.0, y=0.0, z=0.0)
    twist = types["geometry_msgs/msg/TwistWithCovariance"](
        twist=types["geometry_msgs/msg/Twist"](linear=zero, angular=zero), covariance=np.zeros(36)
    )
    return types["nav_msgs/msg/Odometry"](
        header=head, child_frame_id="base_link", pose=with_covariance, twist=twist
    )


def transform_message(parent: str, child: str, x: float, y: float, yaw: float, time_ns: int) -> Any:
    types = STORE.types
    transform = types["geometry_msgs/msg/Transform"](
        translation=types["geometry_msgs/msg/Vector3"](x=x, y=y, z=0.0), rotation=quaternion(yaw)
    )
    stamped = types["geometry_msgs/msg/TransformStamped"](
        header=header(time_ns, parent), child_frame_id=child, transform=transform
    )
    return types["tf2_msgs/msg/TFMessage"](transforms=[stamped])


def walk(kind: str = "pose", seconds: float = 8.0) -> list[Entry]:
    """Poses at 10 Hz along the corridor at 1 m/s, and a map of what is seen so far every 2 s."""
    entries: list[Entry] = []
    for tick in range(round(10 * seconds)):
        time_ns = START_NS + tick * SECOND // 10
        if tick % 20 == 0:
            entries.append(("/map", time_ns, map_message(corridor(2.0 + tick * 0.125), time_ns)))
        entries.append(("/pose", time_ns + 1, pose_message(0.5 + tick * 0.1, 0.0, time_ns, kind=kind)))
    return entries


def write_bag(path: Path, entries: Iterable[Entry], storage: str = "sqlite3") -> Path:
    """Write a bag of these messages."""
    with Writer(path, version=9, storage_plugin=STORAGES[storage]) as writer:
        connections: dict[str, Any] = {}
        for topic, time_ns, message in entries:
            if topic not in connections:
                connections[topic] = writer.add_connection(topic, message.__msgtype__, typestore=STORE)
            raw = STORE.serialize_cdr(message, message.__msgtype__)
            writer.write(connections[topic], time_ns, raw)
    return path
