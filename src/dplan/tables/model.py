"""A model of a table: a fitted detector, the preparation of its columns, and background rows."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.columns.differences import Reference, TransformReport
from dplan.columns.frames import check_not_forked
from dplan.columns.preparer import TablePreparer
from dplan.detectors import _fields, _saving
from dplan.detectors._base import Detector
from dplan.exceptions import ModelFileError
from dplan.explain.explanation import Explanation, effects, sample_of
from dplan.persistence import model_file
from dplan.tables.evidence import Evidence
from dplan.tables.reasons import Reason, joined
from dplan.tables.summary import Summary
from dplan.text import shown

__all__ = ["TableModel", "load"]

_NAMED = 10  # columns named in a message
# Names that a missing one is compared with, and their characters: finding similar names is slow, and a service answers
# nobody else meanwhile.
_COMPARED, _LONGEST_COMPARED = 50, 60


@dataclass(frozen=True, eq=False)
class TableModel:
    """A fitted detector that accepts raw tables: mixed types, missing values, extra columns.

    Attributes
    ----------
    detector : Detector
        The fitted detector; it sees prepared rows.
    preparation : TablePreparer
        Turns the table's columns into the detector's features.
    background : ndarray of float32
        A sample of prepared unlabelled training rows, which explanations and drift are computed against.
    known_anomalies : ndarray of float32
        Prepared rows of known anomalies.
    known_classes : ndarray of int64
        Their classes, counted from 1.
    summary : Summary
        How the model was trained.
    checked_normal : ndarray of float32, optional
        Prepared rows that were checked and are normal.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> new = pl.DataFrame({"amount": [10, 920]})
    >>> model.score(new).argmax().item()
    1
    >>> model.reasons(new)
    ['', '`amount` = 920; typical 5–94']
    """

    detector: Detector
    preparation: TablePreparer
    background: Floats = field(repr=False)
    known_anomalies: Floats = field(repr=False)
    known_classes: NDArray[np.int64] = field(repr=False)
    summary: Summary = field(repr=False)
    checked_normal: Floats | None = field(default=None, repr=False)

    @property
    def columns(self) -> list[str]:
        """The columns that a table must have."""
        return [column.name for column in self.preparation.columns_]

    @property
    def not_read(self) -> list[str]:
        """The other columns of the training table: IDs, label, and columns that were left out."""
        aside = [*self.summary.ids, self.summary.label, *self.summary.dropped]
        read = {"", *self.columns}
        return [name for name in dict.fromkeys(aside) if name not in read]

    @property
    def threshold(self) -> float:
        """The default threshold: rows with at least this score are alerts."""
        return -float(self.detector.offset_)

    def prepare(self, table: pl.DataFrame) -> Floats:
        """Return the prepared rows of a table; extra columns are ignored."""
        return self.prepare_with_report(table)[0]

    def prepare_with_report(self, table: pl.DataFrame) -> tuple[Floats, TransformReport]:
        """Like `prepare`, but also return the counts of missing values and unseen levels."""
        check_not_forked()
        self.check_columns(table.columns)
        if table.height == 0:
            return self.background[:0], TransformReport(0, {}, {})
        return self.preparation.transform_with_report(table.select(self.columns))

    def check_columns(self, found: Sequence[str]) -> None:
        """Raise an error that lists the differences if columns are missing."""
        there, expected = set(found), set(self.columns)
        absent = [name for name in self.columns if name not in there]
        if not absent:
            return
        expected.update(self.not_read)
        unknown = [name for name in found if name not in expected]
        candidates = [name for name in unknown if len(name) <= _LONGEST_COMPARED][:_COMPARED]
        parts = []
        for name in absent[:_NAMED]:
            near = difflib.get_close_matches(name[:_LONGEST_COMPARED], candidates, n=1)
            parts.append(shown(name) + (f" (did you mean {shown(near[0])}?)" if near else ""))
        message = f"the table does not match the model: missing columns {_listed(parts, len(absent))}"
        if unknown:
            message += f"; unexpected columns {_listed(map(shown, unknown[:_NAMED]), len(unknown))}"
        raise ValueError(message)

    def score(self, table: pl.DataFrame) -> NDArray[np.float64]:
        """Return the anomaly score of each row, a finite number; higher is more anomalous."""
        return self.scores_of(self.prepare(table))

    def scores_of(self, prepared: Floats) -> NDArray[np.float64]:
        """Return the anomaly scores of prepared rows."""
        return self.detector.anomaly_score(prepared)

    def is_alert(self, scores: Any, threshold: float | None = None) -> Any:
        """Return which scores are at least a threshold, by default the model's; for an array or a polars expression."""
        return scores >= (self.threshold if threshold is None else threshold)

    def percentile(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the percentage of unlabelled training rows with a lower score.

        It refers to the training rows, not to the scored table, so it does not depend on other scored rows, and
        tables larger than memory can be scored in one pass.
        """
        return np.round(self.detector._percentile_of(scores), 2)

    def explain(
        self, table: pl.DataFrame, prepared: Floats | None = None, scores: NDArray[np.float64] | None = None
    ) -> Explanation:
        """Return the effect of each column on the score of each row, compared with the background rows.

        Rows that were prepared and scored before need neither again if both are given.
        """
        rows = self.prepare(table) if prepared is None else prepared
        groups, (against, baseline) = self.preparation.feature_groups(), self._compared_with
        return effects(self.detector, rows, against, groups=groups, scores=scores, baseline=baseline)

    @cached_property
    def _compared_with(self) -> tuple[Floats, float]:
        """The background rows that explanations use, and the mean of their scores."""
        rows = sample_of(self.background)
        return rows, float(self.scores_of(rows).mean())

    def reasons(self, table: pl.DataFrame, k: int = 3) -> list[str]:
        """Return the reasons for each row's score as text: up to k columns that raise it most."""
        return [joined(found) for found in self.why(table, k)]

    def why(
        self,
        table: pl.DataFrame,
        k: int = 3,
        prepared: Floats | None = None,
        scores: NDArray[np.float64] | None = None,
    ) -> list[list[Reason]]:
        """Like `reasons`, but return records; prepared rows and scores are used if they are given."""
        if table.height == 0:
            return []
        rows = self.prepare(table) if prepared is None else prepared
        return self.evidence.reasons(table, rows, self.explain(table, rows, scores), k)

    @cached_property
    def reference(self) -> Reference:
        """The background rows by column, to see the drift of other rows."""
        return Reference(self.preparation.columns_, self.background)

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

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the model file."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the model to one file."""
        model_file.store(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the bytes of the model file, which `load` reads."""
        arrays: dict[str, NDArray[Any]] = {
            "background": self.background,
            "known": self.known_anomalies,
            "known_classes": self.known_classes,
        }
        if self.checked_normal is not None and len(self.checked_normal):
            arrays["checked_normal"] = self.checked_normal
        state = self.preparation.to_state()
        return _saving.packed(self.detector, preparation=state, arrays=arrays, summary=self.summary.to_json())

    @classmethod
    def load(cls, source: str | Path | bytes) -> TableModel:
        """Load a model written by ``dplan fit`` or `save`."""
        model = load(source)
        if not isinstance(model, cls):
            raise ModelFileError("this model was not fitted on a table; use dplan fit or TableDetector")
        return model


def load(source: str | Path | bytes) -> Any:
    """Load a model file written by `Detector.save`, `TableModel.save` or ``dplan fit``.

    Parameters
    ----------
    source : path or bytes
        A model file, or its bytes.

    Returns
    -------
    Detector or TableModel
        A table model, which prepares the columns as in training, if the model was fitted on a table. The scores are
        bit-identical to those of the saved model.

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
        _fields.same(len(preparation.feature_groups()), detector.n_features_in_, "prepared columns")
        if not {"background", "known", "known_classes"} <= set(arrays):
            raise ValueError("the rows of the training table are missing")
        kept = _fields.Stored(arrays, {}, detector.n_features_in_)
        rows = _fields.Array(shape=(None, _fields.COLUMNS))
        background, known = (
            rows.take("background", kept),
            replace(rows, may_be_empty=True).take("known", kept),
        )
        classes = _fields.Array(np.int64, (len(known),), may_be_empty=True, lowest=1).take(
            "known_classes", kept
        )
        checked = rows.take("checked_normal", kept) if "checked_normal" in arrays else None
        summary = Summary.from_json(found.summary)
        summary.check(classes.tolist(), 0 if checked is None else len(checked))
    model = TableModel(detector, preparation, background, known, classes, summary, checked)
    vars(model)["digest"] = found.digest  # of the file as it was read
    return model


def _listed(parts: Iterable[str], n: int) -> str:
    return ", ".join(parts) + (f" and {n - _NAMED:,} more" if n > _NAMED else "")
