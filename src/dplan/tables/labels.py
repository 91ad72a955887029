"""Split a table into features, labels and ids."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import CellError, shown
from dplan.tables.chunks import MISSING, ReadOptions
from dplan.tables.columns import kind_of
from dplan.tables.decoding import AUTO
from dplan.tables.frames import as_frame
from dplan.tables.mistakes import OnError
from dplan.tables.reading import Source, kind_of_source, located, name_of, source_of
from dplan.tables.sampling import read_sample

__all__ = ["LabelledTable", "from_table", "has_label"]

_SHOWN = 10  # values listed in a message


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """A table ready for `TablePreparer` and a detector.

    Attributes
    ----------
    features : polars.DataFrame
        The columns to learn from, not yet prepared.
    y : ndarray of int
        0 for an unlabelled row, k for a known anomaly of class k.
    classes : tuple of str
        ``classes[0]`` is ``"unlabelled"``, ``classes[k]`` the label of class k.
    ids : polars.DataFrame
        The columns that only identify a row; may have no columns.
    label : str
        The label column.
    options : ReadOptions
        How the file was read.
    source : tuple, optional
        The file and its format, if the table comes from a file.
    positions : ndarray of int, optional
        The position of each row in the file, from 0.
    n_rows : int, optional
        Rows of the file, if these rows are a sample.
    extremes : polars.DataFrame, optional
        Rows that have the ranges and levels of the whole file, if these rows are a sample.
    mistakes : polars.DataFrame, optional
        Rows of the file with cells that cannot be used.
    """

    features: pl.DataFrame = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    classes: tuple[str, ...]
    ids: pl.DataFrame = field(repr=False)
    label: str
    options: ReadOptions = field(default=ReadOptions(), repr=False)
    source: tuple[Source, str] | None = field(default=None, repr=False)
    positions: NDArray[np.int64] | None = field(default=None, repr=False)
    n_rows: int | None = None
    extremes: pl.DataFrame | None = field(default=None, repr=False)
    mistakes: pl.DataFrame | None = field(default=None, repr=False)

    def located(self) -> AbstractContextManager[None]:
        """Add the position in the file to errors about a cell."""
        return located(*self.source, self.options, self.positions) if self.source else nullcontext()

    def counts(self) -> dict[str, int]:
        """Rows per class; rows that are not in the sample are unlabelled."""
        sizes = np.bincount(self.y, minlength=len(self.classes))
        sizes[0] += (self.n_rows or len(self.y)) - len(self.y)
        return {name: int(size) for name, size in zip(self.classes, sizes, strict=True)}

    def kinds(self) -> dict[str, list[str]]:
        """Feature columns by kind: number, flag, date, text; dropped columns have only missing values."""
        kinds: dict[str, list[str]] = {}
        for series in self.features:
            kinds.setdefault(kind_of(series), []).append(series.name)
        return kinds


def from_table(
    table: str | Path | BinaryIO | pl.DataFrame | Any,
    label: str,
    *,
    anomaly: Sequence[object] | None = None,
    unlabelled: Sequence[object] | None = None,
    id: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    missing: Sequence[str] = MISSING,
    text: Collection[str] = (),
    encoding: str = AUTO,
    kind: str | None = None,
    query: str | None = None,
    sheet: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    on_error: OnError = "fail",
) -> LabelledTable:
    """Split a table into features, labels and ids.

    A row is labelled only if it is a known anomaly; all other rows are unlabelled, whether or not they were checked.

    Parameters
    ----------
    table : path, binary file or frame
        A file, a folder or a glob pattern, as in `read_table`; a polars or pandas frame, or an Arrow table.
    label : str
        The label column. Without `anomaly` and `unlabelled` it must contain 0 or missing values for unlabelled rows and
        1, 2, … for known anomalies, or false and true.
    anomaly : sequence, optional
        Values of the label column that mark known anomalies, one class each. All other values are unlabelled,
        unless `unlabelled` is given too: then each value must be in one of the two.
    unlabelled : sequence, optional
        Values that mark unlabelled rows; missing values always do. Without `anomaly`, every other value is a
        class.
    id : str or sequence of str
        Columns that identify a row; they are not used as features.
    drop : str or sequence of str
        Columns to ignore.
    missing : sequence of str
        Text in a CSV or TSV file that means a missing value.
    text : collection of str
        Columns of a file to read as text even if they contain numbers, such as codes.
    encoding, kind, query, sheet
        How a file is read, as in `read_table`.
    sample : int, optional
        Read at most this many unlabelled rows of a file, a uniform sample, and all labelled rows. By default, read all.
    seed : int, default=0
        Seed of the sample.
    on_error : {"fail", "skip", "null"}, default="fail"
        What to do about cells of a file that cannot be used: raise an error, skip their rows, or treat them as missing.

    Returns
    -------
    LabelledTable
        Features, labels and ids.

    Examples
    --------
    >>> table = pl.DataFrame(
    ...     {"payment": ["p1", "p2", "p3"], "amount": [10, 99, 12], "checked": ["fraud", None, "ok"]}
    ... )
    >>> payments = from_table(table, label="checked", anomaly=["fraud"], id="payment")
    >>> payments.features.columns, payments.y.tolist(), payments.classes
    (['amount'], [1, 0, 0], ('unlabelled', 'fraud'))
    """
    ids, dropped = _names(id), _names(drop)
    name, options = "the table", ReadOptions(encoding, tuple(missing), query, sheet)
    more: dict[str, Any] = {}
    if isinstance(table, str | Path | list) or hasattr(table, "read"):
        found = source_of(table)
        name, kind = name_of(found), kind or kind_of_source(found)
        # Labels can have any form, and an id such as 007 must be preserved.
        aside = {label, *ids, *dropped}

        def groups(rows: pl.DataFrame) -> NDArray[np.int64]:
            _check_there(name, label, rows.columns)
            return _may_be_labelled(rows[label], anomaly, unlabelled).astype(np.int64)

        drawn = read_sample(
            found, kind, options, groups,
            text={*aside, *text}, aside=aside, n_rows=sample, seed=seed, on_error=on_error,
        )  # fmt: skip
        frame = drawn.rows
        more = {"source": (found, kind), "positions": drawn.positions, "mistakes": drawn.mistakes}
        if drawn.n_rows > frame.height:
            more |= {"n_rows": drawn.n_rows, "extremes": drawn.extremes.drop(aside, strict=False)}
    else:
        frame = as_frame(table)
    if frame.height == 0:
        raise ValueError(f"{name} has no rows")
    for column in (label, *ids, *dropped, *text):
        _check_there(name, column, frame.columns)
    if label in ids:
        raise ValueError(f"column {label!r} cannot be the label and an id")
    features = frame.drop({label, *ids, *dropped})
    if features.width == 0:
        raise ValueError(
            f"{name} has no feature columns left after removing the label, ids and dropped columns"
        )
    for series in features:
        kind_of(series)  # rejects unsupported types such as lists
    found_labels = LabelledTable(
        features, np.empty(0, dtype=np.int64), (), frame.select(ids), label, options, **more
    )
    with found_labels.located():
        y, classes = _labels(frame[label], anomaly, unlabelled)
    return replace(found_labels, y=y, classes=classes)


def has_label(labels: pl.Series) -> NDArray[np.bool_]:
    """Return which cells of a label column have a label: any text or number except 0 and false.

    Examples
    --------
    >>> has_label(pl.Series(["fraud", "ok", "", None, "0"])).tolist()
    [True, True, False, False, False]
    """
    return ~_as_texts(labels).fill_null("").str.to_lowercase().is_in(["", "0", "false"]).to_numpy()


def _may_be_labelled(
    labels: pl.Series, anomaly: Sequence[object] | None, unlabelled: Sequence[object] | None
) -> NDArray[np.bool_]:
    """Return which rows `_labels` may give a class, without knowing the other rows of the table."""
    texts = _as_texts(labels).str.to_lowercase()
    if anomaly is not None:
        found = texts.is_in([_as_text(value).lower() for value in anomaly])
    else:
        none = ["0", "false"] if unlabelled is None else [_as_text(value).lower() for value in unlabelled]
        found = ~texts.is_in(none)
    return found.fill_null(value=False).to_numpy()


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _check_there(name: str, column: str, columns: list[str]) -> None:
    if column in columns:
        return
    near = difflib.get_close_matches(column, columns, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"available columns: {_listed(columns)}"
    raise ValueError(f"{name} has no column {column!r}; {hint}")


def _labels(
    labels: pl.Series, anomaly: Sequence[object] | None, unlabelled: Sequence[object] | None
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    if anomaly is None and unlabelled is None:
        return _numbered(labels)
    texts = _as_texts(labels)
    found = dict(texts.drop_nulls().value_counts(sort=True).rows())
    known = [_as_text(value) for value in anomaly or ()]
    normal = [_as_text(value) for value in unlabelled or ()]
    for value in known:
        if value not in found:
            close = [text for text in found if text.casefold() == value.casefold()]
            hint = f"did you mean {close[0]!r}?" if close else f"its values are {_listed(found)}"
            raise ValueError(f"label column {labels.name!r} has no anomaly value {value!r}; {hint}")
        if value in normal:
            raise ValueError(f"{value!r} cannot be both an anomaly value and an unlabelled value")
    if anomaly is None:
        known = sorted(set(found) - set(normal))
    elif unlabelled is not None:
        rest = [value for value in found if value not in {*known, *normal}]
        if rest:
            raise ValueError(
                f"label column {labels.name!r} also contains {_listed(rest)}; "
                "add each of them to the anomaly or the unlabelled values"
            )
    known = list(dict.fromkeys(known))
    codes = {value: k for k, value in enumerate(known, start=1)}
    y = texts.replace_strict(codes, default=0, return_dtype=pl.Int64).to_numpy()
    return _checked(labels, y), ("unlabelled", *known)


def _numbered(labels: pl.Series) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Read a label column of 0 and class numbers, or of false and true."""
    if labels.dtype == pl.Boolean or labels.dtype == pl.Null:
        labels = labels.cast(pl.Int64)
    if labels.dtype == pl.String:
        lower = labels.str.strip_chars().str.to_lowercase().replace({"false": "0", "true": "1"})
        parsed = lower.cast(pl.Float64, strict=False)
        labels = parsed if parsed.null_count() == labels.null_count() else labels
    if not labels.dtype.is_numeric():
        found = dict(_as_texts(labels).drop_nulls().value_counts(sort=True).rows())
        raise ValueError(
            f"label column {labels.name!r} contains {_listed(found)}; specify which values "
            "mark known anomalies (--anomaly VALUE, in Python anomaly=[…])"
        )
    numbers = labels.cast(pl.Float64).fill_nan(None).fill_null(0.0).to_numpy()
    wrong = np.flatnonzero((numbers < 0) | (numbers != np.floor(numbers)) | ~np.isfinite(numbers))
    if len(wrong):
        raise CellError(
            labels.name,
            int(wrong[0]),
            f"the label {labels[int(wrong[0])]} is neither 0 (unlabelled) nor a class number 1, 2, …; fix it, or "
            "specify which values mark known anomalies (--anomaly VALUE, in Python anomaly=[…])",
        )
    values, y = np.unique(np.concatenate([[0.0], numbers]), return_inverse=True)
    return _checked(labels, y[1:]), ("unlabelled", *(f"{value:.0f}" for value in values[1:]))


