"""The one door to numba, so that its settings and its missing types stay in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile at the first call, release the GIL inside, keep the machine code for the next process.

    Where neither the package's folder nor the user's cache folder can be written (a read-only container),
    numba refuses to cache: then each process compiles anew, some seconds at its first call.
    """
    try:
        return cast("Function", numba.njit(nogil=True, cache=True)(function))
    except RuntimeError:
        return cast("Function", numba.njit(nogil=True)(function))
