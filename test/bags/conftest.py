from __future__ import annotations

from pathlib import Path

import pytest
from small_checkpoint import small_checkpoint


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of few parameters."""
    return small_checkpoint(tmp_path_factory.mktemp("weights") / "small.safetensors")
