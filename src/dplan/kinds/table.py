"""The rows of a table that kinds are made from: one pass scores them, others read some again or count all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.rules.rule import Rule
from dplan.rules.values import rule_values
from dplan.scoring.scorer import Batch, Scored, Scorer, together
from dplan.tables.bad_cells import without_bad_cells
from dplan.tables.chunks import Chunk

__all__ = ["Counts", "ScoredTable", "half_of"]

Chunks = Callable[[], Iterable[Chunk]]


@dataclass(frozen=True)
class ScoredTable:
    """All scored rows of a table, without their values.

    Attributes
    ----------
    scorer : Scorer
        Scores rows, and says which are alerts.
    chunks : callable
        Reads the table, any number of times.
    rows : ndarray of int
        Their positions in the table; rows that were left out are not there.
    scores : ndarray of float64
        Their scores.
    alert : ndarray of bool
        Which of them are alerts.
    measuring : ndarray of bool
        Which of them measure rules; the others make them.
    bad : polars.DataFrame
        Rows with cells that could not be used.
    """

    scorer: Scorer
    chunks: Chunks
    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    alert: NDArray[np.bool_]
    measuring: NDArray[np.bool_]
    bad: pl.DataFrame

    @classmethod
    def of(cls, scorer: Scorer, chunks: Chunks) -> ScoredTable:
        """Score a table."""
        rows, scores = [np.empty(0, dtype=np.int64)], [np.empty(0)]
        halves, bad, n_read = [np.empty(0, dtype=np.bool_)], [pl.DataFrame()], 0
        for chunk in chunks():
            frame = chunk()
            scorer.check(frame.columns)
            if frame.height == 0:
                continue
            found = scorer.score(Batch(frame, chunk.place, n_read))
            n_read += frame.height
            rows.append(found.rows)
            scores.append(found.score)
            halves.append(half_of(found.prepared))
            bad += [found.bad] if found.bad.height else []
        every = np.concatenate(scores)
        return cls(
            scorer,
            chunks,
            np.concatenate(rows),
            every,
            scorer.is_alert(every),
            np.concatenate(halves),
            pl.concat(bad, how="diagonal_relaxed"),
        )

    def take(self, which: NDArray[np.int64]) -> Scored:
        """Return some of the scored rows with their values, in the order of the table."""
        wanted, parts, first = np.sort(self.rows[which]), [], 0
        for chunk in self.chunks():
            frame = chunk()
            low, high = np.searchsorted(wanted, [first, first + frame.height])
            if high > low:
                positions = wanted[low:high]
                some = frame[positions - first]
                found = self.scorer.score(Batch(some))
                parts.append(replace(found, rows=positions))
            first += frame.height
        return together(parts)

    def count(self, rules: Sequence[Rule], types: dict[str, str]) -> list[Counts]:
        """Return what rules match among the rows that measure them."""
        found, first, model = np.zeros((len(rules), 2), dtype=np.int64), 0, self.scorer.model
        for chunk in self.chunks():
            frame = chunk()
            low, high = np.searchsorted(self.rows, [first, first + frame.height])
            own = np.arange(low, high)[self.measuring[low:high]]
            if len(own) and rules:
                some = frame.select(list(types))[self.rows[own] - first]
                read = partial(rule_values, model.preparation.columns_, types=types, missing=model.missing)
                values = without_bad_cells(some, read, self.scorer.on_error).result
                for number, rule in enumerate(rules):
                    met = values.select(rule.expression()).to_series().to_numpy()
                    found[number] += met.sum(), (met & self.alert[own]).sum()
            first += frame.height
        return [Counts(int(matched), int(alerts)) for matched, alerts in found]


class Counts(NamedTuple):
    """How many rows a rule matches, and how many of these are alerts."""

    matched: int
    alerts: int


def half_of(prepared: Float32s) -> NDArray[np.bool_]:
    """Return for each row whether it measures rules: a digest of its features decides, so copies are never apart.

    Examples
    --------
    >>> rows = np.random.default_rng(0).random((1000, 3), dtype=np.float32)
    >>> int(half_of(rows).sum()), bool((half_of(rows) == half_of(rows.copy())).all())
    (495, True)
    """
    digest = np.full(len(prepared), 0x9E3779B97F4A7C15, dtype=np.uint64)
    # Integers wrap around, as in any digest of this kind (SplitMix64).
    for column in np.ascontiguousarray(prepared, dtype=np.float32).view(np.uint32).T:
        digest = (digest ^ column) * np.uint64(0xBF58476D1CE4E5B9)
        digest ^= digest >> np.uint64(27)
    digest *= np.uint64(0x94D049BB133111EB)
    found: NDArray[np.bool_] = (digest >> np.uint64(63)).astype(np.bool_)
    return found
