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

from dplan.tables.chunks import MISSING, ReadOptions, kind_of_file
from dplan.tables.columns import kind_of
from dplan.tables.frames import as_frame
from dplan.tables.label_values import LabelValues, listed, read_labels
from dplan.tables.reading import located, read_understood
from dplan.tables.understanding.deciding import Given
from dplan.tables.understanding.meaning import Meaning

__all__ = ["LabelledTable", "from_table"]


@dataclass(frozen=True, eq=False)
class LabelledTable:
    """A table ready for `TablePreparer` and a detector.

    Attributes
    ----------
    features : polars.DataFrame
        The columns to learn from, not yet prepared.
    y : ndarray of int
        0 for an unlabelled row, k for a known anomaly of class k, -1 for a row that was checked and is normal.
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
    values : LabelValues, optional
        What the values of the label column mean, if that was given.
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
    values: LabelValues | None = field(default=None, repr=False)
    meanings: Mapping[str, Meaning] = field(default_factory=dict, repr=False)

    def located(self) -> AbstractContextManager[None]:
        """Add the position in the file to errors about a cell."""
        return located(*self.source, self.options) if self.source else nullcontext()

    def counts(self) -> dict[str, int]:
        """Rows per class, without checked normal rows."""
        sizes = np.bincount(self.y[self.y >= 0], minlength=len(self.classes))
        return {name: int(size) for name, size in zip(self.classes, sizes, strict=True)}

    @property
    def n_checked(self) -> int:
        """Rows that were checked and are normal."""
        return int((self.y < 0).sum())

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
    normal: Sequence[object] | None = None,
    unlabelled: Sequence[object] | None = None,
    partial: bool = False,
    id: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    missing: Sequence[str] = MISSING,
    text: Collection[str] = (),
    columns: Given | None = None,
    encoding: str = "utf-8",
    kind: str | None = None,
) -> LabelledTable:
    """Split a table into features, labels and ids.

    Values of the label column are compared without case and surrounding blanks, unless two of the given values differ
    in nothing else.

    Parameters
    ----------
    table : path, binary file or frame
        A CSV, TSV, JSON lines (also gzipped) or Parquet file, a polars or pandas frame, or an Arrow table.
    label : str
        The label column. Without `anomaly`, `normal` and `unlabelled` it must contain 0 or missing values for
        unlabelled rows, 1, 2, … for known anomalies and -1 for checked normal rows, or false and true.
    anomaly : sequence, optional
        Values of the label column that mark known anomalies, one class each. All other values are unlabelled,
        unless `unlabelled` is given too: then each value must be given.
    normal : sequence, optional
        Values that mark rows that were checked and are normal.
    unlabelled : sequence, optional
        Values that mark unlabelled rows; missing values always do. Without `anomaly`, every other value is a
        class.
    partial : bool, default=False
        Whether the rows add to those of a model: any verdict is enough, and values may be given that do not occur.
    id : str or sequence of str
        Columns that identify a row; they are not used as features. With `partial`, they may be missing.
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
    if partial and not set(ids) <= set(frame.columns):
        ids = ()  # rows are then recognised by their values
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
    values = LabelValues.of(anomaly, normal, unlabelled)
    with located(*source, options) if source else nullcontext():
        y, classes, values = read_labels(frame[label], values, partial=partial)
    used = {name: meanings[name] for name in features.columns if name in meanings}
    return LabelledTable(features, y, classes, frame.select(ids), label, options, source, values, used)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _check_there(name: str, column: str, columns: list[str]) -> None:
    if column in columns:
        return
    near = difflib.get_close_matches(column, columns, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"available columns: {listed(columns)}"
    raise ValueError(f"{name} has no column {column!r}; {hint}")
