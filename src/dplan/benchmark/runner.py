"""Running the unfinished cells of a plan, and keeping what is finished."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from dplan.benchmark.backends import Backend, one_by_one
from dplan.benchmark.cells import Cell, identity
from dplan.benchmark.configuration import data_fingerprint, differences, machine, versions
from dplan.benchmark.journal import Journal
from dplan.benchmark.suites import SUITES, Plan, cells_of, datasets_of
from dplan.datasets import load
from dplan.exceptions import ConfigurationError

__all__ = ["ConfigurationError", "Listener", "Summary", "run"]


class Listener(Protocol):
    """What follows the progress of a run."""

    def start(self, cells: Sequence[Cell], skipped: int) -> None:
        """Receive the cells that are about to run, and how many were finished before."""

    def finish(self, cell: Cell, outcome: dict[str, Any]) -> None:
        """Receive a cell that has just been recorded."""


@dataclass(frozen=True)
class Summary:
    """What a run did.

    Attributes
    ----------
    done, failed, skipped : int
        Cells finished now, cells that failed, and cells that were finished before.
    seconds : float
        Wall time.
    overhead : float
        Share of the workers' time that went neither into fitting nor into scoring.
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
    backend: Backend = one_by_one,
    workers: int = 1,
    command: str = "",
    listener: Listener | None = None,
) -> Summary:
    """Run every cell of a plan that the folder does not have yet.

    Cells that failed before are run again. A folder whose results were produced with other versions of a detector, a
    data set or a library, with other data or with other parameters is refused and left unchanged.

    Parameters
    ----------
    plan : Plan
        What to run.
    output : path
        The folder of the journal.
    home : path, optional
        The folder of the data sets.
    backend : callable, default=one_by_one
        From `dplan.benchmark.backends`.
    workers : int, default=1
        How many workers the backend has, to compute how busy they were.
    command : str, default=""
        The command line, for the report.
    listener : Listener, optional
        Follows the progress.

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
    cells = cells_of(plan)
    fingerprints, partial = {}, {}
    for name in datasets_of(cells):
        dataset = load(name, home)
        fingerprints[name] = data_fingerprint(dataset)
        partial[name] = list(dataset.partial)
    with Journal(output) as journal:
        finished = _check_and_list_finished(journal, cells, fingerprints)
        still_open = [number for number, cell in enumerate(cells) if identity(cell.record()) not in finished]
        if listener is not None:
            listener.start([cells[number] for number in still_open], len(cells) - len(still_open))
        started = time.perf_counter()
        if still_open:
            journal.append(
                {
                    "kind": "run",
                    "command": command,
                    "time": datetime.now(UTC).isoformat(timespec="seconds"),
                    "versions": versions(),
                    "data": fingerprints,
                    "partial": partial,
                    "machine": machine(),
                    "workers": workers,
                }
            )
        counts = {"done": 0, "failed": 0}
        busy = capacity = 0.0
        # Cells that are run for their timing share the machine with no other.
        together = [number for number in still_open if not SUITES[cells[number].suite].alone]
        alone = [number for number in still_open if SUITES[cells[number].suite].alone]
        for numbers, how, width in ((together, backend, workers), (alone, one_by_one, 1)):
            began = time.perf_counter()
            for place, outcome in how([cells[number] for number in numbers], home):
                cell = cells[numbers[place]]
                journal.append({"kind": "cell", **cell.record(), **_rounded(outcome)})
                counts[outcome["status"]] += 1
                busy += outcome.get("fit_seconds", 0.0) + outcome.get("score_seconds", 0.0)
                if listener is not None:
                    listener.finish(cell, outcome)
            capacity += width * (time.perf_counter() - began)
        seconds = time.perf_counter() - started
    overhead = 1.0 - busy / capacity if still_open else 0.0
    return Summary(**counts, skipped=len(cells) - len(still_open), seconds=seconds, overhead=overhead)


def _rounded(value: Any) -> Any:
    """Round to six decimals: more than any table shows, and the journal of thousands of cells stays small."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _check_and_list_finished(
    journal: Journal, cells: Sequence[Cell], fingerprints: dict[str, str]
) -> set[tuple[str, str]]:
    """Refuse a journal that the cells must not be added to; else return the identities of its finished cells."""
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
                ("data_version", record["scenario"].split("/")[0]),
            ):
                then = record.get(name, 1)  # the first records had no versions
                if then != wanted[place][name]:
                    raise _refusal(journal, f"version of {what} was {then}, now {wanted[place][name]}")
            if parameters != identity(wanted[place])[1]:
                of = f"{record['method']} on {record['scenario']}"
                raise _refusal(
                    journal, f"parameters of {of} were {parameters}, now {identity(wanted[place])[1]}"
                )
    return finished


def _refusal(journal: Journal, changed: str) -> ConfigurationError:
    return ConfigurationError(
        f"the results in {journal.folder} were produced with different settings: {changed}. "
        "Choose another output folder; this one was not changed"
    )
