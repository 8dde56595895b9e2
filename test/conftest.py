"""Surroundings of all tests, set before anything imports rclpy: a DDS domain of their own, on loopback only.

Child processes of the tests inherit them.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import matplotlib as mpl
import pytest

import floorgent_ros

DOMAINS = range(
    1, 102
)  # 0 is where robots live; above 101 the ports collide with those of outgoing connections


def claim_domain() -> tuple[int, IO[str]]:
    """Return a ROS domain that no other test run on this machine uses, and the lock that says so."""
    for domain in random.Random().sample(DOMAINS, len(DOMAINS)):
        path = Path(tempfile.gettempdir(), f"floorgent_ros_test_domain_{domain}")
        lock = path.open("a", encoding="utf-8")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            continue
        return domain, lock
    raise RuntimeError("all ROS domains are in use by other test runs: wait for one of them to end")


with contextlib.suppress(ImportError):  # the quick suites of a ROS workspace do without hypothesis
    from hypothesis import settings

    settings.register_profile("automatic", derandomize=True, deadline=None)
    if os.environ.get("CI"):  # the same examples on every run; people's own runs look for new ones
        settings.load_profile("automatic")

# A shell's background job ignores Ctrl-C, and so would every process that the tests start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

DOMAIN, DOMAIN_LOCK = claim_domain()  # the lock holds until this process ends
LOGS = tempfile.TemporaryDirectory(prefix="floorgent_ros_test_log_")

mpl.use("Agg")  # no test opens a window
os.environ.update(
    ROS_DOMAIN_ID=str(DOMAIN),
    ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST",
    ROS_LOG_DIR=LOGS.name,
    ROS_PYTHON_CHECK_FIELDS="1",  # a wrong type in a message field raises
)
os.environ.setdefault("AMENT_PREFIX_PATH", sys.prefix)


def pytest_report_header() -> str:
    """Say whose code runs: the working tree's or an installed package's."""
    return f"floorgent_ros: {Path(floorgent_ros.__file__).parent}, ROS domain {DOMAIN}"


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread for torch in this process while the test runs."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
