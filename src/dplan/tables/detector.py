"""A scikit-learn estimator for frames with mixed column types."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import validate_data

from dplan.columns.column import Column
from dplan.columns.frames import as_frame, is_frame
from dplan.columns.given import as_given
from dplan.columns.preparer import Table
from dplan.detectors._base import Detector
from dplan.detectors._checks import check_labels, warn_of_many_anomalies
from dplan.detectors.ensemble import DPLANEnsemble
from dplan.estimators import OutlierEstimator, check_fitted
from dplan.tables.chunks import MISSING
from dplan.tables.explaining import TableExplanation
from dplan.tables.fitting import fit_table
from dplan.tables.input import Input
from dplan.tables.interface import ScoresTables
from dplan.tables.labelled import LabelledTable, understood
from dplan.tables.model import TableModel

__all__ = ["TableDetector"]


class TableDetector(ScoresTables, OutlierEstimator):
    """A detector for frames with numbers, text, dates, booleans and missing values, prepared by `TablePreparer`.

    It accepts polars and pandas frames, Arrow tables and arrays of numbers. Rows to score may have the columns in
    a different order and extra columns, which are ignored. To cross-validate, use the scorers of `dplan.metrics`.

    Parameters
    ----------
    detector : Detector, default=None
        The detector to train on the prepared rows; None for `DPLANEnsemble`. It is cloned, not changed.
    max_levels : int, default=255
        As in `TablePreparer`.
    columns : mapping, optional
        How to understand columns, if the decision from their values is wrong: column → what follows the name in ``dplan
        fit --column``, such as ``"number,decimal=comma"`` or ``"text"``.
    missing : sequence of str
        Text that means a missing value, as in `from_table`.

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
    >>> detector.anomaly_score(new).argmax().item(), detector.score_samples(new).argmin().item()
    (1, 1)
    >>> (detector.decision_function(new) < 0).tolist(), detector.explain(new).top(1).tolist()
    ([False, True, False], [['shop'], ['shop'], ['shop']])
    >>> detector.get_feature_names_out().tolist(), detector.to_model().columns
    (['amount', 'shop=a', 'shop=b', 'shop=c'], ['amount', 'shop'])
    >>> detector.fit_predict(table, y)[-2:].tolist()
    [-1, -1]
    >>> with detector.opened(new) as rows:
    ...     rows.height
    3
    """

    def __init__(
        self,
        detector: Detector | None = None,
        *,
        max_levels: int = 255,
        columns: Mapping[str, str | Mapping[str, Any]] | None = None,
        missing: Sequence[str] = MISSING,
    ) -> None:
        self.detector = detector
        self.max_levels = max_levels
        self.columns = columns
        self.missing = missing

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
        frame, meanings = self._frame(X, fitting=True), dict[str, Column]()
        if is_frame(X):
            frame, meanings = understood(frame, as_given(self.columns), self.missing)
        elif self.columns:
            raise ValueError("columns is for frames, and X is an array of numbers")
        labels = check_labels(y, frame.height)
        warn_of_many_anomalies(labels, "y", "Convert it with y = (y == -1).astype(int)", stacklevel=2)
        values, codes = np.unique(np.append(0, np.maximum(labels, 0)), return_inverse=True)
        codes = np.where(labels < 0, -1, codes[1:])
        detector = DPLANEnsemble() if self.detector is None else clone(self.detector)
        seed = detector.random_state if isinstance(detector.random_state, int) else 0
        classes = ("unlabelled", *map(str, values[1:].tolist()))
        table = LabelledTable(
            frame,
            codes,
            classes,
            frame.select(),
            "y",
            meanings=meanings,
            missing=tuple(self.missing),
            named=is_frame(X),
        )
        self.model_ = fit_table(
            table,
            detector,
            estimate=False,
            max_levels=self.max_levels,
            seed=seed,
            sample_weight=sample_weight,
        )
        self.detector_ = detector
        self.offset_ = self.model_.offset_
        return self

    def fit_predict(
        self, X: Table, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> NDArray[np.int64]:
        """Fit to a table with its labels, and predict the same table."""
        return self.fit(X, y, sample_weight).predict(X)

    def explain(self, X: Table) -> TableExplanation:
        """Return the effect of each column on the score of each row, compared with the background rows."""
        return replace(self.to_model().explain(self._checked(X)), given=X)

    def reasons(self, X: Table, k: int = 3) -> list[str]:
        """Return the reasons for each row's score as text: up to k columns that raise it most."""
        return self.to_model().reasons(self._checked(X), k)

    def to_model(self) -> TableModel:
        """Return the fitted model."""
        check_fitted(self, "model_")
        return self.model_

    def save(self, path: str | Path) -> None:
        """Write the fitted model to a file, as ``dplan fit`` does; `dplan.load` and ``dplan score`` read it.

        Examples
        --------
        >>> import dplan, tempfile
        >>> detector = TableDetector(dplan.LogisticBaseline()).fit([[0], [1], [2], [9]], [0, 0, 0, 1])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     detector.save(f"{folder}/model.dplan")
        ...     dplan.load(f"{folder}/model.dplan").columns
        ['x0']
        """
        self.to_model().save(path)

    def _checked(self, X: Any) -> Any:
        return X if isinstance(X, str | Path | Input) else self._frame(X)

    def _frame(self, X: Table, *, fitting: bool = False) -> pl.DataFrame:
        if not fitting:
            check_fitted(self, "model_")
        if not is_frame(X):
            if type(X) is dict or (isinstance(X, list | tuple) and X and isinstance(X[0], Mapping)):
                raise TypeError(
                    "expected a table, got rows as dictionaries; make a frame of them: polars.DataFrame(rows)"
                )
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
