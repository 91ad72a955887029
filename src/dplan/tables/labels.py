"""Split a table into features, labels and ids."""

from __future__ import annotations

import difflib
import io
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import CellError, shown
from dplan.tables.chunks import MISSING, ReadOptions, kind_of_file
from dplan.tables.columns import kind_of
from dplan.tables.frames import as_frame
from dplan.tables.reading import located, read_understood
from dplan.tables.understanding.deciding import Given
from dplan.tables.understanding.meaning import Meaning

__all__ = ["LabelledTable", "from_table"]

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
    meanings : mapping
        What the text columns of the file mean.
    """

    features: pl.DataFrame = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    classes: tuple[str, ...]
    ids: pl.DataFrame = field(repr=False)
    label: str
    options: ReadOptions = field(default=ReadOptions(), repr=False)
    source: tuple[Path | BinaryIO, str] | None = field(default=None, repr=False)
    meanings: Mapping[str, Meaning] = field(default_factory=dict, repr=False)

    def located(self) -> AbstractContextManager[None]:
        """Add the position in the file to errors about a cell."""
        return located(*self.source, self.options) if self.source else nullcontext()

    def counts(self) -> dict[str, int]:
        """Rows per class."""
        sizes = np.bincount(self.y, minlength=len(self.classes))
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
    columns: Given | None = None,
    encoding: str = "utf-8",
    kind: str | None = None,
) -> LabelledTable:
    """Split a table into features, labels and ids.

    A row is labelled only if it is a known anomaly; all other rows are unlabelled, whether or not they were checked.

    Parameters
    ----------
    table : path, binary file or frame
        A CSV, TSV, JSON lines (also gzipped) or Parquet file, a polars or pandas frame, or an Arrow table.
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
    columns : mapping, optional
        How to understand columns of a file, if the decision from their values is wrong: column → ``{"kind": …}``, with
        the options of ``dplan fit --column``.
    encoding : str, default="utf-8"
        Text encoding of a CSV, TSV or JSON lines file.
    kind : {"csv", "jsonl", "parquet"}, optional
        Format of the file; None to use its name.

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
    name, options = "the table", ReadOptions(encoding, tuple(missing))
    source: tuple[Path | BinaryIO, str] | None = None
    meanings: dict[str, Meaning] = {}
    if isinstance(table, str | Path) or hasattr(table, "read"):
        path = Path(table) if isinstance(table, str | Path) else io.BytesIO(table.read())
        name = path.name if isinstance(path, Path) else "the input"
        kind = kind or (kind_of_file(path) if isinstance(path, Path) else "csv")
        # Labels can have any form, and an id such as 007 must be preserved.
        kept = {label, *ids, *dropped, *text}
        frame, meanings = read_understood(
            path, missing=missing, text=kept, columns=columns, encoding=encoding, kind=kind
        )
        source = path, kind
    else:
        frame = as_frame(table)
    if frame.height == 0:
        raise ValueError(f"{name} has no rows")
    for column in (label, *ids, *dropped, *text, *(columns or ())):
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
    with located(*source, options) if source else nullcontext():
        y, classes = _labels(frame[label], anomaly, unlabelled)
    used = {name: meanings[name] for name in features.columns if name in meanings}
    return LabelledTable(features, y, classes, frame.select(ids), label, options, source, used)


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
