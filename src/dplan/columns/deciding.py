"""Decide what each column of a table means: a proposal from a sample of its values, checked over all rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dplan.columns import TYPES, propose, type_named
from dplan.columns.column import Column
from dplan.columns.frames import check_cells, for_each_column
from dplan.columns.records import Hints
from dplan.columns.unused import MIN_ROWS, Unused, counter_of
from dplan.text import shown

__all__ = ["AS_TEXT", "Given", "understand"]

Given = Mapping[str, Mapping[str, Any]]

_FIRST, _SPREAD = 200, 800  # rows of a sample: the first ones, and others over the whole column
_BAD = 200  # values that did not have the proposed meaning, to propose again
_ROUNDS = 3
AS_TEXT = {"kind": "category"}  # text stays text, and a column that has another type keeps it


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
    aside: Collection[str] = (),
    strict: bool = True,
    typed: bool = False,
) -> tuple[pl.DataFrame, dict[str, Column]]:
    """Decide what each text column means, and read it.

    Parameters
    ----------
    columns : list of Series
        The columns; the list is emptied, so that text is freed as soon as it is read.
    given : mapping
        Column → what is known about its meaning: its kind and possibly more.
    missing : sequence of str or None
        Text that means a missing value; None if types distinguish text from numbers, as in JSON and Parquet.
    aside : collection of str
        Columns that are not features, such as ids, of which text stays as it is.
    strict : bool, default=True
        Whether a value that does not have the meaning of most others is an error; otherwise it becomes missing.
    typed : bool, default=False
        Whether the table has types, as in Parquet, so that text that is mostly numbers is text.

    Returns
    -------
    table : DataFrame
        Numbers, booleans, dates, times and text.
    meanings : dict
        Column → how it is read, for each column that was text, is an id, or was given.

    Examples
    --------
    >>> table, meanings = understand([pl.Series("paid", ["12,50 €", "3 €"])], {}, [""])
    >>> table["paid"].to_list(), meanings["paid"].why
    ([12.5, 3.0], "decimal comma, as in '12,50'; in €")
    """
    given = {**dict.fromkeys(aside, AS_TEXT), **given}
    samples = _sampled([column for column in columns if column.dtype == pl.String], missing)
    quoted = missing is None
    alone = {
        name: propose(sample.values, Hints(quoted=quoted))
        for name, sample in samples.items()
        if sample.values and name not in given
    }
    hints = _hints(alone.values(), quoted=quoted)
    meanings: dict[str, Column] = {}

    def understood(column: pl.Series) -> pl.Series:
        name = column.name
        if name not in samples:
            if name not in given and (why := counter_of(column)):
                meanings[name] = Unused(what="id", why=why)
            elif name in given and given[name] is not AS_TEXT:
                found = type_named(given[name]["kind"]).as_given(given[name], [], hints)
                if not found.takes(column.dtype) and column.dtype != pl.Null:
                    raise ValueError(
                        f"column {shown(name)} has the type {column.dtype}, so it cannot be read as "
                        f"{found.understood()}; convert it in the table"
                    )
                if found.overrules_types:
                    meanings[name] = found
            return column
        decided = _Text(column, samples[name], given.get(name), missing, hints, strict, typed)
        first = alone.get(name)
        meanings[name], values = decided.understood(
            None if first is None or first.depends_on(hints) else first
        )
        return values

    columns.reverse()
    with ThreadPoolExecutor(pl.thread_pool_size()) as pool:
        every = (columns.pop() for _ in range(len(columns)))
        table = pl.DataFrame(for_each_column(understood, every, pool.map))
    return table, {name: meanings[name] for name in table.columns if name in meanings}


@dataclass
class _Text:
    texts: pl.Series
    sample: _Sample
    given: Mapping[str, Any] | None
    missing: Sequence[str] | None
    hints: Hints
    strict: bool
    typed: bool

    def understood(self, first: Column | None) -> tuple[Column, pl.Series]:
        """Return the meaning of the column and its values; `first` is what the sample proposes, if that is known."""
        if not self.sample.values:
            self.texts = _tidied(self.texts, self.missing)
            left = self.texts.drop_nulls().head(_BAD).unique(maintain_order=True).to_list()
            if not left and self.given is None:
                return Unused.without_values(), self.texts
            self.sample = _Sample(left, distinct=False)
        meaning = self._proposed(first)
        if meaning.reads_untidied:
            values = meaning.parse(self.texts)  # most columns are plain numbers
            if values.null_count() == self.texts.null_count():
                return self._checked(meaning, values)
        self.texts = _tidied(self.texts, self.missing)
        if self.given is None:
            n_rows, n_values = len(self.texts), len(self.texts) - self.texts.null_count()
            few = (found.propose_few(n_values, n_rows) for found in TYPES)
            if (sparse := next(filter(None, few), None)) is not None:
                return sparse, sparse.parse(self.texts)
        for _ in range(_ROUNDS):
            values = meaning.parse(self.texts)
            bad = values.is_null() & self.texts.is_not_null()
            if not bad.any():
                return self._checked(meaning, values)
            more = self.texts.filter(bad).head(_BAD).to_list()
            self.sample = replace(self.sample, values=list(dict.fromkeys([*self.sample.values, *more])))
            again = self._proposed()
            if again == meaning:
                break
            meaning = again
        values = meaning.parse(self.texts)
        if self.strict:
            self._raise_for_bad(meaning, values)
        return self._checked(meaning, values)

    def _proposed(self, found: Column | None = None) -> Column:
        """Propose how all values of the sample are read, or most of them."""
        values = self.sample.values
        if self.given is not None:
            return type_named(self.given["kind"]).as_given(self.given, values, self.hints)
        found = found or propose(values, self.hints)
        if found.is_plain_text and found.sure and not self.typed:
            for one in TYPES:
                most = [value for value in values if one.recognises(value)]
                if len(values) / 2 < len(most) < len(values):
                    return propose(most, replace(self.hints, quoted=False))
        return found

    def _checked(self, meaning: Column, values: pl.Series) -> tuple[Column, pl.Series]:
        """Look for dates without times, ids and free text, which only all rows show."""
        distinct = self.given is None and self.sample.distinct and len(values) >= MIN_ROWS
        return meaning.settled(values, self.sample.values, distinct=distinct)

    def _raise_for_bad(self, meaning: Column, values: pl.Series) -> None:
        n_good, n_values = len(values) - values.null_count(), len(values) - self.texts.null_count()
        advice = "" if self.missing is None else "treat it as missing (--missing), "
        check_cells(
            self.texts,
            values.is_null() & self.texts.is_not_null(),
            f"{{}} is not {meaning.described_briefly()}, but {n_good:,} of {n_values:,} values are; fix it, {advice}"
            "or read the column as text (--text)",
        )


def _hints(columns: Iterable[Column], *, quoted: bool) -> Hints:
    """Return the conventions that most columns without doubt follow."""
    votes = [vote for column in columns if column.sure for vote in column.votes().items()]

    def most(what: str) -> str:
        found = Counter(value for about, value in votes if about == what)
        return max(found, key=found.__getitem__, default="")

    return Hints(most("decimal") or most("probable decimal"), most("order"), quoted)


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
