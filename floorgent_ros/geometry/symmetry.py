"""The eight signed permutations of the plane (section IV-A1), on levels and images."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

SYMMETRIES = 8
Scalar = TypeVar("Scalar", bound=np.generic)


def turn_levels(walls: NDArray[np.int64], symmetry: int, top: int) -> NDArray[np.int64]:
    """(N, 4) levels 0 … top → the same walls mirrored and swapped; 0 ≤ symmetry < 8, 0 is the identity.

    Bit 2 swaps x and y, then bit 0 mirrors x and bit 1 mirrors y. The order of ends and walls stays.
    """
    if symmetry & 4:
        walls = walls[:, [1, 0, 3, 2]]
    if symmetry & 1:
        walls = walls * (-1, 1, -1, 1) + (top, 0, top, 0)
    if symmetry & 2:
        walls = walls * (1, -1, 1, -1) + (0, top, 0, top)
    return walls


def turn_image(image: NDArray[Scalar], symmetry: int) -> NDArray[Scalar]:
    """(…, L, L) → the same image mirrored and swapped as `turn_levels` does walls."""
    image = np.swapaxes(image, -1, -2) if symmetry & 4 else image
    image = image[..., ::-1] if symmetry & 1 else image
    image = image[..., ::-1, :] if symmetry & 2 else image
    return np.ascontiguousarray(image)
