"""The soak's criterion for "the newest map is served": a backlog fails it, a late sender does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from soak import newest_served
from soak_bench import Figures, Robot

PERIOD_S = 0.05
PREDICTIONS_S = np.arange(1.0, 20.0, 0.5)  # when they begin


def judged(sent_s: Sequence[float], choose: Callable[[int, int], int]) -> Figures:
    """Figures when prediction i, with `newest` maps sent before it, takes map choose(i, newest), from 1."""
    begun = [(choose(i, int(np.searchsorted(sent_s, at))), at) for i, at in enumerate(PREDICTIONS_S)]
    figures = Figures()
    robot: Any = SimpleNamespace(sent_s=list(sent_s), begun=lambda: begun)
    newest_served(cast("Robot", robot), figures)
    return figures


STEADY = np.arange(0.0, 20.0, PERIOD_S)
LATE = np.concatenate([STEADY[STEADY < 4], STEADY[STEADY > 9]])  # the sender got no processor for 5 s


@pytest.mark.parametrize("sent_s", [STEADY, LATE], ids=["steady", "late"])
def test_newest_map_meets_the_limits_however_it_is_sent(sent_s: Sequence[float]) -> None:
    figures = judged(sent_s, lambda _, newest: newest)
    assert figures.unmet == []
    assert figures.values["newer maps there, at most"] == 0


def test_a_map_on_its_way_when_the_prediction_began_is_none_that_was_passed_over() -> None:
    assert judged(STEADY, lambda _, newest: newest - 1).unmet == []


@pytest.mark.parametrize(
    "choose",
    [
        lambda i, _: i + 1,
        lambda _, newest: max(newest - 9, 1),
        lambda _, newest: newest - 6,  # never out of date for a whole prediction
        lambda i, newest: newest - 20 * (i == 7),
    ],
    ids=["in order", "the oldest of ten that wait", "a queue that drops what is new", "once"],
)
def test_a_backlog_is_seen(choose: Callable[[int, int], int]) -> None:
    assert judged(STEADY, choose).unmet
