"""Decide what each column of a table means: a proposal from a sample of its values, checked over all rows."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dplan.columns.conversion import for_each_column
from dplan.columns.meaning import Meaning
from dplan.columns.moments import orders
from dplan.columns.numbers import body_of
from dplan.columns.proposing import Hints, propose, propose_as
from dplan.columns.texts import looks_free, looks_like_ids
from dplan.exceptions import CellError
from dplan.text import shown

__all__ = ["Given", "understand"]

Given = Mapping[str, Mapping[str, Any]]

_FIRST, _SPREAD = 200, 800  # rows of a sample: the first ones, and others over the whole column
_BAD = 200  # values that did not have the proposed meaning, to propose again
_ROUNDS = 3
_MIN_ROWS = 100  # with fewer rows, distinct values say nothing about ids
_NEARLY_EMPTY = 0.01
_DAY = 86_400 * 10**6  # microseconds
_ID_NAME = re.compile(
    r"(?:^|[^a-z])(?:id|uuid|guid|key|nr|no|number|nummer|index|idx|row)$|[a-z]I[dD]$", re.IGNORECASE
)


@dataclass(frozen=True)
class _Sample:
    """Some values of a column: distinct texts, without missing ones, and whether any occurred twice."""

    values: list[str]
    distinct: bool


def understand(
    columns: list[pl.Series],
    given: Given,
    missing: Sequence[str] | None,
    *,
    strict: bool = True,
    typed: bool = False,
) -> tuple[pl.DataFrame, dict[str, Meaning]]:
    """Decide what each text column means, and read it.

    Parameters
    ----------
    columns : list of Series
        The columns; the list is emptied, so that text is freed as soon as it is read.
    given : mapping
        Column → what is known about its meaning: its kind and possibly more.
    missing : sequence of str or None
        Text that means a missing value; None if types distinguish text from numbers, as in JSON and Parquet.
    strict : bool, default=True
        Whether a value that does not have the meaning of most others is an error; otherwise it becomes missing.
    typed : bool, default=False
        Whether the table has types, as in Parquet, so that text that is mostly numbers is text.

    Returns
    -------
    table : DataFrame
        Numbers, booleans, dates, times and text.
    meanings : dict
        Column → its meaning, for each column that was text.

    Examples
    --------
    >>> table, meanings = understand([pl.Series("paid", ["12,50 €", "3 €"])], {}, [""])
    >>> table["paid"].to_list(), meanings["paid"].why
    ([12.5, 3.0], "decimal comma, as in '12,50'; in €")
    """
    samples = _sampled([column for column in columns if column.dtype == pl.String], missing)
    quoted = missing is None
    alone = {
        name: propose(sample.values, Hints(), quoted=quoted)
        for name, sample in samples.items()
        if sample.values and name not in given
    }
    hints = Hints.of(alone.values())
    meanings: dict[str, Meaning] = {}

    def understood(column: pl.Series) -> pl.Series:
        name = column.name
        if name not in samples:
            if column.dtype.is_integer() and name not in given and (why := _id_numbers(column)):
                meanings[name] = Meaning("id", why=why)
            elif name in given and given[name]["kind"] in ("id", "dropped", "filled", "date"):
                meanings[name] = Meaning(**{"why": "as specified", **given[name]})
            return column
        decided = _Column(column, samples[name], given.get(name), missing, hints, strict, typed)
        first = alone.get(name)
        meanings[name], values = decided.understood(
            None if first is None or hints.matter_for(first) else first
        )
        return values

    columns.reverse()
    with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
        every = (columns.pop() for _ in range(len(columns)))
        table = pl.DataFrame(for_each_column(understood, every, pool.map))
    return table, {name: meanings[name] for name in table.columns if name in meanings}


@dataclass
class _Column:
    texts: pl.Series
    sample: _Sample
    given: Mapping[str, Any] | None
    missing: Sequence[str] | None
    hints: Hints
    strict: bool
    typed: bool

    def understood(self, first: Meaning | None) -> tuple[Meaning, pl.Series]:
        """Return the meaning of the column and its values; `first` is what the sample proposes, if that is known."""
        if not self.sample.values:
            self.texts = _tidied(self.texts, self.missing)
            left = self.texts.drop_nulls().head(_BAD).unique(maintain_order=True).to_list()
            if not left and self.given is None:
                return Meaning("empty", why="no value at all"), self.texts
            self.sample = _Sample(left, distinct=False)
        meaning = self._proposed(first)
        if meaning.kind == "number" and meaning.unit == "" and meaning.decimal == ".":
            values = meaning.read(self.texts)  # most columns are plain numbers, and need not be tidied
            if values.null_count() == self.texts.null_count():
                return self._checked(meaning, values)
        self.texts = _tidied(self.texts, self.missing)
        n_values = len(self.texts) - self.texts.null_count()
        if (
            self.given is None
            and len(self.texts) >= 2 * _MIN_ROWS
            and n_values <= _NEARLY_EMPTY * len(self.texts)
        ):
            some = f"nearly empty: {n_values:,} of {len(self.texts):,} rows have a value"
            why = f"{some}; only whether there is one is used"
            return Meaning("filled", why=why), self.texts.is_not_null()
        for _ in range(_ROUNDS):
            values = meaning.read(self.texts)
            bad = values.is_null() & self.texts.is_not_null()
            if not bad.any():
                return self._checked(meaning, values)
            more = self.texts.filter(bad).head(_BAD).to_list()
            self.sample = replace(self.sample, values=list(dict.fromkeys([*self.sample.values, *more])))
            again = self._proposed()
            if again == meaning:
                break
            meaning = again
        values = meaning.read(self.texts)
        if self.strict:
            self._raise_for_bad(meaning, values)
        return self._checked(meaning, values)

    def _proposed(self, found: Meaning | None = None) -> Meaning:
        """Propose a meaning for all values of the sample, or for most of them."""
        values = self.sample.values
        if self.given is not None:
            return propose_as(self.given, values, self.hints)
        found = found or propose(values, self.hints, quoted=self.missing is None)
        if found.kind == "category" and found.sure and not found.part and not self.typed:
            numbers = [value for value in values if body_of(value) is not None]
            dates = [value for value in values if orders([value])]
            for most in (numbers, dates):
                if len(values) / 2 < len(most) < len(values):
                    return propose(most, self.hints)
        return found

    def _checked(self, meaning: Meaning, values: pl.Series) -> tuple[Meaning, pl.Series]:
        """Look for dates without times, ids and free text, which only all rows show."""
        if values.dtype == pl.Datetime and (values.to_physical() % _DAY == 0).all():
            values = values.cast(pl.Date)
        if self.given is not None or not self.sample.distinct or len(values) < _MIN_ROWS:
            return meaning, values
        if values.dtype.is_integer() and (why := _id_numbers(values)):
            return Meaning("id", why=why), values
        if meaning.kind == "category" and not meaning.part:
            n_distinct, n_values = values.drop_nulls().n_unique(), len(values) - values.null_count()
            if n_distinct > n_values / 2 and looks_like_ids(self.sample.values):
                why = f"{n_distinct:,} different values of one form, such as {shown(self.sample.values[0])}"
                return Meaning("id", why=why), values
            if n_distinct > max(_MIN_ROWS, n_values / 5) and looks_free(self.sample.values):
                why = f"{n_distinct:,} different texts of several words"
                return Meaning("free text", why=why), values
        return meaning, values

    def _raise_for_bad(self, meaning: Meaning, values: pl.Series) -> None:
        bad = values.is_null() & self.texts.is_not_null()
        if not bad.any():
            return
        row = int(bad.arg_max() or 0)
        n_good, n_values = len(values) - values.null_count(), len(values) - self.texts.null_count()
        what = {"number": "a number", "date": "a date"}.get(meaning.kind, meaning.described())
        advice = "" if self.missing is None else "treat it as missing (--missing), "
        raise CellError(
            self.texts.name,
            row,
            f"{shown(self.texts[row])} is not {what}, but {n_good:,} of {n_values:,} values are; fix it, {advice}"
            "or read the column as text (--text)",
            rows=tuple(bad.arg_true()),
        )


def _sampled(columns: list[pl.Series], missing: Sequence[str] | None) -> dict[str, _Sample]:
    """Return a sample of each column, all read at once: there may be very many columns."""
    if not columns:
        return {}
    if len(columns[0]) > _FIRST + _SPREAD:
        spread = np.linspace(_FIRST, len(columns[0]) - 1, _SPREAD).astype(np.int64)
        places = np.concatenate([np.arange(_FIRST), spread])
        columns = [column.gather(places) for column in columns]
    texts = pl.all().str.strip_chars()
    tidy = pl.when(~texts.is_in(list(missing))).then(texts) if missing else texts
    samples = {}
    for column in pl.DataFrame(columns).select(tidy):
        present = [text for text in column.to_list() if text is not None]
        values = list(dict.fromkeys(present))
        samples[column.name] = _Sample(values, distinct=len(values) > 0.5 * len(present))
    return samples


def _tidied(texts: pl.Series, missing: Sequence[str] | None) -> pl.Series:
    """Strip text, and replace what means a missing value by null, as `dplan.tables.chunks.tidy` does, but quicker."""
    texts = texts.str.strip_chars()
    if not missing:
        return texts
    short = (texts.str.len_bytes() <= max(len(word.encode()) for word in missing)).arg_true()
    found = short.filter(texts.gather(short).is_in(list(missing)))
    if found.is_empty():
        return texts
    gone = pl.Series([False]).new_from_index(0, len(texts)).scatter(found, True)
    return pl.select(pl.when(~gone).then(texts)).to_series().alias(texts.name)


def _id_numbers(values: pl.Series) -> str:
    """Return why whole numbers are ids and not quantities; empty if they are quantities."""
    present = values.drop_nulls()
    if len(present) < _MIN_ROWS:
        return ""
    low, high, n = int(present.min()), int(present.max()), len(present)  # type: ignore[arg-type]
    named = _ID_NAME.search(values.name) is not None
    wide = low >= 10**7 and len(str(low)) == len(str(high)) and high - low > 0.3 * high
    steps = high - low == n - 1 and (present.is_sorted() or present.is_sorted(descending=True))
    if not (named or wide or steps):
        return ""
    n_distinct = present.n_unique()
    if steps and n_distinct == n:
        return f"counts the rows from {low} to {high}"
    if named and n_distinct >= 0.95 * n:
        return f"{n_distinct:,} different whole numbers, and the name says id"
    if wide and n_distinct >= 0.99 * n:
        return f"{n_distinct:,} different numbers of {len(str(low))} digits"
    return ""
