"""A round of the review: the detector, its scores of the whole table, and the rows that may be shown."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.likeness import Likeness
from dplan.persistence.atomic import atomic_write
from dplan.review.table import TableFile
from dplan.tables.model import TableModel

__all__ = ["Progress", "Round", "RoundMaker", "likeness_of"]

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
    """

    number: int
    model: TableModel
    content: bytes = field(repr=False)
    scores: NDArray[np.float64] = field(repr=False)
    pool: pl.DataFrame = field(repr=False)
    rows: NDArray[np.int64] = field(repr=False)
    prepared: Floats = field(repr=False)
    order: NDArray[np.int64] = field(repr=False)
    explored: NDArray[np.int64] = field(repr=False)
    groups: NDArray[np.int64] = field(repr=False)
    disagreement: NDArray[np.float64] = field(repr=False)

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
        _ = self.ascending, self.places, self.group_of, self.digest
        return self

    def rank(self, row: int) -> int:
        """Return the rank of a row's score among all rows, counted from 1."""
        return len(self.ascending) - int(np.searchsorted(self.ascending, self.scores[row], "right")) + 1

    def save(self, folder: Path) -> None:
        """Write the round to an empty folder."""
        (folder / "model.dplan").write_bytes(self.content)
        self.pool.write_parquet(folder / "pool.parquet", compression="lz4")
        np.savez(folder / "arrays.npz", **{name: getattr(self, name) for name in _ARRAYS})

    def write_model(self, path: Path) -> None:
        """Write the model file."""
        with atomic_write(path) as temporary:
            temporary.write_bytes(self.content)

    @classmethod
    def load(cls, folder: Path, number: int) -> Round:
        """Read a round written by `save`."""
        content = (folder / "model.dplan").read_bytes()
        with np.load(folder / "arrays.npz", allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in _ARRAYS}
        pool = pl.read_parquet(folder / "pool.parquet", glob=False)
        return cls(number, TableModel.load(content), content, pool=pool, **found)


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
