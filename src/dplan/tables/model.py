"""A detector for a table: the detector, the preparation of its columns, and what is usual in them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.detectors._base import Detector
from dplan.exceptions import ModelFileError, NonFiniteScoreError
from dplan.explain.explanation import Explanation, effects
from dplan.persistence import model_file
from dplan.tables.formatting import reason
from dplan.tables.preparing import TablePreparer

__all__ = ["TableModel"]


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted detector that takes tables as they come: mixed types, missing values, further columns.

    Attributes
    ----------
    detector : Detector
        The fitted detector; it sees prepared rows.
    preparation : TablePreparer
        Turns the table's columns into the detector's features.
    usual : ndarray of float32
        A sample of prepared unlabelled training rows: what scores are explained and drift is measured against.
    known : ndarray of float32
        Prepared rows of known anomalies.
    known_classes : ndarray of int64
        Their classes, counted from 1.
    score_quantiles : ndarray of float64
        The scores of the unlabelled training rows at evenly spaced shares, for percentiles.
    summary : dict
        What training saw and found out, as JSON values.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import from_table
    >>> from dplan.tables import fit_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> new = pl.DataFrame({"amount": [10, 920]})
    >>> model.score(new).argmax().item()
    1
    >>> model.reasons(new)
    ['', '`amount` = 920; typical 4.95–94.05']
    """

    detector: Detector
    preparation: TablePreparer
    usual: Floats = field(repr=False)
    known: Floats = field(repr=False)
    known_classes: NDArray[np.int64] = field(repr=False)
    score_quantiles: NDArray[np.float64] = field(repr=False)
    summary: dict[str, Any] = field(repr=False)

    @property
    def columns(self) -> list[str]:
        """The columns that a table must have."""
        return [column.name for column in self.preparation.columns_]

    @property
    def threshold(self) -> float:
        """The score from which on a row is an alert, if nothing else is asked for."""
        return -float(self.detector.offset_)

    def prepare(self, table: pl.DataFrame) -> Floats:
        """Return the rows of a table as the detector sees them; further columns are left aside."""
        self.check_columns(table.columns)
        return self.preparation.transform(table.select(self.columns))

    def check_columns(self, found: Sequence[str]) -> None:
        """Raise, naming each difference, if columns are missing."""
        absent = [name for name in self.columns if name not in set(found)]
        if not absent:
            return
        aside = {*self.summary.get("ids", ()), self.summary.get("label"), *self.summary.get("dropped", ())}
        unknown = [name for name in found if name not in {*self.columns, *aside}]
        parts = []
        for name in absent:
            near = difflib.get_close_matches(name, unknown, n=1)
            parts.append(repr(name) + (f" (is it {near[0]!r}?)" if near else ""))
        message = f"the table does not fit the model: it has no column {', '.join(parts)}"
        if unknown:
            message += f"; the model does not know {', '.join(map(repr, unknown))}"
        raise ValueError(message)

    def score(self, table: pl.DataFrame) -> NDArray[np.float64]:
        """Return the anomaly score of each row, a finite number; higher is more anomalous."""
        scores = self.detector.anomaly_score(self.prepare(table))
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            raise NonFiniteScoreError(row, float(scores[row]))
        return scores

    def percentile(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return which share of the unlabelled training rows, in percent, scores lower.

        Against the training rows and not against the table at hand, so that the figure does not depend on what else is
        scored, and tables larger than memory can be scored in one pass.
        """
        shares = np.linspace(0, 100, len(self.score_quantiles))
        return np.round(np.interp(scores, self.score_quantiles, shares), 2)

    def explain(self, table: pl.DataFrame) -> Explanation:
        """Return the effect of each column on the score of each row, against usual rows."""
        groups = self.preparation.output_groups()
        return effects(self.detector, self.prepare(table), self.usual, groups=groups)

    def reasons(self, table: pl.DataFrame, k: int = 3) -> list[str]:
        """Say in words which columns, at most k, push each row's score up."""
        if table.height == 0:
            return []
        explanation = self.explain(table)
        starts = np.flatnonzero(np.diff(self.preparation.output_groups(), prepend=-1))
        said = []
        for row, strongest in enumerate(explanation.top(k)):
            words = []
            for j in strongest:
                # A tenth of the whole, or it is not worth a person's time.
                gain = explanation.effects[row, j]
                if gain > 0 and gain >= 0.1 * (explanation.scores[row] - explanation.baseline):
                    column = self.preparation.columns_[j]
                    words.append(reason(column, table[column.name][row], self.usual[:, starts[j]]))
            said.append(" | ".join(words) if explanation.scores[row] > explanation.baseline else "")
        return said

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        arrays: dict[str, NDArray[Any]] = {
            "usual": self.usual,
            "known": self.known,
            "known_classes": self.known_classes,
            "score_quantiles": self.score_quantiles,
        }
        model_file.save(
            path, self.detector, preparation=self.preparation, arrays=arrays, summary=self.summary
        )

    @classmethod
    def load(cls, source: str | Path | bytes) -> TableModel:
        """Read a model that ``dplan fit`` or `save` wrote; anything else is a ModelFileError."""
        found = model_file.read(source)
        if found.preparation is None:
            raise ModelFileError("this model has no preparation for tables: write it with dplan fit")
        n_features = found.detector.n_features_in_
        try:
            usual, known, classes, quantiles = (
                found.arrays[name] for name in ("usual", "known", "known_classes", "score_quantiles")
            )
        except KeyError as error:
            raise ModelFileError(f"this model was not fitted on a table: {error} is missing") from error
        fitting = all(
            array.dtype == np.float32 and array.shape[1:] == (n_features,) and np.isfinite(array).all()
            for array in (usual, known)
        )
        if not fitting or len(usual) == 0 or classes.shape != known.shape[:1] or classes.dtype != np.int64:
            raise ModelFileError("the rows kept in this model do not fit its detector")
        if quantiles.dtype != np.float64 or quantiles.ndim != 1 or not _rising(quantiles):
            raise ModelFileError("the score quantiles of this model make no sense")
        return cls(found.detector, found.preparation, usual, known, classes, quantiles, found.summary)


def _rising(quantiles: NDArray[np.float64]) -> bool:
    return len(quantiles) >= 2 and bool(np.isfinite(quantiles).all() and (np.diff(quantiles) >= 0).all())
