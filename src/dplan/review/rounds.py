"""A round of the review: the detector, its scores of the whole table, the rows that may be shown, and their keys."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.likeness import Likeness
from dplan.persistence.atomic import atomic_write
from dplan.review.log import Record
from dplan.review.table import TableFile
from dplan.rules.file import RuleFile
from dplan.scoring.kinds import KindsOfRows
from dplan.tables.model import TableModel
from dplan.tables.row_keys import Key, as_written, keys_of, row_ids

__all__ = [
    "GROUPINGS",
    "Grouping",
    "KindFile",
    "KnownRows",
    "Progress",
    "Round",
    "RoundMaker",
    "likeness_of",
]


Progress = Callable[[str, int, int | None], None]  # the stage, the steps done and the total, if it is known

_ARRAYS = ("scores", "rows", "prepared", "order", "explored", "groups", "disagreement")


@dataclass(frozen=True, eq=False)
class Round:
    """What one state of the detector says about the table.

    Attributes
    ----------
    number : int
        0 before any refit.
    model : TableModel
        The model.
    content : bytes
        Its file.
    scores : ndarray of float64
        The score of every row of the table.
    pool : polars.DataFrame
        The rows that may be shown, with all columns, the highest scores first: those with the highest scores, some that
        only the explorers find, and those with a verdict.
    rows : ndarray of int64
        Their numbers in the table, counted from 0.
    prepared : ndarray of float32
        The pool as the detector sees it.
    order : ndarray of int64
        Row numbers in the order to ask about them.
    explored : ndarray of int64
        Row numbers that are asked about because the explorers alone find them.
    groups : ndarray of int64
        For each row of the pool, the position of the first row that it nearly duplicates.
    disagreement : ndarray of float64
        For each row of the pool, how much the members of the detector disagree; empty if it has no members.
    rules : RuleFile or None
        The kinds of rows, by their rules, if there are any.
    """

    number: int
    model: TableModel
    content: bytes = field(repr=False)
    scores: NDArray[np.float64] = field(repr=False)
    pool: pl.DataFrame = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    prepared: Float32s = field(repr=False)
    order: NDArray[np.int64] = field(repr=False)
    explored: NDArray[np.int64] = field(repr=False)
    groups: NDArray[np.int64] = field(repr=False)
    disagreement: NDArray[np.float64] = field(repr=False)
    rules: RuleFile | None = field(default=None, repr=False)

    @cached_property
    def digest(self) -> str:
        """A short digest of the model file."""
        return hashlib.sha256(self.content).hexdigest()[:16]

    @cached_property
    def places(self) -> dict[int, int]:
        """The position of each row of the table in the pool."""
        return {int(row): place for place, row in enumerate(self.rows)}

    @cached_property
    def group_of(self) -> dict[int, int]:
        """The group of near duplicates that each row of the pool belongs to."""
        return dict(zip(self.rows.tolist(), self.groups.tolist(), strict=True))

    @cached_property
    def kind_of(self) -> dict[int, int]:
        """The number of the kind that each row of the pool is of; rows that meet no rule are left out."""
        return {row: kind for row, kind in self._kinds.items() if kind >= 0}

    @cached_property
    def muted(self) -> set[int]:
        """The rows of the pool whose kind is muted; nobody is asked about them."""
        if self.rules is None:
            return set()
        kinds = np.array([*self._kinds.values()], dtype=np.int64)
        is_muted = KindsOfRows(self.rules, self.model).is_muted(kinds)
        return set(self.rows[is_muted].tolist())

    @cached_property
    def _kinds(self) -> dict[int, int]:
        if self.rules is None:
            return {}
        kinds = KindsOfRows(self.rules, self.model).of_table(self.pool)
        return dict(zip(self.rows.tolist(), kinds.tolist(), strict=True))

    def kind_name(self, row: int) -> str:
        """Return the name of a row's kind; "" if it has none."""
        return (
            "" if self.rules is None or row not in self.kind_of else self.rules.kinds[self.kind_of[row]].name
        )

    def group(self, row: int, by: str = "duplicates") -> list[int]:
        """Return the rows of the pool that belong together with a row, itself included, the highest scores first."""
        if by not in self._members:
            rows: dict[Hashable, list[int]] = {}
            for other, group in GROUPINGS[by].groups(self).items():
                rows.setdefault(group, []).append(other)
            self._members[by] = {other: alike for alike in rows.values() for other in alike}
        return self._members[by].get(row, [row])

    @cached_property
    def _members(self) -> dict[str, dict[int, list[int]]]:
        return {}

    @cached_property
    def likeness(self) -> Likeness:
        """Compares rows of the pool."""
        return likeness_of(self.model)

    @cached_property
    def ascending(self) -> NDArray[np.float64]:
        """The scores of all rows, sorted."""
        return np.sort(self.scores)

    @cached_property
    def ranks(self) -> dict[int, int]:
        """The place of each row of the queue in it, counted from 1."""
        return {int(row): place for place, row in enumerate(self.order, start=1)}

    def ready(self) -> Round:
        """Compute what every verdict needs, so that the first one does not wait for it."""
        _ = self.ascending, self.places, self.group_of, self.kind_of, self.muted, self.digest
        return self

    def with_rules(self, rules: RuleFile | None) -> Round:
        """Return the round with other kinds."""
        return self if rules is self.rules else replace(self, rules=rules).ready()

    def as_shown(self, row: int) -> Record:
        """Return what the log says of a row as it was shown."""
        model, score = self.digest, float(self.scores[row])
        return {"number": row, "model": model, "round": self.number, "score": score, "rank": self.rank(row)}

    def rank(self, row: int) -> int:
        """Return the rank of a row's score among all rows, counted from 1."""
        return len(self.ascending) - int(np.searchsorted(self.ascending, self.scores[row], "right")) + 1

    def save(self, folder: Path) -> None:
        """Write the round to an empty folder."""
        (folder / "model.dplan").write_bytes(self.content)
        self.pool.write_parquet(folder / "pool.parquet", compression="lz4")
        np.savez(folder / "arrays.npz", **{name: getattr(self, name) for name in _ARRAYS})

    def write_model(self, path: Path, threshold: float | None = None) -> None:
        """Write the model file, with another threshold if one is given."""
        content = self.content if threshold is None else self.model.with_threshold(threshold).to_bytes()
        with atomic_write(path) as temporary:
            temporary.write_bytes(content)

    @classmethod
    def load(cls, folder: Path, number: int) -> Round:
        """Read a round written by `save`."""
        content = (folder / "model.dplan").read_bytes()
        with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in _ARRAYS}
        pool = pl.read_parquet(folder / "pool.parquet", glob=False)
        return cls(number, TableModel.load(content), content, pool=pool, **found)


