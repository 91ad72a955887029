"""One BLAS thread while our kernels run."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
_inside = 0
_limit: Any = None


@cache
def _controller() -> ThreadpoolController:
    import scipy.linalg.cython_blas  # noqa: F401 - the library numba's products run in; it must be loaded to be found

    return ThreadpoolController()


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
            _limit = _controller().limit(limits=1, user_api="blas")
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limit.restore_original_limits()
                _limit = None
