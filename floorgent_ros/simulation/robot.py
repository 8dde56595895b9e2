"""A mapping robot that explores a world: it goes to the nearest frontier of its own map and scans on its way.

Frontiers are free cells beside unknown ones (Yamauchi, 1997). The robot knows only what it has scanned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from floorgent_ros.geometry.distance import distance_field
from floorgent_ros.geometry.grid import OCCUPIED, UNKNOWN, OccupancyMap
from floorgent_ros.simulation.lidar import LidarSettings, Pose
from floorgent_ros.simulation.mapper import Mapper
from floorgent_ros.simulation.world import World

Cell = tuple[int, int]  # row, column

_NEIGHBOURS = np.array([(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0)])


@dataclass(frozen=True)
class RobotSettings:
    """How the robot moves and maps."""

    speed: float = 1.0  # m/s
    step_m: float = 0.25  # travel between two scans
    clearance_m: float = 0.30  # distance that its middle keeps from walls
    min_frontier_m: float = 0.8  # shorter frontiers are gaps between rays, or not worth the way
    replan_m: float = 2.0  # travel after which it looks for a better goal
    turn_cost_m: float = 0.8  # a goal this much nearer is worth a turn of one radian
    map_resolution: float = 0.05  # m


class Step(NamedTuple):
    """What the robot knows after one step. pose: x, y (m), yaw (rad), map frame. stamp: s since the start."""

    map: OccupancyMap
    pose: Pose
    stamp: float


def explore(
    world: World,
    start: tuple[float, float] | None = None,
    *,
    settings: RobotSettings | None = None,
    lidar: LidarSettings | None = None,
    seed: int = 0,
) -> Iterator[Step]:
    """Walk until no frontier can be reached, and yield a step for each scan.

    start: map-frame metres, by default `World.start`. Stamps follow from the way and the speed.
    """
    settings = settings or RobotSettings()
    lidar = lidar or LidarSettings(rays=720, range_m=8.0, noise_m=0.01, dropout=0.01)
    rng, mapper = np.random.default_rng(seed), Mapper(settings.map_resolution)
    x, y = world.to_own(start or world.start(settings.clearance_m))
    pose, stamp = (x, y, 0.0), 0.0
    reached: list[tuple[float, float]] = []

    def look() -> Step:
        mapper.insert(world.scan(pose, lidar, rng))
        return Step(world.map_to_frame(mapper.map()), world.to_frame(pose), stamp)

    yield look()
    while len(route := next_route(mapper.map(), pose, settings, reached)):
        for here in _poses(route, settings):
            stamp += math.dist(here[:2], pose[:2]) / settings.speed
            pose = here
            yield look()
        if math.dist(pose[:2], route[-1]) < settings.min_frontier_m / 2:
            reached.append((pose[0], pose[1]))  # what cannot be seen from there is left alone


def next_route(
    grid: OccupancyMap, pose: Pose, settings: RobotSettings, reached: Sequence[tuple[float, float]] = ()
) -> NDArray[np.float64]:
    """Return the way (K, 2), metres, to the frontier that costs least; (0, 2) where none can be reached.

    The cost is the way's length plus a price for turning round. Frontiers whose middle lies where the robot
    has already stood to look are left out. The grid's axes are the pose's.
    """
    blocked, unknown, cell_m = _planning_grid(grid, settings)
    position = (np.array(pose[:2]) - grid.origin) / cell_m
    source = _nearest_open(blocked, (int(position[1]), int(position[0])))
    nothing = np.zeros((0, 2))
    if source is None:
        return nothing
    distance = distance_field(blocked, source, cell_m)
    best: NDArray[np.float64] = nothing
    best_cost = math.inf
    elsewhere = np.isfinite(distance) & (distance > 0)
    for cells in _frontiers(elsewhere, unknown, settings.min_frontier_m / cell_m):
        # the frontier's middle, not its nearest end, so that the robot looks into what is new
        middle = cells[np.argmin(np.linalg.norm(cells - cells.mean(0), axis=1))]
        length = float(distance[tuple(middle)])
        goal = (middle[::-1] + 0.5) * cell_m + grid.origin
        if length >= best_cost or any(math.dist(goal, spot) < settings.min_frontier_m for spot in reached):
            continue
        way = _pull_tight(_descend(distance, (int(middle[0]), int(middle[1]))), blocked)
        metres = np.vstack([pose[:2], (way[:, ::-1] + 0.5) * cell_m + grid.origin])
        cost = length + settings.turn_cost_m * _turn(pose, metres)
        if cost < best_cost:
            best, best_cost = metres, cost
    return best


def _planning_grid(
    grid: OccupancyMap, settings: RobotSettings
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], float]:
    """Return (blocked, unknown, cell size in m) in cells of about 0.1 m; unknown cells are blocked, too."""
    factor = max(1, round(0.1 / grid.resolution))
    radius = math.ceil(settings.clearance_m / grid.resolution)
    disc = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1))
    near_wall = cv2.dilate((grid.cells == OCCUPIED).astype(np.uint8), disc).astype(bool)
    height, width = (size // factor * factor for size in grid.cells.shape)
    blocks = (height // factor, factor, width // factor, factor)
    unknown = (grid.cells[:height, :width] == UNKNOWN).reshape(blocks).all(axis=(1, 3))
    blocked = near_wall[:height, :width].reshape(blocks).any(axis=(1, 3)) | unknown
    return blocked, unknown, factor * grid.resolution


def _nearest_open(blocked: NDArray[np.bool_], cell: Cell) -> Cell | None:
    """Return the nearest cell that is not blocked, None when all are."""
    rows, columns = np.nonzero(~blocked)
    if len(rows) == 0:
        return None
    index = np.argmin((rows - cell[0]) ** 2 + (columns - cell[1]) ** 2)
    return int(rows[index]), int(columns[index])


def _frontiers(
    reachable: NDArray[np.bool_], unknown: NDArray[np.bool_], min_cells: float
) -> list[NDArray[np.int64]]:
    """Return the cells (K, 2) of each connected frontier of at least min_cells cells."""
    beside = cv2.dilate(unknown.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    count, labels = cv2.connectedComponents((reachable & beside).astype(np.uint8), connectivity=8)
    cells = np.argwhere(labels > 0)
    of_label = labels[tuple(cells.T)]
    order = np.argsort(of_label, kind="stable")
    groups = np.split(cells[order], np.searchsorted(of_label[order], np.arange(2, count)))
    return [group for group in groups if len(group) >= min_cells]


def _descend(distance: NDArray[np.float64], goal: Cell) -> NDArray[np.int64]:
    """Return the cells (K, 2) of a shortest path from the field's source to the goal."""
    padded = np.pad(distance, 1, constant_values=np.inf)
    path = [np.array(goal) + 1]
    while padded[tuple(path[-1])] > 0:
        around = path[-1] + _NEIGHBOURS
        steps = padded[tuple(around.T)]
        path.append(around[np.argmin(steps)])
    return np.array(path[::-1]) - 1