def _checked(labels: pl.Series, y: NDArray[np.int64]) -> NDArray[np.int64]:
    if not y.any():
        raise ValueError(
            f"label column {labels.name!r} contains no known anomalies; at least one is required "
            "(specify which values mark them: --anomaly VALUE, in Python anomaly=[…])"
        )
    if y.all():
        raise ValueError(
            f"label column {labels.name!r} marks every row as an anomaly; unlabelled rows are required"
        )
    return y


def _as_texts(labels: pl.Series) -> pl.Series:
    """Convert labels to strings, integers without a decimal point."""
    if labels.dtype.is_float():
        labels = labels.fill_nan(None)
        whole = labels.drop_nulls()
        if (whole == whole.floor()).all() and whole.is_finite().all() and (whole.abs() < 2**53).all():
            labels = labels.cast(pl.Int64)
    texts = labels.cast(pl.String)
    return texts.str.strip_chars() if labels.dtype == pl.String else texts


def _as_text(value: object) -> str:
    """Convert a value as `_as_texts` does, so that 1, 1.0 and "1" are the same."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _listed(values: Collection[str] | dict[str, int]) -> str:
    if isinstance(values, dict):
        parts = [f"{shown(value)} ({n:,} rows)" for value, n in list(values.items())[:_SHOWN]]
    else:
        parts = [shown(value) for value in list(values)[:_SHOWN]]
    more = f" and {len(values) - _SHOWN:,} more" if len(values) > _SHOWN else ""
    return ", ".join(parts) + more if parts else "only missing values"
