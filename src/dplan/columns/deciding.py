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
from dplan.columns.frames import check_cells, for_each_column, tidied
from dplan.columns.numerals import is_plain
from dplan.columns.records import MANY, MOSTLY, Hints
from dplan.columns.unused import MIN_ROWS, Unused, counter_of
from dplan.exceptions import CellError
from dplan.text import shown

__all__ = ["AS_TEXT", "Given", "understand", "understand_frame"]

Given = Mapping[str, Mapping[str, Any]]

_FIRST, _SPREAD = 200, 800  # rows of a sample: the first ones, and others over the whole column
_BAD = 200  # values that did not have the proposed meaning, to propose again
_ROUNDS = 3
_SOME = 0.1  # share of values that are no accident if there are many different ones
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
    problems: list[CellError] | None = None,
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
        Text that means a missing value; None if types distinguish text from numbers, as in JSON.
    aside : collection of str
        Columns that are not features, such as ids, of which text stays as it is.
    problems : list, optional
        If given, a value that does not have the meaning of most others becomes missing, and the error about the first
        one of each column is added here; otherwise it is raised.
    typed : bool, default=False
        Whether the table may have types, as in Parquet: text means a missing value only in a column of another type
        and, unless all columns are text, digits that are text and text that is mostly numbers stay text.

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
    texts = [column for column in columns if column.dtype == pl.String]
    samples = _sampled(texts, None if typed else missing)
    # If all columns are text, nobody has read them yet, so that digits are numbers as in a CSV file.
    has_types = typed and _has_types(columns, aside)
    quoted = has_types or missing is None
    words: dict[str, Sequence[str] | None] = dict.fromkeys(samples, missing)
    unread = set[str]()
    if typed and missing:
        for column in texts:
            name, sample = column.name, samples[column.name]
            known = [value for value in sample.values if value not in missing]
            if quoted and name not in given and _is_unread(column, known, missing):
                unread.add(name)
            if known and (name in unread or _is_more_than_text(given.get(name), known, quoted)):
                samples[name] = replace(sample, values=known)
            else:
                words[name] = None
    alone = {
        name: propose(sample.values, Hints(quoted=quoted and name not in unread))
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
        own = replace(hints, quoted=False) if name in unread else hints
        decided = _Text(column, samples[name], given.get(name), words[name], own, problems, has_types)
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


def understand_frame(
    frame: pl.DataFrame,
    given: Given,
    missing: Sequence[str],
    *,
    aside: Collection[str] = (),
    problems: list[CellError] | None = None,
) -> tuple[pl.DataFrame, dict[str, Column]]:
    """Decide what the text columns of a frame mean, as in a file, and read them; arguments are as in `understand`.

    Examples
    --------
    >>> table, _ = understand_frame(pl.DataFrame({"paid": ["12,50 €", "3 €", "?"], "zip": ["1", "2", "3"]}), {}, ["?"])
    >>> table.rows()
    [(12.5, 1), (3.0, 2), (None, 3)]
    >>> table, _ = understand_frame(pl.DataFrame({"zip": ["1", "2"], "items": [7, 9]}), {}, ["?"])
    >>> table["zip"].to_list()
    ['1', '2']
    """
    columns = frame.get_columns()
    typed = _has_types(columns, aside)
    return understand(columns, given, missing, aside=aside, problems=problems, typed=typed)


def _is_unread(column: pl.Series, known: Sequence[str], missing: Sequence[str]) -> bool:
    """Return whether text between types is numbers that only words for missing values kept from being read as such."""
    if not known or not all(map(is_plain, known)):
        return False
    return column.str.strip_chars().is_in(list(missing)).any()


def _is_text(odd: pl.Series, texts: pl.Series) -> bool:
    """Return whether values that mean something else are too many, or too many different ones, for accidents.

    If all values are few, as in "2 years" and "more than 7", levels say as much as numbers.
    """
    n_values, n_odd, n_unique = len(texts), odd.n_unique(), texts.n_unique()
    if 2 * len(odd) > n_values:
        return True
    few = n_odd > 1 and n_unique < MANY and n_values >= MANY * n_unique
    return len(odd) > _SOME * n_values and (n_odd >= MANY or few)


def _has_types(columns: Iterable[pl.Series], aside: Collection[str]) -> bool:
    return any(series.dtype not in (pl.String, pl.Null) for series in columns if series.name not in aside)


def _is_more_than_text(given: Mapping[str, Any] | None, values: Sequence[str], quoted: bool) -> bool:
    found = propose(values, Hints(quoted=quoted)) if given is None else type_named(given["kind"])
    return not found.is_plain_text


@dataclass
class _Text:
    texts: pl.Series
    sample: _Sample
    given: Mapping[str, Any] | None
    missing: Sequence[str] | None
    hints: Hints
    problems: list[CellError] | None
    typed: bool

    def understood(self, first: Column | None) -> tuple[Column, pl.Series]:
        """Return the meaning of the column and its values; `first` is what the sample proposes, if that is known."""
        if not self.sample.values:
            self.texts = tidied(self.texts, self.missing)
            left = self.texts.drop_nulls().head(_BAD).unique(maintain_order=True).to_list()
            if not left and self.given is None:
                return Unused.without_values(), self.texts
            self.sample = _Sample(left, distinct=False)
        meaning = self._proposed(first)
        if meaning.reads_untidied:
            values = meaning.parse(self.texts)  # most columns are plain numbers
            if values.null_count() == self.texts.null_count():
                return self._checked(meaning, values)
        self.texts = tidied(self.texts, self.missing)
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
        n_good, n_values = len(values) - values.null_count(), len(values) - self.texts.null_count()
        odd = self.texts.filter(values.is_null() & self.texts.is_not_null())
        if self.given is None and _is_text(odd, self.texts.drop_nulls()):
            why = f"text such as {shown(odd[0])}; only {n_good:,} of {n_values:,} values are {meaning.type}s"
            meaning = replace(type_named(AS_TEXT["kind"])(), why=why, sure=False)
            values = meaning.parse(self.texts)
        known, _ = self._checked(meaning, meaning.parse(self.texts.filter(values.is_not_null())))
        if not known.is_used:  # such as an id, of which no value counts
            return known, self.texts
        try:
            self._raise_for_bad(meaning, values)
        except CellError as error:
            if self.problems is None:
                raise
            self.problems.append(error)
        return self._checked(meaning, values)

    def _proposed(self, found: Column | None = None) -> Column:
        """Propose how all values of the sample are read, or most of them."""
        values = self.sample.values
        if self.given is not None:
            return type_named(self.given["kind"]).as_given(self.given, values, self.hints)
        found = found or propose(values, self.hints)
        if found.is_plain_text and found.sure:
            for one in TYPES:
                most = [value for value in values if one.recognises(value)]
                if not len(values) / 2 < len(most) < len(values):
                    continue
                other = propose(most, replace(self.hints, quoted=False))
                if not self.typed:
                    return other
                if len(most) >= MOSTLY * len(values) and len(values) >= MANY:
                    odd = next(value for value in values if not one.recognises(value))
                    what = other.described_briefly()
                    return replace(
                        found, why=f"text: {shown(odd)} is not {what}, but most values are", sure=False
                    )
        return found

    def _checked(self, meaning: Column, values: pl.Series) -> tuple[Column, pl.Series]:
        """Look for dates without times, ids and free text, which only all rows show."""
        distinct = self.given is None and self.sample.distinct and len(values) >= MIN_ROWS
        return meaning.settled(values, self.sample.values, distinct=distinct)

    def _raise_for_bad(self, meaning: Column, values: pl.Series) -> None:
        n_good, n_values = len(values) - values.null_count(), len(values) - self.texts.null_count()
        others = f"but {n_good:,} of {n_values:,} values are" if n_good else "and no other value is"
        advice = "" if self.missing is None else "treat it as missing (--missing, in Python missing=…), "
        check_cells(
            self.texts,
            values.is_null() & self.texts.is_not_null(),
            f"{{}} is not {meaning.described_briefly()}, {others}; fix it, {advice}"
            f"or read the column as text (--text, in Python columns={{{shown(self.texts.name)}: 'text'}})",
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
