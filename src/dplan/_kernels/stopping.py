"""Stop work in other threads: Ctrl-C only reaches the main thread, and threads cannot be stopped from outside."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Event

_event: ContextVar[Event | None] = ContextVar("event", default=None)


class Stopped(Exception):
    """The result is not needed any more."""


@contextmanager
def stopped_by(event: Event) -> Iterator[None]:
    """Make `check` raise in this block and thread once an event is set.

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
    token = _event.set(event)
    try:
        yield
    finally:
        _event.reset(token)


def check() -> None:
    """Raise `Stopped` if the work was stopped; called between two blocks of rows."""
    event = _event.get()
    if event is not None and event.is_set():
        raise Stopped
