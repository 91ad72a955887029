"""How this package compiles its kernels, in one place.

Importing this module imports numba, so only modules that hold kernels import it, and the public names of
`dplan` are resolved lazily: ``import dplan`` stays quick.
"""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

# What speeds sums up without touching NaN: a diverged network must stay visible as NaN.
_FAST_SUMS = {"reassoc", "contract", "nsz"}


def compiled(function: Function) -> Function:
    """Compile a function to machine code on its first call, and keep that code on disk.

    A division by zero gives inf or NaN as in NumPy instead of an exception, because the check would keep
    loops from being vectorised. The interpreter lock is released while a kernel runs.
    """
    return _compiled(function, _FAST_SUMS)


def compiled_exactly(function: Function) -> Function:
    """Do the same for a kernel that scores: operations stay in the order in which they are written.

    So a row's result cannot depend on its place in a loop, and is the same on every processor.
    """
    return _compiled(function, set())


def _compiled(function: Function, fastmath: set[str]) -> Function:
    kernel = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
    return cast(Function, kernel)
