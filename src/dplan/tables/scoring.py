"""Scoring tables of any size: chunk by chunk into parts, then the parts into the output.

Every part is written whole, under its number, into a working folder beside the output. A run that was interrupted
finds the parts that are finished and goes on; when all are there, they become the output in one step. What is an alert
may depend on all rows, so it is decided at the end, on the scores alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.persistence.atomic import written_whole
from dplan.tables.chunks import CHUNK_ROWS, Chunk, chunks, n_chunks
from dplan.tables.model import TableModel

__all__ = ["Outcome", "Wish", "decided", "finish", "score_chunk", "score_table", "working_folder"]

RESULTS = ("row", "score", "percentile", "alert", "because")


@dataclass(frozen=True)
class Wish:
    """What the output should hold.

    Attributes
    ----------
    ids : tuple of str
        Columns to copy if the table has them.
    keep : tuple of str
        Columns to copy. Without these and ids, rows are numbered.
    top : int, optional
        Only that many rows, the highest scores first.
    budget : int, optional
        That many rows with the highest scores are alerts.
    threshold : float, optional
        Rows with at least this score are alerts; without `budget` and `threshold`, the model's own threshold counts.
    explain : bool
        Say for each alert, and for each of the `top` rows, why.
    """

    ids: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    top: int | None = None
    budget: int | None = None
    threshold: float | None = None
    explain: bool = False


@dataclass(frozen=True)
class Outcome:
    """What scoring a table gave."""

    rows: int
    alerts: int
    threshold: float | None
    resumed: int


def score_chunk(model: TableModel, table: pl.DataFrame, wish: Wish) -> pl.DataFrame:
    """Return the kept columns of some rows with their scores, percentiles and, if wished for, reasons."""
    for column in wish.keep:
        if column not in table.columns:
            raise ValueError(
                f"the table has no column {column!r} to keep; it has {', '.join(table.columns[:20])}"
            )
        if column in RESULTS:
            raise ValueError(f"column {column!r} cannot be kept: the output has a column of this name")
    ids = [column for column in wish.ids if column in table.columns and column not in RESULTS]
    scores = model.score(table) if table.height else np.empty(0)
    kept = [table[name] for name in dict.fromkeys([*ids, *wish.keep])]
    out = pl.DataFrame([*kept, pl.Series("score", scores), pl.Series("percentile", model.percentile(scores))])
    if wish.explain:
        chosen = _to_explain(scores, model, wish)
        because = np.full(len(scores), "", dtype=object)
        because[chosen] = model.reasons(table[chosen])
        out = out.with_columns(because=pl.Series(because.tolist(), dtype=pl.String))
    return out


def score_table(
    model: TableModel,
    source: Path | BinaryIO,
    kind: str,
    output: Path | None,
    wish: Wish,
    *,
    output_kind: str,
    job: str,
    chunk_rows: int = CHUNK_ROWS,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Outcome:
    """Score a table into a file, or to standard output.

    Parameters
    ----------
    model : TableModel
        The model.
    source, kind, chunk_rows
        As in `dplan.tables.chunks.chunks`.
    output : path or None
        The file to write; None for standard output.
    wish : Wish
        What it should hold.
    output_kind : {"csv", "jsonl", "parquet"}
        How it is written.
    job : str
        What tells this job from others: parts of another job are not taken up.
    progress : callable
        Called with the chunks done and, if known, their number.

    Returns
    -------
    Outcome
        Counts of rows and alerts.
    """
    total = n_chunks(source, kind, chunk_rows)
    with working_folder(output, f"{job} {chunk_rows} {json.dumps(asdict(wish))}") as folder:
        parts: list[Path] = []
        resumed = 0

        def missing() -> Iterator[Callable[[], object]]:
            nonlocal resumed
            for number, chunk in enumerate(chunks(source, kind, chunk_rows)):
                parts.append(folder / f"part-{number:06}.parquet")
                if parts[-1].exists():
                    resumed += 1
                    continue
                yield lambda chunk=chunk, part=parts[-1]: _score_into(model, chunk, wish, part)  # type: ignore[misc]

        for done in _in_order(missing()):
            progress(done + resumed, total)
        if not parts:
            raise ValueError("the table has a header but no rows")
        return finish(parts, output, output_kind, model, wish, folder, resumed)


def finish(
    parts: list[Path],
    output: Path | None,
    kind: str,
    model: TableModel,
    wish: Wish,
    folder: Path,
    resumed: int,
) -> Outcome:
    """Put all parts together into the output."""
    rows, n_rows, n_alerts, threshold = decided(parts, model, wish)
    whole = folder / f"whole.{kind}"
    _write(rows, whole, kind)
    if output is None:
        with whole.open("rb") as file:
            shutil.copyfileobj(file, sys.stdout.buffer)
        sys.stdout.flush()
    else:
        os.replace(whole, output)
    return Outcome(n_rows, n_alerts, threshold, resumed)


def decided(parts: list[Path], model: TableModel, wish: Wish) -> tuple[pl.LazyFrame, int, int, float | None]:
    """Return all rows with their alerts, the number of rows and alerts, and the threshold if there is one."""
    # Relaxed, because a column of JSON lines may hold whole numbers in one chunk and fractions in the next.
    scans = [pl.scan_parquet(part, glob=False) for part in parts]
    rows = pl.concat(scans, how="vertical_relaxed").with_row_index("row", offset=1)
    threshold = model.threshold if wish.threshold is None else wish.threshold
    alert = pl.col("score") >= threshold
    if wish.top or wish.budget:
        scores = rows.select("score").collect()["score"].to_numpy()
        n_rows = len(scores)
        if wish.budget:
            highest = _highest(scores, wish.budget) + 1
            alert, n_alerts = pl.col("row").is_in(highest.tolist()), len(highest)
        else:
            n_alerts = int((scores >= threshold).sum())
    else:
        n_rows, n_alerts = rows.select(pl.len(), alert.sum()).collect().row(0)
    rows = rows.with_columns(alert=alert)
    if wish.top:
        rows = rows.filter(pl.col("row").is_in((_highest(scores, wish.top) + 1).tolist()))
        rows = rows.sort(["score", "row"], descending=[True, False])
    elif wish.explain:
        rows = rows.with_columns(because=pl.when("alert").then("because").otherwise(pl.lit("")))
    kept = [name for name in rows.collect_schema() if name not in RESULTS] or ["row"]
    columns = [*kept, "score", "percentile", "alert", *(["because"] if wish.explain else [])]
    return rows.select(columns), n_rows, n_alerts, None if wish.budget else threshold


@contextmanager
def working_folder(output: Path | None, job: str) -> Iterator[Path]:
    """Give the folder for the parts of a job: kept if the job is interrupted, removed when it is done.

    Parts that another job left there, with another model, table or wish, are thrown away.
    """
    if output is None:
        with TemporaryDirectory(prefix="dplan-") as folder:
            yield Path(folder)
        return
    if not output.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {output.parent} to write {output.name} into")
    folder_ = output.with_name(f".{output.name}.parts")
    told = hashlib.sha256(job.encode()).hexdigest()
    name = folder_ / "job.txt"
    if not name.exists() or name.read_text() != told:
        shutil.rmtree(folder_, ignore_errors=True)
        folder_.mkdir()
        with written_whole(name) as temporary:
            temporary.write_text(told)
    try:
        yield folder_
    except BaseException:
        if not any(folder_.glob("part-*")):  # nothing to go on with
            shutil.rmtree(folder_)
        raise
    shutil.rmtree(folder_)


def _score_into(model: TableModel, chunk: Chunk, wish: Wish, part: Path) -> None:
    frame = score_chunk(model, chunk(), wish)
    with written_whole(part) as temporary:
        frame.write_parquet(temporary, compression="lz4")


def _in_order(jobs: Iterable[Callable[[], object]]) -> Iterator[int]:
    """Run jobs in two threads, at most three waiting, so that memory stays bounded; yield the number done."""
    running: deque[Future[object]] = deque()
    done = 0
    with ThreadPoolExecutor(2) as pool:
        try:
            for job in jobs:
                running.append(pool.submit(job))
                if len(running) > 3:
                    running.popleft().result()
                    yield (done := done + 1)
            while running:
                running.popleft().result()
                yield (done := done + 1)
        finally:
            for future in running:
                future.cancel()


def _to_explain(scores: NDArray[np.float64], model: TableModel, wish: Wish) -> NDArray[np.int64]:
    """Return the rows of a chunk that may need reasons: which ones do, is only known when all chunks are scored."""
    if wish.top or wish.budget:
        return _highest(scores, max(wish.top or 0, wish.budget or 0))
    return np.flatnonzero(scores >= (model.threshold if wish.threshold is None else wish.threshold))


def _highest(scores: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    """Return the rows with the n highest scores, the highest first; of equals, those that come first."""
    return np.argsort(-scores, kind="stable")[:n]


def _write(rows: pl.LazyFrame, path: Path, kind: str) -> None:
    if kind == "parquet":
        rows.sink_parquet(path)
    elif kind == "jsonl":
        rows.sink_ndjson(path)
    else:
        _neutralised(rows).sink_csv(path)


def _neutralised(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Put an apostrophe before texts that a spreadsheet would run as a formula."""
    risky = r"^[=+\-@\t\r]"
    names: dict[str, Any] = rows.collect_schema()
    texts = [name for name, dtype in names.items() if dtype == pl.String]
    rows = rows.with_columns(
        pl.when(pl.col(name).str.contains(risky)).then("'" + pl.col(name)).otherwise(name).alias(name)
        for name in texts
    )
    return rows.rename({name: f"'{name}" for name in names if name[:1] in "=+-@\t\r"})
