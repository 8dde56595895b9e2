"""Sharing the sequences of a draw among threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from floorgent_ros.model.compiled_trunk import Ints

WIDTH = 8  # sequences that a thread advances together; more would not use a weight better


class Queue:
    """Shares `count` sequences among threads, so that none idles while another has several.

    slots: places for sequences, at least `WIDTH` a thread. begin: puts sequence number k into a slot.
    finished: whether a slot's sequence is over.
    """

    def __init__(
        self,
        slots: int,
        begin: Callable[[int, int], None],
        finished: Callable[[int], bool],
        count: int,
        threads: int,
    ) -> None:
        self.threads = threads
        self._begin_at, self._finished = begin, finished
        self._changed = threading.Condition()
        self._unfinished, self._next, self._count = count, 0, count
        self._free = list(range(slots))
        self._waiting: list[int] = []  # slots whose sequences nobody advances at present

    def run(self, advance: Callable[[int, Ints], None]) -> None:
        """Advance(thread, slots) until all are finished; it returns when one of them is, or sooner."""

        def work(thread: int) -> None:
            try:
                slots = self.take()
                while len(slots):
                    advance(thread, slots)
                    slots = self.exchange(slots)
            except BaseException:
                self.close()  # or the other threads would wait for this one's sequences
                raise

        if self.threads == 1:
            work(0)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(work, range(self.threads)))

    def take(self) -> Ints:
        """Slots for a thread to advance; empty when all sequences are finished. Waits for work."""
        with self._changed:
            while self._unfinished > 0:  # less, when others give back after `close`
                share = min(WIDTH, -(-self._unfinished // self.threads))
                taken = [self._waiting.pop() for _ in range(min(share, len(self._waiting)))]
                taken += [self._begin() for _ in range(min(share - len(taken), self._count - self._next))]
                if taken:
                    return np.array(sorted(taken), np.int64)
                self._changed.wait()
            self._changed.notify_all()
        return np.zeros(0, np.int64)

    def exchange(self, slots: Ints) -> Ints:
        """Give back what was taken, and take anew."""
        with self._changed:
            for slot in slots.tolist():
                if self._finished(slot):
                    self._free.append(slot)
                    self._unfinished -= 1
                else:
                    self._waiting.append(slot)
            self._changed.notify_all()
        return self.take()

    def close(self) -> None:
        """Let every thread end."""
        with self._changed:
            self._unfinished = 0
            self._changed.notify_all()

    def _begin(self) -> int:
        """Put the next sequence into a free slot: there is one, since each thread holds at most WIDTH."""
        slot = self._free.pop()
        self._begin_at(slot, self._next)
        self._next += 1
        return slot
