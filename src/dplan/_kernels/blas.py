"""One BLAS thread while our kernels run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import threadpoolctl

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@cache
def _controller() -> Any:
    import scipy.linalg.cython_blas  # noqa: F401 - numba's products run in it; only what is loaded can be limited

    return threadpoolctl.ThreadpoolController()


def _take_control() -> None:
    # Since threadpoolctl 3.8 only one thread may change OpenBLAS's setting. Ours are under one lock already, and the
    # thread that restores the setting may be another than the one that changed it.
    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Run the block with one BLAS thread, and restore the setting afterwards.

    Our products are small: a second thread costs more than it brings, and the last bits of a product would
    depend on the number of threads. The setting belongs to the whole process, so blocks that overlap in several
    threads share it: the first to enter sets it, the last to leave restores it.

    Examples
    --------
    >>> with single_threaded_blas():
    ...     pass
    """
    global _inside, _limit
    with _lock:
        if _inside == 0:
            _take_control()
            _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _take_control()
                _limit.restore_original_limits()
                _take_control()  # and leave it to whoever comes next
                _limit = None
