"""A scikit-learn estimator for frames with mixed column types."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from dplan.columns.frames import as_frame, is_frame
from dplan.columns.preparer import Table
from dplan.detectors._base import Detector
from dplan.detectors._checks import check_labels
from dplan.detectors.ensemble import DPLANEnsemble
from dplan.explain.explanation import Explanation
from dplan.tables.fitting import fit_table
from dplan.tables.labelled import LabelledTable
from dplan.tables.model import TableModel
from dplan.text import shown

__all__ = ["TableDetector"]

_MIN_LABELS_TO_COMPARE = 5  # with fewer, a column may match the labelled rows by chance


class TableDetector(OutlierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is not typed
    """A detector for frames with numbers, text, dates, booleans and missing values, prepared by `TablePreparer`.

    It accepts polars and pandas frames, Arrow tables and arrays of numbers. Rows to score may have the columns in
    a different order and extra columns, which are ignored. To cross-validate, use the scorers of `dplan.metrics`.

    Parameters
    ----------
    detector : Detector, default=None
        The detector to train on the prepared rows; None for `DPLANEnsemble`. It is cloned, not changed.
    max_levels : int, default=255
        As in `TablePreparer`.

    Attributes
    ----------
    model_ : TableModel
        The fitted detector with the preparation of its table, as written by ``dplan fit``.
    detector_ : Detector
        The fitted detector, which takes prepared rows.
    offset_ : float
        ``score_samples`` below this are anomalies.
    n_features_in_ : int
        Columns of the training table.
    feature_names_in_ : ndarray of str
        Their names, if a frame was given.

    Examples
    --------
    >>> import pandas as pd
    >>> from dplan import LogisticBaseline, TableDetector
    >>> table = pd.DataFrame({"amount": [*range(100), 900, 950], "shop": ["a"] * 60 + ["b"] * 40 + ["c"] * 2})
    >>> y = [0] * 100 + [1, 1]
    >>> detector = TableDetector(LogisticBaseline()).fit(table, y)
    >>> new = pd.DataFrame({"shop": ["a", "c", None], "amount": [10, 920, 50]})
    >>> detector.predict(new).tolist()
    [1, -1, 1]
    >>> detector.reasons(new)[1]
    "`shop` = 'c'; typical 'a' (59 %), 'b' (39 %) | `amount` = 920; typical 5–94"
    """

    def __init__(self, detector: Detector | None = None, *, max_levels: int = 255) -> None:
        self.detector = detector
        self.max_levels = max_levels

    def fit(self, X: Table, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from a table.

        Parameters
        ----------
        X : polars or pandas frame, Arrow table, or array of shape (n_rows, n_columns)
            The training rows, without the label column.
        y : array-like of shape (n_rows,), default=None
            0 for an unlabelled row, k ≥ 1 for a labelled anomaly of class k, -1 for a row that was checked and is
            normal.
        sample_weight : array-like of shape (n_rows,), default=None
            Confidence in the verdict of each row, as in `DPLANEnsemble.fit`.

        Returns
        -------
        self
        """
        if self.detector is not None and not isinstance(self.detector, Detector):
            raise TypeError(f"detector must be a detector of dplan or None, got {self.detector!r}.")
        frame = self._frame(X, fitting=True)
        labels = check_labels(y, frame.height)
        values, codes = np.unique(np.append(0, np.maximum(labels, 0)), return_inverse=True)
        codes = np.where(labels < 0, -1, codes[1:])
        if is_frame(X):
            _warn_of_label(frame, codes)
        detector = DPLANEnsemble() if self.detector is None else clone(self.detector)
        seed = detector.random_state if isinstance(detector.random_state, int) else 0
        classes = ("unlabelled", *map(str, values[1:].tolist()))
        table = LabelledTable(frame, codes, classes, frame.select(), "y")
        self.model_ = fit_table(
            table,
            detector,
            estimate=False,
            max_levels=self.max_levels,
            seed=seed,
            sample_weight=sample_weight,
        )
        self.detector_ = detector
        self.offset_ = detector.offset_
        return self

    def fit_predict(
        self, X: Table, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Fit to a table with its labels, and predict the same table."""
        return self.fit(X, y, sample_weight).predict(X)

    def anomaly_score(self, X: Table) -> NDArray[np.float64]:
        """Score rows; higher is more anomalous.

        Parameters
        ----------
        X : polars or pandas frame, Arrow table, or array of shape (n_rows, n_columns)
            Rows with at least the columns of the training table.

        Returns
        -------
        ndarray of shape (n_rows,)
            The scores; the score of a row does not depend on other rows.
        """
        return self.to_model().score(self._frame(X))

    def percentile(self, X: Table) -> NDArray[np.float64]:
        """Return the percentage of unlabelled and checked normal training rows with a lower score."""
        return self.to_model().percentile(self.anomaly_score(X))

    def score_samples(self, X: Table) -> NDArray[np.float64]:
        """Score rows the way scikit-learn does: lower is more anomalous."""
        return -self.anomaly_score(X)

    def decision_function(self, X: Table) -> NDArray[np.float64]:
        """Score rows relative to the threshold: negative means anomaly."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Table) -> NDArray[np.int64]:
        """Return -1 for anomalies and 1 for normal rows."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def explain(self, X: Table) -> Explanation:
        """Return the effect of each column on the score of each row, compared with the background rows."""
        return self.to_model().explain(self._frame(X))

    def reasons(self, X: Table, k: int = 3) -> list[str]:
        """Return the reasons for each row's score as text: up to k columns that raise it most."""
        return self.to_model().reasons(self._frame(X), k)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the features: the column's name, or ``column=level`` for text."""
        return self.to_model().preparation.get_feature_names_out()

    def to_model(self) -> TableModel:
        """Return the fitted model."""
        check_is_fitted(self, "model_")
        return self.model_

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file, as ``dplan fit`` does; `TableModel.load` and ``dplan score`` read it."""
        self.to_model().save(path)

    def _frame(self, X: Table, *, fitting: bool = False) -> pl.DataFrame:
        if not fitting:
            check_is_fitted(self, "model_")
        if not is_frame(X):
            smallest = 2 if fitting else 1
            array = validate_data(
                self,
                X,
                reset=fitting,
                dtype="numeric",
                ensure_all_finite="allow-nan",
                ensure_min_samples=smallest,
            )
            names = getattr(self, "feature_names_in_", [f"x{j}" for j in range(array.shape[1])])
            return pl.from_numpy(array, schema=list(names))
        frame = as_frame(X)
        if fitting:
            if frame.height < 2 or frame.width == 0:
                raise ValueError(
                    f"expected at least two rows and one column, got {frame.height} rows and {frame.width} columns"
                )
            self.n_features_in_ = frame.width
            self.feature_names_in_ = np.array(frame.columns, dtype=object)
        elif not hasattr(self, "feature_names_in_"):
            warnings.warn(
                "X has feature names, but TableDetector was fitted without feature names", stacklevel=3
            )
            array = validate_data(self, frame.to_numpy(), reset=False, ensure_all_finite="allow-nan")
            return pl.from_numpy(array, schema=[f"x{j}" for j in range(array.shape[1])])
        return frame

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.categorical = tags.input_tags.string = True
        return tags


def _warn_of_label(frame: pl.DataFrame, y: NDArray[np.int64]) -> None:
    """Warn if a column marks exactly the labelled rows: it may be the label, left in X by mistake."""
    known = y > 0
    if known.sum() < _MIN_LABELS_TO_COMPARE or known.all():
        return
    n_classes = len(np.unique(y[known]))
    for series in frame:
        values = series.filter(pl.Series(known)).unique()
        if len(values) <= n_classes and not values.null_count():
            marked = series.is_in(values.implode()).fill_null(value=False).to_numpy()
            if (marked == known).all():
                warnings.warn(
                    f"column {shown(series.name)} marks exactly the labelled rows; if it is the label, drop it from X",
                    stacklevel=3,
                )
