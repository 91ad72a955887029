"""Run the unfinished cells of a plan, one after another or in worker processes of joblib, and record the results.

Results do not depend on the number of workers.
"""

import contextlib
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from joblib import Parallel, delayed, parallel_config
from joblib.externals.loky.process_executor import TerminatedWorkerError

from dplan.exceptions import DplanError
from experiments.cells import Cell, identity, run_cell
from experiments.configuration import differences, machine, versions
from experiments.data.sources import describe, source_name
from experiments.journal import Journal
from experiments.methods import create
from experiments.suites import SUITES, Plan, cells_of

__all__ = ["ConfigurationError", "Progress", "Summary", "in_any_order", "run"]

_MOST_LOST_WORKERS = 3

Item = TypeVar("Item")
Result = TypeVar("Result")


class ConfigurationError(DplanError, ValueError):
    """Results were produced with different settings, or with another version of the code or the data."""


class Progress(NamedTuple):
    """How many cells of a run are over, of how many, without those already finished; and the cell recorded last."""

    over: int
    total: int
    skipped: int
    cell: Cell | None = None  # at the start
    outcome: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Summary:
    """Summary of a run.

    Attributes
    ----------
    done, failed, skipped : int
        Cells finished now, cells that failed, and cells already finished.
    seconds : float
        Wall time.
    overhead : float
        Fraction of the workers' time spent on neither fitting nor scoring.
    """

    done: int
    failed: int
    skipped: int
    seconds: float
    overhead: float


def run(
    plan: Plan,
    output: str | Path,
    *,
    home: Path | None = None,
    jobs: int = 1,
    command: str = "",
    listener: Callable[[Progress], object] = lambda _: None,
) -> Summary:
    """Run every cell of a plan that the folder does not have yet.

    Cells that failed before are run again. Raises an error if the results in the folder were produced with different
    versions of a detector, a data set or a library, different data or different parameters.

    Parameters
    ----------
    plan : Plan
        What to run.
    output : path
        The folder of the journal.
    home : path, optional
        The folder of the data sets.
    jobs : int, default=1
        Number of worker processes, which are kept for the next plan; 1 runs the cells in this process.
    command : str, default=""
        The command line, for the report.
    listener : callable, optional
        Receives a `Progress` at the start and for each cell.

    Returns
    -------
    Summary

    Examples
    --------
    >>> import tempfile
    >>> plan = Plan(("table2",), methods=("LogisticBaseline",), runs=1, datasets=("covertype-mini",))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first, second = run(plan, folder), run(plan, folder)
    >>> (first.done, first.skipped), (second.done, second.skipped)
    ((2, 0), (0, 2))
    """
    cells = cells_of(plan, home)
    for method in dict.fromkeys(cell.method for cell in cells):
        create(method)  # raises if it needs a package that is not installed
    fingerprints, lacking = {}, {}
    for name in dict.fromkeys(source_name(cell.scenario) for cell in cells):
        fingerprints[name], lacking[name] = describe(name, home)
    with Journal(output) as journal:
        finished = _check_and_list_finished(journal, cells, fingerprints)
        still_open = [cell for cell in cells if identity(cell.record()) not in finished]
        over, total, skipped = 0, len(still_open), len(cells) - len(still_open)
        listener(Progress(over, total, skipped))
        started = time.perf_counter()
        if still_open:
            journal.append(
                {
                    "kind": "run",
                    "command": command,
                    "time": datetime.now(UTC).isoformat(timespec="seconds"),
                    "versions": versions(),
                    "data": fingerprints,
                    "partial": lacking,
                    "machine": machine(),
                    "workers": jobs,
                }
            )
        counts = {"done": 0, "failed": 0}
        busy = capacity = 0.0
        for alone, width in ((False, jobs), (True, 1)):  # cells of timing suites run alone
            began = time.perf_counter()
            mine = [cell for cell in still_open if SUITES[cell.suite].alone == alone]
            for place, outcome in in_any_order(partial(run_cell, home=home), mine, width):
                journal.append({"kind": "cell", **mine[place].record(), **_rounded(outcome)})
                counts[outcome["status"]] += 1
                busy += outcome.get("fit_seconds", 0.0) + outcome.get("score_seconds", 0.0)
                over += 1
                listener(Progress(over, total, skipped, mine[place], outcome))
            capacity += width * (time.perf_counter() - began)
        seconds = time.perf_counter() - started
    overhead = 1.0 - busy / capacity if still_open else 0.0
    return Summary(**counts, skipped=skipped, seconds=seconds, overhead=overhead)


