"""The one way from rows to scores, alerts and reasons, which every command, the service, Spark and MLflow take.

A row is prepared once and scored once. What is prepared and scored is kept together in `Scored`, so that rows can be
explained, shown and compared later without doing either again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.columns.differences import TransformReport
from dplan.columns.preparer import Cells
from dplan.exceptions import CellError, NonFiniteScoreError
from dplan.tables.bad_cells import OnError, without_bad_cells
from dplan.tables.model import TableModel
from dplan.tables.reasons import Reason, joined
from dplan.tables.words import has_verdict

__all__ = ["Alerts", "Batch", "Best", "Cells", "Scored", "Scorer", "highest", "loaded", "together"]

_LISTED = 20  # columns named in a message


def _row(row: int) -> str:
    return f"row {row + 1}"


class Batch(NamedTuple):
    """Rows on their way in: a chunk, a frame or a partition.

    Attributes
    ----------
    table : polars.DataFrame
        The rows.
    place : callable
        Returns what to call a row in an error, by its position here.
    first : int
        The number of rows of the whole table that come before.
    """

    table: pl.DataFrame
    place: Callable[[int], str] = _row
    first: int = 0


class Alerts(NamedTuple):
    """Which rows are alerts.

    Attributes
    ----------
    threshold : float, optional
        Rows with at least this score; by default the model's threshold.
    budget : int, optional
        Instead, this many rows with the highest scores.
    top : int, optional
        Show this many rows with the highest scores, alerts or not.
    """

    threshold: float | None = None
    budget: int | None = None
    top: int | None = None


@dataclass(frozen=True, eq=False)
class Scored:
    """Scored rows on their way out; rows that were left out are gone from all fields alike.

    Attributes
    ----------
    rows : ndarray of int
        Their positions in the whole table, from 0.
    table : polars.DataFrame or None
        Their values; None if they came as `Cells`.
    prepared : ndarray of float32
        Their features.
    score, percentile : ndarray of float64
        Their scores, and the percentages of unlabelled training rows with a lower score.
    differences : TransformReport
        How they differ from the training rows.
    bad : polars.DataFrame
        Rows with cells that could not be used, if there are any, as from `dplan.tables.bad_cells.without_bad_cells`.
    """

    rows: NDArray[np.int64]
    table: pl.DataFrame | None
    prepared: Floats
    score: NDArray[np.float64]
    percentile: NDArray[np.float64]
    differences: TransformReport
    bad: pl.DataFrame

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, which: Any) -> Scored:
        """Return some of the rows."""
        return replace(
            self,
            rows=self.rows[which],
            table=None if self.table is None else self.table[np.arange(len(self))[which]],
            prepared=self.prepared[which],
            score=self.score[which],
            percentile=self.percentile[which],
        )

    def highest(self, n: int) -> Scored:
        """Return the rows with the n highest scores, the highest first, ties in row order."""
        return self[highest(self.score, n)]


class Scorer:
    """Scores rows with one model, in one way.

    Parameters
    ----------
    model : TableModel
        The model.
    keep : sequence of str
        Columns to copy, in addition to the ids of the model.
    on_error : {"fail", "skip", "null"}
        Raise an error if a cell cannot be used, leave out its row, or treat the cell as missing.
    skip_labelled : bool
        Leave out rows with a verdict: known anomalies and checked normal rows.
    alerts : Alerts
        Which rows are alerts.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> scorer = Scorer(fit_table(from_table(table, label="fraud"), LogisticBaseline()), on_error="skip")
    >>> scored = scorer.score(Batch(pl.DataFrame({"amount": ["10", "ten", "920"]})))
    >>> scored.rows.tolist(), scorer.is_alert(scored.score).tolist(), scored.bad["amount"].to_list()
    ([0, 2], [False, True], ['ten'])
    >>> [[reason.text() for reason in own] for own in scorer.explain(scored, [1])]
    [['`amount` = 920; typical 5–94']]
    """

    def __init__(
        self,
        model: TableModel,
        *,
        keep: Sequence[str] = (),
        on_error: OnError = "fail",
        skip_labelled: bool = False,
        alerts: Alerts = Alerts(),  # noqa: B008  # immutable
    ) -> None:
        self.model, self.keep, self.on_error, self.alerts = model, tuple(keep), on_error, alerts
        self.label = model.summary.label if skip_labelled else None
        if skip_labelled and not self.label:
            raise ValueError("the model has no label column, so labelled rows cannot be skipped")

    @property
    def kept(self) -> tuple[str, ...]:
        """The columns to copy: the ids of the model, if the table has them, and those to keep."""
        return tuple(dict.fromkeys([*self.model.summary.ids, *self.keep]))

    @property
    def threshold(self) -> float:
        """The lowest score of an alert, unless there is a budget."""
        return self.model.threshold if self.alerts.threshold is None else self.alerts.threshold

    def check(self, columns: Sequence[str]) -> None:
        """Raise an error if a table lacks columns of the model, columns to keep, or the labels to look for."""
        self.model.check_columns(columns)
        uses = {
            **({self.label: "look for labels in"} if self.label else {}),
            **dict.fromkeys(self.keep, "keep"),
        }
        for column, use in uses.items():
            if column not in columns:
                available = ", ".join(columns[:_LISTED])
                raise ValueError(
                    f"cannot {use} column {column!r}: not in the table; available columns: {available}"
                )

    def score(self, rows: Batch | Cells, without: NDArray[np.bool_] | None = None) -> Scored:
        """Prepare rows and score them.

        Parameters
        ----------
        rows : Batch or Cells
            The rows.
        without : ndarray of bool, optional
            Rows of a batch to leave out, in addition to labelled ones.
        """
        if isinstance(rows, Cells):
            prepared = self.model.preparation.transform_cells(rows)
            return self._scored(np.arange(len(prepared)), None, prepared, TransformReport(0, {}, {}))
        table, kept = rows.table, np.arange(rows.table.height)
        if self.label:
            labelled = has_verdict(table[self.label], self.model)
            without = labelled if without is None else without | labelled
        if without is not None and without.any():
            table, kept = table.filter(~without), kept[~without]
        try:
            done = without_bad_cells(table, self.model.prepare_with_report, self.on_error)
        except CellError as error:
            places = [int(kept[row]) for row in (error.row, *error.rows)]
            raise CellError(
                error.column, places[0], error.problem, rows.place(places[0]), tuple(places[1:])
            ) from None
        bad = done.bad
        if bad.height:
            numbers = rows.first + kept[bad["dplan_row_number"].to_numpy() - 1] + 1
            bad = bad.with_columns(pl.Series("dplan_row_number", numbers))
        kept = rows.first + kept[done.kept]
        return self._scored(kept, done.rows, *done.result, bad)

    def is_alert(self, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which rows of a table are alerts, given the scores of all its rows."""
        if self.alerts.budget is None:
            found: NDArray[np.bool_] = self.model.is_alert(scores, self.alerts.threshold)
            return found
        chosen = np.zeros(len(scores), dtype=np.bool_)
        chosen[highest(scores, self.alerts.budget)] = True
        return chosen

    def explain(self, scored: Scored, which: Any = slice(None), k: int = 3) -> list[list[Reason]]:
        """Return the reasons for some scored rows: up to k columns that raise the score most, strongest first."""
        some = scored[which]
        if some.table is None:
            raise ValueError("rows without a table cannot be explained, because reasons show their values")
        return self.model.why(some.table, k, some.prepared, some.score)

    def columns(self, scored: Scored, *, explain: bool = False) -> pl.DataFrame:
        """Return our columns of the output: score, percentile, alert and, if asked for, the reasons of alerts."""
        alerts = self.is_alert(scored.score)
        found = {"score": scored.score, "percentile": scored.percentile, "alert": alerts}
        table = pl.DataFrame(found)
        if not explain:
            return table
        reasons = iter(self.explain(scored, alerts))
        texts = [joined(next(reasons)) if alert else "" for alert in alerts]
        return table.with_columns(pl.Series("reasons", texts, dtype=pl.String))

    def _scored(
        self,
        rows: NDArray[np.int64],
        table: pl.DataFrame | None,
        prepared: Floats,
        differences: TransformReport,
        bad: pl.DataFrame | None = None,
    ) -> Scored:
        try:
            scores = self.model.scores_of(prepared) if len(prepared) else np.empty(0)
        except NonFiniteScoreError as error:
            raise NonFiniteScoreError(int(rows[error.row]), error.score) from None
        percentile = self.model.percentile(scores)
        bad = pl.DataFrame() if bad is None else bad
        return Scored(rows, table, prepared, scores, percentile, differences, bad)


