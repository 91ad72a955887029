"""Run the scoring and explaining of chunks in threads, or on a Dask cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import lru_cache
from threading import Event
from typing import Any

from dplan._kernels.threads import stopped_by
from dplan.tables.model import TableModel

__all__ = ["Run", "in_threads", "loaded_model", "on_cluster"]

# Calls a function with the model and each tuple of arguments, several at a time; yields the results in order.
Run = Callable[[Callable[..., Any], Iterable[tuple[Any, ...]]], Iterator[Any]]


@contextmanager
def in_threads(model: TableModel, n_threads: int) -> Iterator[Run]:
    """Yield a function that runs jobs in threads, with a short queue to bound memory."""
    stop = Event()

    def do(function: Callable[..., Any], *job: Any) -> Any:
        with stopped_by(stop):
            return function(model, *job)

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


@contextmanager
def on_cluster(scheduler: str, content: bytes) -> Iterator[Run]:
    """Yield a function that runs jobs on a Dask cluster, with the model of these bytes."""
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise ImportError("--backend dask needs Dask; run  pip install 'dplan-ad[dask]'") from error
    with Client(scheduler, timeout=5) as client:  # type: ignore[no-untyped-call]
        # A task instead of scatter: if the workers that hold the model die, Dask recomputes it.
        model = client.submit(bytes, content, pure=False)

        def run(function: Callable[..., Any], jobs: Iterable[tuple[Any, ...]]) -> Iterator[Any]:
            futures = [client.submit(_with_model, function, model, *job, pure=False) for job in jobs]
            for future in futures:
                yield future.result()

        yield run


def _with_model(function: Callable[..., Any], content: bytes, *job: Any) -> Any:
    return function(loaded_model(content), *job)


@lru_cache(maxsize=2)
def loaded_model(content: bytes) -> TableModel:
    """Load a model from the bytes of its file, once per process."""
    return TableModel.load(content)
