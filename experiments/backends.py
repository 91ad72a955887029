"""Where cells run: in this process, in local worker processes, or on a Dask cluster.

Each backend is a function that yields the numbers of cells with their results, in the order in which they finish.
Results do not depend on the order or the number of workers.
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

from experiments.cells import Cell, run_cell

__all__ = ["Backend", "Waiting", "on_dask", "on_processes", "run_serially"]

Finished = tuple[int, dict[str, Any]]
Backend = Callable[[Sequence[Cell], Path | None], Iterator[Finished]]

_MOST_LOST_WORKERS = 3
# Seconds. Polars makes system calls restart after a signal, so Ctrl-C is only noticed between waits.
_LONGEST_WAIT = 0.2


def run_serially(cells: Sequence[Cell], home: Path | None) -> Iterator[Finished]:
    """Run cells in this process."""
    for number, cell in enumerate(cells):
        yield number, run_cell(cell, home)


def on_processes(jobs: int) -> Backend:
    """Return a backend of `jobs` local processes with one BLAS thread each.

    The processes are reused by the next plan unless this one stops early.
    """
    if jobs == 1:
        return run_serially
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
                        submit(worker)  # before recording, so that the worker is not idle
                        yield call.result()
                        continue
                    # If a worker is killed, for example because the system ran out of memory, its cell is retried,
                    # unless no progress is made at all.
                    lost += 1
                    if lost == _MOST_LOST_WORKERS:
                        raise RuntimeError(
                            f"workers were killed {lost} times in a row, possibly because the system ran out of "
                            "memory; try again with fewer --jobs"
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
    """A queue that sends cells with the same rows to the same worker.

    Rows are then drawn and prepared once, not once per worker. When no new rows are left, workers take cells from each
    other.

    Examples
    --------
    >>> from experiments.suites import Plan, cells_of
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
        """Return the last cell of a worker to the front of its queue."""
        self._begun[worker].appendleft(self._last[worker])


def _new_worker() -> Any:
    """Return a pool of one process, so that its next cell can depend on its previous one."""
    from joblib.externals.loky.process_executor import ProcessPoolExecutor

    # loky restarts a process that uses too much memory. Nothing is lost, so hide the warning.
    warnings.filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    return ProcessPoolExecutor(max_workers=1, env=one_thread)


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Block Ctrl-C in processes started inside this context; the terminal sends it to every process.

    The runner handles it and stops its workers, which would only print tracebacks.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # otherwise the first worker starts it, which resets the mask too early
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def on_dask(scheduler: str, timeout: float = 10.0) -> Backend:
    """Return a backend that sends cells to the Dask cluster of a scheduler, if it answers within `timeout` seconds.

    The workers need this package and the data sets at the same path; one thread per worker is best.
    """
    try:
        from distributed import Client, as_completed
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("--backend dask needs Dask; run  pip install 'dplan-ad[dask]'") from error

    def run(cells: Sequence[Cell], home: Path | None) -> Iterator[Finished]:
        with Client(scheduler, timeout=timeout, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            # Dask retries the cells of a worker that dies.
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
    """Exit soon after the runner has exited; a killed runner cannot stop its workers."""

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
