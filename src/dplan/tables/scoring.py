"""Score tables of any size: chunk by chunk into parts, then the parts into the output.

Each part is written atomically to a working folder next to the output. An interrupted run reuses finished parts; at the
end the parts become the output in one step. Whether a row is an alert may depend on all rows, so alerts are decided
when all rows are scored; then only the rows that are shown with reasons are explained.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import NonFiniteScoreError
from dplan.persistence.atomic import atomic_write
from dplan.persistence.claim import claimed
from dplan.tables.chunks import CHUNK_ROWS, Chunk, ReadOptions, chunks, n_chunks
from dplan.tables.model import TableModel
from dplan.tables.parts import Part, Plan, explain_rows, highest, score_chunk, score_file
from dplan.tables.reading import unchanged
from dplan.tables.workers import Run, in_threads, on_cluster
from dplan.tables.writing import check_folder, output_names, write_folder, write_rows

__all__ = ["Options", "Outcome", "score_table"]

_EXPLAINED_AT_A_TIME = 1_000  # rows: an interrupted run repeats at most so many per worker

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Options:
    """Options for the output of scoring.

    Attributes
    ----------
    keep : tuple of str
        Columns to copy in addition to the ids of the model. If there are neither, row numbers are written.
    top : int, optional
        Write only this many rows, the highest scores first.
    budget : int, optional
        Make this many rows with the highest scores alerts.
    threshold : float, optional
        Make rows with at least this score alerts; without `budget` and `threshold`, the model's threshold is used.
    explain : bool
        Write the reasons for each of the `top` rows or, without `top`, for each alert.
    """

    keep: tuple[str, ...] = ()
    top: int | None = None
    budget: int | None = None
    threshold: float | None = None
    explain: bool = False


@dataclass(frozen=True)
class Outcome:
    """Summary of a scored table: rows, alerts, chunks reused from an earlier run, and columns without information."""

    rows: int
    alerts: int
    threshold: float | None
    resumed: int
    useless: dict[str, str]


def score_table(
    model: Path,
    source: Path | BinaryIO | Sequence[Path],
    kind: str,
    output: Path | None,
    options: Options,
    *,
    output_kind: str,
    reading: ReadOptions | None = None,
    chunk_rows: int = CHUNK_ROWS,
    n_jobs: int = 2,
    scheduler: str | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Outcome:
    """Score a table into a file, a folder, or to standard output.

    Parameters
    ----------
    model : path
        The model file.
    source : path, binary file or list of path
        The table, or its Parquet files.
    kind : {"csv", "jsonl", "parquet"}
        Format of the table.
    output : path or None
        File or folder to write; None for standard output.
    options : Options
        Options for the output.
    output_kind : {"csv", "tsv", "jsonl", "parquet", "folder"}
        Format of the output; "folder" for one Parquet file per input file.
    reading : ReadOptions, optional
        How a text file is read; None for the options of the training table.
    chunk_rows : int
        Rows per chunk.
    n_jobs : int
        Chunks scored at the same time, without a cluster.
    scheduler : str, optional
        Address of a Dask scheduler. Input and output must be Parquet files on a file system that all machines share.
    progress : callable
        Called with the name of the stage, the steps done and the total, if it is known.

    Returns
    -------
    Outcome
        Summary of the scored table.
    """
    sources: list[Any] = list(source) if isinstance(source, Sequence) else [source]
    paths = [path for path in sources if isinstance(path, Path)]
    if output_kind == "folder":
        check_folder(output, paths, options.top)
    with _working_folder(output, [model, *paths], output_kind == "folder", scheduler is not None) as folder:
        content = Path(model).read_bytes()
        loaded = TableModel.load(content)
        plan = _plan(loaded, content, folder, options, output_kind)
        workers: AbstractContextManager[Run] = (
            in_threads(loaded, n_jobs) if scheduler is None else on_cluster(scheduler, content)
        )
        with workers as run:
            with unchanged(paths):
                if scheduler is None:
                    read = partial(chunks, kind=kind, rows=chunk_rows, options=reading or loaded.read_options)
                    totals = [n_chunks(source, kind, chunk_rows) for source in sources]
                    parts = _score_chunks(run, sources, read, totals, plan, progress)
                else:
                    parts = _score_files(run, paths, plan, chunk_rows, progress)
            every = [part for own in parts for part in own]
            if not every:
                raise ValueError("the table has a header but no rows")
            rows = _rows(every, plan)
            threshold = loaded.threshold if options.threshold is None else options.threshold
            alert, n_alerts, chosen = _decide(rows, threshold, options)
            added = {"alert": alert}
            if options.explain:
                added["reasons"] = _explain(run, every, chosen, plan, progress)
        columns = _columns(rows, plan, list(added))
        if output_kind == "folder":
            schema, start, frames = rows.drop("row").collect_schema(), 1, []
            for own in parts:
                frames.append(_rows(own, plan, start, schema).with_columns(**added).select(columns))
                start += sum(part.rows for part in own)
            write_folder(frames, [path.name for path in paths], output, folder)
        else:
            rows = rows.with_columns(**added)
            if options.top:
                rows = rows.filter(pl.col("row").is_in((chosen + 1).tolist()))
                rows = rows.sort(["score", "row"], descending=[True, False])
            _write(rows.select(columns), output, output_kind, folder)
    n_rows, resumed = sum(part.rows for part in every), sum(part.resumed for part in every)
    useless = reduce(add, (part.report for part in every)).useless()
    return Outcome(n_rows, n_alerts, None if options.budget else threshold, resumed, useless)


def _plan(model: TableModel, content: bytes, folder: Path, options: Options, output_kind: str) -> Plan:
    n_explained = threshold = None
    if options.explain:
        n_explained = options.top or options.budget
        if n_explained is None:
            threshold = model.threshold if options.threshold is None else options.threshold
    return Plan(
        folder,
        hashlib.sha256(content).hexdigest(),
        tuple(model.summary.get("ids", ())),
        options.keep,
        "parquet" if output_kind == "folder" else output_kind,
        n_explained,
        threshold,
    )


def _score_chunks(
    run: Run,
    sources: list[Any],
    read: Callable[[Any], Iterator[Chunk]],
    totals: list[int | None],
    plan: Plan,
    progress: Progress,
) -> list[list[Part]]:
    """Return the parts of each source."""
    total = None if None in totals else sum(n or 0 for n in totals)
    places: list[int] = []  # the source of each chunk

    def jobs() -> Iterator[tuple[Any, ...]]:
        for place, source in enumerate(sources):
            for chunk in read(source):
                places.append(place)
                yield chunk, plan

    parts: list[list[Part]] = [[] for _ in sources]
    done = 0
    try:
        for done, part in enumerate(run(score_chunk, jobs()), start=1):
            parts[places[done - 1]].append(part)
            progress("Scoring", done, total)
    except NonFiniteScoreError as error:
        rows_before = sum(part.rows for part in parts[places[done]])
        raise _named(error.after(rows_before), sources[places[done]]) from error
    return parts


def _score_files(
    run: Run, paths: list[Path], plan: Plan, chunk_rows: int, progress: Progress
) -> list[list[Part]]:
    """Return the parts of each Parquet file, each of which is scored by one worker."""
    parts: list[list[Part]] = []
    try:
        for own in run(score_file, [(str(path.resolve()), plan, chunk_rows) for path in paths]):
            parts.append(own)
            progress("Scoring", len(parts), len(paths))
    except NonFiniteScoreError as error:
        raise _named(error, paths[len(parts)]) from error
    return parts


def _named(error: NonFiniteScoreError, source: object) -> ValueError:
    return ValueError(f"{source.name}: {error}" if isinstance(source, Path) else str(error))


def _rows(parts: list[Part], plan: Plan, first: int = 1, schema: pl.Schema | None = None) -> pl.LazyFrame:
    """Return the rows of some parts, numbered; with a schema, they have its columns and types."""
    scans = [pl.scan_parquet(plan.scores(part.name), glob=False) for part in parts]
    if schema is not None:
        scans.insert(0, pl.LazyFrame(schema=schema))
    # Relaxed, because a column of JSON lines can have integers in one chunk, floats in the next, then only nulls.
    return pl.concat(scans, how="diagonal_relaxed").with_row_index("row", offset=first)


def _decide(rows: pl.LazyFrame, threshold: float, options: Options) -> tuple[pl.Expr, int, NDArray[np.int64]]:
    """Return which rows are alerts, how many, and which rows, counted from 0, to explain or list."""
    alert = pl.col("score") >= threshold
    if options.top is None and options.budget is None:
        if not options.explain:
            return alert, int(rows.select(alert.sum()).collect().item()), np.empty(0, dtype=np.int64)
        chosen = rows.filter(alert).select("row").collect()["row"].to_numpy().astype(np.int64) - 1
        return alert, len(chosen), chosen
    scores = rows.select("score").collect()["score"].to_numpy()
    n_alerts = int((scores >= threshold).sum())
    if options.budget is not None:
        best = highest(scores, options.budget)
        alert, n_alerts = pl.col("row").is_in((best + 1).tolist()), len(best)
    return alert, n_alerts, np.sort(highest(scores, options.top or options.budget or 0))


def _explain(
    run: Run, parts: list[Part], chosen: NDArray[np.int64], plan: Plan, progress: Progress
) -> pl.Expr:
    """Explain the chosen rows and return the column of reasons."""
    ends = np.cumsum([part.rows for part in parts])
    jobs: list[tuple[str, NDArray[np.int64], Plan]] = []
    for part, end in zip(parts, ends, strict=True):
        own = chosen[np.searchsorted(chosen, end - part.rows) : np.searchsorted(chosen, end)]
        for start in range(0, len(own), _EXPLAINED_AT_A_TIME):
            some = own[start : start + _EXPLAINED_AT_A_TIME] - (end - part.rows)
            jobs.append((part.name, some, plan))
    for done, _ in enumerate(run(explain_rows, jobs), start=1):
        progress("Explaining", done, len(jobs))
    files = [plan.reasons(name, some) for name, some, _ in jobs]
    reasons = [pl.read_parquet(file, glob=False)["reasons"] for file in files]
    texts = pl.concat([pl.Series("reasons", [], dtype=pl.String), *reasons])
    return pl.col("row").replace_strict(chosen + 1, texts, default="", return_dtype=pl.String)


def _columns(rows: pl.LazyFrame, plan: Plan, added: list[str]) -> list[pl.Expr]:
    """Return the columns of the output."""
    found = rows.collect_schema()
    kept = {str(i): name for i, name in enumerate(plan.kept) if str(i) in found} or {"row": "row"}
    ours = output_names(kept.values(), ("score", "percentile", *added))
    return [pl.col(column).alias(name) for column, name in {**kept, **ours}.items()]


def _write(rows: pl.LazyFrame, output: Path | None, kind: str, folder: Path) -> None:
    if output is not None:
        with atomic_write(output, scratch=folder) as temporary:
            write_rows(rows, temporary, kind)
        return
    whole = folder / "whole"
    write_rows(rows, whole, kind)
    with whole.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.flush()


@contextmanager
def _working_folder(output: Path | None, inputs: list[Path], is_folder: bool, shared: bool) -> Iterator[Path]:
    """Claim the output and yield a folder for its parts: kept if the run is interrupted, removed at the end."""
    if output is None:
        with TemporaryDirectory(prefix="dplan-") as temporary:
            yield Path(temporary)
        return
    with claimed(output, inputs, folder=is_folder) as target:
        folder = target.with_name(f".{target.name}.parts")
        # Private, because it contains rows of the table, unless other machines need it.
        folder.mkdir(0o777 if shared else 0o700, exist_ok=True)
        for leftover in folder.glob(".*"):  # from a run that was killed
            leftover.unlink()
        try:
            yield folder
        except BaseException:
            if not any(folder.glob("part-*")):  # nothing to resume
                shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)
