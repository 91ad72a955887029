"""A detector for a table: the detector, the preparation of its columns, and what is usual in them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.detectors import _saving
from dplan.detectors._base import Detector
from dplan.exceptions import ModelFileError, shown
from dplan.explain.explanation import Explanation, effects
from dplan.persistence import model_file
from dplan.tables.chunks import MISSING, ReadOptions
from dplan.tables.forking import check_not_forked
from dplan.tables.formatting import reason
from dplan.tables.preparing import TablePreparer, TransformReport

__all__ = ["TableModel", "load"]

_NAMED = 10  # columns named in a message


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
    summary: dict[str, Any] = field(repr=False)

    @property
    def columns(self) -> list[str]:
        """The columns that a table must have."""
        return [column.name for column in self.preparation.columns_]

    @property
    def threshold(self) -> float:
        """The score from which on a row is an alert, if nothing else is asked for."""
        return -float(self.detector.offset_)

    @property
    def read_options(self) -> ReadOptions:
        """How text files are read, if nothing else is asked for: as the training table was."""
        found = self.summary.get("reading", {})
        return ReadOptions(found.get("encoding", "utf-8"), tuple(found.get("missing", MISSING)))

    def prepare(self, table: pl.DataFrame) -> Floats:
        """Return the rows of a table as the detector sees them; further columns are left aside."""
        return self.prepare_with_report(table)[0]

    def prepare_with_report(self, table: pl.DataFrame) -> tuple[Floats, TransformReport]:
        """Do as `prepare` does, and say what the training rows had not shown."""
        check_not_forked()
        self.check_columns(table.columns)
        return self.preparation.transform_with_report(table.select(self.columns))

    def check_columns(self, found: Sequence[str]) -> None:
        """Raise, naming the differences, if columns are missing."""
        there, expected = set(found), set(self.columns)
        absent = [name for name in self.columns if name not in there]
        if not absent:
            return
        aside = {*self.summary.get("ids", ()), self.summary.get("label"), *self.summary.get("dropped", ())}
        unknown = [name for name in found if name not in expected and name not in aside]
        parts = []
        for name in absent[:_NAMED]:
            near = difflib.get_close_matches(name, unknown[:1000], n=1)
            parts.append(shown(name) + (f" (is it {shown(near[0])}?)" if near else ""))
        message = f"the table does not fit the model: it has no column {_listed(parts, len(absent))}"
        if unknown:
            message += f"; the model does not know {_listed(map(shown, unknown[:_NAMED]), len(unknown))}"
        raise ValueError(message)

    def score(self, table: pl.DataFrame) -> NDArray[np.float64]:
        """Return the anomaly score of each row, a finite number; higher is more anomalous."""
        return self.score_with_report(table)[0]

    def score_with_report(self, table: pl.DataFrame) -> tuple[NDArray[np.float64], TransformReport]:
        """Do as `score` does, and say what the training rows had not shown."""
        prepared, report = self.prepare_with_report(table)
        return self.detector.anomaly_score(prepared), report

    def percentile(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return which share of the unlabelled training rows, in percent, scores lower.

        Against the training rows and not against the table at hand, so that the figure does not depend on what else is
        scored, and tables larger than memory can be scored in one pass.
        """
        return np.round(self.detector._percentile_of(scores), 2)

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
        }
        state = self.preparation.to_state()
        _saving.save(path, self.detector, preparation=state, arrays=arrays, summary=self.summary)

    @classmethod
    def load(cls, source: str | Path | bytes) -> TableModel:
        """Read a model that ``dplan fit`` or `save` wrote; anything else is a ModelFileError."""
        model = load(source)
        if not isinstance(model, cls):
            raise ModelFileError("this model has no preparation for tables: write it with dplan fit")
        return model


def load(source: str | Path | bytes) -> Any:
    """Load what `Detector.save`, `TableModel.save` or ``dplan fit`` wrote.

    Parameters
    ----------
    source : path or bytes
        A model file, or its bytes.

    Returns
    -------
    Detector or TableModel
        A detector, or a table model if the model was fitted on a table: it prepares the columns as in training. It
        scores as the saved one did, to the last bit.

    Raises
    ------
    ModelFileError
        If the file is not a dplan model file, is damaged, or comes from a newer version.
    """
    found = _saving.load(source)
    if found.preparation is None:
        return found.detector
    detector, arrays = found.detector, found.arrays
    with model_file.model_file_errors("the model" if isinstance(source, bytes) else Path(source).name):
        preparation = TablePreparer.from_state(found.preparation)
        _saving.same(len(preparation.output_groups()), detector.n_features_in_, "prepared columns")
        if not {"usual", "known", "known_classes"} <= set(arrays):
            raise ValueError("it was not fitted on a table, as dplan fit does")
        kept = _saving.Stored(arrays, {}, detector.n_features_in_)
        rows = _saving.Array(shape=(None, _saving.COLUMNS))
        usual, known = rows.take("usual", kept), replace(rows, may_be_empty=True).take("known", kept)
        classes = _saving.Array(np.int64, (len(known),), may_be_empty=True, lowest=1).take(
            "known_classes", kept
        )
        _check_summary(found.summary)
        if not hasattr(detector, "score_quantiles_"):  # in older files, the table had them
            quantiles = _saving.Stored({"score_quantiles_": arrays["score_quantiles"]}, {})
            detector.score_quantiles_ = detector._saved["score_quantiles_"].take(
                "score_quantiles_", quantiles
            )
            detector._check_saved()
    return TableModel(detector, preparation, usual, known, classes, found.summary)


def _check_summary(summary: dict[str, Any]) -> None:
    """Raise ValueError if what a table model's summary says is of another form than `fit_table` writes."""
    for key, form in {"ids": list, "dropped": dict, "labels": dict}.items():
        names = summary.get(key, form())
        if not isinstance(names, form) or not all(isinstance(name, str) for name in names):
            raise ValueError(f"the summary's {key} are not names")
    if not isinstance(summary.get("label") or "", str):
        raise ValueError("the summary's label is not a name")
    for count in (summary.get("rows", 0), *summary.get("labels", {}).values()):
        if type(count) is not int or count < 0:
            raise ValueError(f"the summary counts {count!r} rows")


def _listed(parts: Iterable[str], n: int) -> str:
    return ", ".join(parts) + (f" and {n - _NAMED:,} more" if n > _NAMED else "")
