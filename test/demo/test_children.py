from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from floorgent_ros.demo.children import Children, held_signals, ros_environment, signals_interrupt

STUBBORN = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
print("up", flush=True)
time.sleep(60)
"""
POLITE = """
import time
try:
    print("up", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("bye", flush=True)
"""
PARENT = f"""
import subprocess, sys
print(subprocess.Popen([sys.executable, "-c", {STUBBORN!r}]).pid, flush=True)
"""


def start(children, name, code, on_line=None, patience_s=5.0):
    return children.start(name, [sys.executable, "-c", code], on_line, patience_s)


def gone(pid):
    return not Path(f"/proc/{pid}").exists()


@pytest.fixture
def lines():
    return []


def wait_for(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.02)


def test_a_polite_child_ends_with_ctrl_c_and_its_words_are_heard(tmp_path, lines):
    with Children(tmp_path, os.environ) as children:
        child = start(children, "polite", POLITE, lines.append)
        wait_for(lambda: lines == ["up"])
        assert child.code is None
    assert child.code == 0
    assert lines == ["up", "bye"]


def test_a_stubborn_child_ends_all_the_same(tmp_path, lines):
    with Children(tmp_path, os.environ) as children:
        child = start(children, "stubborn", STUBBORN, lines.append, patience_s=0.3)
        wait_for(lambda: lines == ["up"])
    assert child.code == -signal.SIGTERM


def test_an_error_ends_every_child_and_their_children(tmp_path, lines):
    with pytest.raises(RuntimeError), Children(tmp_path, os.environ) as children:  # noqa: PT012
        one = start(children, "one", POLITE)
        two = start(children, "two", PARENT, lines.append)
        wait_for(lambda: len(lines) == 2)  # the grandchild's id, and that it is up
        raise RuntimeError
    assert one.code is not None
    assert two.code == 0
    grandchild = next(int(line) for line in lines if line.isdigit())
    wait_for(lambda: gone(grandchild) or "Z" in Path(f"/proc/{grandchild}/stat").read_text().split()[2])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_are_interrupts_and_wait_while_they_are_held(number):
    before = signal.getsignal(number)
    reached = False
    with pytest.raises(KeyboardInterrupt), signals_interrupt():  # noqa: PT012
        with held_signals():
            signal.raise_signal(number)
            reached = True
        pytest.fail("the signal was lost")
    assert reached
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_does_not_leave_a_child_running(tmp_path, lines):
    with pytest.raises(KeyboardInterrupt), signals_interrupt():  # noqa: PT012, SIM117
        with Children(tmp_path, os.environ) as children:
            child = start(children, "stubborn", STUBBORN, lines.append, patience_s=1.0)
            wait_for(lambda: lines == ["up"])
            # the parent is waiting for the child to end when it comes
            timer = threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
    assert child.code == -signal.SIGTERM


def test_last_words_are_the_last_line_of_the_log(tmp_path):
    with Children(tmp_path, os.environ) as children:
        child = start(children, "loud", "import sys; print('a\\nreason\\n\\n', file=sys.stderr); sys.exit(3)")
        assert child.wait(20.0) == 3
        silent = start(children, "silent", "")
        assert silent.wait(20.0) == 0
    assert child.last_words() == "reason"
    assert silent.last_words() == "it said nothing"


def test_the_environment_keeps_to_this_machine_and_to_itself(tmp_path, monkeypatch):
    monkeypatch.setenv("_ROS_WHEELS_BOOTSTRAP_COMPLETE", "1")
    monkeypatch.setenv("ROS_DOMAIN_ID", "0")
    environment = ros_environment(tmp_path)
    assert 1 <= int(environment["ROS_DOMAIN_ID"]) <= 101
    assert environment["ROS_AUTOMATIC_DISCOVERY_RANGE"] == "LOCALHOST"
    assert environment["ROS_LOG_DIR"] == str(tmp_path)
    assert "_ROS_WHEELS_BOOTSTRAP_COMPLETE" not in environment
