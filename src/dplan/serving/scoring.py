"""Score the rows of several requests in one go."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import CellError, NonFiniteScoreError
from dplan.serving.rows import Layout, Rows

__all__ = ["INVALID", "Scored", "explain", "score"]

# What rows that a model cannot score raise.
INVALID = (ValueError, TypeError, pl.exceptions.PolarsError)


@dataclass(frozen=True)
class Scored:
    """Scores, percentiles and alerts of the rows of one request, and the reasons if they were asked for."""

    score: NDArray[np.float64]
    percentile: NDArray[np.float64]
    alert: NDArray[np.bool_]
    reasons: list[str] | None = None


def score(layout: Layout, requests: Sequence[Rows]) -> list[Scored | Exception]:
    """Score the rows of requests; for a request with invalid rows, return the error."""
    results: list[Scored | Exception] = [ValueError()] * len(requests)
    for place, rows in enumerate(requests):
        if rows.alone is not None:
            try:
                results[place] = _scored(layout, _read(rows), rows)
            except INVALID as error:
                results[place] = error
    places = [place for place, rows in enumerate(requests) if rows.alone is None]
    while places:
        parts = [requests[place] for place in places]
        ends = np.cumsum([rows.height for rows in parts])
        try:
            found = _scored(layout, layout.together(parts))
        except (CellError, NonFiniteScoreError) as error:  # leave out the request with this row
            owner = int(np.searchsorted(ends, error.row, side="right"))
            before = int(ends[owner]) - parts[owner].height
            results[places.pop(owner)] = _renumbered(error, before)
        except INVALID as error:
            if len(places) == 1:
                results[places[0]] = error
                break
            for place in places:  # as no row is named, each is tried alone
                (results[place],) = score(layout, [requests[place]])
            break
        else:
            for place, end, rows in zip(places, ends, parts, strict=True):
                own = slice(end - rows.height, end)
                results[place] = Scored(found.score[own], found.percentile[own], found.alert[own])
            break
    return results


def explain(layout: Layout, rows: Rows) -> Scored:
    """Score the rows of one request and give the reasons for each row."""
    table = _read(rows)
    found = _scored(layout, table, rows)
    return Scored(found.score, found.percentile, found.alert, layout.model.reasons(table))


def _read(rows: Rows) -> pl.DataFrame:
    assert rows.alone is not None
    return rows.alone()


def _scored(layout: Layout, table: pl.DataFrame, rows: Rows | None = None) -> Scored:
    with nullcontext() if rows is None or rows.alone is None else rows.alone.located():
        scores = layout.model.score(table)
    return Scored(scores, layout.model.percentile(scores), scores >= layout.model.threshold)


def _renumbered(error: CellError | NonFiniteScoreError, before: int) -> Exception:
    if isinstance(error, CellError):
        return CellError(error.column, error.row - before, error.problem)
    return error.after(-before)
