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
from dplan.tables.reasons import columns_of_reasons
from dplan.tables.review_queue import ROW, RowCode
from dplan.tables.row_keys import row_keys
from dplan.tables.words import answers
from dplan.tables.workbook import as_read, write_workbook
from dplan.tables.writing import Output, format_of_output, write_rows

__all__ = ["Queue", "review_rows", "write_queue"]

_CANDIDATES = 20  # rows kept per row asked about, to choose from


@dataclass(frozen=True)
class Queue:
    """The rows to look at next.

    Attributes
    ----------
    rows : polars.DataFrame
        The columns of the file: the verdict first, the reasons as lists of texts.
    n_read : int
        The number of rows of the table.
    bad : polars.DataFrame
        Rows with cells that could not be used, as from `dplan.tables.bad_cells.without_bad_cells`.
    conventions : Conventions, optional
        How the table is written, if it is a CSV.
    choices : tuple of str
        What the verdict can be: the classes of the model and the other verdicts.
    model : TableModel, optional
        The model, which knows what the columns of the table mean.

    Examples
    --------
    >>> import dplan
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), dplan.LogisticBaseline())
    >>> queue = dplan.scoring.queue_file(model, pl.DataFrame({"amount": [10, 920, 11]}), rows=1)
    >>> queue.rows["amount"].to_list(), queue.n_read, queue.choices
    ([920], 3, ('anomaly', 'normal', 'unsure'))
    """

    rows: pl.DataFrame
    n_read: int = 0
    bad: pl.DataFrame = field(default_factory=pl.DataFrame)
    conventions: Conventions | None = None
    choices: tuple[str, ...] = ()
    model: TableModel | None = None


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

    Examples
    --------
    >>> import io
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import Input, fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> new = Input(io.BytesIO(pl.DataFrame({"amount": [10, 920, 11]}).write_csv().encode()))
    >>> review_rows(Scorer(model), new.chunks(), 1).rows["amount"].to_list()
    ['920']
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
    summary = scorer.model.summary
    choices = tuple(answers(summary.classes, summary.normal_words))
    return Queue(_as_queue(scorer, candidates[chosen]), n_read, found, conventions, choices, scorer.model)


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

    reasons = [[reason.text() for reason in own] for own in scorer.explain(scored)]
    codes = [code.encode(*row) for row in zip(_keys(model, scored), scored.prepared, strict=True)]
    return pl.DataFrame(
        [
            pl.Series(verdict, [None] * len(scored), dtype=pl.String),
            pl.Series(free("score"), scored.score).round(4),
            pl.Series(free("percentile"), scored.percentile),
            pl.Series(free("reasons"), reasons, dtype=pl.List(pl.String)),
            *copied,
            pl.Series(ROW, codes),
        ]
    )


def write_queue(queue: Queue, output: Output) -> None:
    """Write a review queue as a workbook, CSV or TSV, by the file's name, for the spreadsheet that wrote the table.

    A workbook offers the verdicts in a list. In a CSV, separator and decimal sign are those of the table, unless they
    are given, and a byte order mark tells the encoding.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> queue = Queue(pl.DataFrame({"verdict": [None], "score": [9.5], "amount": [920]}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_queue(queue, Output(Path(folder, "queue.csv")))
    ...     Path(folder, "queue.csv").read_text(encoding="utf-8-sig").split()
    ['verdict,score,amount', ',9.5,920']
    """
    path = output.file
    kind = format_of_output(path)
    if kind not in ("csv", "tsv", "excel"):
        raise ValueError(f"{path.name}: a review queue is for a spreadsheet; name it .xlsx, .csv or .tsv")
    rows = _shown(queue.rows, apart=kind == "excel")
    with atomic_write(path) as temporary:
        if kind == "excel":
            if queue.model is not None:
                rows = as_read(rows, queue.model.columns, queue.model)
            offered = {rows.columns[0]: queue.choices} if rows.width else {}
            write_workbook(rows, temporary, sheet="Review", choices=offered)
        else:
            like = replace(output, format=kind).conventions(queue.conventions)
            write_rows(rows.lazy(), temporary, kind, replace(like, mark=True))


def _shown(rows: pl.DataFrame, *, apart: bool) -> pl.DataFrame:
    """Return rows with their reasons as text, in one column or a column each."""
    found = [name for name, dtype in rows.schema.items() if dtype == pl.List(pl.String)]
    if not found:
        return rows
    (place,) = found
    texts = columns_of_reasons(pl.col(place), apart=apart)
    named = [text.alias(place if name == "reasons" else name) for name, text in texts.items()]
    before, after = rows.columns[: rows.columns.index(place)], rows.columns[rows.columns.index(place) + 1 :]
    return rows.select(*before, *named, *after)
