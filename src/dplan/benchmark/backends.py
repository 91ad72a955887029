"""Where cells run: in this process, in local worker processes, or on a Dask cluster.

Each backend is a function that yields the numbers of cells with their outcomes, in the order in which they finish.
An outcome depends on its cell alone, so the order and the number of workers do not change the results.
"""

import contextlib
import os
import signal
import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from functools import cache
from pathlib import Path
from typing import Any

from dplan.benchmark.cells import Cell, run_cell

__all__ = ["Backend", "Waiting", "on_dask", "on_processes", "one_by_one"]

Finished = tuple[int, dict[str, Any]]
Backend = Callable[[Sequence[Cell], Path | None], Iterator[Finished]]

_MOST_LOST_WORKERS = 3
# Seconds. Polars lets interrupted system calls restart, so Ctrl-C is noticed only between waits.
_LONGEST_WAIT = 0.2


def one_by_one(cells: Sequence[Cell], home: Path | None) -> Iterator[Finished]:
    """Run cells in this process."""
    for number, cell in enumerate(cells):
        yield number, run_cell(cell, home)


def on_processes(jobs: int) -> Backend:
    """Return a backend of `jobs` local processes with one BLAS thread each.

    They are kept for the next plan, unless this one ends early.
    """
    if jobs == 1:
        return one_by_one
    workers: list[Any] = []

    def run(cells: Sequence[Cell], home: Path | None) -> Iterator[Finished]:
        waiting = Waiting(cells)
        running: dict[Future[Finished], int] = {}
        lost = 0

        def submit(worker: int) -> None:
            number = waiting.take(worker)
            if number is not None:
                with _ignoring_interrupts():
                    call = workers[worker].submit(_in_worker, os.getpid(), number, cells[number], home)
                running[call] = worker

        try:
            workers.extend(_new_worker() for _ in range(jobs - len(workers)))
            for worker in range(jobs):
                submit(worker)
            while running:
                for call in wait(running, _LONGEST_WAIT, return_when=FIRST_COMPLETED).done:
                    worker = running.pop(call)
                    if not isinstance(call.exception(), BrokenExecutor):
                        lost = 0
                        submit(worker)  # first, so that it does not wait while its last cell is recorded
                        yield call.result()
                        continue
                    # A worker that was killed, for example because memory ran out, loses its cell. That cell runs
                    # again, unless no cell gets finished any more.
                    lost += 1
                    if lost == _MOST_LOST_WORKERS:
                        raise RuntimeError(
                            f"workers were killed {lost} times in a row, perhaps because memory ran out: run the same "
                            "command with fewer --jobs"
                        ) from call.exception()
                    workers[worker].shutdown(kill_workers=True)
                    workers[worker] = _new_worker()
                    waiting.take_back(worker)
                    submit(worker)
        except BaseException:  # also if the caller stops iterating
            for pool in workers:
                pool.shutdown(kill_workers=True)
            workers.clear()
            raise

    return run


class Waiting:
    """Waiting cells, distributed so that those with the same rows go to the same worker.

    Rows are then drawn and prepared once and not once per worker. When no new rows are left, workers take over
    cells from each other.

    Examples
    --------
    >>> from dplan.benchmark.suites import Plan, cells_of
    >>> waiting = Waiting(cells_of(Plan(("table2",), methods=("DUA", "REPEN"), runs=1, datasets=("har",))))
    >>> [waiting.take(worker) for worker in (0, 1, 0, 0, 0)]
    [0, 2, 1, 3, None]
    """

    def __init__(self, cells: Sequence[Cell]) -> None:
        groups: dict[tuple[object, ...], deque[int]] = {}
        for number, cell in enumerate(cells):
            groups.setdefault(cell.rows, deque()).append(number)
        self._fresh = deque(groups.values())
        self._begun: dict[int, deque[int]] = {}
        self._last: dict[int, int] = {}

    def take(self, worker: int) -> int | None:
        """Return the number of the next cell for a worker, or None if nothing is left."""
        if not self._begun.get(worker):
            if self._fresh:
                self._begun[worker] = self._fresh.popleft()
            else:
                fullest = max(self._begun.values(), key=len, default=deque[int]())
                self._begun[worker] = deque([fullest.pop()] if fullest else [])
        if not self._begun[worker]:
            return None
        self._last[worker] = self._begun[worker].popleft()
        return self._last[worker]

    def take_back(self, worker: int) -> None:
        """Put the last cell of a worker back at the front of its queue."""
        self._begun[worker].appendleft(self._last[worker])


def _new_worker() -> Any:
    """Return a pool of one process, so that its next cell can depend on its last one."""
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    # It replaces a process that has grown large by holding many data sets. Nothing is lost, so there is no warning.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return ProcessPoolExecutor(max_workers=1, env=one_thread)


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Let processes that are started meanwhile ignore Ctrl-C, which a terminal sends to every process.

    The runner handles it and ends its workers; they would only print tracebacks.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # the first worker would start it, and that sets the mask back too early
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


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
            # A cell whose worker dies runs again on another one; dask itself counts how often.
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
    """End this worker soon after its runner has ended: a runner that is killed cannot end its workers."""

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
