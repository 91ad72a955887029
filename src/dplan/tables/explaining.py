"""Why the rows of a table have their scores: effects of columns, and reasons in words."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.columns.differences import TransformReport
from dplan.columns.formatting import cell
from dplan.columns.frames import in_library_of
from dplan.columns.preparer import TablePreparer
from dplan.detectors._base import Detector
from dplan.explain.explanation import Explanation, effects, sample_of
from dplan.tables.evidence import Evidence
from dplan.tables.interface import ScoresTables
from dplan.tables.reasons import Reason, joined
from dplan.tables.summary import Summary

__all__ = ["ExplainsTables", "TableExplanation"]


@dataclass(frozen=True, eq=False)
class TableExplanation(Explanation):
    """The effects of the columns of a table on the scores of its rows.

    Attributes
    ----------
    table : polars.DataFrame
        The rows.
    evidence : Evidence
        What the model knows about its training rows.
    given : frame, path or array
        What the rows were given as, which says what `frame` returns.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> explanation = model.explain(pl.DataFrame({"amount": [920]}))
    >>> explanation.top(1).tolist()
    [['amount']]
    >>> explanation.ranking().tolist(), explanation.strongest(1).tolist()
    (['amount'], [[0]])
    >>> explanation.frame().drop("effect").rows()
    [(1, 'amount', '920', '5–94')]
    """

    table: pl.DataFrame = field(default_factory=pl.DataFrame, repr=False)
    evidence: Evidence | None = field(default=None, repr=False)
    given: Any = field(default=None, repr=False)

    def frame(self) -> Any:
        """Return the effects as a frame: ``row``, ``column``, ``value``, ``effect`` and ``typical``.

        There is a line for each effect; rows are counted from 1, and the strongest effect of a row comes first. The
        frame is one of the library that the table came in: pandas, Arrow, or polars for everything else.
        """
        found = super().frame()
        assert self.evidence is not None
        order, typical = self.strongest(len(self.names)), self.evidence.typical
        pairs = [(row, int(j)) for row, own in enumerate(order) for j in own]
        values = pl.Series("value", [self._value(row, j) for row, j in pairs], dtype=pl.String)
        usual = pl.Series("typical", [typical[j].text for _, j in pairs], dtype=pl.String)
        return in_library_of(self.given, found.insert_column(2, values).with_columns(usual))

    def _value(self, row: int, feature: int) -> str:
        assert self.evidence is not None
        column = self.evidence.columns[feature]
        return column.format(cell(self.table, column.name, row))

    def _label(self, row: int, feature: int) -> str:
        return f"{self.names[feature]} = {self._value(row, feature)}"


class ExplainsTables(ScoresTables):
    """The part of a model of a table that explains scores."""

    detector: Detector
    preparation: TablePreparer
    background: Float32s
    known_anomalies: Float32s
    known_classes: NDArray[np.int64]
    summary: Summary

    def prepare_with_report(self, table: pl.DataFrame) -> tuple[Float32s, TransformReport]:
        """Return the prepared rows of a table, and what was found in it."""
        raise NotImplementedError

    def scores_of(self, prepared: Float32s) -> NDArray[np.float64]:
        """Return the anomaly scores of prepared rows."""
        raise NotImplementedError

    def explain(
        self,
        table: Any,
        prepared: Float32s | None = None,
        scores: NDArray[np.float64] | None = None,
        *,
        novelty: bool = False,
    ) -> TableExplanation:
        """Return the effect of each column on the score of each row, compared with the background rows.

        Rows that were prepared and scored before need neither again if both are given. With `novelty`, effects are
        those on what the explorers say, and so are the scores.
        """
        given = table
        if prepared is None:
            with self.opened(table) as table:
                prepared = self.prepare_with_report(table)[0]
        score = self.novelty_scores_of if novelty else self.scores_of
        scores = score(prepared) if scores is None else scores
        against, baseline = self._compared_with_novelty if novelty else self._compared_with
        groups, of = self.preparation.feature_groups(), partial(effects, novelty=novelty)
        found = of(self.detector, prepared, against, groups=groups, scores=scores, baseline=baseline)
        names = tuple(column.name for column in self.evidence.columns)
        return TableExplanation(found.effects, scores, baseline, names, table, self.evidence, given)

    @cached_property
    def _compared_with(self) -> tuple[Float32s, float]:
        """The background rows that explanations use, and the mean of their scores."""
        rows = sample_of(self.background)
        return rows, float(self.scores_of(rows).mean())

    @cached_property
    def _compared_with_novelty(self) -> tuple[Float32s, float]:
        """The same with the scores of the explorers."""
        rows = sample_of(self.background)
        return rows, float(self.novelty_scores_of(rows).mean())

    def reasons(self, table: Any, k: int = 3) -> list[str]:
        """Return the reasons for each row's score as text: up to k columns that raise it most."""
        with self.opened(table) as rows:
            return [joined(found) for found in self.why(rows, k)]

    def why(
        self,
        table: pl.DataFrame,
        k: int = 3,
        prepared: Float32s | None = None,
        scores: NDArray[np.float64] | None = None,
        *,
        novelty: bool = False,
    ) -> list[list[Reason]]:
        """Like `reasons`, but return records; prepared rows and scores are used if they are given.

        With `novelty`, they are the reasons why a row is novel.
        """
        if table.height == 0:
            return []
        rows = self.prepare_with_report(table)[0] if prepared is None else prepared
        return self.evidence.reasons(table, rows, self.explain(table, rows, scores, novelty=novelty), k)

    @cached_property
    def evidence(self) -> Evidence:
        """What the training rows say about why a row is anomalous."""
        return Evidence(
            columns=self.preparation.columns_,
            starts=np.flatnonzero(np.diff(self.preparation.feature_groups(), prepend=-1)),
            background=self.background,
            known=self.known_anomalies,
            classes=self.known_classes,
            class_names=self.summary.classes,
            names=self.summary.known_names,
        )
