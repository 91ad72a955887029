"""``dplan score``: score a table with a model."""

from __future__ import annotations

import math
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _reading
from dplan.cli._shared import MODEL, examples, overwrite, progress_bar, say, stopwatch

if TYPE_CHECKING:
    from dplan.tables.mistakes import OnError


@click.command(
    short_help="Score a table of any size, with reasons.",
    epilog=examples(
        "dplan score new.csv -m fraud.dplan -o scored.csv --explain",
        "dplan score new.csv -m fraud.dplan -o top.csv --top 50 --explain",
        "zcat new.csv.gz | dplan score - -m fraud.dplan -o - --budget 100 > scored.csv",
        "tail -f new.csv | dplan score - -m fraud.dplan -o - --follow",
        "dplan score new.csv -m fraud.dplan --review queue.csv --review-rows 30",
        "dplan score parts/ -m fraud.dplan -o scored/ --jobs 4",
        "dplan score 'parts/*.parquet' -m fraud.dplan -o scored/ --backend dask --scheduler tcp://127.0.0.1:8786",
    ),
)
@click.argument("table")
@click.option("-m", "--model", required=True, type=MODEL, help="Model file written by dplan fit.")
@click.option("-o", "--output", help="File to write, folder (if TABLE is one), or - for standard output.")
@click.option(
    "--review",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the rows to look at next, with reasons and an empty verdict column; dplan update reads it back.",
)
@click.option("--review-rows", default=20, show_default=True, type=click.IntRange(1), help="Rows to look at.")
@click.option(
    "--keep", multiple=True, metavar="COLUMN", help="Column to copy in addition to the ids; may be repeated."
)
@click.option(
    "--top", type=click.IntRange(1), metavar="K", help="Write only the K highest scores, highest first."
)
@click.option("--budget", type=click.IntRange(1), metavar="N", help="Make the N highest scores alerts.")
@click.option("--threshold", type=float, metavar="SCORE", help="Make scores of at least SCORE alerts.")
@click.option(
    "--explain",
    is_flag=True,
    help="Add the reasons for each alert or --top row (up to three columns).",
)
@click.option(
    "--chunk-rows", default=100_000, show_default=True, type=click.IntRange(1), help="Rows per chunk."
)
@click.option(
    "--jobs", default=2, show_default=True, type=click.IntRange(1), help="Chunks scored at the same time."
)
@click.option(
    "--backend",
    type=click.Choice(["local", "dask"]),
    default="local",
    show_default=True,
    help="Where to score the files of a folder.",
)
@click.option("--scheduler", metavar="ADDRESS", help="Address of the Dask scheduler.")
@click.option("--follow", is_flag=True, help="Score a stream on standard input: write each row at once.")
@click.option("--skip-labelled", is_flag=True, help="Leave out rows that already have a verdict.")
@click.option(
    "--separator", metavar="SIGN", help="Separator of a CSV output, or tab.  [default: as in TABLE]"
)
@click.option(
    "--decimal", type=click.Choice([".", ","]), help="Decimal sign of a CSV output.  [default: as in TABLE]"
)
@_reading.on_error
@_reading.options_and_formats
@overwrite
def score(
    table: str,
    model: Path,
    output: str | None,
    review: Path | None,
    review_rows: int,
    keep: tuple[str, ...],
    top: int | None,
    budget: int | None,
    threshold: float | None,
    explain: bool,
    chunk_rows: int,
    jobs: int,
    backend: str,
    scheduler: str | None,
    follow: bool,
    reading: _reading.Reading,
    skip_labelled: bool,
    separator: str | None,
    decimal: str | None,
    on_error: OnError,
    overwrite: bool,
) -> None:
    """Score TABLE: a file as in dplan fit, a folder or glob pattern of such files, or - for standard input.

    The output has the row number, the id columns, a score (higher is more anomalous), its percentile among the
    unlabelled training rows, whether the row is an alert and, with --explain, the reasons. If a copied column is
    already called "score", ours becomes "dplan_score"; the same goes for the others. Tables may be larger than memory.
    To resume an interrupted run, run the same command again.
    """
    from dplan.tables.model import TableModel
    from dplan.tables.scoring import Options, score_table

    form = reading.form
    if separator is not None and separator != "tab" and (len(separator) != 1 or not separator.isascii()):
        raise click.UsageError("--separator must be one character such as ; or the word tab")
    sign = "\t" if separator == "tab" else separator
    if review is not None:
        _write_review(table, model, review, review_rows, reading, sign, decimal, overwrite)
    if output is None:
        if review is None:
            raise click.UsageError("Missing option '-o' / '--output' or '--review'.")
        return
    if budget is not None and threshold is not None:
        raise click.UsageError("--budget and --threshold cannot be combined, because both define the alerts")
    if threshold is not None and not math.isfinite(threshold):
        raise click.UsageError("--threshold must be a finite number")
    if (backend == "dask") != (scheduler is not None):
        raise click.UsageError("--backend dask and --scheduler ADDRESS must be used together")
    if follow:
        if (table, output) != ("-", "-") or top or budget or scheduler or form == "parquet":
            raise click.UsageError(
                "--follow reads - and writes -o -, without --top, --budget, --backend and Parquet"
            )
        _follow(model, form, keep, threshold, explain, reading)
        return
    target = None if output == "-" else Path(output)
    given = reading.table(table, TableModel.load(model))
    if target is not None:
        given.check_output(target)
    if scheduler is not None and (given.is_single or target is None):
        raise click.UsageError("--backend dask reads a folder or glob pattern and writes to a file or folder")
    output_kind = _output_kind(output, target, form, folder_allowed=not given.is_single)
    options = Options(
        keep,
        top,
        budget,
        threshold,
        explain,
        on_error,
        skip_labelled,
        sign,
        decimal,
    )
    with stopwatch() as seconds, progress_bar() as progress:
        outcome = score_table(
            model, given, target, options,
            output_kind=output_kind, chunk_rows=chunk_rows, n_jobs=jobs, scheduler=scheduler,
            overwrite=overwrite, progress=progress,
        )  # fmt: skip
    _reading.warn_of_useless(outcome.differences)
    _reading.warn_of_mistakes(outcome.mistakes, outcome.errors)
    by = f"the {budget:,} highest scores" if budget else f"scores of at least {outcome.threshold:.6g}"
    resumed = f" ({outcome.resumed:,} chunks scored by an earlier run)" if outcome.resumed else ""
    say(
        f"Scored {outcome.rows:,} rows in {seconds():.1f} s{resumed}; {outcome.alerts:,} alerts ({by}); "
        f"wrote {'standard output' if target is None else output}.",
        err=True,
    )