class Grouping(NamedTuple):
    """A way to group rows that may be decided together, in one table: what they are called, and which they are.

    Attributes
    ----------
    title : str
        What other rows of a group are called, in the plural.
    groups : callable
        Returns the group of each row of a round's pool; rows that it leaves out are in no group.
    name : callable
        Returns the name of a row's group in a round, or "" if such groups have none.
    most : int
        Rows that are shown, and decided, at a time.
    """

    title: str
    groups: Callable[[Round], Mapping[int, Hashable]]
    name: Callable[[Round, int], str] = lambda current, row: ""
    most: int = 25  # as many as are on a screen


GROUPINGS = {
    "duplicates": Grouping("near duplicates", lambda current: current.group_of),
    "kind": Grouping("rows of this kind", lambda current: current.kind_of, Round.kind_name, most=100),
}


class KindFile:
    """The file of kinds of a review, and its rules as they are now; without a file, there are none."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.rules = None if path is None else RuleFile.load(path)


class RoundMaker(Protocol):
    """Opens the table and learns from verdicts: an `Engine`, or one in another process."""

    table: TableFile

    def open(self, wanted: Sequence[tuple[str, ...]], progress: Progress) -> Round:
        """Score the table with the first model."""
        ...

    def refit(self, classes: Mapping[int, str], number: int, progress: Progress) -> Round:
        """Learn from verdicts and score the table again."""
        ...


def likeness_of(model: TableModel) -> Likeness:
    """Return what compares rows that were prepared for a model, in typical ranges of its background rows."""
    return Likeness(model.background, model.preparation.feature_groups())


class KnownRows:
    """The keys of the rows that were shown or decided.

    Parameters
    ----------
    ids : sequence of str
        The columns that identify a row.

    Attributes
    ----------
    numbers : dict of Key to int
        The row of the table that each verdict is about, if the table has it.
    """

    def __init__(self, ids: Sequence[str]) -> None:
        self._ids = tuple(ids)
        self._keys: dict[int, Key] = {}
        self._same: dict[Key, set[int]] = {}
        self._here: set[tuple[str, ...]] = set()  # the ids of the first pool
        self.numbers: dict[Key, int] = {}

    def rows(self, key: Key) -> Iterable[int]:
        """Return the rows of the table that a verdict is about: more than one if rows are repeated with their ids."""
        return self._same[key] if key in self.numbers else ()

    def _note(self, row: int, key: Key) -> Key:
        self._keys[row] = key
        self._same.setdefault(key, set()).add(row)
        return key

    def columns(self, current: Round) -> list[str]:
        """Return the columns that the digest of a row is about."""
        return list(dict.fromkeys([*self._ids, *current.model.columns]))

    def recognise(self, opened: Round, judged: Collection[Key]) -> None:
        """Find the rows with an earlier verdict in the first pool."""
        if not judged:
            return
        rows = opened.rows.tolist()
        if self._ids:
            self._here = set(as_written(row_ids(opened.pool, self._ids, rows)))
        for key, row in zip(
            keys_of(opened.pool, self._ids, self.columns(opened), rows, judged), rows, strict=True
        ):
            if key in judged:
                self.numbers[self._note(row, key)] = row

    def unmatched(self, records: Sequence[Record], current: Mapping[Key, Record], table: str) -> int:
        """Return how many verdicts are about rows that have other values now, or are gone from a table of this name."""
        about, own = "", set()
        for record in records:
            about = record["table"] if record["kind"] == "session" else about
            if about == table:
                own.add(record["n"])
        lost = {key: record["n"] in own for key, record in current.items() if key not in self.numbers}
        ids = as_written([key.ids for key in lost])
        return sum(gone or row in self._here for row, gone in zip(ids, lost.values(), strict=True))

    def key(self, row: int, frame: pl.DataFrame, current: Round) -> Key:
        """Return the key of a row of the table."""
        if row not in self._keys:
            (key,) = keys_of(frame, self._ids, self.columns(current), [row])
            self._note(row, key)
        return self._keys[row]
