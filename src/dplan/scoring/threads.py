"""Run the scoring and explaining of chunks in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from threading import Event
from typing import Any

from dplan._kernels.threads import stopped_by

__all__ = ["Run", "in_threads"]

# Calls a function with something and each tuple of arguments, several at a time; yields the results in order.
Run = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]]


@contextmanager
def in_threads(first: Any, n_threads: int) -> Iterator[Run]:
    """Yield a function that runs jobs in threads, with a short queue to bound memory."""
    stop = Event()

    def do(function: Callable[..., Any], *job: Any) -> Any:
        with stopped_by(stop):
            return function(first, *job)

    with ThreadPoolExecutor(n_threads) as pool:

        def run(function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            running: deque[Future[Any]] = deque()
            try:
                for job in jobs:
                    running.append(pool.submit(do, function, *job))
                    if len(running) > n_threads + 1:
                        yield _result(running.popleft())
                while running:
                    yield _result(running.popleft())
            finally:
                for future in running:
                    future.cancel()

        try:
            yield run
        finally:
            stop.set()  # or Ctrl-C would wait until chunks under way are scored


def _result(future: Future[Any]) -> Any:
    # In short waits: with polars' handler of Ctrl-C, it is heeded between two waits only.
    while wait([future], timeout=0.2).not_done:
        pass
    return future.result()