class Best:
    """The rows with the highest keys of many batches, the highest first, ties in row order.

    With the scores as keys, these are the most anomalous rows; with random keys, they are a sample.

    Parameters
    ----------
    n : int
        The number of rows.

    Attributes
    ----------
    scored : Scored or None
        The rows so far; None before the first batch.
    """

    def __init__(self, n: int) -> None:
        self.n = n
        self.scored: Scored | None = None
        self._keys = np.empty(0)

    def add(self, scored: Scored, keys: NDArray[np.float64]) -> None:
        """Add the rows of a batch, with a key for each."""
        some = highest(keys, self.n)  # only what may stay is copied
        new, keys = scored[some], keys[some]
        if self.scored is not None:
            new, keys = together([self.scored, new]), np.concatenate([self._keys, keys])
            order = highest(keys, self.n)
            new, keys = new[order], keys[order]
        self.scored, self._keys = new, keys


def highest(scores: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Return the rows with the n highest scores, the highest first, ties in row order."""
    return np.argsort(-scores, kind="stable")[:n]


@lru_cache(maxsize=2)
def loaded(content: bytes) -> TableModel:
    """Load a model from the bytes of its file, once per process."""
    return TableModel.load(content)


def together(parts: Sequence[Scored]) -> Scored:
    """Return the rows of several batches as one; how they differ from the training rows is that of the first."""
    # Relaxed, because files of JSON lines may have columns that others lack, and integers where others have floats.
    tables = [part.table for part in parts if part.table is not None]
    arrays: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("rows", "prepared", "score", "percentile")
    }
    return replace(parts[0], table=pl.concat(tables, how="diagonal_relaxed") if tables else None, **arrays)
