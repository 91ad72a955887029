"""Score tables of any size: chunk by chunk into parts, then the parts into the output.

Each part is written atomically to a working folder next to the output. An interrupted run reuses finished parts; at the
end the parts become the output in one step. Whether a row is an alert may depend on all rows, so alerts are decided
when all rows are scored; then only the rows that are shown with reasons are explained.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import add
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import polars as pl

from dplan.columns.differences import Drift, TransformReport
from dplan.exceptions import NonFiniteScoreError
from dplan.persistence.atomic import atomic_write
from dplan.scoring.deciding import Progress, decide
from dplan.scoring.deciding import explain as explain_rows
from dplan.scoring.parts import Part, Parts, clear_folder
from dplan.scoring.scorer import Scorer
from dplan.scoring.threads import Run, in_threads
from dplan.tables.bad_cells import errors_written, n_bad_cells
from dplan.tables.chunks import CHUNK_ROWS, Conventions, n_chunks
from dplan.tables.input import Input
from dplan.tables.workbook import as_read
from dplan.tables.writing import (
    DIGITS,
    Output,
    check_folder,
    output_names,
    part_name,
    write_folder,
    write_rows,
)

__all__ = ["Order", "Outcome", "score_table"]

Order = Literal["alerts", "file"]


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
    explored : int
        Alerts that were chosen because they are novel.
    muted : int
        Rows that would be alerts if their kinds were not muted.
    damaged : int
        Results of an earlier run that were damaged on disk, and were made again.

    Examples
    --------
    >>> import tempfile
    >>> import dplan
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), dplan.LogisticBaseline())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.write_csv(f"{folder}/new.csv")
    ...     outcome = dplan.scoring.score_file(model, f"{folder}/new.csv", f"{folder}/scored.csv", budget=5)
    >>> outcome.rows, outcome.alerts, outcome.bad_cells
    (102, 5, {})
    """

    rows: int
    alerts: int
    threshold: float | None
    resumed: int
    differences: dict[str, str]
    bad_cells: dict[str, int] = field(default_factory=dict)
    errors: Path | None = None
    explored: int = 0
    muted: int = 0
    damaged: int = 0


def score_table(
    scorer: Scorer,
    table: Input,
    output: Output,
    *,
    explain: bool = False,
    order: Order | None = None,
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
        Write the reasons for each row that is shown because of `AlertPolicy.top` or, without it, for each alert.
    order : {"alerts", "file"}, optional
        Write the alerts first, the highest score first, and then the other rows, or all rows as in the table. By
        default, alerts come first if there is a budget and the output is one file.
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

    Examples
    --------
    >>> import io
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import fit_table, from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline())
    >>> with TemporaryDirectory() as folder:
    ...     output = Output(Path(folder, "scored.csv"))
    ...     score_table(Scorer(model), Input(io.BytesIO(table[[5, 101]].write_csv().encode())), output).alerts
    ...     pl.read_csv(output.path)["alert"].to_list()
    1
    [False, True]
    """
    paths, alerts = table.files(), scorer.alerts
    is_folder = output.format == "folder"
    if is_folder:
        check_folder(output.path, paths, alerts.top)
        if order == "alerts":
            raise ValueError("--order alerts writes a single list; choose an output file such as scored.csv")
    if order is None:
        order = "alerts" if alerts.budget and not is_folder else "file"
    with _working_folder(output, table, inputs) as folder:
        if is_folder:
            output_format = "csv" if table.format in ("csv", "tsv") else "parquet"
        else:
            output_format = output.format
        parts = Parts(scorer, folder, explain=explain, output_format=output_format)
        with in_threads(parts, n_jobs) as run:
            with table.unchanged():
                by_file = _score_chunks(run, table, chunk_rows, progress)
            every = [part for own in by_file for part in own]
            names = [path.name for path in paths] if len(paths) > 1 else [""]
            files = list(zip(names, by_file, strict=True))
            rows = parts.rows_of(files)
            decided = decide(rows, scorer, explain=explain)
            added = dict(decided.columns)
            if explain:
                apart = output_format == "excel"
                added |= explain_rows(run, every, decided, parts, progress, apart=apart)
        found = next((part.conventions for part in every if part.conventions), None)
        conventions = replace(output, format=output_format).conventions(found)
        if explain and output.path is not None:
            conventions = replace(conventions, mark=True)  # or Excel would misread signs such as ≥ in reasons
        if output_format not in ("parquet", "arrow"):  # nobody reads sixteen digits
            added["score"] = pl.col("score").round_sig_figs(DIGITS)
        bad = parts.bad_rows_of(files)
        with errors_written(bad, output, scorer.on_error) as errors:
            if is_folder:
                columns = _output_columns(rows, scorer, ["row"], added)
                schema, start, frames = rows.drop("index").collect_schema(), 0, []
                for own in by_file:
                    frame = parts.rows_of([("", own)], start, schema)
                    frames.append(frame.with_columns(**added).select(columns))
                    start += sum(part.scored for part in own)
                names = [f"{part_name(path)}.{output_format}" for path in paths]
                write_folder(dict(zip(names, frames, strict=True)), output.file, folder, conventions)
            else:
                before = ["row"] if len(paths) < 2 else ["file", "row"]
                columns = _output_columns(rows, scorer, before, added)
                if alerts.top:
                    rows = _highest_first(rows.filter(pl.col("index").is_in(decided.chosen.tolist())))
                elif order == "alerts":
                    alert = decided.columns["alert"]
                    rows = pl.concat([_highest_first(rows.filter(alert)), rows.filter(~alert)])
                rows = rows.with_columns(**added).select(columns)
                if output_format == "excel":
                    rows = as_read(rows.collect(), scorer.keep, scorer.model).lazy()
                _write_output(rows, output, conventions, folder)
    n_rows, resumed = sum(part.scored for part in every), sum(part.resumed for part in every)
    differences = reduce(add, (part.report for part in every), TransformReport(0, {}, {})).differences()
    drift = reduce(add, (part.drift for part in every), Drift())
    for column, distance in scorer.model.reference.strong(drift).items():
        differences.setdefault(column, f"drift {distance:.2f}")
    threshold = None if alerts.budget else scorer.threshold
    return Outcome(
        n_rows,
        decided.n_alerts,
        threshold,
        resumed,
        differences,
        n_bad_cells(bad),
        errors,
        decided.n_explored,
        decided.n_muted,
        len(parts.damaged),
    )


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


def _highest_first(rows: pl.LazyFrame) -> pl.LazyFrame:
    return rows.sort(["score", "index"], descending=[True, False])


def _output_columns(
    rows: pl.LazyFrame, scorer: Scorer, before: list[str], added: Iterable[str]
) -> list[pl.Expr]:
    """Return the columns of the output; copied columns keep their names, ours are renamed if necessary."""
    found = rows.collect_schema()
    kept = {str(i): name for i, name in enumerate(scorer.kept) if str(i) in found}
    names = output_names(kept.values(), dict.fromkeys((*before, "score", "percentile", *added)))
    ours = [pl.col(name).alias(new) for name, new in names.items()]
    copied = [pl.col(position).alias(name) for position, name in kept.items()]
    return [*ours[: len(before)], *copied, *ours[len(before) :]]


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
    folder = output.parts
    with output.claimed(table, *inputs, others=[folder]):
        clear_folder(folder)
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
