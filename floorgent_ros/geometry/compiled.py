"""The one door to numba, so that its settings and its missing types stay in one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled_with(*freedoms: str) -> Callable[[Function], Function]:
    """As `compiled`, and the compiler may take these freedoms with floating point (LLVM's fast-math flags).

    contract: a product and a sum become one operation with one rounding. reassoc: sums are taken in another
    order, the same at every call.
    """

    def decorate(function: Function) -> Function:
        try:
            return cast("Function", numba.njit(nogil=True, cache=True, fastmath=set(freedoms))(function))
        except RuntimeError:
            return cast("Function", numba.njit(nogil=True, fastmath=set(freedoms))(function))

    return decorate


def compiled(function: Function) -> Function:
    """Compile at the first call, release the GIL inside, keep the machine code for the next process.

    Where neither the package's folder nor the user's cache folder can be written (a read-only container),
    numba refuses to cache: then each process compiles anew, some seconds at its first call.
    """
    return compiled_with()(function)
