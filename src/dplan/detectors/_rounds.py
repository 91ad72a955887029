"""What a detector tells about its training: history, callback and lines of text after each round."""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from dplan._kernels.compiling import compiling

Callback = Callable[[Any, Mapping[str, float]], bool | None]

logger = logging.getLogger("dplan")


class Rounds:
    """The part of a detector that records rounds of training."""

    callback: Callback | None
    verbose: int
    round_name: ClassVar[str]
    history_: dict[str, list[float]]
    _started: float

    def _record(self, **metrics: float) -> bool:
        """Add a round to the history, call the callback, and return whether to stop."""
        metrics["seconds"] = compiling.clock() - self._started
        for name, value in metrics.items():
            self.history_.setdefault(name, []).append(float(value))
        if self.verbose:
            listed = ", ".join(f"{name} {value:.4g}" for name, value in metrics.items())
            n_rounds = len(self.history_["seconds"])
            _report(f"{type(self).__name__}: {self.round_name} {n_rounds}: {listed}")
        return self.callback is not None and bool(self.callback(self, metrics))


@contextmanager
def compilation_reported(verbose: int) -> Iterator[None]:
    """Say so in this block if kernels have to be compiled: by a printed line with `verbose`, else in the log."""
    before = compiling.notify
    if verbose:
        compiling.notify = _report
    try:
        yield
    finally:
        compiling.notify = before


def _report(line: str) -> None:
    """Log a line, or print it if the logger has no handler: the user asked for output."""
    if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
        logger.info(line)
    else:
        print(line, flush=True)  # noqa: T201