def in_any_order(
    function: Callable[[Item], Result], items: Sequence[Item], jobs: int
) -> Iterator[tuple[int, Result]]:
    """Call a function with each of some items; yield the places of the items with the results, as they are finished.

    Items that share data should be next to each other. If a worker is killed, for example because the system ran out of
    memory, what it was at is tried again, unless no progress is made at all.

    Examples
    --------
    >>> list(in_any_order(abs, [-1, 2], jobs=1))
    [(0, 1), (1, 2)]
    """
    if jobs == 1:
        for place, item in enumerate(items):
            yield place, function(item)
        return
    # Nothing is lost if loky restarts a process that uses too much memory, or if Ctrl-C ends the loop below.
    for warning in (
        "A worker stopped while some jobs were given",
        ".* tasks which were still being processed",
    ):
        warnings.filterwarnings("ignore", warning, UserWarning)
    left = dict(enumerate(items))
    lost = 0
    while left:
        calls = [delayed(_in_worker)(os.getpid(), function, place, item) for place, item in left.items()]
        try:
            with parallel_config("loky", inner_max_num_threads=1), _starting_workers():
                results = Parallel(jobs, return_as="generator_unordered", batch_size=1)(calls)
            for place, result in results:
                del left[place]
                lost = 0
                yield place, result
        except TerminatedWorkerError as error:
            lost += 1
            if lost == _MOST_LOST_WORKERS:
                raise RuntimeError(
                    f"workers were killed {lost} times in a row, possibly because the system ran out of memory; "
                    "try again with fewer --jobs"
                ) from error


def _in_worker(runner: int, function: Callable[[Item], Result], place: int, item: Item) -> tuple[int, Result]:
    _leave_with(runner)
    return place, function(item)


@cache
def _leave_with(runner: int) -> None:
    """Exit soon after the runner has exited; a killed runner cannot stop its workers."""

    def watch() -> None:
        while os.getppid() == runner:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@contextlib.contextmanager
def _starting_workers() -> Iterator[None]:
    """Put Ctrl-C off while worker processes are started, and block it in them; the terminal sends it to every process.

    The runner handles it and stops its workers, which would only print tracebacks.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing.resource_tracker import ensure_running

    ensure_running()  # otherwise the first worker starts it, which resets the mask too early
    with _interrupted_later():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _interrupted_later() -> Iterator[None]:
    """Act on Ctrl-C at the end of this context.

    A mask is one thread's alone: the system hands the signal to another thread, and Python interrupts the main one
    all the same, in the middle of starting a process.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if interrupts:
            signal.raise_signal(signal.SIGINT)


def _rounded(value: Any) -> Any:
    """Round to six decimals, more than any table shows, to keep the journal small."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _check_and_list_finished(
    journal: Journal, cells: Sequence[Cell], fingerprints: dict[str, str]
) -> set[tuple[str, str]]:
    """Return the identities of finished cells, or raise an error if they were produced with different settings."""
    now = {**versions(), **fingerprints}
    del now["dplan"]  # detectors and data sets have versions of their own
    wanted = {identity(cell.record())[0]: cell.record() for cell in cells}
    finished = set()
    for record in journal.records:
        if record["kind"] == "run":
            changed = differences({**record["versions"], **record["data"]}, now)
            if changed:
                raise _refusal(journal, changed)
        elif record["kind"] == "cell" and record["status"] == "done":
            place, parameters = identity(record)
            finished.add((place, parameters))
            if place not in wanted:
                continue
            for name, what in (
                ("version", record["method"]),
                ("data_version", source_name(record["scenario"])),
                ("review_version", f"the simulated reviews with {record['method']}"),
            ):
                then, now_is = (found.get(name, 1) for found in (record, wanted[place]))  # old ones have none
                if then != now_is:
                    raise _refusal(journal, f"version of {what} was {then}, now {now_is}")
            if parameters != identity(wanted[place])[1]:
                of = f"{record['method']} on {record['scenario']}"
                raise _refusal(
                    journal, f"parameters of {of} were {parameters}, now {identity(wanted[place])[1]}"
                )
    return finished


def _refusal(journal: Journal, changed: str) -> ConfigurationError:
    return ConfigurationError(
        f"the results in {journal.folder} were produced with different settings: {changed}. "
        "Choose another output folder"
    )
