"""The one way from rows to scores, alerts and reasons, which every command, the service, Spark and MLflow take.

A row is prepared once and scored once. What is prepared and scored is kept together in `Scored`, so that rows can be
explained, shown and compared later without doing either again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s, Float64s, highest_first
from dplan.columns.differences import TransformReport
from dplan.columns.preparer import Cells
from dplan.exceptions import CellError, NonFiniteScoreError
from dplan.scoring.alerts import AlertPolicy as AlertPolicy
from dplan.scoring.alerts import among
from dplan.scoring.kinds import KindsOfRows
from dplan.scoring.scored import Batch as Batch
from dplan.scoring.scored import Best as Best
from dplan.scoring.scored import Scored as Scored
from dplan.scoring.scored import together as together
from dplan.tables.bad_cells import OnError, without_bad_cells
from dplan.tables.label_columns import columns_of, labels_in
from dplan.tables.model import TableModel
from dplan.tables.reasons import Reason, joined
from dplan.tables.words import has_verdict

__all__ = ["AlertPolicy", "Batch", "Best", "Cells", "Scored", "Scorer", "loaded", "together"]

_LISTED = 20  # columns named in a message


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
    alerts : AlertPolicy
        Which rows are alerts.
    novelty : bool
        Also tell how novel rows are; always with `AlertPolicy.explore`. The detector must have explorers.
    kinds : KindsOfRows, optional
        Also tell the kinds of rows; those of a muted kind are no alerts.
    suspicion : bool
        Also tell how much it is worth to ask a person about rows.

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
    >>> scorer.check(["amount"])  # raises an error if a column is missing
    >>> scorer.columns(scored).columns, scorer.surprise(n_alerts=1, n_rows=2)
    (['score', 'percentile', 'alert'], '')
    >>> by_score = scorer.is_alert(scored.score)
    >>> scorer.is_explored(by_score, scored.novelty_score).any().item()  # needs `AlertPolicy.explore`
    False
    """

    def __init__(
        self,
        model: TableModel,
        *,
        keep: Sequence[str] = (),
        on_error: OnError = "fail",
        skip_labelled: bool = False,
        alerts: AlertPolicy = AlertPolicy(),  # noqa: B008  # immutable
        novelty: bool = False,
        kinds: KindsOfRows | None = None,
        suspicion: bool = False,
    ) -> None:
        alerts.check()
        self.kinds, self.suspicion = kinds, suspicion
        self.novelty = novelty or bool(alerts.explore)
        if self.novelty:
            model.detector._check_explorers()
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
            **dict.fromkeys(columns_of(self.label, columns) if self.label else (), "look for labels in"),
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
            found = self._scored(np.arange(len(prepared)), None, prepared, TransformReport(0, {}, {}))
            return found if self.kinds is None else replace(found, kind=self.kinds.of_cells(rows))
        table, kept = rows.table, np.arange(rows.table.height)
        if self.label:
            labels = labels_in(table, self.label)
            assert labels is not None  # `check` has looked for them
            labelled = has_verdict(labels, self.model)
            without = labelled if without is None else without | labelled
        if without is not None and without.any():
            table, kept = table.filter(~without), kept[~without]
        try:
            prepare = self.model.prepare_with_report
            done = without_bad_cells(table, prepare, self.on_error, rows.first + kept)
        except CellError as error:
            places = [int(kept[row]) for row in (error.row, *error.rows)]
            raise CellError(
                error.column, places[0], error.problem, rows.place(places[0]), tuple(places[1:])
            ) from None
        scored = self._scored(rows.first + kept[done.kept], done.rows, *done.result, done.bad)
        return scored if self.kinds is None else replace(scored, kind=self.kinds.of_table(done.rows))

    def is_alert(self, scores: Float64s, kind: NDArray[np.int64] | None = None) -> NDArray[np.bool_]:
        """Return which rows of a table are alerts by their score, given the scores and the kinds of all its rows."""
        if self.kinds is not None and kind is not None:
            scores = self.kinds.ranked(scores, kind)  # those of muted kinds are below all others
        if self.alerts.budget is None:
            found: NDArray[np.bool_] = self.model.is_alert(scores, self.alerts.threshold)
            return found
        return among(highest_first(scores)[: self.alerts.budget - (self.alerts.explore or 0)], len(scores))

    def surprise(self, n_alerts: int, n_rows: int) -> str:
        """Return a sentence if far more rows are alerts than in training, unless the alerts were asked for."""
        asked = self.alerts.budget is not None or self.alerts.threshold is not None
        return "" if asked else self.model.surprise(n_alerts, n_rows)

    def is_explored(
        self, alert: NDArray[np.bool_], novelty_scores: NDArray[np.float64] | None
    ) -> NDArray[np.bool_]:
        """Return which rows of a table are alerts because they are novel, given which are alerts by their score."""
        if not self.alerts.explore:
            return np.zeros(len(alert), dtype=np.bool_)
        assert novelty_scores is not None
        strange = highest_first(np.where(alert, -np.inf, novelty_scores))[: self.alerts.explore]
        return among(strange, len(alert)) & ~alert

    def explain(
        self, scored: Scored, which: Any = slice(None), k: int = 3, *, novelty: bool = False
    ) -> list[list[Reason]]:
        """Return the reasons for some scored rows: up to k columns that raise the score most, strongest first.

        With `novelty`, they are the reasons why these rows are novel.
        """
        some = scored[which]
        if some.table is None:
            raise ValueError("rows without a table cannot be explained, because reasons show their values")
        scores = some.novelty_score if novelty else some.score
        return self.model.why(some.table, k, some.prepared, scores, novelty=novelty)

    def columns(self, scored: Scored, *, explain: bool = False) -> pl.DataFrame:
        """Return our columns of the output: score, percentile, alert and, if asked for, the others."""
        by_score = self.is_alert(scored.score, scored.kind)
        explored = self.is_explored(by_score, scored.novelty_score)
        found: dict[str, Any] = {"score": scored.score, "percentile": scored.percentile}
        found |= {"novelty": scored.novelty} if self.novelty else {}
        found["alert"] = by_score | explored
        found |= {"explore": explored} if self.alerts.explore else {}
        if self.kinds is not None:
            given = pl.DataFrame({"kind": scored.kind, "a": found["alert"], "u": self.is_alert(scored.score)})
            found |= given.select(**self.kinds.columns(pl.col("a"), pl.col("u"))).to_dict()
        if explain:
            texts = np.full(len(scored), "", dtype=object)
            for which, novelty in ((by_score, False), (explored, True)):
                texts[which] = [joined(own) for own in self.explain(scored, which, novelty=novelty)]
            found["reasons"] = pl.Series(texts.tolist(), dtype=pl.String)
        return pl.DataFrame(found)

    def _scored(
        self,
        rows: NDArray[np.int64],
        table: pl.DataFrame | None,
        prepared: Float32s,
        differences: TransformReport,
        bad: pl.DataFrame | None = None,
    ) -> Scored:
        try:
            scores, suspicion = self.model._scores_and_suspicion_of(prepared, self.suspicion)
        except NonFiniteScoreError as error:
            raise NonFiniteScoreError(int(rows[error.row]), error.score) from None
        percentile = self.model.percentile(scores)
        bad = pl.DataFrame() if bad is None else bad
        found = Scored(rows, table, prepared, scores, percentile, differences, bad, suspicion=suspicion)
        if not self.novelty:
            return found
        novel = self.model.novelty_scores_of(prepared) if len(prepared) else np.empty(0)
        return replace(found, novelty_score=novel, novelty=self.model.novelty_percentile(novel))


@lru_cache(maxsize=2)
def loaded(content: bytes) -> TableModel:
    """Load a model from the bytes of its file, once per process.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> loaded(model.to_bytes()) is loaded(model.to_bytes())
    True
    """
    return TableModel.load(content)
