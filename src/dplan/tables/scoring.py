"""Score tables of any size: chunk by chunk into parts, then the parts into the output.

Each part is written atomically to a working folder next to the output. An interrupted run reuses finished parts; at the
end the parts become the output in one step. Whether a row is an alert may depend on all rows, so alerts are decided
when all rows are scored; then only the rows that are shown with reasons are explained.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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
from dplan.persistence.claim import check_new, claimed
from dplan.tables.assembling import (
    Options,
    decide,
    output_columns,
    scored_rows,
    write_errors,
    write_output,
)
from dplan.tables.chunks import CHUNK_ROWS, n_chunks
from dplan.tables.input import Input
from dplan.tables.mistakes import errors_file
from dplan.tables.model import TableModel
from dplan.tables.parts import Part, Plan, explain_rows, score_chunk, score_file
from dplan.tables.workers import Run, in_threads, on_cluster
from dplan.tables.writing import DIGITS, check_folder, conventions_of_output, part_name, write_folder

__all__ = ["Options", "Outcome", "score_table"]

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
    mistakes : dict
        Column → number of cells that could not be used.
    errors : path, optional
        The file with the rows that were left out because of them.
    """

    rows: int
    alerts: int
    threshold: float | None
    resumed: int
    differences: dict[str, str]
    mistakes: dict[str, int] = field(default_factory=dict)
    errors: Path | None = None


def score_table(
    model: Path,
    table: Input,
    output: Path | None,
    options: Options,
    *,
    output_kind: str,
    chunk_rows: int = CHUNK_ROWS,
    n_jobs: int = 2,
    scheduler: str | None = None,
    overwrite: bool = True,
    progress: Progress = lambda stage, done, total: None,
) -> Outcome:
    """Score a table into a file, a folder, or to standard output.

    Parameters
    ----------
    model : path
        The model file.
    table : Input
        The table; it is read like the training table unless its encoding is given.
    output : path or None
        File or folder to write; None for standard output.
    options : Options
        Options for the output.
    output_kind : {"csv", "tsv", "jsonl", "parquet", "arrow", "folder"}
        Format of the output; "folder" for one Parquet file per input file.
    chunk_rows : int
        Rows per chunk.
    n_jobs : int
        Chunks scored at the same time, without a cluster.
    scheduler : str, optional
        Address of a Dask scheduler. Input and output must be files on a file system that all machines share.
    overwrite : bool
        Replace the output if it exists; otherwise, that is an error.
    progress : callable
        Called with the name of the stage, the steps done and the total, if it is known.

    Returns
    -------
    Outcome
        Summary of the scored table.
    """
    paths = table.files()
    if output_kind == "folder":
        check_folder(output, paths, options.top)
    is_folder, shared = output_kind == "folder", scheduler is not None
    with _working_folder(output, [model, *paths], is_folder, shared, overwrite) as folder:
        content = Path(model).read_bytes()
        loaded = TableModel.load(content)
        plan = _plan(loaded, content, folder, options, output_kind)
        sources = table.each()
        workers: AbstractContextManager[Run] = (
            in_threads(loaded, n_jobs) if scheduler is None else on_cluster(scheduler, content)
        )
        with workers as run:
            with table.unchanged():
                if scheduler is None:
                    totals = [n_chunks(path, table.format, chunk_rows) for path in paths] or [None]
                    parts = _score_chunks(run, sources, chunk_rows, totals, plan, progress)
                else:
                    parts = _score_files(run, sources, plan, chunk_rows, progress)
            every = [part for own in parts for part in own]
            names = [path.name for path in paths] if len(paths) > 1 else [""]
            rows = scored_rows(list(zip(names, parts, strict=True)), plan)
            threshold = loaded.threshold if options.threshold is None else options.threshold
            alert, n_alerts, chosen = decide(rows, threshold, options)
            added = {"alert": alert}
            if options.explain:
                added["reasons"] = _explain(run, every, chosen, plan, progress)
        if is_folder:
            columns = output_columns(rows, plan, ["row"], list(added))
            schema, start, frames = rows.drop("index").collect_schema(), 0, []
            for own in parts:
                frames.append(
                    scored_rows([("", own)], plan, start, schema).with_columns(**added).select(columns)
                )
                start += sum(part.scored for part in own)
            write_folder(frames, list(map(part_name, paths)), output, folder)
        else:
            columns = output_columns(rows, plan, ["row"] if len(paths) < 2 else ["file", "row"], list(added))
            rows = rows.with_columns(**added)
            if options.top:
                rows = rows.filter(pl.col("index").is_in(chosen.tolist()))
                rows = rows.sort(["score", "index"], descending=[True, False])
            found = next((part.conventions for part in every if part.conventions), None)
            written_as = conventions_of_output(output_kind, found, options.separator, options.decimal)
            if output_kind not in ("parquet", "arrow"):  # nobody reads sixteen digits
                rows = rows.with_columns(pl.col("score").round_sig_figs(DIGITS))
            write_output(rows.select(columns), output, output_kind, written_as, folder)
        mistakes, errors = write_errors(list(zip(names, parts, strict=True)), plan, output, overwrite)
    n_rows, resumed = sum(part.scored for part in every), sum(part.resumed for part in every)
    differences = reduce(add, (part.report for part in every), TransformReport(0, {}, {})).differences()
    drift = reduce(add, (part.drift for part in every), Drift())
    for column, distance in loaded.reference.strong(drift).items():
        differences.setdefault(column, f"drift {distance:.2f}")
    return Outcome(
        n_rows, n_alerts, None if options.budget else threshold, resumed, differences, mistakes, errors
    )


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
        options.on_error,
        model.summary.get("label") if options.skip_labelled else None,
    )


