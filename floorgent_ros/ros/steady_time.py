"""Timers and log throttling by the steady clock, which simulated time can neither stop nor turn back."""

from __future__ import annotations

import time
from collections.abc import Callable

from rclpy.clock import Clock
from rclpy.clock_type import ClockType
from rclpy.node import Node
from rclpy.timer import Timer

_MAX_KEYS = 256  # what a hostile stream of ever new texts can make us remember


def steady_timer(node: Node, period_s: float, callback: Callable[[], None]) -> Timer:
    """A timer of the node that runs whether or not anybody publishes /clock."""
    return node.create_timer(period_s, callback, clock=Clock(clock_type=ClockType.STEADY_TIME))


class Throttle:
    """Decides whether a log line is due: each text at once, then again after the period."""

    def __init__(self, period_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._period_s = period_s
        self._clock = clock
        self._said: dict[str, float] = {}

    def due(self, text: str) -> bool:
        """Return True, and remember it, when the text was not said during the last period."""
        now = self._clock()
        if now - self._said.get(text, -float("inf")) < self._period_s:
            return False
        if len(self._said) >= _MAX_KEYS:
            self._said.clear()
        self._said[text] = now
        return True
