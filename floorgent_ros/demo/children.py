"""The demo's processes: started with their own output, always ended, by their id and no other way."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

OnLine = Callable[[str], None]

PATIENCE_S = 5.0  # for each of SIGINT, SIGTERM and SIGKILL
INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Child:
    """One process in a session of its own, so that a terminal's Ctrl-C reaches only its parent.

    Everything it prints goes to log; on_line gets each line of its standard output.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        on_line: OnLine | None,
        patience_s: float,
    ) -> None:
        self.name, self.log, self._patience_s = name, log, patience_s
        self._file = log.open("w", encoding="utf-8", errors="replace")
        self._process = subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if on_line else self._file,
            stderr=self._file,
            text=True,
            start_new_session=True,
        )
        self._interrupted = False
        self._reader: threading.Thread | None = None
        if on_line:
            self._reader = threading.Thread(target=self._read, args=(on_line,), daemon=True)
            self._reader.start()

    @property
    def code(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.poll()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self) -> None:
        """End it as the kernel does when memory runs out, and wait for that."""
        self._signal(signal.SIGKILL)
        self._process.wait()

    def interrupt(self) -> None:
        """Ask it to end, as Ctrl-C does; once, since a second Ctrl-C would cut its last words off."""
        if not self._interrupted:
            self._interrupted = True
            self._signal(signal.SIGINT)

    def wait(self, seconds: float) -> int | None:
        """Wait for the end; the exit code, or None."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.code

    def end(self) -> None:
        """Make sure that it and what it started are gone."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            if self.code is None:
                if number == signal.SIGINT:
                    self.interrupt()
                else:
                    self._signal(number)
                self.wait(self._patience_s if number == signal.SIGINT else PATIENCE_S)
        # a launch process that died early may have left the node behind, in its session
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        if self._reader:
            self._reader.join(1.0)
        self._file.close()

    def last_words(self) -> str:
        """The last line of its log that says something."""
        lines = [line.strip() for line in self.log.read_text(encoding="utf-8", errors="replace").splitlines()]
        return next((line for line in reversed(lines) if line), "it said nothing")

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    def _read(self, on_line: OnLine) -> None:
        for line in self._process.stdout or ():
            on_line(line.rstrip("\n"))


class Children:
    """A context in which processes run; when it is left, however, they have ended."""

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs = logs
        self._environment = environment
        self._children: list[Child] = []

    def start(
        self,
        name: str,
        command: Sequence[str],
        on_line: OnLine | None = None,
        patience_s: float = PATIENCE_S,
    ) -> Child:
        """Start a process; its log is NAME.log. patience_s: what it may take to end after SIGINT."""
        log = self._logs / f"{name}.log"
        with held_signals():  # a process that is started but not yet in the list would be left behind
            child = Child(name, command, self._environment, log, on_line, patience_s)
            self._children.append(child)
        return child

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with held_signals():  # a second Ctrl-C must not leave somebody running
            for child in self._children:  # all at once, so that a slow one does not keep the others waiting
                child.interrupt()
            for child in self._children:
                child.end()


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """Let the signals that end the demo wait until the block is left."""
    held: list[int] = []
    before = {number: signal.signal(number, lambda got, _: held.append(got)) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if held:
            signal.raise_signal(held[0])


@contextlib.contextmanager
def signals_interrupt() -> Iterator[None]:
    """Let SIGTERM and a closed terminal end the demo as Ctrl-C does, children included."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def ros_environment(logs: Path) -> dict[str, str]:
    """Our environment with a ROS domain of this run's own, heard on this machine only."""
    environment = dict(os.environ)
    environment["ROS_DOMAIN_ID"] = str(1 + os.getpid() % 100)
    environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    environment["ROS_LOG_DIR"] = str(logs)
    environment.setdefault("AMENT_PREFIX_PATH", sys.prefix)
    environment["PYTHONUNBUFFERED"] = "1"
    # set by the ROS wheels when they have arranged LD_LIBRARY_PATH; a child arranges its own
    environment.pop("_ROS_WHEELS_BOOTSTRAP_COMPLETE", None)
    return environment
