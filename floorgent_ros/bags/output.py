"""Predictions as a new bag, whole or not at all."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rosbags.interfaces import (
    Connection,
    Qos,
    QosDurability,
    QosHistory,
    QosLiveliness,
    QosReliability,
    QosTime,
)
from rosbags.rosbag2 import StoragePlugin, Writer
from rosbags.typesys.store import Typestore

from floorgent_ros.bags.recording import DISTANCE_TYPE, MAP_TYPE
from floorgent_ros.bags.replay import Replayed
from floorgent_ros.messages import GRIDS, distance_cells, fill_distance_grid, fill_window

_NEVER = QosTime(2147483647, 4294967295)
LATCHED = Qos(  # as the node publishes, so that `ros2 bag play` does too
    QosHistory.KEEP_LAST,
    1,
    QosReliability.RELIABLE,
    QosDurability.TRANSIENT_LOCAL,
    _NEVER,
    _NEVER,
    QosLiveliness.AUTOMATIC,
    _NEVER,
    avoid_ros_namespace_conventions=False,
)


class PredictionBag:
    """A bag of `floorgent/distance` and `floorgent/distance_map`, both stamped with the map's time."""

    def __init__(self, writer: Writer, store: Typestore, namespace: str, max_m: float) -> None:
        """namespace: the map topic's. max_m: distance that the distance map shows as 99."""
        self._writer = writer
        self._store = store
        self._max_m = max_m
        self._distance = self._connect(f"{namespace}/floorgent/distance", DISTANCE_TYPE)
        self._distance_map = self._connect(f"{namespace}/floorgent/distance_map", MAP_TYPE)

    @classmethod
    @contextmanager
    def create(
        cls, path: Path, store: Typestore, storage: StoragePlugin, namespace: str, max_m: float
    ) -> Iterator[PredictionBag]:
        """Write a new bag; it appears at the path when the block ends without an error."""
        with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.absolute().parent) as folder:
            part = Path(folder) / path.name  # the bag's files are named after it
            with Writer(part, version=Writer.VERSION_LATEST, storage_plugin=storage) as writer:
                yield cls(writer, store, namespace, max_m)
            shutil.move(part, path)

    def write(self, replayed: Replayed) -> None:
        """Add a prediction, recorded when it was made in bag time."""
        header, info, stamp = self._common(replayed)
        grid = self._store.types[DISTANCE_TYPE](
            header=header,
            pose_stamp=stamp,
            info=info,
            source=self._make("geometry_msgs/msg/Point", x=0.0, y=0.0, z=0.0),
            **{name: np.zeros(0, np.float32) for name in GRIDS},
            completions=0,
            seed=0,
            horizon_m=0.0,
            latency_s=replayed.latency_s,
        )
        fill_distance_grid(grid, replayed.field, flat)
        self._put(self._distance, replayed.at_ns, grid)
        cells = flat(distance_cells(replayed.field.distance, self._max_m), np.int8)
        self._put(
            self._distance_map, replayed.at_ns, self._make(MAP_TYPE, header=header, info=info, data=cells)
        )

    def _connect(self, topic: str, kind: str) -> Connection:
        return self._writer.add_connection(topic, kind, typestore=self._store, offered_qos_profiles=[LATCHED])

    def _put(self, connection: Connection, at_ns: int, message: Any) -> None:
        raw = self._store.serialize_cdr(message, connection.msgtype)
        self._writer.write(connection, at_ns, raw)

    def _make(self, kind: str, **values: Any) -> Any:
        return self._store.types[kind](**values)

    def _common(self, replayed: Replayed) -> tuple[Any, Any, Any]:
        """Header and window of the messages, and the pose's stamp."""
        request, make = replayed.request, self._make
        header = make("std_msgs/msg/Header", stamp=request.map.stamp, frame_id=request.map.frame)
        place = make(
            "geometry_msgs/msg/Pose",
            position=make("geometry_msgs/msg/Point", x=0.0, y=0.0, z=0.0),
            orientation=make("geometry_msgs/msg/Quaternion", x=0.0, y=0.0, z=0.0, w=1.0),
        )
        info = make(
            "nav_msgs/msg/MapMetaData",
            map_load_time=request.map.load_time,
            resolution=0.0,
            width=0,
            height=0,
            origin=place,
        )
        fill_window(info, replayed.field)
        seconds, nanoseconds = divmod(request.pose.stamp_ns, 10**9)
        return header, info, make("builtin_interfaces/msg/Time", sec=seconds, nanosec=nanoseconds)


def flat(values: NDArray[Any], dtype: Any) -> NDArray[Any]:
    """The values as the one-dimensional array that the bag's library takes."""
    return np.ascontiguousarray(values, dtype).ravel()