def _follow(
    model: Path,
    form: str | None,
    keep: tuple[str, ...],
    threshold: float | None,
    explain: bool,
    reading: _reading.Reading,
) -> None:
    import sys

    from dplan.tables.following import follow
    from dplan.tables.model import TableModel

    loaded = TableModel.load(model)
    found = follow(
        loaded, reading.table("-", loaded), sys.stdout.buffer, output_kind=form or "csv", keep=keep,
        threshold=threshold, explain=explain, skip=lambda message: say(f"Skipped {message}", err=True),
    )  # fmt: skip
    say(f"Scored {found.rows:,} rows; {found.alerts:,} alerts; skipped {found.skipped:,} rows.", err=True)
    if found.skipped:
        raise click.exceptions.Exit(1)


def _write_review(
    table: str,
    model: Path,
    review: Path,
    n_rows: int,
    reading: _reading.Reading,
    separator: str | None,
    decimal: str | None,
    overwrite: bool,
) -> None:
    """Write the rows to look at next."""
    from dplan.persistence.claim import claimed
    from dplan.tables.model import TableModel
    from dplan.tables.review_queue import review_rows, write_queue

    loaded = TableModel.load(model)
    given = reading.table(table, loaded)
    given.check_output(review)
    with claimed(review, [model, *given.files()], overwrite=overwrite), stopwatch() as seconds:
        read = given.chunks()
        first = list(islice(read, 1))
        like = first[0].conventions if first else None
        rows, n_read = review_rows(loaded, chain(first, read), n_rows)
        write_queue(rows, review, like, separator=separator, decimal=decimal)
        known = list(loaded.summary.get("labels", {}))[1:]
        say(
            f"Read {n_read:,} rows in {seconds():.1f} s; wrote {rows.height:,} of them to {review}. Fill in the column "
            f"{rows.columns[0] if rows.width else 'verdict'} ({', '.join([*known, 'normal'])}; empty if unsure), then "
            f"run: dplan update {model} {review}",
            err=True,
        )


def _output_kind(output: str, target: Path | None, form: str | None, *, folder_allowed: bool) -> str:
    from dplan.tables.writing import format_of_output

    if target is None:
        return form or "csv"
    is_folder = output.endswith("/") or target.is_dir() or (folder_allowed and not target.suffix)
    if is_folder and not folder_allowed:
        raise click.UsageError(f"{output} is a folder; name a file to write")
    return "folder" if is_folder else format_of_output(target)
