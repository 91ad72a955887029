"""A round of the review: the detector, its scores of the whole table, and the rows that may be shown."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.query import Likeness
from dplan.review.rows import TableFile
from dplan.tables.model import TableModel

__all__ = ["Judged", "Progress", "Round", "RoundMaker"]

Progress = Callable[[str, int, int | None], None]  # the stage, the steps done and the total, if it is known

_ARRAYS = ("scores", "rows", "order", "explored", "groups", "disagreement")


@dataclass(frozen=True, eq=False)
class Round:
    """What one state of the detector says about the table.

    Attributes
    ----------
    number : int
        0 before any refit.
    model : TableModel
        The model.
    digest : str
        Of its file.
    scores : ndarray of float64
        The score of every row of the table.
    pool : polars.DataFrame
        The rows that may be shown, with all columns: those with the highest scores, some that only the explorers find,
        and those with a verdict.
    rows : ndarray of int64
        Their numbers in the table, counted from 0.
    order : ndarray of int64
        Row numbers in the order to ask about them.
    explored : ndarray of int64
        Row numbers that are asked about because the explorers alone find them.
    groups : ndarray of int64
        For each row of the pool, the position of the first row that it nearly duplicates.
    disagreement : ndarray of float64
        For each row of the pool, how much the members of the detector disagree; empty if it has no members.
    """

    number: int
    model: TableModel
    digest: str
    scores: NDArray[np.float64] = field(repr=False)
    pool: pl.DataFrame = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    order: NDArray[np.int64] = field(repr=False)
    explored: NDArray[np.int64] = field(repr=False)
    groups: NDArray[np.int64] = field(repr=False)
    disagreement: NDArray[np.float64] = field(repr=False)

    @cached_property
    def places(self) -> dict[int, int]:
        """The position of each row of the table in the pool."""
        return {int(row): place for place, row in enumerate(self.rows)}

    @cached_property
    def group_of(self) -> dict[int, int]:
        """The group of near duplicates that each row of the pool belongs to."""
        return dict(zip(self.rows.tolist(), self.groups.tolist(), strict=True))

    @cached_property
    def prepared(self) -> Floats:
        """The pool as the detector sees it."""
        return self.model.prepare(self.pool)

    @cached_property
    def likeness(self) -> Likeness:
        """Compares rows of the pool."""
        return Likeness(self.model.background, self.model.preparation.feature_groups())

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
        _ = self.ascending, self.places, self.group_of
        return self

    def rank(self, row: int) -> int:
        """Return the rank of a row's score among all rows, counted from 1."""
        return len(self.ascending) - int(np.searchsorted(self.ascending, self.scores[row], "right")) + 1

    def save(self, folder: Path) -> None:
        """Write the round to an empty folder."""
        self.model.save(folder / "model.dplan")
        self.pool.write_parquet(folder / "pool.parquet", compression="lz4")
        np.savez(folder / "arrays.npz", **{name: getattr(self, name) for name in _ARRAYS})

    @classmethod
    def load(cls, folder: Path, number: int) -> Round:
        """Read a round written by `save`."""
        content = (folder / "model.dplan").read_bytes()
        with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in _ARRAYS}
        pool = pl.read_parquet(folder / "pool.parquet", glob=False)
        return cls(number, TableModel.load(content), digest_of(content), pool=pool, **found)


def digest_of(content: bytes) -> str:
    """Return a short digest of a model file."""
    return hashlib.sha256(content).hexdigest()[:16]


class Judged(NamedTuple):
    """A row with a verdict: its number in the table and its class, or "" for a normal row."""

    row: int
    name: str


class RoundMaker(Protocol):
    """Opens the table and learns from verdicts: an `Engine`, or one in another process."""

    table: TableFile

    def open(self, wanted: Sequence[tuple[str, ...]], progress: Progress) -> Round:
        """Score the table with the first model."""
        ...

    def refit(self, judged: Sequence[Judged], number: int, progress: Progress) -> Round:
        """Learn from verdicts and score the table again."""
        ...
