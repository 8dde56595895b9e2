"""Where one frame is in another, from the transforms that a bag has recorded: what tf2's buffer answers."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

KEPT_NS = 10 * 10**9  # tf2's buffer keeps as much
_PARALLEL = 0.9995  # cosine between quaternions above which a straight line will do

Vector = NDArray[np.float64]
Rigid = tuple[Vector, Vector]  # rotation (3, 3), translation (3,)
IDENTITY: Rigid = (np.eye(3), np.zeros(3))


@dataclass
class _Link:
    """A frame in its parent over time; a static one has a single sample that holds for ever."""

    parent: str
    static: bool
    stamps: list[int] = field(default_factory=list)
    samples: list[tuple[Vector, Vector]] = field(default_factory=list)  # quaternion (4,), translation (3,)

    def add(self, stamp_ns: int, quaternion: Vector, translation: Vector) -> None:
        at = bisect_right(self.stamps, stamp_ns)
        self.stamps.insert(at, stamp_ns)
        self.samples.insert(at, (quaternion, translation))
        old = bisect_right(self.stamps, self.stamps[-1] - KEPT_NS)
        del self.stamps[:old], self.samples[:old]

    def at(self, stamp_ns: int) -> Rigid | None:
        """The frame in its parent at a time, between two samples if need be; None before the first."""
        if self.static:
            return _rigid(*self.samples[-1])
        after = bisect_right(self.stamps, stamp_ns)
        if after == 0:
            return None
        if after == len(self.stamps) or self.stamps[after - 1] == stamp_ns:
            return _rigid(*self.samples[after - 1])
        share = (stamp_ns - self.stamps[after - 1]) / (self.stamps[after] - self.stamps[after - 1])
        (turn_a, move_a), (turn_b, move_b) = self.samples[after - 1 : after + 1]
        return _rigid(_between(turn_a, turn_b, share), (1 - share) * move_a + share * move_b)


class TransformTree:
    """The frames of /tf and /tf_static, each in its parent, the last 10 s of them."""

    def __init__(self) -> None:
        self._links: dict[str, _Link] = {}

    def add(
        self,
        parent: str,
        child: str,
        stamp_ns: int,
        quaternion: ArrayLike,
        translation: ArrayLike,
        *,
        static: bool,
    ) -> bool:
        """Take a sample of `child` in `parent`: quaternion (x, y, z, w), translation (m).

        False when it cannot be used: not finite, no rotation, or a frame in itself.
        """
        turn, move = np.asarray(quaternion, float), np.asarray(translation, float)
        norm = float(np.linalg.norm(turn))
        usable = np.isfinite(move).all() and np.isfinite(norm) and norm > 1e-6
        if not usable or parent == child or not parent or not child:
            return False
        link = self._links.get(child)
        if link is None or link.parent != parent or link.static != static or static:
            link = self._links[child] = _Link(parent, static)
        link.add(stamp_ns, turn / norm, move)
        return True

    def latest(self, target: str, source: str) -> tuple[float, float, int] | str:
        """Where `source`'s origin is in `target` at the latest time that all links between them know.

        (x, y) in m and the time in ns (0 when all links are static), or a line that says what is missing.
        """
        up, down = self._ancestors(source), self._ancestors(target)
        common = next((frame for frame in up if frame in down), None)
        if common is None:
            known = ", ".join(sorted(self._frames())) or "none"
            return f"'{source}' and '{target}' are not connected (frames: {known})"
        climb, descend = up[: up.index(common)], down[: down.index(common)]
        links = [self._links[frame] for frame in (*climb, *descend)]
        stamp_ns = min((link.stamps[-1] for link in links if not link.static), default=0)
        placed = [place for link in links if (place := link.at(stamp_ns)) is not None]
        if len(placed) < len(links):
            return f"'{source}' to '{target}': no time is known to all frames between them yet"
        _, translation = _chained(placed[: len(climb)])
        rotation_t, translation_t = _chained(placed[len(climb) :])
        x, y, _ = (rotation_t.T @ (translation - translation_t)).tolist()
        return x, y, stamp_ns

    def _ancestors(self, frame: str) -> list[str]:
        """The frame, its parent and so on to the root."""
        line = [frame]
        while line[-1] in self._links and (parent := self._links[line[-1]].parent) not in line:
            line.append(parent)
        return line

    def _frames(self) -> set[str]:
        return {*self._links, *(link.parent for link in self._links.values())}


def _rigid(quaternion: Vector, translation: Vector) -> Rigid:
    x, y, z, w = quaternion.tolist()
    rotation = np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
    return rotation, translation


def _chained(steps: list[Rigid]) -> Rigid:
    """Each step is a frame in the next one's: the first frame in the last one's parent."""
    rotation, translation = IDENTITY
    for step in steps:
        rotation, translation = step[0] @ rotation, step[0] @ translation + step[1]
    return rotation, translation


def _between(a: Vector, b: Vector, share: float) -> Vector:
    """Spherical interpolation of unit quaternions, the shorter way."""
    cosine = float(a @ b)
    if cosine < 0:
        a, cosine = -a, -cosine
    if cosine > _PARALLEL:
        mixed = (1 - share) * a + share * b
    else:
        angle = np.arccos(cosine)
        mixed = (np.sin((1 - share) * angle) * a + np.sin(share * angle) * b) / np.sin(angle)
    return mixed / np.linalg.norm(mixed)
