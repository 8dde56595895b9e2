"""Files that are there whole or not at all, and refused before the work where they could not be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from floorgent_ros.errors import FloorgentError


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a path beside the given one to write to; it takes the given one's place when the block ends well.

    Whatever was there before stays until then, and for good when the block raises.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def check_file(path: Path, said: str = "") -> None:
    """Refuse in one line, before the work, a file that could not be written after it; said: its option."""
    check_folder_of(path, said)
    if path.is_dir():
        raise FloorgentError(f"{said}{path}: is a folder; give a file name")


def check_folder_of(path: Path, said: str = "") -> None:
    """The same for a path whose folder must be there and take files."""
    folder = path.absolute().parent
    if not folder.is_dir():
        raise FloorgentError(f"{said}{path}: its folder does not exist; make it first")
    if not os.access(folder, os.W_OK):
        raise FloorgentError(f"{said}{path}: its folder cannot be written to; give another place")
