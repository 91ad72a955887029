"""Reading a journal back: which cells are there, and their figures over the runs."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan.benchmark.journal import read_journal

__all__ = ["Results", "Spread", "spread"]

Cell = dict[str, Any]


class Spread(NamedTuple):
    """Mean and standard deviation over runs."""

    mean: float
    deviation: float


class Results:
    """What a journal holds.

    Attributes
    ----------
    runs : list of dict
        One entry per start of the runner: command, time, versions, machine, what data was partial.
    cells : list of dict
        Finished cells.
    failed : list of dict
        Cells that failed and have not been finished since.

    Examples
    --------
    >>> def cell(method, seed, auc_pr):
    ...     return {"kind": "cell", "key": f"{method}{seed}", "status": "done", "suite": "table2", "dataset": "dos",
    ...             "x": None, "method": method, "seed": seed, "protocol": "fixed", "auc_pr": auc_pr}
    >>> results = Results([cell("DPLAN", 0, 0.6), cell("DPLAN", 1, 0.8), cell("DUA", 0, 0.5)])
    >>> results.matrix("table2", "fixed", "auc_pr", ["dos"], ["DPLAN", "DUA"]).round(3).tolist()
    [[0.7, 0.5]]
    """

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        last: dict[str, Cell] = {}
        self.runs: list[dict[str, Any]] = []
        for record in records:
            if record["kind"] == "run":
                self.runs.append(record)
            elif record["kind"] == "cell" and last.get(record["key"], {}).get("status") != "done":
                last[record["key"]] = record
        self.cells = [cell for cell in last.values() if cell["status"] == "done"]
        self.failed = [cell for cell in last.values() if cell["status"] != "done"]
        # Parallel workers finish in any order; a report does not depend on it.
        for cells in (self.cells, self.failed):
            cells.sort(key=lambda cell: (cell["x"] or 0, cell["seed"], cell["key"]))

    @classmethod
    def read(cls, place: str | Path) -> "Results":
        """Read a journal from its folder or file."""
        return cls(read_journal(place))

    def select(self, suite: str, protocol: str | None = None) -> list[Cell]:
        """Give the finished cells of a suite."""
        return [
            cell for cell in self.cells if cell["suite"] == suite and protocol in (None, cell["protocol"])
        ]

    def protocols(self, suite: str) -> list[str]:
        """List the protocols that a suite was run under."""
        return sorted({cell["protocol"] for cell in self.select(suite)})

    def names(self, suite: str, what: str, order: Iterable[str], protocol: str | None = None) -> list[str]:
        """List the methods or data sets of a suite: known ones in the given order, then the others."""
        there = {cell[what] for cell in self.select(suite, protocol)}
        first = [name for name in dict.fromkeys(order) if name in there]
        return first + sorted(there - set(first))

    def groups(
        self, suite: str, protocol: str, read: Callable[[Cell], float | None]
    ) -> dict[tuple[str, float | None, str], Spread]:
        """Give mean and deviation over the runs by (data set, x, method), leaving out what has no figure."""
        values: dict[tuple[str, float | None, str], list[float]] = {}
        for cell in self.select(suite, protocol):
            value = read(cell)
            if value is not None:
                values.setdefault((cell["dataset"], cell["x"], cell["method"]), []).append(value)
        return {place: spread(group) for place, group in values.items()}

    def matrix(
        self, suite: str, protocol: str, measure: str, datasets: list[str], methods: list[str]
    ) -> NDArray[np.float64]:
        """Give means over the runs, one row per data set and one column per method, NaN where there is none."""
        groups = self.groups(suite, protocol, lambda cell: cell[measure])
        missing = Spread(np.nan, np.nan)
        rows = [[groups.get((name, None, method), missing).mean for method in methods] for name in datasets]
        return np.array(rows, dtype=np.float64).reshape(len(datasets), len(methods))


def spread(values: Iterable[float]) -> Spread:
    """Give mean and standard deviation of some values.

    Examples
    --------
    >>> spread([1.0, 3.0])
    Spread(mean=2.0, deviation=1.0)
    """
    array = np.array(list(values), dtype=np.float64)
    return Spread(float(array.mean()), float(array.std()))
