"""Stages are timed in their order, and what fails is not."""

from __future__ import annotations

import time

import pytest

from floorgent_ros.stopwatch import Stopwatch


def test_each_stage_has_its_milliseconds():
    watch = Stopwatch()
    with watch("sleep"):
        time.sleep(0.02)
    with watch("nothing"):
        pass
    assert list(watch.milliseconds) == ["sleep", "nothing"]
    assert watch.milliseconds["sleep"] >= 20
    assert 0 <= watch.milliseconds["nothing"] < watch.milliseconds["sleep"]


def test_a_stage_that_raises_is_not_counted():
    watch = Stopwatch()
    with pytest.raises(ValueError, match="no"), watch("failing"):
        raise ValueError("no")
    assert watch.milliseconds == {}
