"""Convert mixed columns to numeric features in [0, 1], as in the paper's appendix A.1."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dplan.columns.column import Column, encode, fit_column, kind_of, scale
from dplan.columns.conversion import for_each_column
from dplan.columns.dates import fit_date, is_date, microseconds, write_date
from dplan.columns.differences import TransformReport
from dplan.columns.frames import as_frame, check_same_columns, is_frame
from dplan.columns.meaning import Meaning
from dplan.exceptions import CellError
from dplan.text import shown

__all__ = ["TablePreparer", "TransformReport"]

Table = Any  # a polars or pandas frame, an Arrow table, or anything that converts to a 2-D array

_WORTH_THREADS = 10_000_000  # cells


class TablePreparer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Prepare a table: one-hot encoding, mean imputation and min–max scaling.

    Numbers, booleans and durations become one feature each; a text column becomes one feature per level. A date becomes
    its hour of day, weekday and day of the month, two features each, and the time since the date column before it; its
    position in the calendar is left out. Minimum, maximum, mean and levels are learned in `fit` alone, so nothing leaks
    from rows that are scored later; those are not clipped to [0, 1]. A `polars.Enum` column has the levels that it
    declares.

    Parameters
    ----------
    max_levels : int, default=255
        A text column with more levels keeps the most frequent ones; the others count as unseen. If more than half of
        its values are distinct, it is dropped as an id.
    meanings : mapping of str to Meaning, optional
        What the text of columns meant in the file that they were read from; new rows may be text of the same form.

    Attributes
    ----------
    columns_ : list of Column
        What was learned from each column, in the order of the table.
    n_features_in_ : int
        Columns of the table.
    feature_names_in_ : ndarray of str
        Their names, if a frame was given.

    Examples
    --------
    >>> import polars as pl
    >>> table = pl.DataFrame({"bytes": [0, 50, None, 100], "proto": ["tcp", "udp", "tcp", "tcp"]})
    >>> preparer = TablePreparer().fit(table)
    >>> preparer.get_feature_names_out().tolist()
    ['bytes', 'proto=tcp', 'proto=udp']
    >>> preparer.transform(table).tolist()
    [[0.0, 1.0, 0.0], [0.5, 0.0, 1.0], [0.5, 1.0, 0.0], [1.0, 1.0, 0.0]]

    A level unseen in training becomes zeros and is counted:

    >>> new = pl.DataFrame({"bytes": [200], "proto": ["icmp"]})
    >>> X, report = preparer.transform_with_report(new)
    >>> X.tolist(), report.unseen
    ([[2.0, 0.0, 0.0]], {'proto': 1})
    """

    def __init__(self, *, max_levels: int = 255, meanings: Mapping[str, Meaning] | None = None) -> None:
        self.max_levels = max_levels
        self.meanings = meanings

    def fit(self, X: Table, y: ArrayLike | None = None) -> TablePreparer:
        """Learn levels, ranges and means from the training rows.

        Parameters
        ----------
        X : polars or pandas frame, Arrow table, or array of shape (n_rows, n_columns)
            The training rows.
        y : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        TablePreparer
            The fitted preparer.
        """
        if self.max_levels < 1:
            raise ValueError(f"max_levels must be at least 1, not {self.max_levels!r}")
        frame = self._as_frame(X, fitting=True)
        last_date: pl.Series | None = None

        def learned(series: pl.Series) -> Column:
            nonlocal last_date
            meaning = (self.meanings or {}).get(series.name)
            if kind_of(series) != "date" or (meaning is not None and not meaning.is_used):
                return fit_column(series, self.max_levels, meaning)
            earlier = last_date if is_date(series) else None
            if meaning is not None and meaning.since:
                earlier = _date_column(frame, meaning.since, series.name)
            column = fit_date(series, earlier, meaning)
            if is_date(series) and column.kind == "date":
                last_date = series
            return column

        self.columns_ = for_each_column(learned, frame)
        return self

    def transform(self, X: Table) -> NDArray[np.float32]:
        """Convert rows to features; training rows are scaled to [0, 1].

        Parameters
        ----------
        X : polars or pandas frame, Arrow table, or array of shape (n_rows, n_columns)
            Rows with the columns of the training rows.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs), float32
            Finite numbers, in Fortran order.
        """
        return self.transform_with_report(X)[0]

    def transform_with_report(self, X: Table) -> tuple[NDArray[np.float32], TransformReport]:
        """Like `transform`, but also count missing values and unseen levels.

        Parameters
        ----------
        X : polars or pandas frame, Arrow table, or array of shape (n_rows, n_columns)
            Rows with the columns of the training rows.

        Returns
        -------
        X : ndarray of shape (n_rows, n_outputs), float32
            As from `transform`.
        report : TransformReport
            The counts.
        """
        check_is_fitted(self)
        frame = self._as_frame(X, fitting=False)
        ends = np.cumsum([column.width for column in self.columns_])
        by_column = np.empty((int(ends[-1]), frame.height), dtype=np.float32)
        moments: dict[str, NDArray[np.float64] | CellError] = {}
        for j, column in enumerate(self.columns_):
            try:
                if column.parts:
                    moments[column.name] = microseconds(column, frame.to_series(j))
            except CellError as error:  # another column may have one in an earlier row
                moments[column.name] = error

        def moments_of(name: str) -> NDArray[np.float64]:
            found = moments[name]
            if isinstance(found, CellError):
                raise found
            return found

        def prepare(j: int) -> tuple[int, int]:
            column, series = self.columns_[j], frame.to_series(j)
            part = by_column[ends[j] - column.width : ends[j]]
            if column.kind == "dropped":
                return 0, 0
            if column.kind == "text":
                return encode(column, series, part)
            if column.parts:
                earlier = moments_of(column.since) if column.since else None
                return write_date(column, moments_of(column.name), earlier, part), 0
            return scale(column, series, part[0]), 0

        if frame.height * frame.width < _WORTH_THREADS:
            counts = for_each_column(prepare, range(frame.width))
        else:  # a column is written by one thread alone, so the result is the same
            with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
                counts = for_each_column(prepare, range(frame.width), pool.map)
        missing, unseen = (
            {name: n[k] for name, n in zip(frame.columns, counts, strict=True) if n[k]} for k in (0, 1)
        )
        kinds = {s.name: kind_of(s) for s, c in zip(frame, self.columns_, strict=True) if c.kind == "text"}
        retyped = {name: kind for name, kind in kinds.items() if kind not in ("text", "dropped")}
        outside: dict[str, int] = {}
        for column, end in zip(self.columns_, ends, strict=True):
            own = by_column[end - column.width : end]
            if column.kind != "text" and own.size and (own.max() > 2 or own.min() < -1):
                outside[column.name] = int(((own > 2) | (own < -1)).any(axis=0).sum())
        return by_column.T, TransformReport(frame.height, missing, unseen, retyped, outside)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Return the names of the features: the column's name, or ``column=level`` for text.

        Parameters
        ----------
        input_features : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        ndarray of str
            One name per feature.
        """
        check_is_fitted(self)
        return np.array([name for column in self.columns_ for name in column.output_names()], dtype=object)

    def feature_groups(self) -> NDArray[np.int64]:
        """Return the number of the column that each feature comes from.

        Returns
        -------
        ndarray of int
            Explanations are summed over equal numbers, so that a text column has one effect.

        Examples
        --------
        >>> import polars as pl
        >>> table = pl.DataFrame({"proto": ["tcp", "udp"], "bytes": [1, 2]})
        >>> TablePreparer().fit(table).feature_groups().tolist()
        [0, 0, 1]
        """
        check_is_fitted(self)
        return np.repeat(np.arange(len(self.columns_)), [column.width for column in self.columns_])

    def to_state(self) -> dict[str, Any]:
        """Return the fitted state as values that can be stored as JSON.

        Returns
        -------
        dict
            The argument of `from_state`; JSON preserves it exactly.
        """
        check_is_fitted(self)
        return {
            "max_levels": self.max_levels,
            "named": hasattr(self, "feature_names_in_"),
            "columns": [asdict(column) for column in self.columns_],
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> TablePreparer:
        """Rebuild a fitted preparer from `to_state`.

        Examples
        --------
        >>> import json
        >>> import polars as pl
        >>> table = pl.DataFrame({"a": [0.1, 0.2, 0.3]})
        >>> state = json.loads(json.dumps(TablePreparer().fit(table).to_state()))
        >>> TablePreparer.from_state(state).transform(table).tolist()
        [[0.0], [0.5], [1.0]]
        """
        match state:
            case {"max_levels": int(max_levels), "named": bool(named), "columns": [_, *_] as entries}:
                preparer = cls(max_levels=max_levels)
                preparer.columns_ = [Column.from_dict(entry) for entry in entries]
                names = [column.name for column in preparer.columns_]
                if len(set(names)) != len(names):
                    raise ValueError("two of its columns have the same name")
                if not {c.since for c in preparer.columns_} <= {
                    "",
                    *(c.name for c in preparer.columns_ if c.parts),
                }:
                    raise ValueError("the time since a column that is not a date")
            case _:
                raise ValueError("not a TablePreparer state: expected max_levels, named and columns")
        preparer.n_features_in_ = len(preparer.columns_)
        if named:
            preparer.feature_names_in_ = np.array([column.name for column in preparer.columns_], dtype=object)
        return preparer

    def _as_frame(self, X: Table, *, fitting: bool) -> pl.DataFrame:
        if is_frame(X):
            frame = as_frame(X)
        else:
            array = validate_data(self, X, reset=fitting, dtype="numeric", ensure_all_finite="allow-nan")
            return pl.from_numpy(array, schema=[f"x{i}" for i in range(array.shape[1])])
        if fitting:
            self.n_features_in_ = frame.width
            self.feature_names_in_ = np.array(frame.columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            check_same_columns(self.feature_names_in_.tolist(), frame.columns)
        elif frame.width != self.n_features_in_:
            raise ValueError(
                f"X has {frame.width} features, but TablePreparer is expecting "
                f"{self.n_features_in_} features as input"
            )
        if frame.height == 0 or frame.width == 0:
            raise ValueError(
                f"expected at least one row and one column, got {frame.height} rows and {frame.width} columns"
            )
        return frame

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def _date_column(frame: pl.DataFrame, name: str, asking: str) -> pl.Series:
    if name not in frame.columns or not is_date(frame[name]) or frame[name].null_count() == frame.height:
        raise ValueError(
            f"column {shown(asking)}: {shown(name)} is not a date column, so there is no time since it"
        )
    return frame[name]
