"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
