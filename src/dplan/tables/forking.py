"""A child process that was forked from a process in which polars has run cannot use polars: it would wait forever.

Polars' threads do not survive a fork, and its locks stay as they were. So the child is told, instead of hanging.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["check_not_forked"]

_forked_from: int | None = None  # the parent, if polars had threads there
_threads_at_fork = False


def check_not_forked() -> None:
    """Raise in a forked process in which polars would hang."""
    if _forked_from is not None:
        raise RuntimeError(
            f"process {os.getpid()} was forked from {_forked_from}, where polars was in use, and would hang: "
            "start processes with 'spawn' or 'forkserver' (multiprocessing), with joblib, or before tables are read"
        )


def _polars_runs() -> bool:
    """Tell whether polars has started its threads; where that cannot be seen, whether it has been imported."""
    try:
        names = [(task / "comm").read_text() for task in Path("/proc/self/task").iterdir()]
    except OSError:
        return "polars" in sys.modules
    return any(name.startswith(("polars-0", "async-executor", "tokio-rt")) for name in names)


def _before() -> None:
    global _threads_at_fork
    _threads_at_fork = _polars_runs()


def _in_child() -> None:
    global _forked_from
    if _threads_at_fork:
        _forked_from = os.getppid()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_child=_in_child)
