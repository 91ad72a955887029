"""Turning a table of mixed columns into the numbers in [0, 1] that detectors learn from, as in the paper's appendix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from dplan.data.columns import LIMIT, Column, fit_column, infinite_value, numbers_of

__all__ = ["TablePreparer", "TransformReport"]

Table = Any  # a polars or pandas frame, or whatever NumPy makes a two-dimensional array of

_SMALL_INTEGERS = (pl.Int8, pl.UInt8, pl.Int16, pl.UInt16)
_BLOCK_NUMBERS = 1 << 19  # numbers scaled at a time: as many as stay in the processor's cache


@dataclass(frozen=True)
class TransformReport:
    """What a transform met that the training rows had not shown.

    Attributes
    ----------
    missing : dict
        Column → number of missing values, each replaced by the training mean.
    unseen : dict
        Column → number of values whose level no training row had, each encoded as all zeros.
    """

    missing: dict[str, int]
    unseen: dict[str, int]


class TablePreparer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Prepare a table: one-hot for texts, the mean for missing values, min–max to [0, 1] (paper, appendix A.1).

    Columns are told apart by their type: numbers, booleans, dates and times become one column each, a text becomes one
    column per level. Minimum, maximum, mean and levels come from the rows given to `fit` alone, so nothing leaks from
    rows that are scored later; those are not clipped to [0, 1]. The levels of a `polars.Enum` column are taken as
    declared.

    Parameters
    ----------
    max_levels : int, default=255
        A text with more levels keeps the most frequent ones, the others are treated as unseen. If more than half of
        its values differ, it is dropped, as ids should be.

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

    A level that no training row had becomes zeros, and is counted:

    >>> new = pl.DataFrame({"bytes": [200], "proto": ["icmp"]})
    >>> X, report = preparer.transform_with_report(new)
    >>> X.tolist(), report.unseen
    ([[2.0, 0.0, 0.0]], {'proto': 1})
    """

    def __init__(self, *, max_levels: int = 255) -> None:
        self.max_levels = max_levels

    def fit(self, X: Table, y: ArrayLike | None = None) -> TablePreparer:
        """Learn levels, ranges and means from the training rows.

        Parameters
        ----------
        X : polars or pandas frame, or array of shape (n_rows, n_columns)
            The training rows.
        y : ignored
            Not used; here because scikit-learn passes it.

        Returns
        -------
        TablePreparer
            Itself.
        """
        if self.max_levels < 1:
            raise ValueError(f"max_levels must be at least 1, not {self.max_levels!r}")
        frame = self._as_frame(X, fitting=True)
        self.columns_ = [fit_column(series, self.max_levels) for series in frame]
        return self

    def transform(self, X: Table) -> NDArray[np.float32]:
        """Turn rows into numbers; training rows land in [0, 1].

        Parameters
        ----------
        X : polars or pandas frame, or array of shape (n_rows, n_columns)
            Rows with the columns of the training rows.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs), float32, C-contiguous
            Finite numbers.
        """
        return self.transform_with_report(X)[0]

    def transform_with_report(self, X: Table) -> tuple[NDArray[np.float32], TransformReport]:
        """Do as `transform` does, and count missing values and unseen levels per column.

        Parameters
        ----------
        X : polars or pandas frame, or array of shape (n_rows, n_columns)
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
        out = np.zeros((frame.height, sum(column.width for column in self.columns_)), dtype=np.float32)
        missing: dict[str, int] = {}
        unseen: dict[str, int] = {}
        scaled: list[_Scaled] = []
        position = 0
        for column, series in zip(self.columns_, frame, strict=True):
            if column.kind == "text":
                n_unseen = _encode(column, series, out[:, position : position + column.width])
                if n_unseen:
                    unseen[column.name] = n_unseen
            elif column.kind != "dropped":
                scaled.append(_Scaled.of(column, series, position))
            n_missing = (
                scaled[-1].n_missing if scaled and scaled[-1].position == position else series.null_count()
            )
            if n_missing and column.kind != "dropped":
                missing[column.name] = n_missing
            position += column.width
        _scale(scaled, out)
        return out, TransformReport(missing, unseen)

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[np.object_]:
        """Name the output columns: the column's name, or ``column=level`` for a text.

        Parameters
        ----------
        input_features : ignored
            Not used; here because scikit-learn passes it.

        Returns
        -------
        ndarray of str
            One name per output column.
        """
        check_is_fitted(self)
        return np.array([name for column in self.columns_ for name in column.output_names()], dtype=object)

    def output_groups(self) -> NDArray[np.int64]:
        """Give for each output column the number of the table's column that it comes from.

        Returns
        -------
        ndarray of int
            Explanations add up over equal numbers, so that a text gets one effect.

        Examples
        --------
        >>> import polars as pl
        >>> table = pl.DataFrame({"proto": ["tcp", "udp"], "bytes": [1, 2]})
        >>> TablePreparer().fit(table).output_groups().tolist()
        [0, 0, 1]
        """
        check_is_fitted(self)
        return np.repeat(np.arange(len(self.columns_)), [column.width for column in self.columns_])

    def to_state(self) -> dict[str, Any]:
        """Give the fitted state as plain lists, numbers and texts that JSON can hold.

        Returns
        -------
        dict
            What `from_state` takes; numbers survive JSON exactly.
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
        preparer = cls(max_levels=state["max_levels"])
        preparer.columns_ = [
            Column(**{**entry, "fill": tuple(entry["fill"]), "levels": tuple(entry["levels"])})
            for entry in state["columns"]
        ]
        preparer.n_features_in_ = len(preparer.columns_)
        if state["named"]:
            preparer.feature_names_in_ = np.array([column.name for column in preparer.columns_], dtype=object)
        return preparer

    def _as_frame(self, X: Table, *, fitting: bool) -> pl.DataFrame:
        if isinstance(X, pl.DataFrame):
            frame = X
        elif hasattr(X, "columns") and hasattr(X, "dtypes"):
            frame = pl.from_pandas(X)
        else:
            array = validate_data(self, X, reset=fitting, dtype="numeric", ensure_all_finite="allow-nan")
            return pl.from_numpy(array, schema=[f"x{i}" for i in range(array.shape[1])])
        if fitting:
            self.n_features_in_ = frame.width
            self.feature_names_in_ = np.array(frame.columns, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            _check_same_columns(self.feature_names_in_.tolist(), frame.columns)
        elif frame.width != self.n_features_in_:
            raise ValueError(
                f"X has {frame.width} features, but TablePreparer is expecting {self.n_features_in_} features as input"
            )
        if frame.height == 0 or frame.width == 0:
            raise ValueError(
                f"the table has {frame.height} rows and {frame.width} columns; at least one of each is needed"
            )
        return frame

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.transformer_tags.preserves_dtype = []
        return tags


@dataclass(frozen=True)
class _Scaled:
    """One numeric column on its way into the output."""

    column: Column
    position: int
    values: NDArray[Any]  # missing values are NaN, which only floats can hold
    n_missing: int
    exact_in_float32: bool

    @classmethod
    def of(cls, column: Column, series: pl.Series, position: int) -> _Scaled:
        if series.dtype == pl.String:
            series = _parsed(column, series)
        numbers = numbers_of(series)
        if numbers.dtype.is_float() and numbers.is_infinite().any():
            raise ValueError(infinite_value(numbers))
        n_missing = numbers.null_count()
        # Differences of small integers are exact in float32, and then its division rounds as float64's would.
        exact = (
            n_missing == 0
            and numbers.dtype in _SMALL_INTEGERS
            and all(abs(end) < 2**23 and end == int(end) for end in (column.minimum, column.maximum))
        )
        return cls(column, position, numbers.to_numpy(), n_missing, exact)


def _scale(scaled: Sequence[_Scaled], out: NDArray[np.float32]) -> None:
    """Scale columns into their places, a block of rows at a time because the output is stored by rows."""
    for exact in (True, False):
        chosen = [item for item in scaled if item.exact_in_float32 is exact]
        if not chosen:
            continue
        rows = max(64, _BLOCK_NUMBERS // len(chosen))
        block = np.empty((len(chosen), rows), dtype=np.float32 if exact else np.float64)
        factor, shift, span = (
            np.array(part, dtype=block.dtype)[:, None]
            for part in zip(*(item.column.scaling() for item in chosen), strict=True)
        )
        fill = np.array([item.column.fill[0] for item in chosen])[:, None]
        some_missing = any(item.n_missing for item in chosen)
        places = np.array([item.position for item in chosen])
        for start in range(0, len(out), rows):
            part = block[:, : len(out) - start]
            for j, item in enumerate(chosen):
                part[j] = item.values[start : start + rows]
            if not exact:
                part *= factor
            with np.errstate(over="ignore"):
                part -= shift
                part /= span
            if not exact:
                np.clip(part, -LIMIT, LIMIT, out=part)
            if some_missing:
                np.copyto(part, fill, where=np.isnan(part))
            out[start : start + rows, places] = part.T


def _encode(column: Column, series: pl.Series, out: NDArray[np.float32]) -> int:
    """One-hot encode a text into zeros and say how many values had no level."""
    texts = series.cast(pl.String)
    codes = texts.cast(pl.Enum(column.levels), strict=False).to_physical()
    missing = texts.is_null().to_numpy()
    known = codes.is_not_null().to_numpy()
    rows = np.flatnonzero(known)
    out[rows, codes.drop_nulls().to_numpy()] = 1.0
    if missing.any():
        out[missing] = column.fill
    return len(out) - len(rows) - int(missing.sum())


def _parsed(column: Column, series: pl.Series) -> pl.Series:
    """Read numbers that stand as texts, or say which text is none."""
    numbers = series.cast(pl.Float64, strict=False)
    bad = numbers.is_null() & series.is_not_null()
    if bad.any():
        row = int(np.flatnonzero(bad.to_numpy())[0])
        raise ValueError(
            f"column {column.name!r} was a {column.kind} in the training rows, "
            f"but row {row} (counted from 0) holds the text {series[row]!r}"
        )
    return numbers


def _check_same_columns(expected: list[str], found: list[str]) -> None:
    if expected == found:
        return
    message = "The feature names should match those that were passed during fit.\n"
    unexpected = [name for name in found if name not in set(expected)]
    absent = [name for name in expected if name not in set(found)]
    if unexpected:
        message += "Feature names unseen at fit time:\n" + "".join(f"- {name}\n" for name in unexpected)
    if absent:
        message += "Feature names seen at fit time, yet now missing:\n" + "".join(
            f"- {name}\n" for name in absent
        )
    if not unexpected and not absent:
        message += "Feature names must be in the same order as they were in fit.\n"
    raise ValueError(message)
