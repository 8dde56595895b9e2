"""The critic's points: blocks of the image, found again in the published window."""

from __future__ import annotations

import math

import numpy as np
import pytest

from floorgent_ros.geometry.grid import WINDOW_CELLS, Window
from floorgent_ros.geometry.lattice import BLOCK_CELLS, OUTSIDE, POINTS, lattice

HERE = (3.0, -7.0)
WINDOW = Window(HERE)


def test_points_of_an_unturned_image_are_the_centres_of_its_blocks():
    cells = lattice(WINDOW, WINDOW)
    middle = BLOCK_CELLS * np.arange(POINTS) + BLOCK_CELLS // 2
    assert np.array_equal(cells, middle[:, None] * WINDOW_CELLS + middle)


@pytest.mark.parametrize("degrees", [30.0, 45.0, -20.0])
def test_points_of_a_turned_image_lie_where_they_look(degrees):
    frame = Window(HERE, math.radians(degrees))
    cells = lattice(frame, WINDOW)
    rows, columns = np.divmod(cells[cells != OUTSIDE], WINDOW_CELLS)
    where = WINDOW.to_frame(np.stack([columns, rows], -1) + 0.5)
    iy, ix = np.nonzero(cells != OUTSIDE)
    looked = frame.to_frame((np.stack([ix, iy], -1) + 0.5) * BLOCK_CELLS)
    assert np.abs(where - looked).max() < 0.16  # a cell
    outside = np.argwhere(cells == OUTSIDE)
    assert 0 < len(outside) < 0.2 * cells.size
    radius = np.hypot(*(outside - (POINTS - 1) / 2).T) * BLOCK_CELLS * 40 / WINDOW_CELLS
    assert radius.min() > 19.0  # the corners of the turned image alone


def test_a_quarter_turn_turns_the_points():
    turned = lattice(Window(HERE, math.pi / 2), WINDOW)
    plain = lattice(WINDOW, WINDOW)
    away = [np.stack(np.divmod(cells, WINDOW_CELLS), -1) for cells in (turned, np.rot90(plain))]
    away = np.abs(away[0] - away[1])
    assert away.max() <= 1  # a corner of four cells belongs to another of them
