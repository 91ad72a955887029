"""Score tables of any size: chunk by chunk into parts, then the parts into the output.

Each part is written atomically to a working folder next to the output. An interrupted run reuses finished parts; at the
end the parts become the output in one step. Whether a row is an alert may depend on all rows, so alerts are decided
when all rows are scored; then only the rows that are shown with reasons are explained.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.differences import Drift, TransformReport
from dplan.exceptions import NonFiniteScoreError
from dplan.persistence.atomic import atomic_write
from dplan.scoring.parts import Part, Parts
from dplan.scoring.scorer import Scorer, highest
from dplan.scoring.threads import Run, in_threads
from dplan.tables.bad_cells import write_bad_rows
from dplan.tables.chunks import CHUNK_ROWS, Conventions, n_chunks
from dplan.tables.input import Input
from dplan.tables.writing import (
    DIGITS,
    Output,
    check_folder,
    output_names,
    part_name,
    write_folder,
    write_rows,
)

__all__ = ["Outcome", "score_table"]

_EXPLAINED_AT_A_TIME = 1_000  # rows: an interrupted run repeats at most so many per worker

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Outcome:
    """Summary of a scored table.

    Attributes
    ----------
    rows, alerts : int
        Scored rows and alerts.
    threshold : float, optional
        The lowest score of an alert, unless a budget decides.
    resumed : int
        Chunks reused from an earlier run.
    differences : dict
        Columns that differ clearly from the training table, with the reasons.
    bad_cells : dict
        Column → number of cells that could not be used.
    errors : path, optional
        The file with the rows that were left out because of them.
    """

    rows: int
    alerts: int
    threshold: float | None
    resumed: int
    differences: dict[str, str]
    bad_cells: dict[str, int] = field(default_factory=dict)
    errors: Path | None = None


def score_table(
    scorer: Scorer,
    table: Input,
    output: Output,
    *,
    explain: bool = False,
    inputs: Iterable[Path] = (),
    chunk_rows: int = CHUNK_ROWS,
    n_jobs: int = 2,
    progress: Progress = lambda stage, done, total: None,
) -> Outcome:
    """Score a table into a file, a folder, or to standard output.

    Parameters
    ----------
    scorer : Scorer
        How rows are scored, which columns are copied, and which rows are alerts or shown.
    table : Input
        The table.
    output : Output
        Where and how to write.
    explain : bool
        Write the reasons for each row that is shown because of `Alerts.top` or, without it, for each alert.
    inputs : iterable of path
        Files that the output must not overwrite, in addition to those of the table, such as the model.
    chunk_rows : int
        Rows per chunk.
    n_jobs : int
        Chunks scored at the same time.
    progress : callable
        Called with the name of the stage, the steps done and the total, if it is known.

    Returns
    -------
    Outcome
        Summary of the scored table.
    """
    paths, alerts = table.files(), scorer.alerts
    is_folder = output.format == "folder"
    if is_folder:
        check_folder(output.path, paths, alerts.top)
    with _working_folder(output, table, inputs) as folder:
        written = "parquet" if is_folder else output.format
        parts = Parts(scorer, folder, explain=explain, output_format=written)
        with in_threads(parts, n_jobs) as run:
            with table.unchanged():
                by_file = _score_chunks(run, table, chunk_rows, progress)
            every = [part for own in by_file for part in own]
            names = [path.name for path in paths] if len(paths) > 1 else [""]
            files = list(zip(names, by_file, strict=True))
            rows = _scored_rows(files, parts)
            alert, n_alerts, chosen = _decided(rows, scorer, explain)
            added = {"alert": alert}
            if explain:
                added["reasons"] = _explained(run, every, chosen, parts, progress)
        if is_folder:
            columns = _output_columns(rows, scorer, ["row"], list(added))
            schema, start, frames = rows.drop("index").collect_schema(), 0, []
            for own in by_file:
                frame = _scored_rows([("", own)], parts, start, schema)
                frames.append(frame.with_columns(**added).select(columns))
                start += sum(part.scored for part in own)
            write_folder(frames, list(map(part_name, paths)), output.path, folder)
        else:
            before = ["row"] if len(paths) < 2 else ["file", "row"]
            columns = _output_columns(rows, scorer, before, list(added))
            rows = rows.with_columns(**added)
            if alerts.top:
                rows = rows.filter(pl.col("index").is_in(chosen.tolist()))
                rows = rows.sort(["score", "index"], descending=[True, False])
            found = next((part.conventions for part in every if part.conventions), None)
            if output.format not in ("parquet", "arrow"):  # nobody reads sixteen digits
                rows = rows.with_columns(pl.col("score").round_sig_figs(DIGITS))
            _write_output(rows.select(columns), output, output.conventions(found), folder)
        bad_cells, errors = _write_errors(files, parts, output)
    n_rows, resumed = sum(part.scored for part in every), sum(part.resumed for part in every)
    differences = reduce(add, (part.report for part in every), TransformReport(0, {}, {})).differences()
    drift = reduce(add, (part.drift for part in every), Drift())
    for column, distance in scorer.model.reference.strong(drift).items():
        differences.setdefault(column, f"drift {distance:.2f}")
    threshold = None if alerts.budget else scorer.threshold
    return Outcome(n_rows, n_alerts, threshold, resumed, differences, bad_cells, errors)


def _score_chunks(run: Run, table: Input, chunk_rows: int, progress: Progress) -> list[list[Part]]:
    """Return the parts of each file."""
    sources = table.each()
    totals = [n_chunks(path, table.format, chunk_rows) for path in table.files()] or [None]
    total = None if None in totals else sum(n or 0 for n in totals)
    places: list[int] = []  # the source of each chunk
    shares: list[float | None] = []  # of all sources, up to the end of each chunk

    def jobs() -> Iterator[tuple[Any, ...]]:
        for place, source in enumerate(sources):
            for chunk in source.chunks(chunk_rows):
                places.append(place)
                shares.append(None if chunk.share is None else (place + chunk.share) / len(sources))
                yield (chunk,)

    parts: list[list[Part]] = [[] for _ in sources]
    done = 0
    progress("Scoring", 0, total)
    try:
        for done, part in enumerate(run(Parts.score, jobs()), start=1):
            parts[places[done - 1]].append(part)
            share = shares[done - 1]
            progress("Scoring", done, max(done, round(done / share)) if total is None and share else total)
    except NonFiniteScoreError as error:
        own = places[done]
        wrong = error.after(sum(part.rows for part in parts[own]))
        raise ValueError(f"{wrong}" if table.is_stream else f"{sources[own].name}: {wrong}") from error
    return parts


def _scored_rows(
    files: list[tuple[str, list[Part]]], found: Parts, first: int = 0, schema: pl.Schema | None = None
) -> pl.LazyFrame:
    """Return the scored rows of some files, each with its file, its row there and its index among the scored rows.

    With a schema, they have its columns and types.
    """
    base = pl.Schema({"row": pl.Int64, "score": pl.Float64, "percentile": pl.Float64, "file": pl.String})
    scans = [pl.LazyFrame(schema=schema or base)]
    for name, parts in files:
        start = 1
        for part in parts:
            scan = pl.scan_parquet(found.scores(part.name), glob=False)
            scans.append(scan.with_columns(pl.col("row") + start, pl.lit(name).alias("file")))
            start += part.rows
    # Relaxed, because a column of JSON lines can have integers in one chunk, floats in the next, then only nulls.
    return pl.concat(scans, how="diagonal_relaxed").with_row_index("index", offset=first)


def _decided(rows: pl.LazyFrame, scorer: Scorer, explain: bool) -> tuple[pl.Expr, int, NDArray[np.int64]]:
    """Return which rows are alerts, how many, and the indices of the rows to explain or list."""
    alerts = scorer.alerts
    scores = rows.select("score").collect()["score"].to_numpy()
    are_alerts = scorer.is_alert(scores)
    alert = scorer.model.is_alert(pl.col("score"), alerts.threshold)
    if alerts.budget is not None:
        alert = pl.col("index").is_in(np.flatnonzero(are_alerts).tolist())
    chosen = np.flatnonzero(are_alerts if explain else are_alerts[:0])
    if alerts.top or alerts.budget:
        chosen = np.sort(highest(scores, alerts.top or alerts.budget or 0))
    return alert, int(are_alerts.sum()), chosen


def _explained(
    run: Run, every: list[Part], chosen: NDArray[np.int64], parts: Parts, progress: Progress
) -> pl.Expr:
    """Explain the chosen rows and return the column of reasons."""
    ends = np.cumsum([part.scored for part in every])
    jobs: list[tuple[str, NDArray[np.int64]]] = []
    for part, end in zip(every, ends, strict=True):
        own = chosen[np.searchsorted(chosen, end - part.scored) : np.searchsorted(chosen, end)]
        for start in range(0, len(own), _EXPLAINED_AT_A_TIME):
            jobs.append((part.name, own[start : start + _EXPLAINED_AT_A_TIME] - (end - part.scored)))
    for done, _ in enumerate(run(Parts.explain, jobs), start=1):
        progress("Explaining", done, len(jobs))
    reasons = [pl.read_parquet(parts.reasons(*job), glob=False)["reasons"] for job in jobs]
    texts = pl.concat([pl.Series("reasons", [], dtype=pl.String), *reasons])
    return pl.col("index").replace_strict(chosen, texts, default="", return_dtype=pl.String)


def _output_columns(rows: pl.LazyFrame, scorer: Scorer, before: list[str], added: list[str]) -> list[pl.Expr]:
    """Return the columns of the output; copied columns keep their names, ours are renamed if necessary."""
    found = rows.collect_schema()
    kept = {str(i): name for i, name in enumerate(scorer.kept) if str(i) in found}
    names = output_names(kept.values(), (*before, "score", "percentile", *added))
    ours = [pl.col(name).alias(new) for name, new in names.items()]
    copied = [pl.col(position).alias(name) for position, name in kept.items()]
    return [*ours[: len(before)], *copied, *ours[len(before) :]]


def _write_errors(
    files: list[tuple[str, list[Part]]], parts: Parts, output: Output
) -> tuple[dict[str, int], Path | None]:
    """Return the number of cells by column that could not be used, and write the rows that were left out to a file."""
    found = []
    for name, own in files:
        start = 0
        for part in own:
            if part.n_bad:
                rows = pl.read_parquet(parts.bad(part.name), glob=False)
                place = [pl.lit(name).alias("dplan_file")] if name else []
                found.append(
                    rows.select(*place, pl.col("dplan_row_number") + start, pl.exclude("dplan_row_number"))
                )
            start += part.rows
    target = None if output.path is None else output.errors
    if target is not None and output.overwrite:
        target.unlink(missing_ok=True)  # of an earlier run
    if not found:
        return {}, None
    bad = pl.concat(found, how="diagonal_relaxed")
    skipped = parts.scorer.on_error == "skip"
    if skipped and target is not None:
        with atomic_write(target) as temporary:
            write_bad_rows(bad, temporary)
    counts = dict(bad.group_by("dplan_column", maintain_order=True).len().rows())
    return counts, target if skipped else None


def _write_output(rows: pl.LazyFrame, output: Output, conventions: Conventions, folder: Path) -> None:
    """Write rows to a file that replaces the output in one step, or to standard output."""
    if output.path is not None:
        with atomic_write(output.path, scratch=folder) as temporary:
            write_rows(rows, temporary, output.format, conventions)
        return
    whole = folder / "whole"
    write_rows(rows, whole, output.format, conventions)
    with whole.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.flush()


@contextmanager
def _working_folder(output: Output, table: Input, inputs: Iterable[Path]) -> Iterator[Path]:
    """Claim the output and yield a folder for its parts: kept if the run is interrupted, removed at the end."""
    if output.path is None:
        with TemporaryDirectory(prefix="dplan-") as temporary:
            yield Path(temporary)
        return
    with output.claimed(table, *inputs) as target:
        folder = target.with_name(f".{target.name}.parts")
        folder.mkdir(0o700, exist_ok=True)  # private, because it contains rows of the table
        for leftover in folder.glob(".*"):  # from a run that was killed
            leftover.unlink()
        try:
            yield folder
        except BaseException as error:
            n_parts = len(list(folder.glob("part-*")))
            if n_parts:
                error.add_note(
                    f"{n_parts:,} scored chunks are kept: run the same command again to reuse them."
                )
            else:
                shutil.rmtree(folder)
            raise
        shutil.rmtree(folder)
