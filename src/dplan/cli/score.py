"""``dplan score``: score a table with a model."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _reading
from dplan.cli._shared import MODEL, examples, overwrite, progress_bar, say, stopwatch

if TYPE_CHECKING:
    from dplan.scoring import Scorer
    from dplan.tables.input import Input
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
    from dplan.scoring import Alerts, Scorer, score_table
    from dplan.tables.model import TableModel

    if separator is not None and separator != "tab" and (len(separator) != 1 or not separator.isascii()):
        raise click.UsageError("--separator must be one character such as ; or the word tab")
    sign = "\t" if separator == "tab" else separator
    if output is None:
        if review is None:
            raise click.UsageError("Missing option '-o' / '--output' or '--review'.")
        if top or budget or threshold is not None or explain or keep:
            raise click.UsageError(
                "--top, --budget, --threshold, --explain and --keep are about the output; add -o FILE"
            )
    if budget is not None and threshold is not None:
        raise click.UsageError("--budget and --threshold cannot be combined, because both define the alerts")
    if threshold is not None and not math.isfinite(threshold):
        raise click.UsageError("--threshold must be a finite number")
    if follow:
        _check_follow(table, output, reading.form, top=top, budget=budget, review=review)
        on_error = (
            "null" if on_error == "null" else "fail"
        )  # a row that fails is skipped alone, with a message
    loaded = TableModel.load(model)
    scorer = Scorer(
        loaded,
        keep=keep,
        on_error=on_error,
        skip_labelled=skip_labelled,
        alerts=Alerts(threshold, budget, top),
    )
    given = reading.table(table, loaded)
    if follow:
        _follow(scorer, given, reading.form or "csv", explain, sign, decimal)
        return
    if review is not None:
        given = given if output is None else _readable_twice(given)
        _write_review(scorer, given, model, review, review_rows, sign, decimal, overwrite)
        given.rewind()
    if output is None:
        return
    target = None if output == "-" else Path(output)
    if target is not None:
        given.check_output(target)
    output_format = _output_format(output, target, reading.form, folder_allowed=not given.is_single)
    with stopwatch() as seconds, progress_bar() as progress:
        outcome = score_table(
            scorer, given, target,
            output_format=output_format, explain=explain, separator=sign, decimal=decimal, inputs=[model],
            chunk_rows=chunk_rows, n_jobs=jobs, overwrite=overwrite, progress=progress,
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


def _check_follow(table: str, output: str | None, form: str | None, **refused: object) -> None:
    """Refuse what a stream cannot keep: what is known only at its end, and formats that are written at the end."""
    given = [f"--{name}" for name, value in refused.items() if value is not None]
    source = click.get_current_context().get_parameter_source
    for name in ("chunk_rows", "jobs"):
        if source(name) is click.core.ParameterSource.COMMANDLINE:
            given.append(f"--{name.replace('_', '-')}")
    if form in ("parquet", "arrow"):
        given.append(f"--format {form}")
    if (table, output) != ("-", "-"):
        raise click.UsageError("--follow reads - and writes -o -")
    if given:
        raise click.UsageError(
            f"--follow writes each row at once, so it cannot be combined with {', '.join(given)}"
        )


def _follow(
    scorer: Scorer,
    stream: Input,
    output_format: str,
    explain: bool,
    separator: str | None,
    decimal: str | None,
) -> None:
    import sys

    from dplan.scoring import follow

    found = follow(
        scorer, stream, sys.stdout.buffer, output_format=output_format, explain=explain, separator=separator,
        decimal=decimal, skip=lambda message: say(f"Skipped {message}", err=True),
    )  # fmt: skip
    say(f"Scored {found.rows:,} rows; {found.alerts:,} alerts; skipped {found.skipped:,} rows.", err=True)
    if found.skipped:
        raise click.exceptions.Exit(1)


def _readable_twice(table: Input) -> Input:
    """Return a table that can be read for the queue and for the scores; standard input is kept in a temporary file."""
    import shutil
    from tempfile import TemporaryFile
    from typing import BinaryIO, cast

    if not table.is_stream:
        return table
    copy = click.get_current_context().with_resource(TemporaryFile())  # noqa: SIM115  # until the end
    shutil.copyfileobj(cast(BinaryIO, table.source), copy)
    copy.seek(0)
    return replace(table, source=cast(BinaryIO, copy))


def _write_review(
    scorer: Scorer,
    table: Input,
    model: Path,
    review: Path,
    n_rows: int,
    separator: str | None,
    decimal: str | None,
    overwrite: bool,
) -> None:
    """Write the rows to look at next."""
    from dplan.persistence.claim import check_new, claimed
    from dplan.scoring import review_rows, write_queue
    from dplan.tables.mistakes import errors_file

    table.check_output(review)
    with claimed(review, [model, *table.files()], overwrite=overwrite), stopwatch() as seconds:
        check_new(errors_file(review), overwrite)
        queue = review_rows(scorer, table.chunks(), n_rows)
        write_queue(queue, review, separator=separator, decimal=decimal)
        _reading.keep_mistakes(queue.bad, review, scorer.on_error)
        known = scorer.model.summary.classes
        rows = queue.rows
        say(
            f"Read {queue.n_read:,} rows in {seconds():.1f} s; wrote {rows.height:,} of them to {review}. Fill in the "
            f"column {rows.columns[0] if rows.width else 'verdict'} ({', '.join([*known, 'normal'])}; empty if "
            f"unsure), then run: dplan update {model} {review}",
            err=True,
        )


def _output_format(output: str, target: Path | None, form: str | None, *, folder_allowed: bool) -> str:
    from dplan.tables.writing import format_of_output

    if target is None:
        return form or "csv"
    is_folder = output.endswith("/") or target.is_dir() or (folder_allowed and not target.suffix)
    if is_folder and not folder_allowed:
        raise click.UsageError(f"{output} is a folder; name a file to write")
    return "folder" if is_folder else format_of_output(target)
