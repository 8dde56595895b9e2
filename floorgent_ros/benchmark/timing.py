"""Milliseconds of several contestants, taken in turn, so that a disturbance meets all of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

Contestant = Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Of one thing, ms: by the clock, and of all cores together, which other work hardly changes."""

    samples: tuple[float, ...]
    processor: tuple[float, ...] = ()

    @property
    def median(self) -> float:
        """Half of the samples took no longer."""
        return float(np.median(self.samples))

    @property
    def slow(self) -> float:
        """95 % of the samples took no longer."""
        return float(np.quantile(self.samples, 0.95))

    def summary(self) -> dict[str, float]:
        """Rounded, for JSON."""
        cpu = {"cpu_ms": round(float(np.median(self.processor)), 3)} if self.processor else {}
        times = {"median_ms": round(self.median, 3), "p95_ms": round(self.slow, 3)}
        return {**times, **cpu, "runs": len(self.samples)}


def milliseconds(contestant: Contestant, synchronise: Contestant = lambda: None) -> float:
    """How long one call takes; synchronise: waits for what the call has left running on a device."""
    return both_clocks(contestant, synchronise)[0]


def both_clocks(contestant: Contestant, synchronise: Contestant = lambda: None) -> tuple[float, float]:
    """The time of one call, ms, and the processor time of all threads in it."""
    synchronise()
    begun, worked = time.perf_counter(), time.process_time()
    contestant()
    synchronise()
    return 1e3 * (time.perf_counter() - begun), 1e3 * (time.process_time() - worked)


def take_turns(
    contestants: Mapping[str, Contestant],
    rounds: int,
    *,
    warm_up: int = 1,
    synchronise: Contestant = lambda: None,
) -> dict[str, Times]:
    """Call each contestant `warm_up` times unmeasured, then one after the other `rounds` times."""
    for contestant in contestants.values():
        for _ in range(warm_up):
            contestant()
    samples: dict[str, list[tuple[float, float]]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            samples[name].append(both_clocks(contestant, synchronise))
    return {name: Times(*zip(*values, strict=True)) for name, values in samples.items()}
