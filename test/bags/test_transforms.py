"""Look-ups in recorded transforms against SciPy's rotations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.spatial.transform import Rotation, Slerp

from floorgent_ros.bags.transforms import KEPT_NS, TransformTree

SECOND = 10**9


def random_link(rng):
    return Rotation.random(random_state=rng).as_quat(), rng.normal(size=3)


def matrix(quaternion, translation):
    result = np.eye(4)
    result[:3, :3] = Rotation.from_quat(quaternion).as_matrix()
    result[:3, 3] = translation
    return result


def flat(yaw):
    return (0.0, 0.0, math.sin(yaw / 2), math.cos(yaw / 2))


@pytest.mark.parametrize("seed", range(5))
def test_chains_up_and_down_agree_with_matrices(seed):
    """world ← a ← b and world ← c ← d: b in d, the root, a branch of its own and both directions."""
    rng = np.random.default_rng(seed)
    tree, placed = TransformTree(), {"world": np.eye(4)}
    for child, parent in [("a", "world"), ("b", "a"), ("c", "world"), ("d", "c")]:
        quaternion, translation = random_link(rng)
        assert tree.add(parent, child, SECOND, quaternion, translation, static=child == "c")
        placed[child] = placed[parent] @ matrix(quaternion, translation)
    for target, there in placed.items():
        for source, here in placed.items():
            x, y, stamp = tree.latest(target, source)
            expected = np.linalg.inv(there) @ here
            assert (x, y) == pytest.approx(tuple(expected[:2, 3]), abs=1e-9)
            dynamic = {target, source} - {"world", "c"} and target != source
            assert stamp == (SECOND if dynamic else 0)


@pytest.mark.parametrize("share", [0.0, 0.25, 0.9, 1.0])
@pytest.mark.parametrize("angle", [0.01, 1.0, 3.0, -2.0])
def test_the_faster_link_is_interpolated_at_the_slower_ones_time(share, angle):
    tree = TransformTree()
    rotations = Rotation.from_rotvec([[0, 0, 0.3], [0, 0, 0.3 + angle]])
    first, last = 10 * SECOND, 11 * SECOND
    now = first + round(share * SECOND)
    tree.add("map", "odom", first, rotations[0].as_quat(), (1.0, 2.0, 0.0), static=False)
    # the same rotation with the other sign: the shorter way must be found all the same
    tree.add("map", "odom", last, -rotations[1].as_quat(), (3.0, 2.0, 0.0), static=False)
    tree.add("odom", "base_link", now, flat(0.0), (5.0, 0.0, 0.0), static=False)
    x, y, stamp = tree.latest("map", "base_link")
    turned = Slerp([0, 1], rotations)(share).apply([5.0, 0.0, 0.0])
    assert (x, y) == pytest.approx((1.0 + 2.0 * share + turned[0], 2.0 + turned[1]), abs=1e-6)
    assert stamp == now


def test_samples_out_of_order_are_sorted():
    tree = TransformTree()
    for second, x in [(3, 3.0), (1, 1.0), (2, 2.0)]:
        tree.add("map", "base_link", second * SECOND, flat(0), (x, 0.0, 0.0), static=False)
    assert tree.latest("map", "base_link") == (3.0, 0.0, 3 * SECOND)


def test_what_is_missing_is_said():
    tree = TransformTree()
    assert "frames: none" in tree.latest("map", "base_link")
    tree.add("odom", "base_link", SECOND, flat(0), (0.0, 0.0, 0.0), static=False)
    assert "base_link, odom" in tree.latest("map", "base_link")
    assert tree.latest("base_link", "base_link") == (0.0, 0.0, 0)
    # a link that begins after the other ended: nothing may be assumed
    tree.add("map", "odom", 2 * SECOND, flat(0), (9.0, 0.0, 0.0), static=False)
    assert "no time is known" in tree.latest("map", "base_link")
    tree.add("odom", "base_link", 2 * SECOND, flat(0), (0.0, 0.0, 0.0), static=False)
    assert tree.latest("map", "base_link") == (9.0, 0.0, 2 * SECOND)


@pytest.mark.parametrize(
    ("quaternion", "translation", "child"),
    [
        ((0, 0, 0, 0), (0, 0, 0), "base_link"),
        ((0, 0, math.nan, 1), (0, 0, 0), "base_link"),
        (flat(0), (math.inf, 0, 0), "base_link"),
        (flat(0), (0, 0, 0), "map"),
        (flat(0), (0, 0, 0), ""),
    ],
)
def test_what_cannot_be_used_is_left_out(quaternion, translation, child):
    tree = TransformTree()
    assert not tree.add("map", child, SECOND, quaternion, translation, static=False)
    assert isinstance(tree.latest("map", "base_link"), str)


def test_frames_in_a_ring_end_the_search():
    tree = TransformTree()
    tree.add("a", "b", SECOND, flat(0), (1.0, 0.0, 0.0), static=False)
    tree.add("b", "a", SECOND, flat(0), (1.0, 0.0, 0.0), static=False)
    assert isinstance(tree.latest("map", "a"), str)


def test_a_frame_that_moves_to_another_parent_forgets_the_old_one():
    tree = TransformTree()
    tree.add("map", "base_link", SECOND, flat(0), (1.0, 0.0, 0.0), static=False)
    tree.add("odom", "base_link", 2 * SECOND, flat(0), (2.0, 0.0, 0.0), static=False)
    assert tree.latest("odom", "base_link") == (2.0, 0.0, 2 * SECOND)
    assert isinstance(tree.latest("map", "base_link"), str)


def test_memory_is_bounded():
    tree = TransformTree()
    for tick in range(3000):
        tree.add("map", "base_link", tick * SECOND // 100, flat(0), (tick, 0.0, 0.0), static=False)
    assert len(tree._links["base_link"].stamps) <= 100 * KEPT_NS // SECOND + 1
