"""The dominant wall direction: method decision 7."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from floorgent_ros.geometry.direction import dominant_direction


def walls(*angles_and_lengths: tuple[float, float]) -> NDArray[np.float64]:
    """Segments from the origin at (angle in degrees, length)."""
    return np.array(
        [
            [[0.0, 0.0], [length * math.cos(math.radians(angle)), length * math.sin(math.radians(angle))]]
            for angle, length in angles_and_lengths
        ]
    )


def apart(a: float, b: float) -> float:
    """Difference of two directions modulo a quarter turn."""
    return abs((a - b + math.pi / 4) % (math.pi / 2) - math.pi / 4)


def test_no_wall_is_zero() -> None:
    assert dominant_direction(np.empty((0, 2, 2))) == 0.0
    assert dominant_direction(np.zeros((3, 2, 2))) == 0.0


@pytest.mark.parametrize("degrees", [-45, -30, -1, 0, 0.25, 12.3, 30, 44])
def test_one_grid_gives_its_angle(degrees: float) -> None:
    found = dominant_direction(walls((degrees, 5), (degrees + 90, 3), (degrees + 180, 2), (degrees - 90, 1)))
    assert found == pytest.approx(math.radians(degrees), abs=1e-9)


def test_the_longer_wing_wins_and_is_not_pulled() -> None:
    segments = walls((30, 20), (120, 15), (0, 6), (90, 5), (41, 3))
    assert dominant_direction(segments) == pytest.approx(math.radians(30), abs=1e-6)


def test_many_short_walls_do_not_outvote_length() -> None:
    assert dominant_direction(walls((20, 30), *[(0.0, 0.5)] * 40)) == pytest.approx(
        math.radians(20), abs=1e-6
    )


def test_a_near_tie_keeps_its_answer_from_map_to_map() -> None:
    answers = [dominant_direction(walls((30, 20 + extra), (0, 20))) for extra in (-0.4, -0.1, 0.0, 0.1, 0.4)]
    assert answers == pytest.approx([0.0] * 5, abs=1e-6)


@given(
    st.floats(-math.pi, math.pi),
    st.lists(st.tuples(st.floats(-1, 1), st.floats(0.3, 20), st.integers(0, 3)), min_size=1, max_size=30),
)
def test_a_noisy_grid_is_found_at_any_angle(turn: float, noisy: list[tuple[float, float, int]]) -> None:
    segments = walls(*[(math.degrees(turn) + wobble + 90 * side, length) for wobble, length, side in noisy])
    found = dominant_direction(segments)
    assert -math.pi / 4 <= found < math.pi / 4
    assert apart(found, turn) <= math.radians(1.0) + 1e-9


@given(st.lists(st.tuples(st.floats(-180, 180), st.floats(0.1, 30)), min_size=1, max_size=20))
def test_order_and_orientation_of_segments_do_not_matter(
    drawn: list[tuple[float, float]],
) -> None:
    segments = walls(*drawn)
    assert apart(dominant_direction(segments[::-1, ::-1]), dominant_direction(segments)) < 1e-6