def _pull_tight(path: NDArray[np.int64], blocked: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Drop the corners that a straight, open line can skip."""
    kept, at = [path[0]], 0
    while at < len(path) - 1:
        ahead = min(at + 40, len(path) - 1)
        while ahead > at + 1 and not _open_line(path[at], path[ahead], blocked):
            ahead -= 1
        kept.append(path[ahead])
        at = ahead
    return np.array(kept)


def _open_line(a: NDArray[np.int64], b: NDArray[np.int64], blocked: NDArray[np.bool_]) -> bool:
    count = 2 * int(np.abs(b - a).max()) + 1
    cells = np.round(np.linspace(a, b, count)).astype(int)
    return not blocked[tuple(cells.T)].any()


def _turn(pose: Pose, way: NDArray[np.float64]) -> float:
    """Angle (rad, ≥ 0) between where the robot looks and where the way leads about 1 m from here."""
    ahead = way[np.argmax(np.linalg.norm(way - pose[:2], axis=1) >= 1.0)] - pose[:2]
    return abs(math.remainder(math.atan2(ahead[1], ahead[0]) - pose[2], 2 * math.pi))


def _poses(route: NDArray[np.float64], settings: RobotSettings) -> Iterator[Pose]:
    """Places step_m apart along the route, looking ahead, for at most replan_m."""
    legs = np.linalg.norm(np.diff(route, axis=0), axis=1)
    along = np.concatenate([[0.0], np.cumsum(legs)])
    length = min(float(along[-1]), settings.replan_m)
    stops = np.append(np.arange(settings.step_m, length, settings.step_m), length)
    points = np.stack([np.interp(stops, along, route[:, axis]) for axis in (0, 1)], axis=1)
    last = route[0]
    for point in points:
        direction = point - last
        yield (float(point[0]), float(point[1]), math.atan2(direction[1], direction[0]))
        last = point
