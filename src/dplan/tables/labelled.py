"""Split a table into features, labels and ids."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns import type_of
from dplan.columns.column import Column
from dplan.columns.deciding import Given, understand_frame
from dplan.columns.frames import as_frame
from dplan.columns.given import as_given
from dplan.tables.bad_cells import OnError, Usable
from dplan.tables.chunks import MISSING
from dplan.tables.decoding import AUTO
from dplan.tables.input import Input
from dplan.tables.label_columns import check_there, labels_of, names_of, with_one_label
from dplan.tables.labels import JOINED, Labels
from dplan.tables.reading import as_text
from dplan.tables.sampling import read_sample
from dplan.tables.words import NUMBERS, Words
from dplan.text import shown

__all__ = ["LabelledTable", "from_table", "understood"]


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
    input : Input, optional
        Where the table comes from, if it was read.
    words : Words, optional
        What the words of the label column mean, if that was given.
    labels : Labels, optional
        How the label column was read.
    meanings : mapping
        What the text columns mean.
    missing : tuple of str
        Text that means a missing value.
    positions : ndarray of int, optional
        The position of each row in the file, from 0.
    n_rows, n_normal : int, optional
        Rows and checked normal rows of the file, if these rows are a sample.
    extremes : polars.DataFrame, optional
        Rows that have the ranges and levels of the whole file, if these rows are a sample.
    bad : polars.DataFrame, optional
        Rows of the file with cells that cannot be used.
    named : bool
        Whether the columns have names; those of an array have none that anybody knows.

    Examples
    --------
    >>> table = pl.DataFrame({"amount": [10, 99, 12], "shop": ["a", "b", "a"], "fraud": [0, 1, -1]})
    >>> payments = from_table(table, label="fraud")
    >>> payments.counts(), payments.n_checked, payments.kinds()
    ({'unlabelled': 1, '1': 1}, 1, {'number': ['amount'], 'text': ['shop']})
    >>> with payments.located():  # errors about a cell name its place in the file
    ...     payments.y.tolist()
    [0, 1, -1]
    """

    features: pl.DataFrame = field(repr=False)
    y: NDArray[np.int64] = field(repr=False)
    classes: tuple[str, ...]
    ids: pl.DataFrame = field(repr=False)
    label: str
    input: Input | None = field(default=None, repr=False)
    words: Words | None = field(default=None, repr=False)
    labels: Labels | None = field(default=None, repr=False)
    meanings: Mapping[str, Column] = field(default_factory=dict, repr=False)
    missing: tuple[str, ...] = field(default=MISSING, repr=False)
    positions: NDArray[np.int64] | None = field(default=None, repr=False)
    n_rows: int | None = None
    n_normal: int | None = None
    extremes: pl.DataFrame | None = field(default=None, repr=False)
    bad: pl.DataFrame | None = field(default=None, repr=False)
    named: bool = field(default=True, repr=False)

    def located(self) -> AbstractContextManager[None]:
        """Add the position in the file to errors about a cell."""
        return nullcontext() if self.input is None else self.input.located(self.positions)

    def counts(self) -> dict[str, int]:
        """Rows per class, without checked normal rows; of a sample, those of the whole file."""
        sizes = np.bincount(self.y[self.y >= 0], minlength=len(self.classes))
        if self.n_rows is not None:
            sizes[0] = self.n_rows - self.n_checked - sizes[1:].sum()
        return {name: int(size) for name, size in zip(self.classes, sizes, strict=True)}

    @property
    def n_checked(self) -> int:
        """Rows that were checked and are normal; of a sample, those of the whole file."""
        return int((self.y < 0).sum()) if self.n_normal is None else self.n_normal

    def with_rows(self, done: Usable[Any]) -> LabelledTable:
        """Return the table with the rows and values that a step could use, and those that it could not.

        Examples
        --------
        >>> import io
        >>> from dplan.tables.bad_cells import without_bad_cells
        >>> file = io.BytesIO(pl.DataFrame({"amount": [10, 99], "fraud": [0, 1]}).write_csv().encode())
        >>> payments = from_table(file, label="fraud")
        >>> done = without_bad_cells(payments.features, lambda rows: rows.height, "skip", payments.positions)
        >>> payments.with_rows(done).y.tolist()
        [0, 1]
        """
        assert self.positions is not None  # it comes from a file
        return replace(
            self,
            features=done.rows,
            y=self.y[done.kept],
            ids=self.ids[done.kept] if self.ids.width else self.ids,
            positions=self.positions[done.kept],
            bad=done.bad,
        )

    def kinds(self) -> dict[str, list[str]]:
        """Feature columns by kind: number, flag, date, text; dropped columns have only missing values."""
        kinds: dict[str, list[str]] = {}
        for series in self.features:
            kinds.setdefault(type_of(series).kind, []).append(series.name)
        return kinds


