"""A model of a table: a fitted detector, the preparation of its columns, and background rows."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.columns.differences import Reference, TransformReport
from dplan.columns.formatting import format_share
from dplan.columns.frames import check_not_forked
from dplan.columns.preparer import TablePreparer
from dplan.detectors import _fields, _saving
from dplan.detectors._base import Detector
from dplan.detectors._rows import SHARES
from dplan.exceptions import ModelFileError
from dplan.persistence import model_file
from dplan.persistence.atomic import store
from dplan.tables.chunks import MISSING
from dplan.tables.explaining import ExplainsTables
from dplan.tables.interface import ShownInNotebooks
from dplan.tables.summary import Summary
from dplan.text import shown

__all__ = ["TableModel", "load"]

_NAMED = 10  # columns named in a message
_MANY_ROWS, _MANY_ALERTS = 100, 0.1  # of which so large a share of alerts is a surprise
# Names that a missing one is compared with, and their characters: finding similar names is slow, and a service answers
# nobody else meanwhile.
_COMPARED, _LONGEST_COMPARED = 50, 60


@dataclass(frozen=True, eq=False)
class TableModel(ShownInNotebooks, ExplainsTables):
    """A fitted detector that accepts raw tables: mixed types, missing values, extra columns.

    A table is a polars or pandas frame, an Arrow table, a path or an `Input`, which is read as the training table was,
    or an array of numbers with the columns of the training table. All calls of a fitted `TableDetector` work, too.

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
    >>> model.check_columns(["amount", "shop"])  # raises an error if a column is missing
    >>> prepared, report = model.prepare_with_report(new)
    >>> bool((model.prepare(new) == prepared).all()), report.missing
    (True, {})
    >>> scores = model.scores_of(prepared)
    >>> model.is_alert(scores).tolist(), model.predict(new).tolist()
    ([False, True], [1, -1])
    >>> model.with_threshold(1e6).is_alert(scores).tolist()
    [False, False]
    >>> bool((model.anomaly_score(new) == -model.score_samples(new)).all())
    True
    >>> (model.decision_function(new) < 0).tolist(), model.get_feature_names_out().tolist()
    ([False, True], ['amount'])
    >>> model.explain(new).top(1).tolist(), model.why(new)[1][0].typical
    ([['amount'], ['amount']], '5–94')
    >>> with model.opened(new) as rows:
    ...     rows.height
    2
    >>> TableModel.load(model.to_bytes()).to_model().columns
    ['amount']
    """

    detector: Detector
    preparation: TablePreparer
    background: Float32s = field(repr=False)
    known_anomalies: Float32s = field(repr=False)
    known_classes: NDArray[np.int64] = field(repr=False)
    summary: Summary = field(repr=False)
    checked_normal: Float32s | None = field(default=None, repr=False)

    @property
    def columns(self) -> list[str]:
        """The columns that a table must have."""
        return [column.name for column in self.preparation.columns_]

    @property
    def typed_numbers(self) -> tuple[str, ...]:
        """The columns that had the type of numbers in training, so that nothing is known about their text."""
        found = (column for column in self.preparation.columns_ if not column.decided)
        return tuple(column.name for column in found if column.holds(pl.Float64()))

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

    @property
    def offset_(self) -> float:
        """``score_samples`` below this are anomalies: scikit-learn excludes what `threshold` includes."""
        return float(np.nextafter(self.detector.offset_, np.inf))

    @property
    def missing(self) -> tuple[str, ...]:
        """Text that means a missing value, as in training."""
        return MISSING if self.summary.reading is None else tuple(self.summary.reading["missing"])

    def to_model(self) -> TableModel:
        """Return the model itself."""
        return self

    def with_threshold(self, threshold: float) -> TableModel:
        """Return the same model with another default threshold."""
        detector = copy(self.detector)
        detector.offset_ = -threshold
        return replace(self, detector=detector)

    def prepare(self, table: Any) -> Float32s:
        """Return the prepared rows of a table; extra columns are ignored."""
        with self.opened(table) as rows:
            return self.prepare_with_report(rows)[0]

    def prepare_with_report(self, table: pl.DataFrame) -> tuple[Float32s, TransformReport]:
        """Like `prepare`, but also return the counts of missing values and unseen levels."""
        check_not_forked()
        self.check_columns(table.columns)
        if table.height == 0:
            return self.background[:0], TransformReport(0, {}, {})
        return self.preparation.transform_with_report(table.select(self.columns), self.missing)

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

    def score(self, table: Any) -> NDArray[np.float64]:
        """Return the anomaly score of each row, a finite number; higher is more anomalous."""
        return self.scores_of(self.prepare(table))

    def scores_of(self, prepared: Float32s) -> NDArray[np.float64]:
        """Return the anomaly scores of prepared rows."""
        return self.detector.anomaly_score(prepared)

    def _scores_and_suspicion_of(
        self, prepared: Float32s, asked: bool = True
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
        """Return the anomaly scores of prepared rows and, if asked for, how much it is worth to ask about them."""
        if not len(prepared):
            return np.empty(0), np.empty(0) if asked else None
        return self.detector._scores_and_suspicion(prepared) if asked else (self.scores_of(prepared), None)

    def is_alert(self, scores: Any, threshold: float | None = None) -> Any:
        """Return which scores are at least a threshold, by default the model's; for an array or a polars expression."""
        return scores >= (self.threshold if threshold is None else threshold)

    def surprise(self, n_alerts: int, n_rows: int) -> str:
        """Return a sentence if far more rows are alerts by the model's threshold than in training; else "".

        Examples
        --------
        >>> from dplan import IForest
        >>> from dplan.tables import LabelledTable, fit_table
        >>> table = pl.DataFrame({"amount": range(100)})
        >>> labelled = LabelledTable(table, np.zeros(100, dtype=np.int64), ("unlabelled",), table.select(), "")
        >>> model = fit_table(labelled, IForest(contamination=0.02), estimate=False)
        >>> model.surprise(130, 200)
        '65 % of the rows are alerts, 2 % were expected: these rows differ from the unlabelled ones of training'
        >>> model.surprise(10, 200)
        ''
        """
        expected, share = float(self.detector.contamination), n_alerts / max(1, n_rows)
        if n_rows < _MANY_ROWS or share < max(_MANY_ALERTS, 5 * expected):
            return ""
        return (
            f"{format_share(share)} of the rows are alerts, {format_share(expected)} were expected: "
            "these rows differ from the unlabelled ones of training"
        )

    @cached_property
    def novelty_quantiles(self) -> NDArray[np.float64]:
        """The novelty of training rows, which `novelty_percentile` compares with."""
        found = self.detector._novelty_quantiles()
        # Older files do not have them. The background rows will do, although some of them may be neighbours themselves.
        return np.quantile(self.novelty_scores_of(self.background), SHARES) if found is None else found

    @cached_property
    def reference(self) -> Reference:
        """The background rows by column, to see the drift of other rows."""
        return Reference(self.preparation.columns_, self.background)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the model file."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: str | Path) -> None:
        """Write the model to one file.

        Examples
        --------
        >>> import tempfile
        >>> from dplan import LogisticBaseline
        >>> from dplan.tables import fit_table, from_table
        >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
        >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/fraud.dplan")
        ...     TableModel.load(f"{folder}/fraud.dplan").columns
        ['amount']
        """
        store(path, self.to_bytes())

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

    Examples
    --------
    >>> from dplan import LogisticBaseline, load
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> load(model.to_bytes()).columns
    ['amount']
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
