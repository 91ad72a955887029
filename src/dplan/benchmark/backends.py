"""Where cells run: in this process, in local worker processes, or on a Dask cluster.

Each backend is a function that yields the numbers of cells with their outcomes, in whatever order they finish. A
cell's outcome depends on the cell alone, so the order and the number of workers change nothing in the figures.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dplan.benchmark.cells import Cell, run_cell

__all__ = ["Backend", "on_dask", "on_processes", "one_by_one"]

Finished = tuple[int, dict[str, Any]]
Backend = Callable[[Sequence[Cell], Path | None], Iterator[Finished]]

_MOST_LOST_WORKERS = 3


def one_by_one(cells: Sequence[Cell], home: Path | None) -> Iterator[Finished]:
    """Run cells in this process."""
    for number, cell in enumerate(cells):
        yield number, run_cell(cell, home)


def on_processes(jobs: int) -> Backend:
    """Return a backend of `jobs` local processes with one BLAS thread each."""
    if jobs == 1:
        return one_by_one

    def run(cells: Sequence[Cell], home: Path | None) -> Iterator[Finished]:
        from joblib import Parallel, delayed, parallel_config
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        still_open = dict(enumerate(cells))
        lost = 0
        while still_open:
            runner = os.getpid()
            calls = (
                delayed(_in_worker)(runner, number, cell, home) for number, cell in list(still_open.items())
            )
            try:
                with parallel_config("loky", inner_max_num_threads=1):
                    pool = Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")
                for number, outcome in pool(calls):
                    del still_open[number]
                    lost = 0
                    yield number, outcome
            except TerminatedWorkerError as error:
                # A worker that was killed, by the system for want of memory for example, takes its cell with it. That
                # cell runs again, unless nothing else gets done any more.
                lost += 1
                if lost == _MOST_LOST_WORKERS:
                    raise RuntimeError(
                        f"workers were killed {lost} times without a cell being finished, perhaps for want of memory: "
                        "give the same command with fewer --jobs"
                    ) from error

    return run


def on_dask(scheduler: str, patience: float = 10.0) -> Backend:
    """Return a backend that sends cells to the Dask cluster of a scheduler, if it answers within `patience` seconds.

    The workers need this package and the data home at the same path; one thread per worker is best.
    """
    try:
        from distributed import Client, as_completed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "the Dask backend needs dask and distributed: pip install 'dplan-ad[dask]'"
        ) from error

    def run(cells: Sequence[Cell], home: Path | None) -> Iterator[Finished]:
        with Client(scheduler, timeout=patience, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            # A cell whose worker dies is run again on another one; dask itself counts how often.
            futures = client.map(
                _numbered, range(len(cells)), cells, home=home, pure=False, retries=_MOST_LOST_WORKERS
            )
            for _, finished in as_completed(futures, loop=client.loop, with_results=True):  # type: ignore[no-untyped-call]
                yield finished

    return run


def _numbered(number: int, cell: Cell, home: Path | None) -> Finished:
    return number, run_cell(cell, home)


def _in_worker(runner: int, number: int, cell: Cell, home: Path | None) -> Finished:
    _leave_with(runner)
    return _numbered(number, cell, home)


@cache
def _leave_with(runner: int) -> None:
    """End this worker soon after its runner has ended: one that is killed cannot tell its workers."""

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
