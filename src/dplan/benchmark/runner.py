"""Running the open cells of a plan, and keeping what is finished."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from dplan.benchmark.backends import Backend, one_by_one
from dplan.benchmark.cells import Cell
from dplan.benchmark.configuration import (
    code_fingerprint,
    data_fingerprint,
    differences,
    machine,
    versions,
)
from dplan.benchmark.journal import Journal
from dplan.benchmark.suites import SUITES, Plan, cells_of, datasets_of
from dplan.datasets import load
from dplan.exceptions import ConfigurationError

__all__ = ["ConfigurationError", "Listener", "Summary", "run"]


class Listener(Protocol):
    """What is told of progress."""

    def start(self, cells: Sequence[Cell], skipped: int) -> None:
        """Tell which cells are about to run, and how many were finished before."""

    def finish(self, cell: Cell, outcome: dict[str, Any]) -> None:
        """Tell that a cell has been recorded."""


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


class Silence:
    """A listener that does nothing."""

    def start(self, cells: Sequence[Cell], skipped: int) -> None:
        """Do nothing."""

    def finish(self, cell: Cell, outcome: dict[str, Any]) -> None:
        """Do nothing."""


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

    Cells that failed before are run again. A folder whose cells were made with other versions, code, data or
    parameters is left as it is.

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
        How many workers the backend has, to tell how busy they were.
    command : str, default=""
        The command that asked for this, for the report.
    listener : Listener, optional
        Told of progress.

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
    listener = listener or Silence()
    cells = cells_of(plan)
    fingerprints, partial = {}, {}
    for name in datasets_of(cells):
        dataset = load(name, home)
        fingerprints[name] = data_fingerprint(dataset)
        partial[name] = list(dataset.partial)
    code = {method: code_fingerprint(method) for method in dict.fromkeys(cell.method for cell in cells)}
    keys = [
        cell.key(f"{sorted(versions().items())} {code[cell.method]} {fingerprints[_dataset(cell)]}")
        for cell in cells
    ]
    with Journal(output) as journal:
        finished = _check_and_list_finished(journal, cells, keys, _made_with(versions(), code, fingerprints))
        still_open = [number for number, key in enumerate(keys) if key not in finished]
        listener.start([cells[number] for number in still_open], len(cells) - len(still_open))
        started = time.perf_counter()
        if still_open:
            journal.append(
                {
                    "kind": "run",
                    "command": command,
                    "time": datetime.now(UTC).isoformat(timespec="seconds"),
                    "versions": versions(),
                    "code": code,
                    "data": fingerprints,
                    "partial": partial,
                    "machine": machine(),
                    "workers": workers,
                }
            )
        counts = {"done": 0, "failed": 0}
        busy = capacity = 0.0
        # Cells that are timed for their own sake share the machine with no other.
        together = [number for number in still_open if not SUITES[cells[number].suite].alone]
        alone = [number for number in still_open if SUITES[cells[number].suite].alone]
        for numbers, how, width in ((together, backend, workers), (alone, one_by_one, 1)):
            began = time.perf_counter()
            for place, outcome in how([cells[number] for number in numbers], home):
                number = numbers[place]
                journal.append(_record(cells[number], keys[number], outcome))
                counts[outcome["status"]] += 1
                busy += outcome.get("fit_seconds", 0.0) + outcome.get("score_seconds", 0.0)
                listener.finish(cells[number], outcome)
            capacity += width * (time.perf_counter() - began)
        seconds = time.perf_counter() - started
    overhead = 1.0 - busy / capacity if still_open else 0.0
    return Summary(**counts, skipped=len(cells) - len(still_open), seconds=seconds, overhead=overhead)


def _dataset(cell: Cell) -> str:
    return cell.scenario.split("/")[0]


def _made_with(versions: dict[str, str], code: dict[str, str], data: dict[str, str]) -> dict[str, str]:
    """Name everything beside cells themselves that their figures depend on."""
    return {**versions, **{f"the code of {method}": its for method, its in code.items()}, **data}


def _record(cell: Cell, key: str, outcome: dict[str, Any]) -> dict[str, Any]:
    parts = ("suite", "dataset", "x", "scenario", "method", "seed", "protocol")
    return {"kind": "cell", "key": key, **{name: getattr(cell, name) for name in parts}, **_rounded(outcome)}


def _rounded(value: Any) -> Any:
    """Round to six decimals: more than any table shows, and the journal of thousands of cells stays small."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _check_and_list_finished(
    journal: Journal, cells: Sequence[Cell], keys: Sequence[str], now: dict[str, str]
) -> set[str]:
    way_out = f"{journal.folder} stays as it is: choose another output folder"
    for record in journal.records:
        if record["kind"] == "run":
            then = _made_with(record["versions"], record["code"], record["data"])
            both = [name for name in now if name in then]  # other methods and data sets may join at any time
            changed = differences({name: then[name] for name in both}, {name: now[name] for name in both})
            if changed:
                raise ConfigurationError(f"the cells there were made otherwise: {changed}. {way_out}")
    wanted = {cell.place: key for cell, key in zip(cells, keys, strict=True)}
    finished = set()
    for record in journal.records:
        if record["kind"] == "cell" and record["status"] == "done":
            finished.add(record["key"])
            place = tuple(record[name] for name in ("suite", "dataset", "x", "method", "seed", "protocol"))
            if wanted.get(place, record["key"]) != record["key"]:
                raise ConfigurationError(
                    f"the cell there of {record['method']} on {record['scenario']} had other parameters or rows. "
                    f"{way_out}"
                )
    return finished
