"""The other ways to the distances find the same ones."""

from __future__ import annotations

import numpy as np
import pytest

from floorgent_ros.benchmark import straightforward
from floorgent_ros.geometry.distance import distance_fields

NAMES = list(straightforward.contestants())


def stack(side: int = 96) -> np.ndarray:
    """Completions of several densities, one with a blocked source, one that cannot start at all."""
    rng = np.random.default_rng(0)
    blocked = np.stack([rng.random((side, side)) < share for share in (0.0, 0.2, 0.35, 0.1, 0.0)])
    blocked[:3, 128 % side, 128 % side] = False
    blocked[4] = True
    return blocked


def test_scipy_is_compared_where_the_tests_run() -> None:
    assert "scipy, graph each time" in NAMES
    assert "scipy, one graph template" in NAMES


@pytest.mark.parametrize("name", NAMES)
def test_distances_are_ours(name: str) -> None:
    blocked = np.zeros((5, 256, 256), bool)
    blocked[:, 80:176, 80:176] = stack()
    blocked[4] = True
    ours, search = distance_fields(blocked), straightforward.contestants()[name]
    for _ in range(2):  # a template must not remember the walls before
        theirs = search(blocked)
        assert np.array_equal(np.isfinite(ours), np.isfinite(theirs))
        reached = np.isfinite(ours)
        assert theirs[reached] == pytest.approx(ours[reached], abs=1e-9)
    assert search(blocked[:1]) == pytest.approx(ours[:1], abs=1e-9)


def test_what_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(straightforward, "optional", lambda name: None)
    assert straightforward.contestants() == {}
    monkeypatch.undo()
    assert straightforward.optional("no_such_library_anywhere") is None
