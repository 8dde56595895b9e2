"""How long the stages of a computation take."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Stopwatch:
    """Milliseconds by stage, in the order in which the stages ended."""

    def __init__(self) -> None:
        self.milliseconds: dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time the block as `stage`; a block that raises is not counted."""
        begun = time.perf_counter()
        yield
        self.milliseconds[stage] = 1e3 * (time.perf_counter() - begun)
