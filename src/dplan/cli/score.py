"""``dplan score``: score a table with a model."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _options, _scoring
from dplan.cli._ahead import compile_ahead
from dplan.cli._options import FILE, count, files_read, given
from dplan.cli._terminal import (
    examples,
    keeping_bad_rows,
    progress_bar,
    say,
    stopwatch,
    warn_of,
    warn_of_bad_cells,
    warn_of_useless,
)

if TYPE_CHECKING:
    from dplan.scoring import Scorer
    from dplan.scoring.table import Order
    from dplan.tables.input import Input
    from dplan.tables.writing import Output


@click.command(
    short_help="Score a table of any size, with reasons.",
    epilog=examples(
        "dplan score new.csv -m fraud.dplan -o scored.csv --explain",
        "dplan score new.csv -m fraud.dplan -o alerts.xlsx --budget 50 --explain",
        "dplan score new.csv -m fraud.dplan -o alerts.csv --budget 50 --explore 10 --explain",
        "zcat new.csv.gz | dplan score - -m fraud.dplan -o - --budget 100 > scored.csv",
        "tail -f new.csv | dplan score - -m fraud.dplan -o - --follow",
        "dplan score new.csv -m fraud.dplan -o alerts.csv --budget 50 --kinds kinds.json",
        "dplan score new.csv -m fraud.dplan --review queue.csv --review-rows 30",
        "dplan score parts/ -m fraud.dplan -o scored/ --jobs 4",
    ),
)
@click.argument("table", type=_options.Table(path_type=str, readable=False))
@click.option("-m", "--model", required=True, type=FILE, help="Model file written by dplan fit.")
@click.option(
    "-o",
    "--output",
    type=_options.Table(path_type=str, readable=False),
    help="File to write, folder (if TABLE is one), - for standard output, or a table of a PostgreSQL database "
    "(postgresql://host/database#table).",
)
@click.option(
    "--review",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the rows to look at next, with reasons and an empty verdict column; dplan update reads it back.",
)
@count("--review-rows", 20, "Rows to look at.")
@click.option(
    "--explain", is_flag=True, help="Add the reasons for each alert or --top row (up to three columns)."
)
@_scoring.scoring(
    "copy",
    click.option(
        "--top", type=click.IntRange(1), metavar="K", help="Write only the K highest scores, highest first."
    ),
    click.option(
        "--novelty",
        is_flag=True,
        help="Add how unlike the training rows each row is, from 0 to 100, whatever the labels say.",
    ),
    click.option(
        "--explore",
        type=click.IntRange(1),
        metavar="N",
        help="Reserve N alerts of the budget for the most novel rows that the score would miss.",
    ),
    _scoring.kinds,
)
@click.option(
    "--order",
    type=click.Choice(["alerts", "file"]),
    help="Write the alerts first, the highest score first, or all rows as in TABLE.  [default: alerts with --budget, "
    "otherwise file]",
)
@count("--chunk-rows", 100_000, "Rows per chunk.")
@count("--jobs", 2, "Chunks scored at the same time.")
@click.option("--follow", is_flag=True, help="Score a stream on standard input: write each row at once.")
@_options.writing
@_options.reading_or_streams
def score(
    table: str,
    model: Path,
    output: str | None,
    review: Path | None,
    review_rows: int,
    explain: bool,
    scoring: _scoring.Scoring,
    order: Order | None,
    chunk_rows: int,
    jobs: int,
    follow: bool,
    writing: Output,
    reading: _options.Reading,
) -> None:
    """Score TABLE: a file as in dplan fit, a folder or glob pattern of such files, or - for standard input.

    The output (CSV, Excel, JSON lines, Parquet or Arrow, by its name) has the row number, the id columns, a score
    (higher is more anomalous), its percentile among the unlabelled training rows, whether the row is an alert and, with
    --explain, the reasons. If a copied column is
    already called "score", ours becomes "dplan_score"; the same goes for the others. Tables may be larger than memory.
    To resume an interrupted run, run the same command again.
    """
    from dplan.scoring import score_table
    from dplan.scoring.files import target_of
    from dplan.tables.model import TableModel

    _check(table, output, review, follow=follow, form=reading.form)
    if follow and scoring.on_error != "null":
        scoring = replace(scoring, on_error="fail")  # a row that fails is skipped alone, with a message
    if explain or review is not None:
        compile_ahead("explain")
    loaded = TableModel.load(model)
    scorer = scoring.scorer(loaded)
    found = reading.table(table, loaded, printed=output == "-")
    if follow:
        _follow(scorer, found, replace(writing, format=reading.form or "csv"), explain)
        return
    written: Output | None = None
    with stopwatch() as seconds, ExitStack() as stack:
        if output == "-":
            written = replace(writing, format=reading.form or "csv")
        elif output is not None:
            written = stack.enter_context(target_of(output, found, writing, scoring.on_error))
        no_text = written is not None and written.format not in ("csv", "tsv") and review is None
        if no_text and (options := given("separator", "decimal")):
            raise click.UsageError(f"{options}: only for CSV output")
        if review is not None:
            found = found if written is None else _readable_twice(found)
            _write_review(scorer, found, model, replace(writing, path=review), written, review_rows)
            found.rewind()
        if written is None:
            return
        with progress_bar() as progress:
            outcome = score_table(
                scorer, found, written, explain=explain, order=order, inputs=files_read(), chunk_rows=chunk_rows,
                n_jobs=jobs, progress=progress,
            )  # fmt: skip
    warn_of_useless(outcome.differences)
    warn_of(scorer.surprise(outcome.alerts, outcome.rows))
    warn_of_bad_cells(outcome.bad_cells, outcome.errors)
    if outcome.damaged:
        warn_of(f"damaged results of an earlier run were made again ({outcome.damaged:,}); check the disk")
    by = (
        f"scores of at least {outcome.threshold:.6g}"
        if outcome.threshold is not None
        else f"the {outcome.alerts - outcome.explored:,} highest scores"
    )
    if outcome.explored:
        by += f" and the {outcome.explored:,} most novel other rows"
    muted = f"; {outcome.muted:,} muted" if outcome.muted else ""
    resumed = f" ({outcome.resumed:,} chunks scored by an earlier run)" if outcome.resumed else ""
    say(
        f"Scored {outcome.rows:,} rows in {seconds():.1f} s{resumed}; {outcome.alerts:,} alerts ({by}){muted}; "
        f"wrote {'standard output' if output == '-' else output}.",
        err=True,
    )


def _check(table: str, output: str | None, review: Path | None, *, follow: bool, form: str | None) -> None:
    """Refuse options that this way of scoring cannot keep."""
    if follow:
        if (table, output) != ("-", "-"):
            raise click.UsageError("--follow reads - and writes -o -")
        if form in ("parquet", "arrow"):
            raise click.UsageError(f"--follow writes each row at once, which {form} files cannot")
        if options := given(
            "top", "budget", "explore", "order", "review", "review_rows", "chunk_rows", "jobs"
        ):
            raise click.UsageError(
                f"--follow writes each row at once, so it cannot be combined with {options}"
            )
    elif output is None:
        if review is None:
            raise click.UsageError("Missing option '-o' / '--output' or '--review'.")
        only = (
            "top",
            "budget",
            "threshold",
            "novelty",
            "explore",
            "order",
            "explain",
            "kinds",
            "keep",
            "chunk_rows",
            "jobs",
        )
        if options := given(*only):
            rows = "" if options != "--budget" else ", or say how many rows to look at with --review-rows"
            raise click.UsageError(f"{options}: only for the output; add -o FILE{rows}")
    if given("top") and given("order"):
        raise click.UsageError("--top writes the highest scores first, so it cannot be combined with --order")
    if review is None and (options := given("review_rows")):
        raise click.UsageError(f"{options}: only with --review FILE")


def _follow(scorer: Scorer, stream: Input, output: Output, explain: bool) -> None:
    import sys

    from dplan.scoring import follow

    found = follow(
        scorer,
        stream,
        sys.stdout.buffer,
        output,
        explain=explain,
        skip=lambda message: say(f"Skipped {message}", err=True),
    )
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
    scorer: Scorer, table: Input, model: Path, output: Output, later: Output | None, n_rows: int
) -> None:
    """Write the rows to look at next; `later` is what the scores will be written to."""
    from dplan.scoring import review_rows, write_queue

    others = [] if later is None or later.path is None else [later.path, *later.beside, later.parts]
    with output.claimed(table, *files_read(), others=others), stopwatch() as seconds:
        if later is not None and later.path is not None:
            later.check_new()  # before any work is done
        queue = review_rows(scorer, table.chunks(), n_rows)
        with keeping_bad_rows(queue.bad, output, scorer.on_error):
            write_queue(queue, output)
        rows = queue.rows
        say(
            f"Read {queue.n_read:,} rows in {seconds():.1f} s; wrote {rows.height:,} of them to {output.path}. Fill in "
            f"the column {rows.columns[0] if rows.width else 'verdict'} ({', '.join(queue.choices)}), then run: "
            f"dplan update {model} {output.path}",
            err=True,
        )
