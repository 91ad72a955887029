"""Ending work in other threads: Ctrl-C reaches the main thread alone, and a thread cannot be ended from outside."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event

_told_by: ContextVar[Event | None] = ContextVar("told_by", default=None)


class Stopped(Exception):
    """Nobody waits for the result any more."""


@contextmanager
def stopped_by(event: Event) -> Iterator[None]:
    """Let `check` raise in this block, and in this thread, once an event is set.

    Examples
    --------
    >>> event = Event()
    >>> with stopped_by(event):
    ...     check()
    ...     event.set()
    ...     check()
    Traceback (most recent call last):
    dplan._kernels.stopping.Stopped
    """
    token = _told_by.set(event)
    try:
        yield
    finally:
        _told_by.reset(token)


def check() -> None:
    """Raise `Stopped` if whoever asked for the work has gone; called between two blocks of rows."""
    event = _told_by.get()
    if event is not None and event.is_set():
        raise Stopped
