"""The cheapest ways: scikit-image finds the same, and without costs they are the shortest."""

from __future__ import annotations

import numpy as np
import pytest
from skimage.graph import MCP_Geometric

from floorgent_ros.geometry.costs import cheapest
from floorgent_ros.geometry.distance import distance_fields, start_cell
from floorgent_ros.geometry.grid import CELL_M


def world(seed, share=0.25):
    """Random walls with an open cell in the middle."""
    blocked = np.random.default_rng(seed).random((256, 256)) < share
    blocked[128, 128] = False
    return blocked


@pytest.mark.parametrize("seed", range(3))
def test_scikit_image_finds_the_same_costs(seed):
    blocked = world(seed)
    cost = np.random.default_rng(seed + 100).uniform(0.1, 3, blocked.shape)
    expected, _ = MCP_Geometric(np.where(blocked, -1, cost)).find_costs([start_cell(blocked)])
    assert np.allclose(cheapest(blocked, cost), expected * CELL_M)
    assert 0.5 < np.isfinite(expected).mean() < 1


def test_where_all_cells_cost_one_the_cheapest_way_is_the_shortest():
    blocked = world(7, 0.4)
    assert np.allclose(cheapest(blocked, np.ones(blocked.shape)), distance_fields(blocked[None])[0])


def test_a_blocked_source_starts_beside_itself_or_nowhere():
    blocked = np.zeros((256, 256), bool)
    blocked[125:132, 125:132] = True
    found = cheapest(blocked, np.ones(blocked.shape))
    assert found[start_cell(blocked)] == 0
    assert np.isinf(found[128, 128])
    assert np.isinf(cheapest(np.ones((256, 256), bool), np.ones((256, 256)))).all()