def from_table(
    table: Input | str | Path | BinaryIO | pl.DataFrame | Any,
    label: str | Sequence[str],
    *,
    anomaly: Sequence[object] | None = None,
    normal: Sequence[object] | None = None,
    unlabelled: Sequence[object] | None = None,
    words: Words | None = None,
    partial: bool = False,
    id: str | Sequence[str] = (),
    drop: str | Sequence[str] = (),
    missing: Sequence[str] = MISSING,
    text: Collection[str] = (),
    columns: Mapping[str, str | Mapping[str, Any]] | None = None,
    encoding: str = AUTO,
    kind: str | None = None,
    query: str | None = None,
    sheet: str | None = None,
    sample: int | None = None,
    seed: int = 0,
    on_error: OnError = "fail",
) -> LabelledTable:
    """Split a table into features, labels and ids.

    Values of the label column are compared without case and surrounding blanks, unless two of the given values differ
    in nothing else.

    Parameters
    ----------
    table : Input, path, binary file or frame
        A file, a folder or a glob pattern, as in `read_table`; a polars or pandas frame, or an Arrow table.
    label : str
        The label column. Without `anomaly`, `normal` and `unlabelled` it must contain 0 or missing values for
        unlabelled rows, 1, 2, … for known anomalies and -1 for checked normal rows, false and true, or yes and no.
        Several columns, one per class, each of 0 and 1 or yes and no: a row is of the class of the first that marks it.
    anomaly : sequence, optional
        Values of the label column that mark known anomalies, one class each. All other values are unlabelled,
        unless `unlabelled` is given too: then each value must be given.
    normal : sequence, optional
        Values that mark rows that were checked and are normal.
    unlabelled : sequence, optional
        Values that mark unlabelled rows; missing values always do. Without `anomaly`, every other value is a
        class.
    words : Words, optional
        What the values mean, instead of these three; from `dplan.tables.words.words_of` for rows that add to those of a
        model.
    partial : bool, default=False
        Whether the rows add to those of a model: any verdict is enough, and values may be given that do not occur.
    id : str or sequence of str
        Columns that identify a row; they are not used as features. With `partial`, they may be missing.
    drop : str or sequence of str
        Columns to ignore.
    missing : sequence of str
        Text that means a missing value; in a frame or a file with types, only in columns that are not text.
    text : collection of str
        Columns to read as text even if they contain numbers, such as codes.
    columns : mapping, optional
        How to understand columns, if the decision from their values is wrong: column → what follows the name in ``dplan
        fit --column``, such as ``"number,decimal=comma"``.
    encoding, kind, query, sheet
        How a file is read, as in `read_table`; an `Input` has these already.
    sample : int, optional
        Read at most this many unlabelled rows and this many checked normal rows of a file, uniform samples, and all
        known anomalies. By default, read all.
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
    >>> payments = from_table(table, label="checked", anomaly=["fraud"], normal=["ok"], id="payment")
    >>> payments.features.columns, payments.y.tolist(), payments.classes
    (['amount'], [1, 0, -1], ('unlabelled', 'fraud'))
    """
    ids, dropped, several = names_of(id), names_of(drop), names_of(label)
    label = JOINED.join(several)
    name = "the table"
    words = words or Words.of(anomaly, normal, unlabelled)
    given = {**as_text(text), **as_given(columns)}
    # Labels can have any form, and an id such as 007 must be preserved.
    aside = {*several, *ids, *dropped}
    if isinstance(table, str | Path | list) or _is_stream(table):
        table = Input(cast(Any, table), kind or "", encoding, tuple(missing), sheet, query)
    if isinstance(table, Input):
        table = table.readable_twice()
        name = table.name

        def groups(rows: pl.DataFrame) -> NDArray[np.int64]:
            rows = with_one_label(name, rows, several)
            known = words or (NUMBERS if len(several) == 1 else Words(several, ("normal",)))
            return known.marks(rows[label], unknown=int(known.anomaly is None or bool(known.built_in)))

        drawn = read_sample(
            table, groups,
            given=given, aside=aside, n_rows=sample, seed=seed,
            on_error=on_error,
        )  # fmt: skip
        frame = drawn.rows
        used = {name: meaning for name, meaning in drawn.meanings.items() if name not in aside}
        more: dict[str, Any] = {
            "input": table,
            "positions": drawn.positions,
            "bad": drawn.bad,
            "meanings": used,
            "missing": table.missing,
        }
        if drawn.extremes is not None:
            more |= {
                "n_rows": drawn.n_rows,
                "n_normal": drawn.n_in_groups.get(-1, 0),
                "extremes": drawn.extremes,
            }
    else:
        frame, meanings = understood(as_frame(table), given, missing, aside)
        more = {"meanings": meanings, "missing": tuple(missing)}
    if frame.height == 0:
        raise ValueError(f"{name} has no rows")
    if partial and not set(ids) <= set(frame.columns):
        ids = ()  # rows are then recognised by their values
    for column in (*several, *ids, *dropped, *given):
        check_there(name, column, frame.columns)
    if twice := set(several) & set(ids):
        raise ValueError(f"column {min(twice)!r} cannot be the label and an id")
    features = frame.drop({*several, *ids, *dropped})
    if features.width == 0:
        raise ValueError(
            f"{name} has no feature columns left after removing the label, ids and dropped columns"
        )
    for series in features:
        type_of(series)  # rejects unsupported types such as lists
    found_labels = LabelledTable(features, np.empty(0, dtype=np.int64), (), frame.select(ids), label, **more)
    with found_labels.located():
        labels, words = labels_of(name, frame, several, words, partial=partial)
    return replace(found_labels, y=labels.y, classes=labels.classes, words=words, labels=labels)


def understood(
    frame: pl.DataFrame, given: Given, missing: Sequence[str], aside: Collection[str] = ()
) -> tuple[pl.DataFrame, dict[str, Column]]:
    """Return a frame with its text read, and what its columns mean; what is doubtful is a warning."""
    for column in given:
        check_there("the table", column, frame.columns)
    found, meanings = understand_frame(frame, given, missing, aside=aside)
    used = {name: meaning for name, meaning in meanings.items() if name not in aside}
    for name, meaning in used.items():
        if not meaning.sure:
            warnings.warn(f"column {shown(name)}: {meaning.why} (overrule with columns=…)", stacklevel=3)
    return found, used


def _is_stream(table: object) -> bool:
    return hasattr(table, "read") and not isinstance(table, Input)
