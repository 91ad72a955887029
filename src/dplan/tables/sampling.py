"""Read a table of any size for training: all labelled rows, a uniform sample of the others, and the extremes of all.

The extremes are rows with the lowest and highest value of each column and with levels that the sample lacks. They are
not trained on; with them, ranges and levels are those of the whole table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl
import polars.selectors as cs
from numpy.typing import NDArray

from dplan.columns import read as read_column
from dplan.columns.column import Column
from dplan.columns.deciding import Given
from dplan.columns.frames import check_values, for_each_column
from dplan.columns.preparer import TablePreparer
from dplan.columns.unused import Unused
from dplan.tables.bad_cells import OnError, without_bad_cells
from dplan.tables.chunks import CHUNK_ROWS, Chunk, concatenated
from dplan.tables.input import Input

__all__ = ["SAMPLE_ROWS", "Sample", "read_sample"]

SAMPLE_ROWS = 300_000

_MAX_LEVELS = 10_000  # a text column with more levels keeps those of the sample
_ORDERED = cs.numeric() | cs.temporal() | cs.boolean()

Positions = NDArray[np.int64]
# Returns one number per row: k ≥ 1 for rows that are all kept; 0 and below for groups that are sampled.
Groups = Callable[[pl.DataFrame], NDArray[np.int64]]


@dataclass(frozen=True)
class Sample:
    """Rows of a table, in its order.

    Attributes
    ----------
    rows : polars.DataFrame
        The rows.
    positions : ndarray of int
        The position of each row in the table, from 0.
    n_rows : int
        Rows of the table.
    n_in_groups : dict
        Group → rows of the table.
    meanings : dict
        Column → what it means, if it was text or is an id.
    extremes : polars.DataFrame, optional
        Feature values that have the ranges and the levels of the whole table; None if all rows were kept.
    bad : polars.DataFrame
        Rows that were drawn but have cells that cannot be used, as from `dplan.tables.bad_cells.without_bad_cells`.
    """

    rows: pl.DataFrame
    positions: Positions
    n_rows: int
    n_in_groups: dict[int, int]
    meanings: dict[str, Column]
    extremes: pl.DataFrame | None
    bad: pl.DataFrame


def read_sample(
    table: Input,
    groups: Groups,
    *,
    given: Given,
    aside: Collection[str],
    n_rows: int | None,
    seed: int = 0,
    on_error: OnError = "fail",
) -> Sample:
    """Read a table, or a sample of it if it is large.

    Parameters
    ----------
    table : Input
        The table.
    groups : callable
        Returns the group of each row of a frame: rows of groups 1, 2, … are all kept; of each other group, a uniform
        sample is.
    given : mapping
        What is known about columns, as in `dplan.columns.deciding.understand`.
    aside : collection of str
        Columns that are not features.
    n_rows : int
        Rows to keep of each sampled group; None for all.
    seed : int
        Seed of the sample.
    on_error : {"fail", "skip", "null"}
        What to do about cells that cannot be used.
    """
    read = partial(table.chunks, CHUNK_ROWS, in_turn=True)
    whole = _Whole(n_rows or sys.maxsize, np.random.default_rng(seed))
    bounds = _Bounds(on_error) if table.is_typed and n_rows else None
    for chunk in read(raw=True):
        frame = chunk()
        if bounds is not None:
            bounds.add(frame.drop(aside, strict=False), chunk)
        whole.add(frame, groups(frame))
    if whole.n_seen == 0:
        raise ValueError(f"{table.name} has no rows")
    raw, drawn = whole.rows(table.format)
    complete = len(drawn) == whole.n_seen

    def typed(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[str, Column]]:
        found, meanings = table.decided(rows.get_columns(), given, aside)
        if on_error != "fail":
            for_each_column(check_values, found.drop(aside, strict=False))
        return found, meanings

    if complete and on_error == "fail":
        columns = raw.get_columns()
        del raw  # so that text is freed as soon as it is converted
        with table.located():
            rows, meanings = table.decided(columns, given, aside)
        return Sample(rows, drawn, whole.n_seen, whole.n_in_groups, meanings, None, pl.DataFrame())
    with table.located(drawn):
        done = without_bad_cells(raw, typed, on_error, drawn)
    (rows, meanings), positions = done.result, drawn[done.kept]
    extremes = None
    if not complete:
        meanings |= _counters(rows.drop(aside, strict=False), positions, given)
        features = rows.drop(aside, strict=False)
        if bounds is not None and not any(map(_is_read, meanings.values())):
            extremes = bounds.rows(features.schema)
        else:
            preparer = TablePreparer(meanings=meanings).fit(features)
            table.rewind()
            extremes = _extremes(read(), preparer, on_error)
    n_seen = whole.n_seen - (len(drawn) - len(positions))
    return Sample(rows, positions, n_seen, whole.n_in_groups, meanings, extremes, done.bad)


def _counters(rows: pl.DataFrame, positions: Positions, given: Given) -> dict[str, Column]:
    """Return the columns that count the rows of the table, which a sample alone does not show."""
    found: dict[str, Column] = {}
    for series in rows.select(cs.integer()):
        start = (
            series - pl.Series(positions) if series.null_count() == 0 and series.name not in given else None
        )
        if start is not None and start.min() == start.max():
            found[series.name] = Unused(what="id", why=f"counts the rows from {start[0]}")
    return found


def _is_read(meaning: Column) -> bool:
    """Return whether text is converted to something else, so that its range or levels need another reading."""
    return meaning.is_used and not meaning.is_plain_text


class _Whole:
    """The rows kept so far: in each sampled group those with the lowest random keys."""

    def __init__(self, n_rows: int, rng: np.random.Generator) -> None:
        self.n_seen = 0
        self.n_in_groups: dict[int, int] = {}
        self._n_rows, self._rng = n_rows, rng
        self._frames: list[pl.DataFrame] = []
        self._kept: list[tuple[Positions, NDArray[np.int64], NDArray[np.float64]]] = []
        self._limits: dict[int, float] = {}
        self._n_pending = 0

    def add(self, frame: pl.DataFrame, groups: NDArray[np.int64]) -> None:
        keys = self._rng.random(frame.height)
        keys[groups > 0] = -1.0
        for group, n in zip(*np.unique_counts(groups), strict=True):
            self.n_in_groups[int(group)] = self.n_in_groups.get(int(group), 0) + int(n)
        positions = np.arange(self.n_seen, self.n_seen + frame.height)
        self.n_seen += frame.height
        chosen = np.ones(frame.height, dtype=np.bool_)
        for group, limit in self._limits.items():
            chosen &= (groups != group) | (keys <= limit)
        self._append(frame, (positions, groups, keys), chosen)
        self._n_pending += int((chosen & (keys >= 0)).sum())
        # Seldom, because it looks at all rows that are kept.
        if self._n_pending > 1.5 * self._n_rows:
            self._prune()

    def rows(self, format: str) -> tuple[pl.DataFrame, Positions]:
        """Return the rows and their positions, once."""
        self._prune()
        frames, self._frames = self._frames, []
        return concatenated(frames, format), np.concatenate([positions for positions, _, _ in self._kept])

    def _append(
        self,
        frame: pl.DataFrame,
        kept: tuple[Positions, NDArray[np.int64], NDArray[np.float64]],
        chosen: NDArray[np.bool_],
    ) -> None:
        if not chosen.all():
            frame = frame.filter(chosen)
        self._frames.append(frame)
        positions, groups, keys = kept
        self._kept.append((positions[chosen], groups[chosen], keys[chosen]))

    def _prune(self) -> None:
        groups, keys = (np.concatenate([own[i] for own in self._kept]) for i in (1, 2))
        for group in np.unique(groups[groups <= 0]).tolist():
            own = keys[groups == group]
            if len(own) > self._n_rows:
                self._limits[group] = float(np.partition(own, self._n_rows - 1)[self._n_rows - 1])
        frames, kept = self._frames, self._kept
        self._frames, self._kept, self._n_pending = [], [], 0
        for frame, part in zip(frames, kept, strict=True):
            chosen = np.ones(frame.height, dtype=np.bool_)
            for group, limit in self._limits.items():
                chosen &= (part[1] != group) | (part[2] <= limit)
            self._append(frame, part, chosen)
            self._n_pending += int((chosen & (part[2] >= 0)).sum())


class _Bounds:
    """The range of each ordered column and the levels of each text column, over all chunks of a typed table."""

    def __init__(self, on_error: OnError) -> None:
        self._on_error = on_error
        self._ends: list[pl.DataFrame] = []
        self._levels: dict[str, pl.Series] = {}

    def add(self, frame: pl.DataFrame, chunk: Chunk) -> None:
        ordered = frame.select(_ORDERED)
        ends = pl.concat([ordered.min(), ordered.max()])
        infinite = [s.name for s in ends if s.dtype.is_float() and s.is_infinite().any()]
        if infinite and self._on_error == "fail":
            with chunk.located():
                for_each_column(check_values, frame.select(infinite))
        if infinite:
            finite = ordered.with_columns(
                pl.when(pl.col(infinite).is_finite()).then(pl.col(infinite)).name.keep()
            )
            ends = pl.concat([finite.min(), finite.max()])
        self._ends = [*self._ends, ends] if len(self._ends) < 100 else [_ends(self._ends), ends]
        for series in frame.select(cs.string() | cs.categorical()):
            before = self._levels.get(series.name)
            if before is None or len(before) <= _MAX_LEVELS:
                levels = series.cast(pl.String).unique()
                self._levels[series.name] = levels if before is None else before.append(levels).unique()

    def rows(self, schema: pl.Schema) -> pl.DataFrame:
        """Return rows that have the ends of each range and every level."""
        found = {series.name: series for series in _ends(self._ends)}
        found |= {name: levels for name, levels in self._levels.items() if len(levels) <= _MAX_LEVELS}
        longest = max(map(len, found.values()), default=0)
        ends = pl.DataFrame([s.extend_constant(None, longest - len(s)) for s in found.values()])
        return pl.concat([pl.DataFrame(schema=schema), ends], how="diagonal_relaxed")


def _ends(frames: list[pl.DataFrame]) -> pl.DataFrame:
    every = pl.concat(frames, how="vertical_relaxed")
    return pl.concat([every.min(), every.max()])


def _extremes(read: Iterator[Chunk], preparer: TablePreparer, on_error: OnError) -> pl.DataFrame:
    """Return rows that extend the range of a feature or have a level that the preparer lacks, as it reads them."""
    columns, feature_groups = preparer.columns_, preparer.feature_groups()
    names = [column.name for column in columns]
    low, high = np.zeros(len(feature_groups)), np.ones(len(feature_groups))
    levels: dict[str, set[str]] = {}
    found: list[pl.DataFrame] = []
    for chunk in read:
        frame = chunk()
        if frame.height == 0:
            continue
        with chunk.located():
            done = without_bad_cells(
                frame, lambda rows: preparer.transform_with_report(rows.select(names)), on_error
            )
        frame, (X, report) = done.rows, done.result
        chosen: set[int] = set()
        lowest, highest = X.min(axis=0), X.max(axis=0)
        chosen.update(X[:, lowest < low].argmin(axis=0).tolist())
        chosen.update(X[:, highest > high].argmax(axis=0).tolist())
        low, high = np.minimum(low, lowest), np.maximum(high, highest)
        for name in report.unseen:
            new = levels.setdefault(name, set())
            unseen = np.logical_not(X[:, feature_groups == names.index(name)].any(axis=1))
            read_texts = read_column(columns[names.index(name)], frame[name]).cast(pl.String)
            texts = pl.DataFrame({"text": read_texts}).with_row_index().filter(unseen)
            for row, text in texts.unique("text", keep="first", maintain_order=True).rows():
                if text is not None and text not in new and len(new) < _MAX_LEVELS:
                    new.add(text)
                    chosen.add(row)
        if chosen:
            rows = frame[sorted(chosen)]
            found.append(pl.DataFrame([read_column(c, rows[c.name]) for c in columns if c.is_used]))
    return pl.concat(found, how="diagonal_relaxed") if found else pl.DataFrame()
