"""Whether kernels are being compiled, and for how long: people are told, and times that are reported leave it out.

This module does not import numba, so that a command can ask before it needs kernels.
"""

import logging
import time
from collections.abc import Callable

__all__ = ["MESSAGE", "Compiling", "compiling"]

MESSAGE = "Compiling for this processor, once (about 10 s) …"


class Compiling:
    """What is known about compilation in this process.

    Attributes
    ----------
    notify : callable
        Called with a message when the first kernel is compiled; by default, the message is logged.

    Examples
    --------
    >>> said = []
    >>> own = Compiling(said.append)
    >>> own.begin(), own.begin(), own.is_busy, own.end(), own.is_busy, own.end(), own.is_busy
    (None, None, True, None, True, None, False)
    >>> own.begin(), own.end(), len(said), own.seconds > 0
    (None, None, 1, True)
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.notify = notify
        self._done, self._since, self._depth, self._told = 0.0, 0.0, 0, False

    @property
    def is_busy(self) -> bool:
        """Whether a kernel is being compiled."""
        return self._depth > 0

    @property
    def seconds(self) -> float:
        """The time that was spent so far."""
        return self._done + (time.perf_counter() - self._since if self.is_busy else 0.0)

    def clock(self) -> float:
        """Return the seconds since some moment, without those of compilation: for times that are reported."""
        return time.perf_counter() - self.seconds

    def begin(self) -> None:
        """Note that a kernel is being compiled; those that it calls are compiled meanwhile."""
        if not self._told:
            self._told = True
            self.notify(MESSAGE)
        if self._depth == 0:
            self._since = time.perf_counter()
        self._depth += 1

    def end(self) -> None:
        """Note that a kernel is compiled."""
        self._depth -= 1
        if self._depth == 0:
            self._done += time.perf_counter() - self._since


compiling = Compiling(logging.getLogger("dplan").info)
