"""Maps, poses and parameters that no robot should send and some do: each is good but for one fault.

Every function takes its choices from `random`, so a seed gives the same fault again and hypothesis can
shrink it.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable
from random import Random
from typing import Any

from geometry_msgs.msg import PoseStamped
from nav_msgs.msg import OccupancyGrid

from floorgent_ros.ros.parameters import Settings

NOT_FINITE = (math.nan, math.inf, -math.inf)


def good_map(rows: int = 60, columns: int = 80, mark: int = 0) -> OccupancyGrid:
    """A room with walls of two cells, 0.05 m each. mark: maps of different marks differ in some cell."""
    message = OccupancyGrid()
    message.header.frame_id = "map"
    message.info.width, message.info.height, message.info.resolution = columns, rows, 0.05
    message.info.origin.orientation.w = 1.0
    edge, inside = [100] * columns, [100, 100, *[0] * (columns - 4), 100, 100]
    cells = [*edge, *edge, *inside * (rows - 4), *edge, *edge]
    for bit in range(mark.bit_length()):
        cells[3 * columns + 3 + bit] = -1 if mark >> bit & 1 else 0
    message.data = array("b", cells)
    return message


def good_pose(x: float = 2.0, y: float = 1.5, frame: str = "map") -> PoseStamped:
    """A pose in the middle of the room."""
    message = PoseStamped()
    message.header.frame_id = frame
    message.pose.position.x, message.pose.position.y = x, y
    message.pose.orientation.w = 1.0
    return message


def malformed_map(random: Random) -> OccupancyGrid:
    """A map that must be refused."""
    message = good_map(random.randint(5, 40), random.randint(5, 40))
    info = message.info
    faults: list[Callable[[], Any]] = [
        message.data.pop,
        lambda: message.data.append(0),
        lambda: setattr(message, "data", array("b", range(random.randint(0, 4)))),
        lambda: empty(message),
        lambda: setattr(info, "width", random.choice((0, info.width + 1, 2**16, 2**31, 2**32 - 1))),
        lambda: setattr(info, "height", random.choice((0, info.height + 1, 2**16, 2**31, 2**32 - 1))),
        lambda: setattr(info, "resolution", random.choice((0.0, -0.05, *NOT_FINITE))),
        lambda: setattr(info.origin.position, random.choice("xy"), random.choice(NOT_FINITE)),
        lambda: setattr(info.origin.orientation, random.choice("xyzw"), random.choice(NOT_FINITE)),
        lambda: setattr(info.origin.orientation, "w", 0.0),
        lambda: setattr(info.origin.orientation, random.choice("xy"), random.choice((-1.0, 1.0, 1e9))),
    ]
    random.choice(faults)()
    return message


def empty(message: OccupancyGrid) -> None:
    """Make it a map without cells."""
    message.info.width = 0
    message.data = array("b")


def malformed_pose(random: Random) -> PoseStamped:
    """A pose that must be refused."""
    message = good_pose(random.uniform(-1e6, 1e6), random.uniform(-1e6, 1e6))
    if random.random() < 0.5:
        setattr(message.pose.position, random.choice("xy"), random.choice(NOT_FINITE))
    else:
        message.header.frame_id = random.choice(("", "/", "odom", "map2", "maps/map", "карта", "m" * 1000))
    return message


def malformed_parameter(random: Random) -> tuple[str, Any]:
    """Name and value of a parameter that must be refused."""
    item, value = random.choice([*Settings().items()])
    meta = item.metadata
    wrong: list[Any] = [None, [1, 2], ["a"], [True], [b"x"]]
    wrong += [7, 1.5] if isinstance(value, str) else ["text", ""]
    wrong += [] if isinstance(value, bool) else [True]
    if not isinstance(value, (str, bool)):
        wrong += [*NOT_FINITE]
        wrong += [random.uniform(1.1, 1e9) + abs(meta["high"])] if isinstance(value, float) else []
        wrong += [meta["low"] - 1 - random.randint(0, 1000)] if isinstance(value, int) else []
    if meta["choices"]:
        wrong.append("no such choice")
    if meta["read_only"]:
        wrong.append(value)
    return item.name, random.choice(wrong)
