"""Threads: limit BLAS to one while kernels run, and stop work in others.

Ctrl-C only reaches the main thread, and threads cannot be stopped from outside.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

import threadpoolctl

_event: ContextVar[threading.Event | None] = ContextVar("event", default=None)
_lock = threading.Lock()
_inside = 0
_limit: Any = None


@cache
def _controller() -> Any:
    import scipy.linalg.cython_blas  # noqa: F401 - numba uses it for matrix products; only loaded libraries can be limited

    return threadpoolctl.ThreadpoolController()


def _take_control() -> None:
    # Since threadpoolctl 3.8 only one thread may change OpenBLAS's setting. We already hold a lock,
    # and a different thread may restore the setting.
    clear = getattr(threadpoolctl.OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=True)


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Run the block with one BLAS thread, and restore the setting afterwards.

    Our products are small: a second thread costs more than it gains, and rounding would depend on the number of
    threads. The setting is global, so overlapping blocks in several threads share it: the first to enter sets it, the
    last to leave restores it.

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
                _take_control()  # let other users change the setting again
                _limit = None


class Stopped(Exception):
    """The result is not needed any more."""


@contextmanager
def stopped_by(event: threading.Event) -> Iterator[None]:
    """Make `check_stopped` raise in this block and thread once an event is set.

    Examples
    --------
    >>> event = threading.Event()
    >>> with stopped_by(event):
    ...     check_stopped()
    ...     event.set()
    ...     check_stopped()
    Traceback (most recent call last):
    dplan._kernels.threads.Stopped
    """
    token = _event.set(event)
    try:
        yield
    finally:
        _event.reset(token)


def check_stopped() -> None:
    """Raise `Stopped` if the work was stopped; called between two blocks of rows."""
    event = _event.get()
    if event is not None and event.is_set():
        raise Stopped
