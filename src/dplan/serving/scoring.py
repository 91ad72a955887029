"""Score the rows of several requests in one go."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import CellError, NonFiniteScoreError
from dplan.scoring.scorer import Batch, Scored, Scorer
from dplan.serving.rows import RequestReader, RequestRows
from dplan.tables.reasons import joined

__all__ = ["INVALID", "Answer", "explain", "score"]

# What rows that a model cannot score raise.
INVALID = (ValueError, TypeError, pl.exceptions.PolarsError)


@dataclass(frozen=True)
class Answer:
    """Scores, percentiles and alerts of the rows of one request; reasons, novelty and kinds if they were asked for."""

    score: NDArray[np.float64]
    percentile: NDArray[np.float64]
    alert: NDArray[np.bool_]
    reasons: list[str] | None = None
    novelty: NDArray[np.float64] | None = None
    kind: list[str] | None = None


def score(reader: RequestReader, requests: Sequence[RequestRows]) -> list[Answer | Exception]:
    """Score the rows of requests; for a request with invalid rows, return the error."""
    results: list[Answer | Exception] = [ValueError()] * len(requests)
    for place, rows in enumerate(requests):
        if rows.alone is not None:
            try:
                results[place] = _answer(reader.scorer, _alone(reader, rows))
            except INVALID as error:
                results[place] = error
    places = [place for place, rows in enumerate(requests) if rows.alone is None]
    while places:
        parts = [requests[place] for place in places]
        ends = list(accumulate(rows.height for rows in parts))
        try:
            found = _answer(reader.scorer, reader.scorer.score(reader.together(parts)))
        except (CellError, NonFiniteScoreError) as error:  # leave out the request with this row
            owner = bisect_right(ends, error.row)
            results[places.pop(owner)] = _renumbered(error, ends[owner] - parts[owner].height)
        except INVALID as error:
            if len(places) == 1:
                results[places[0]] = error
                break
            for place in places:  # as no row is named, each is tried alone
                (results[place],) = score(reader, [requests[place]])
            break
        else:
            for place, end, rows in zip(places, ends, parts, strict=True):
                own = slice(end - rows.height, end)
                novelty = None if found.novelty is None else found.novelty[own]
                kind = None if found.kind is None else found.kind[own]
                results[place] = Answer(
                    found.score[own], found.percentile[own], found.alert[own], novelty=novelty, kind=kind
                )
            break
    return results


def explain(reader: RequestReader, rows: RequestRows) -> Answer:
    """Score the rows of one request and give the reasons for each row."""
    found = _alone(reader, rows)
    return _answer(reader.scorer, found, list(map(joined, reader.scorer.explain(found))))


def _alone(reader: RequestReader, rows: RequestRows) -> Scored:
    """Score rows that cannot be put together with others."""
    assert rows.alone is not None
    return reader.scorer.score(Batch(rows.alone(), rows.alone.place))


def _answer(by: Scorer, found: Scored, reasons: list[str] | None = None) -> Answer:
    columns = by.columns(found) if by.kinds is not None else None
    kind = None if columns is None else columns["kind"].to_list()
    alert = by.is_alert(found.score, found.kind)
    return Answer(found.score, found.percentile, alert, reasons, found.novelty, kind)


def _renumbered(error: CellError | NonFiniteScoreError, before: int) -> Exception:
    if isinstance(error, CellError):
        return CellError(error.column, error.row - before, error.problem)
    return error.after(-before)