def _score_chunks(
    run: Run,
    sources: list[Input],
    chunk_rows: int,
    totals: list[int | None],
    plan: Plan,
    progress: Progress,
) -> list[list[Part]]:
    """Return the parts of each source."""
    total = None if None in totals else sum(n or 0 for n in totals)
    places: list[int] = []  # the source of each chunk
    shares: list[float | None] = []  # of all sources, up to the end of each chunk

    def jobs() -> Iterator[tuple[Any, ...]]:
        for place, source in enumerate(sources):
            for chunk in source.chunks(chunk_rows):
                places.append(place)
                shares.append(None if chunk.share is None else (place + chunk.share) / len(sources))
                yield chunk, plan

    parts: list[list[Part]] = [[] for _ in sources]
    done = 0
    progress("Scoring", 0, total)
    try:
        for done, part in enumerate(run(score_chunk, jobs()), start=1):
            parts[places[done - 1]].append(part)
            share = shares[done - 1]
            progress("Scoring", done, max(done, round(done / share)) if total is None and share else total)
    except NonFiniteScoreError as error:
        rows_before = sum(part.rows for part in parts[places[done]])
        raise _named(error.after(rows_before), sources[places[done]]) from error
    return parts


def _score_files(
    run: Run, files: list[Input], plan: Plan, chunk_rows: int, progress: Progress
) -> list[list[Part]]:
    """Return the parts of each file, each of which is scored by one worker."""
    parts: list[list[Part]] = []
    try:
        for own in run(score_file, [(file, plan, chunk_rows) for file in files]):
            parts.append(own)
            progress("Scoring", len(parts), len(files))
    except NonFiniteScoreError as error:
        raise _named(error, files[len(parts)]) from error
    return parts


def _named(error: NonFiniteScoreError, source: Input) -> ValueError:
    return ValueError(str(error) if source.is_stream else f"{source.name}: {error}")


def _explain(
    run: Run, parts: list[Part], chosen: NDArray[np.int64], plan: Plan, progress: Progress
) -> pl.Expr:
    """Explain the chosen rows and return the column of reasons."""
    ends = np.cumsum([part.scored for part in parts])
    jobs: list[tuple[str, NDArray[np.int64], Plan]] = []
    for part, end in zip(parts, ends, strict=True):
        own = chosen[np.searchsorted(chosen, end - part.scored) : np.searchsorted(chosen, end)]
        for start in range(0, len(own), _EXPLAINED_AT_A_TIME):
            some = own[start : start + _EXPLAINED_AT_A_TIME] - (end - part.scored)
            jobs.append((part.name, some, plan))
    for done, _ in enumerate(run(explain_rows, jobs), start=1):
        progress("Explaining", done, len(jobs))
    files = [plan.reasons(name, some) for name, some, _ in jobs]
    reasons = [pl.read_parquet(file, glob=False)["reasons"] for file in files]
    texts = pl.concat([pl.Series("reasons", [], dtype=pl.String), *reasons])
    return pl.col("index").replace_strict(chosen, texts, default="", return_dtype=pl.String)


@contextmanager
def _working_folder(
    output: Path | None, inputs: list[Path], is_folder: bool, shared: bool, overwrite: bool
) -> Iterator[Path]:
    """Claim the output and yield a folder for its parts: kept if the run is interrupted, removed at the end."""
    if output is None:
        with TemporaryDirectory(prefix="dplan-") as temporary:
            yield Path(temporary)
        return
    with claimed(output, inputs, folder=is_folder, overwrite=overwrite) as target:
        check_new(errors_file(output), overwrite)
        folder = target.with_name(f".{target.name}.parts")
        # Private, because it contains rows of the table, unless other machines need it.
        folder.mkdir(0o777 if shared else 0o700, exist_ok=True)
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
