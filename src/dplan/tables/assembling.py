"""Put the parts of a scored table together: number the rows, decide on alerts, and write the output."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.persistence.atomic import atomic_write
from dplan.tables.chunks import Conventions
from dplan.tables.mistakes import OnError, errors_file, write_mistakes
from dplan.tables.parts import Part, Plan, highest
from dplan.tables.writing import output_names, write_rows

__all__ = ["Options", "decide", "output_columns", "scored_rows", "write_errors", "write_output"]


@dataclass(frozen=True)
class Options:
    """Options for the output of scoring.

    Attributes
    ----------
    keep : tuple of str
        Columns to copy in addition to the row number and the ids of the model.
    top : int, optional
        Write only this many rows, the highest scores first.
    budget : int, optional
        Make this many rows with the highest scores alerts.
    threshold : float, optional
        Make rows with at least this score alerts; without `budget` and `threshold`, the model's threshold is used.
    explain : bool
        Write the reasons for each of the `top` rows or, without `top`, for each alert.
    on_error : {"fail", "skip", "null"}
        Stop at a cell that cannot be used; leave out its row, which is written to a file beside the output; or treat
        the cell as missing.
    skip_labelled : bool
        Leave out rows with a verdict: known anomalies and checked normal rows.
    separator, decimal : str, optional
        For text output; by default as in the table.
    """

    keep: tuple[str, ...] = ()
    top: int | None = None
    budget: int | None = None
    threshold: float | None = None
    explain: bool = False
    on_error: OnError = "fail"
    skip_labelled: bool = False
    separator: str | None = None
    decimal: str | None = None


def scored_rows(
    files: list[tuple[str, list[Part]]], plan: Plan, first: int = 0, schema: pl.Schema | None = None
) -> pl.LazyFrame:
    """Return the scored rows of some files, each with its file, its row there and its index among the scored rows.

    With a schema, they have its columns and types.
    """
    base = pl.Schema({"row": pl.Int64, "score": pl.Float64, "percentile": pl.Float64, "file": pl.String})
    scans = [pl.LazyFrame(schema=schema or base)]
    for name, parts in files:
        start = 1
        for part in parts:
            scan = pl.scan_parquet(plan.scores(part.name), glob=False)
            scans.append(scan.with_columns(pl.col("row") + start, pl.lit(name).alias("file")))
            start += part.rows
    # Relaxed, because a column of JSON lines can have integers in one chunk, floats in the next, then only nulls.
    return pl.concat(scans, how="diagonal_relaxed").with_row_index("index", offset=first)


def decide(rows: pl.LazyFrame, threshold: float, options: Options) -> tuple[pl.Expr, int, NDArray[np.int64]]:
    """Return which rows are alerts, how many, and the indices of the rows to explain or list."""
    alert = pl.col("score") >= threshold
    if options.top is None and options.budget is None:
        if not options.explain:
            return alert, int(rows.select(alert.sum()).collect().item()), np.empty(0, dtype=np.int64)
        chosen = rows.filter(alert).select("index").collect()["index"].to_numpy().astype(np.int64)
        return alert, len(chosen), chosen
    scores = rows.select("score").collect()["score"].to_numpy()
    n_alerts = int((scores >= threshold).sum())
    if options.budget is not None:
        best = highest(scores, options.budget)
        alert, n_alerts = pl.col("index").is_in(best.tolist()), len(best)
    return alert, n_alerts, np.sort(highest(scores, options.top or options.budget or 0))


def output_columns(rows: pl.LazyFrame, plan: Plan, before: list[str], added: list[str]) -> list[pl.Expr]:
    """Return the columns of the output; copied columns keep their names, ours are renamed if necessary."""
    found = rows.collect_schema()
    kept = {str(i): name for i, name in enumerate(plan.kept) if str(i) in found}
    names = output_names(kept.values(), (*before, "score", "percentile", *added))
    ours = [pl.col(name).alias(new) for name, new in names.items()]
    copied = [pl.col(position).alias(name) for position, name in kept.items()]
    return [*ours[: len(before)], *copied, *ours[len(before) :]]


def write_errors(
    files: list[tuple[str, list[Part]]], plan: Plan, output: Path | None, overwrite: bool
) -> tuple[dict[str, int], Path | None]:
    """Return the number of cells by column that could not be used, and write the rows that were left out to a file."""
    found = []
    for name, parts in files:
        start = 0
        for part in parts:
            if part.n_mistakes:
                rows = pl.read_parquet(plan.mistakes(part.name), glob=False)
                own = [pl.lit(name).alias("dplan_file")] if name else []
                found.append(
                    rows.select(*own, pl.col("dplan_row_number") + start, pl.exclude("dplan_row_number"))
                )
            start += part.rows
    target = None if output is None else errors_file(output)
    if target is not None and overwrite:
        target.unlink(missing_ok=True)  # of an earlier run
    if not found:
        return {}, None
    mistakes = pl.concat(found, how="diagonal_relaxed")
    if plan.on_error == "skip" and target is not None:
        with atomic_write(target) as temporary:
            write_mistakes(mistakes, temporary)
    counts = dict(mistakes.group_by("dplan_column", maintain_order=True).len().rows())
    return counts, target if plan.on_error == "skip" else None


def write_output(
    rows: pl.LazyFrame, output: Path | None, kind: str, conventions: Conventions, folder: Path
) -> None:
    """Write rows to a file that replaces the output in one step, or to standard output."""
    if output is not None:
        with atomic_write(output, scratch=folder) as temporary:
            write_rows(rows, temporary, kind, conventions)
        return
    whole = folder / "whole"
    write_rows(rows, whole, kind, conventions)
    with whole.open("rb") as file:
        shutil.copyfileobj(file, sys.stdout.buffer)
    sys.stdout.flush()
