"""Convert mixed columns to numeric features in [0, 1], as in the paper's appendix A.1."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dplan.columns import from_json, read, type_of
from dplan.columns.column import TEXTS, Column
from dplan.columns.differences import TransformReport
from dplan.columns.frames import as_frame, attempted, check_same_columns, for_each_column, is_frame
from dplan.columns.layout import Layout
from dplan.columns.records import Training
from dplan.estimators import TransformerEstimator, check_fitted

__all__ = ["Cells", "TablePreparer", "TransformReport"]

Table = Any  # a polars or pandas frame, an Arrow table, or anything that converts to a 2-D array

_WORTH_THREADS = 10_000_000  # cells


class Cells(NamedTuple):
    """Rows without a frame, for requests: what one kernel and a few short columns prepare quickly.

    Attributes
    ----------
    numbers : ndarray of float64, of shape (n_rows, n_numbers)
        Values of the columns in `TablePreparer.number_columns`, NaN if missing.
    texts : sequence of sequences
        Values of each of the columns in `TablePreparer.text_columns`, None if missing.
    """

    numbers: NDArray[np.float64]
    texts: Sequence[Sequence[str | None]]


class TablePreparer(TransformerEstimator):
    """Prepare a table: one-hot encoding, mean imputation and min–max scaling.

    Numbers, booleans and durations become one feature each; a text column becomes one feature per level. A date becomes
    its hour of day, weekday and day of the month, two features each, and the time since the date column before it; its
    position in the calendar is left out. Minimum, maximum, mean and levels are learned in `fit` alone, so nothing leaks
    from rows that are scored later; those are not clipped to [0, 1]. A `polars.Enum` column has the levels that it
    declares.

    Parameters
    ----------
    max_levels : int, default=255
        A text column with more levels becomes the frequency of its level, and one feature for each of the most frequent
        ones (`dplan.columns.frequencies`). If more than half of its values are distinct, it is dropped as an id.
    meanings : mapping of str to Column, optional
        How the text of columns was read in the file that they come from; new rows may be text of the same form.

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
    >>> sorted(preparer.to_state())
    ['columns', 'max_levels', 'named']
    """

    def __init__(self, *, max_levels: int = 255, meanings: Mapping[str, Column] | None = None) -> None:
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
        before: list[tuple[Column, pl.Series]] = []

        def learned(series: pl.Series) -> Column:
            own = (self.meanings or {}).get(series.name)
            if own is None or not own.accepts(series.dtype):
                own = type_of(series)(decided=False)
            column = own.learn(series, Training(frame, before, self.max_levels))
            before.append((column, series))
            return column

        self._learned(for_each_column(learned, frame))
        return self

    def _learned(self, columns: list[Column]) -> None:
        self.columns_ = columns
        self._layout = Layout(columns)

    def transform(self, X: Table) -> NDArray[np.float32]:
        """Convert rows to features; training rows are scaled to [0, 1].

        Parameters
        ----------
        X : polars or pandas frame, Arrow table, or array of shape (n_rows, n_columns)
            Rows with the columns of the training rows.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs), float32
            Finite numbers, row by row.
        """
        return self.transform_with_report(X)[0]

    def transform_with_report(
        self, X: Table, missing: Sequence[str] = ()
    ) -> tuple[NDArray[np.float32], TransformReport]:
        """Like `transform`, but also count missing values and unseen levels.

        Parameters
        ----------
        X : polars or pandas frame, Arrow table, or array of shape (n_rows, n_columns)
            Rows with the columns of the training rows.
        missing : sequence of str
            Text that means a missing value where it cannot be read otherwise.

        Returns
        -------
        X : ndarray of shape (n_rows, n_outputs), float32
            As from `transform`.
        report : TransformReport
            The counts.
        """
        check_fitted(self, "columns_")
        frame = self._as_frame(X, fitting=False)
        out = np.empty((frame.height, self._layout.width), dtype=np.float32)
        steps = list(zip(self.columns_, frame, strict=True))

        def values_of(step: tuple[Column, pl.Series]) -> Any:
            column, series = step
            return column.values(read(column, series, missing))

        if frame.height * frame.width < _WORTH_THREADS:
            counts = self._layout.write(attempted(values_of, steps), out)
        else:  # a column is read, and a row written, by one thread alone, so the result is the same
            with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
                counts = self._layout.write(attempted(values_of, steps, pool.map), out, pool)
        n_missing, unseen, outside = (
            {column.name: n[k] for column, n in zip(self.columns_, counts, strict=True) if n[k]}
            for k in range(3)
        )
        retyped = {
            series.name: type_of(series).kind
            for column, series in steps
            if column.has_levels and not column.holds(series.dtype) and series.dtype not in (pl.Null, *TEXTS)
        }
        found = {column.name: column.limit() for column in self.columns_}
        limits = {name: limit for name, limit in found.items() if limit[1] > 1e-9}  # not rounding
        return out, TransformReport(frame.height, n_missing, unseen, retyped, outside, limits)

    @property
    def number_columns(self) -> list[str]:
        """The columns of which only the number matters, in the order of `Cells.numbers`."""
        return [column.name for column in self.columns_ if column.cells == "numbers"]

    @property
    def text_columns(self) -> list[str]:
        """The columns whose text is read, in the order of `Cells.texts`."""
        return [column.name for column in self.columns_ if column.cells == "texts"]

    def transform_cells(self, cells: Cells) -> NDArray[np.float32]:
        """Convert rows without a frame, with the same result as `transform`, bit for bit.

        Examples
        --------
        >>> import polars as pl
        >>> table = pl.DataFrame({"bytes": [0, 50, None, 100], "proto": ["tcp", "udp", "tcp", "tcp"]})
        >>> preparer = TablePreparer().fit(table)
        >>> preparer.transform_cells(Cells(np.array([[50.0], [np.nan]]), [["udp", None]])).tolist()
        [[0.5, 0.0, 1.0], [0.5, 0.75, 0.25]]
        """
        numbers, texts = iter(cells.numbers.T), iter(cells.texts)

        def values_of(column: Column) -> Any:
            if column.cells == "numbers":
                return next(numbers)
            if column.cells == "texts":
                return column.values(read(column, pl.Series(column.name, next(texts), dtype=pl.String)))
            return None

        out = np.empty((len(cells.numbers), self._layout.width), dtype=np.float32)
        self._layout.write(attempted(values_of, self.columns_), out)
        return out

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
        check_fitted(self, "columns_")
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
        check_fitted(self, "columns_")
        return np.repeat(np.arange(len(self.columns_)), [column.width for column in self.columns_])

    def to_state(self) -> dict[str, Any]:
        """Return the fitted state as values that can be stored as JSON.

        Returns
        -------
        dict
            The argument of `from_state`; JSON preserves it exactly.
        """
        check_fitted(self, "columns_")
        return {
            "max_levels": self.max_levels,
            "named": hasattr(self, "feature_names_in_"),
            "columns": [column.to_json() for column in self.columns_],
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
                columns = [from_json(entry) for entry in entries]
                names = [column.name for column in columns]
                if len(set(names)) != len(names):
                    raise ValueError("two of its columns have the same name")
                for column in columns:
                    column.check_others(columns)
                preparer._learned(columns)
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
            from sklearn.utils.validation import validate_data

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
