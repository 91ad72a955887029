"""A review queue: the rows of a table to look at next, in a file with an empty verdict column.

`dplan.tables.review_queue` reads it back.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl

from dplan.persistence.atomic import atomic_write
from dplan.query import query
from dplan.scoring.scorer import Batch, Best, Scored, Scorer
from dplan.tables.chunks import Chunk, Conventions
from dplan.tables.model import TableModel
from dplan.tables.reasons import joined
from dplan.tables.review_queue import ROW, RowCode
from dplan.tables.row_keys import row_keys
from dplan.tables.writing import Output, write_rows

__all__ = ["Queue", "review_rows", "write_queue"]

_CANDIDATES = 20  # rows kept per row asked about, to choose from


@dataclass(frozen=True)
class Queue:
    """The rows to look at next.

    Attributes
    ----------
    rows : polars.DataFrame
        The columns of the file.
    n_read : int
        The number of rows of the table.
    bad : polars.DataFrame
        Rows with cells that could not be used, as from `dplan.tables.bad_cells.without_bad_cells`.
    conventions : Conventions, optional
        How the table is written, if it is a CSV.
    """

    rows: pl.DataFrame
    n_read: int = 0
    bad: pl.DataFrame = field(default_factory=pl.DataFrame)
    conventions: Conventions | None = None


def review_rows(
    scorer: Scorer, chunks: Iterable[Chunk], n: int, *, diverse: bool = True, explore: float = 0.0
) -> Queue:
    """Return the rows of a table to look at next, without those that already have a verdict.

    Parameters
    ----------
    scorer : Scorer
        Scores the rows.
    chunks : iterable of Chunk
        The table.
    n : int
        Number of rows.
    diverse, explore
        As in `dplan.query`.
    """
    done = set(scorer.model.summary.verdict_keys)
    best, n_read, bad, conventions = Best(_CANDIDATES * n), 0, list[pl.DataFrame](), None
    for chunk in chunks:
        table = chunk()
        conventions = conventions or chunk.conventions
        if table.height == 0:
            continue
        scored = scorer.score(Batch(table, chunk.place, n_read))
        n_read += table.height
        bad.append(scored.bad)
        # Rows with a verdict are looked for among the highest scores alone: keys take time.
        top = scored.highest(_CANDIDATES * n + len(done))
        new = top[np.array([key not in done for key in _keys(scorer.model, top)], dtype=np.bool_)]
        best.add(new, new.score)
    found = pl.concat([pl.DataFrame(), *(one for one in bad if one.height)], how="diagonal_relaxed")
    if best.scored is None or len(best.scored) == 0:
        return Queue(pl.DataFrame(), n_read, found, conventions)
    candidates = best.scored
    chosen = query(candidates.score, n, X=candidates.prepared, diverse=diverse, explore=explore)
    return Queue(_as_queue(scorer, candidates[chosen]), n_read, found, conventions)


def _keys(model: TableModel, scored: Scored) -> list[str]:
    """Return the keys of rows: of the ids of the model if the table has them all; otherwise of their features."""
    assert scored.table is not None
    ids = model.summary.ids
    known = ids if set(ids) <= set(scored.table.columns) else []
    return row_keys(scored.table.select(known), scored.prepared)


def _as_queue(scorer: Scorer, scored: Scored) -> pl.DataFrame:
    model, table = scorer.model, scored.table
    assert table is not None
    verdict, code = model.summary.label or "verdict", RowCode(model)
    copied = table.drop(ROW, verdict, strict=False)

    def free(name: str) -> str:
        return f"dplan_{name}" if name in copied.columns or name == verdict else name

    reasons = list(map(joined, scorer.explain(scored)))
    codes = [code.encode(*row) for row in zip(_keys(model, scored), scored.prepared, strict=True)]
    return pl.DataFrame(
        [
            pl.Series(verdict, [None] * len(scored), dtype=pl.String),
            pl.Series(free("score"), scored.score).round(4),
            pl.Series(free("percentile"), scored.percentile),
            pl.Series(free("reasons"), reasons, dtype=pl.String),
            *copied,
            pl.Series(ROW, codes),
        ]
    )


def write_queue(queue: Queue, output: Output) -> None:
    """Write a review queue as CSV or TSV, by the file's name, for the spreadsheet that wrote the table.

    Separator and decimal sign are those of the table, unless they are given. A byte order mark tells the encoding.
    """
    path = output.file
    kind = path.suffix.lower().removeprefix(".")
    if kind not in ("csv", "tsv", "txt"):
        raise ValueError(f"{path.name}: a review queue is a .csv or .tsv file, which every spreadsheet opens")
    with atomic_write(path) as temporary:
        like = replace(output, format=kind).conventions(queue.conventions)
        write_rows(queue.rows.lazy(), temporary, kind, replace(like, mark=True))
