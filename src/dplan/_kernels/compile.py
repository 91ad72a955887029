"""How this package compiles its kernels.

Importing this module imports numba, so only modules with kernels import it, and the public names of `dplan` are loaded
lazily, to keep ``import dplan`` fast.
"""

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.compiler_lock import global_compiler_lock

from dplan._kernels.cache import kept_in, with_cache
from dplan._kernels.compiling import compiling
from dplan._kernels.sharing import alone

Function = TypeVar("Function", bound=Callable[..., object])

# Flags that speed up sums and preserve NaN: a diverged network must stay visible as NaN.
_FAST_SUMS = {"reassoc", "contract", "nsz"}


class _Listener(event.Listener):
    """Notes when numba compiles a kernel that was not in the cache."""

    def on_start(self, event: Any) -> None:
        compiling.begin()

    def on_end(self, event: Any) -> None:
        compiling.end()


event.register("numba:compile", _Listener())  # type: ignore[no-untyped-call]

_lock = threading.Lock()
_compiling = 0
_collecting = True


def compiled(function: Function) -> Function:
    """Compile a function to machine code on its first call, and cache the code on disk.

    Division by zero gives inf or NaN, as in NumPy, because checking for it would prevent vectorisation. The GIL is
    released while a kernel runs. Sums are computed in the fastest order.

    A kernel is inlined into each kernel that calls it. Otherwise a process that compiles and a process that loads from
    the cache would run different copies, which may differ in the last bits of a sum.
    """
    return _compiled(function, fastmath=_FAST_SUMS, forceinline=True)


def compiled_exactly(function: Function) -> Function:
    """Like `compiled`, but with all operations in the written order.

    A row's result then does not depend on its position in a loop, and is the same on every processor. All copies of
    such a kernel give the same bytes, so it is not inlined, and its callers compile faster.
    """
    return _compiled(function, fastmath=False)


def compiled_into_caller(function: Function) -> Function:
    """Do as `compiled_exactly`, for a kernel with one or two callers: it becomes part of them before compilation.

    Compiling one large kernel takes less time than compiling its pieces first. In a caller that is `compiled`, sums are
    computed in the fastest order.
    """
    return _compiled(function, fastmath=False, inline="always")


def compiled_into_fast_caller(function: Function) -> Function:
    """Do as `compiled`, and as `compiled_into_caller`: the caller must be `compiled` too."""
    return _compiled(function, fastmath=_FAST_SUMS, inline="always")


def _compiled(function: Function, **options: Any) -> Function:
    # Kernels are never called from C, so do not compile a C wrapper.
    options |= {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    kernel = with_cache(lambda cached: numba.njit(cache=cached, **options)(function))
    kernel.compile = _without_collecting()(_shared(kernel, kernel.compile))
    return cast(Function, kernel)


def _shared(kernel: Any, compile_now: Callable[[Any], Any]) -> Callable[[Any], Any]:
    folder = kept_in(kernel)
    if folder is None:
        return compile_now
    name = f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"

    def compile_or_wait(signature: Any) -> Any:
        # In this order: a thread that has the compiler must not wait for one that waits for the compiler.
        with global_compiler_lock, alone(folder, name):
            return compile_now(signature)

    return compile_or_wait


@contextmanager
def _without_collecting() -> Iterator[None]:
    """Do not search for unused objects in this block, or in overlapping ones of several threads.

    A compiler makes very many objects and needs most of them to the end, so the search takes an eighth of its time.
    """
    global _compiling, _collecting
    with _lock:
        if _compiling == 0:
            _collecting = gc.isenabled()
            gc.disable()
        _compiling += 1
    try:
        yield
    finally:
        with _lock:
            _compiling -= 1
            if _compiling == 0 and _collecting:
                gc.enable()
