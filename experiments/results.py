"""Read a journal: the finished cells, and their metrics over the runs."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from experiments.cells import TOPS, identity
from experiments.discovery.review import CHECKPOINTS
from experiments.journal import read_journal

__all__ = ["Groups", "Results", "Spread"]

Cell = dict[str, Any]
_PLACE = {
    "suite": pl.String,
    "protocol": pl.String,
    "dataset": pl.String,
    "x": pl.Float64,
    "method": pl.String,
}
_METRICS = tuple(f"auc_{curve}{group}" for curve in ("pr", "roc") for group in ("", "_known", "_unknown"))
_SECONDS = ("fit_seconds", "score_seconds")


class Spread(NamedTuple):
    """Mean and standard deviation over runs."""

    mean: float
    deviation: float
    runs: int


Groups = dict[tuple[str, float | None, str], Spread]  # by data set, x and method


class Results:
    """The contents of a journal.

    Attributes
    ----------
    runs : list of dict
        One entry per start of the runner: command, time, versions, machine, incomplete data.
    cells : list of dict
        Finished cells.
    failed : list of dict
        Cells that failed and have not been finished since.

    Examples
    --------
    >>> def cell(method, seed, auc_pr):
    ...     return {"kind": "cell", "status": "done", "suite": "table2", "dataset": "dos",
    ...             "scenario": "unsw_nb15/dos-v1", "x": None, "method": method, "seed": seed, "protocol": "fixed",
    ...             "auc_pr": auc_pr}
    >>> results = Results([cell("DPLAN", 0, 0.6), cell("DPLAN", 1, 0.8), cell("DUA", 0, 0.5)])
    >>> results.matrix("table2", "fixed", "auc_pr", ["dos"], ["DPLAN", "DUA"]).round(3).tolist()
    [[0.7, 0.5]]
    """

    def __init__(self, records: Iterable[dict[str, Any]]) -> None:
        last: dict[tuple[str, str], Cell] = {}
        self.runs: list[dict[str, Any]] = []
        for record in records:
            if record["kind"] == "run":
                self.runs.append(record)
            elif record["kind"] == "cell" and last.get(identity(record), {}).get("status") != "done":
                last[identity(record)] = record
        # Parallel workers finish in any order, and reports must not depend on it.
        ordered = sorted(last.values(), key=lambda cell: (cell["x"] or 0, cell["seed"], identity(cell)))
        self.cells = [cell for cell in ordered if cell["status"] == "done"]
        self.failed = [cell for cell in ordered if cell["status"] != "done"]
        numbers = (*_METRICS, *_SECONDS, *map(str, TOPS), *(f"found_{n}" for n in CHECKPOINTS))
        self._table = pl.DataFrame(
            [
                {
                    **cell,
                    **cell.get("precision_at", {}),
                    **{f"found_{n}": k for n, k in cell.get("found", {}).items()},
                }
                for cell in self.cells
            ],
            schema={**_PLACE, **dict.fromkeys(numbers, pl.Float64)},
            strict=False,
        )
        points = [
            {**{name: cell[name] for name in _PLACE}, **point, "x": float(point["steps"])}
            for cell in self.cells
            for point in cell.get("curve", ())
        ]
        self._curves = pl.DataFrame(
            points, schema={**_PLACE, "auc_pr": pl.Float64, "auc_roc": pl.Float64, "reward": pl.Float64}
        )

    @classmethod
    def read(cls, place: str | Path) -> "Results":
        """Read a journal from its folder or file."""
        return cls(read_journal(place))

    def select(self, suite: str, protocol: str | None = None) -> list[Cell]:
        """Return the finished cells of a suite."""
        return [
            cell for cell in self.cells if cell["suite"] == suite and protocol in (None, cell["protocol"])
        ]

    def protocols(self, suite: str) -> list[str]:
        """List the protocols that a suite was run with."""
        return sorted({cell["protocol"] for cell in self.select(suite)})

    def names(self, suite: str, what: str, order: Iterable[str], protocol: str | None = None) -> list[str]:
        """List the methods or data sets of a suite: those in `order` first, then the others."""
        found = {cell[what] for cell in self.select(suite, protocol)}
        first = [name for name in dict.fromkeys(order) if name in found]
        return first + sorted(found - set(first))

    def groups(self, suite: str, protocol: str, metric: str) -> Groups:
        """Return mean and deviation over the runs by (data set, x, method), omitting missing values.

        `metric` is a field of the cells, or the n of a precision at n.
        """
        return _spreads(self._table, suite, protocol, metric)

    def curve(self, protocol: str, metric: str) -> Groups:
        """Return the same along the training of the suite ``steps``; x is the number of steps."""
        return _spreads(self._curves, "steps", protocol, metric)

    def matrix(
        self,
        suite: str,
        protocol: str,
        metric: str,
        datasets: list[str],
        methods: list[str],
        x: float | None = None,
    ) -> NDArray[np.float64]:
        """Return means over the runs, one row per data set and one column per method, NaN where results are missing."""
        groups = self.groups(suite, protocol, metric)
        missing = Spread(np.nan, np.nan, 0)
        rows = [[groups.get((name, x, method), missing).mean for method in methods] for name in datasets]
        return np.array(rows, dtype=np.float64).reshape(len(datasets), len(methods))


def _spreads(table: pl.DataFrame, suite: str, protocol: str, metric: str) -> Groups:
    value = pl.col(metric)
    found = (
        table.filter(suite=suite, protocol=protocol)
        .drop_nulls(metric)
        .group_by("dataset", "x", "method", maintain_order=True)
        .agg(value.mean().alias("mean"), value.std(ddof=0).alias("deviation"), value.len().alias("runs"))
    )
    return {(dataset, x, method): Spread(*spread) for dataset, x, method, *spread in found.rows()}
