"""Exceptions as log lines."""

from __future__ import annotations

import sys

from floorgent_ros.errors import FloorgentError


def one_line(error: BaseException) -> str:
    """An exception in one line: ours say all themselves, others need their type."""
    text = " ".join(str(error).split())
    if isinstance(error, ModuleNotFoundError):
        return f"{text} in {sys.executable}: install it for this Python (README, 'torch')"
    return text if isinstance(error, FloorgentError) else f"{type(error).__name__}: {text}"
