"""How this package compiles its kernels, in one place.

Importing this module imports numba, so only modules that hold kernels import it, and the public names of
`dplan` are resolved lazily: ``import dplan`` stays quick.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

from dplan._kernels.cache import with_cache

Function = TypeVar("Function", bound=Callable[..., object])

# What speeds sums up without touching NaN: a diverged network must stay visible as NaN.
_FAST_SUMS = {"reassoc", "contract", "nsz"}


def compiled(function: Function) -> Function:
    """Compile a function to machine code on its first call, and keep that code on disk.

    A division by zero gives inf or NaN as in NumPy instead of an exception, because the check would keep loops from
    being vectorised. The interpreter lock is released while a kernel runs. Sums are taken in whatever order is fastest.

    A kernel becomes part of each kernel that calls it. Otherwise a process that compiles would run another copy of it
    than a process that loads what was compiled, and two copies may differ in the last bits of a sum.
    """
    return _compiled(function, fastmath=_FAST_SUMS, forceinline=True)


def compiled_exactly(function: Function) -> Function:
    """Compile a function as `compiled` does, but with operations in the order in which they are written.

    So a row's result cannot depend on its place in a loop, and is the same on every processor. All copies of such a
    kernel give the same bytes, so it need not become part of its callers, which compile sooner.
    """
    return _compiled(function, fastmath=False)


def compiled_into_caller(function: Function) -> Function:
    """Do as `compiled_exactly`, for a kernel with one caller: it becomes part of it before anything is compiled.

    Compiling one large kernel takes less time than compiling its pieces first.
    """
    return _compiled(function, fastmath=False, inline="always")


def _compiled(function: Function, **options: Any) -> Function:
    # Nobody calls kernels from C, and a wrapper for that would have to be compiled too.
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    return cast(Function, with_cache(lambda cached: numba.njit(cache=cached, **options)(function)))
