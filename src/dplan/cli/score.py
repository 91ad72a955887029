"""``dplan score``: score a table with a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _options
from dplan.cli._options import FILE, count, given
from dplan.cli._terminal import (
    examples,
    keep_bad_rows,
    progress_bar,
    say,
    stopwatch,
    warn_of_bad_cells,
    warn_of_useless,
)

if TYPE_CHECKING:
    from dplan.scoring import Scorer
    from dplan.tables.input import Input
    from dplan.tables.writing import Output


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
@click.option("-m", "--model", required=True, type=FILE, help="Model file written by dplan fit.")
@click.option("-o", "--output", help="File to write, folder (if TABLE is one), or - for standard output.")
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
@_options.scoring(
    "copy",
    click.option(
        "--top", type=click.IntRange(1), metavar="K", help="Write only the K highest scores, highest first."
    ),
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
    scoring: _options.Scoring,
    chunk_rows: int,
    jobs: int,
    follow: bool,
    writing: Output,
    reading: _options.Reading,
) -> None:
    """Score TABLE: a file as in dplan fit, a folder or glob pattern of such files, or - for standard input.

    The output has the row number, the id columns, a score (higher is more anomalous), its percentile among the
    unlabelled training rows, whether the row is an alert and, with --explain, the reasons. If a copied column is
    already called "score", ours becomes "dplan_score"; the same goes for the others. Tables may be larger than memory.
    To resume an interrupted run, run the same command again.
    """
    from dplan.scoring import score_table
    from dplan.tables.model import TableModel

    _check(table, output, review, follow=follow, form=reading.form)
    if follow and scoring.on_error != "null":
        scoring = replace(scoring, on_error="fail")  # a row that fails is skipped alone, with a message
    loaded = TableModel.load(model)
    scorer = scoring.scorer(loaded)
    found = reading.table(table, loaded, printed=output == "-")
    if follow:
        _follow(scorer, found, replace(writing, format=reading.form or "csv"), explain)
        return
    if review is not None:
        found = found if output is None else _readable_twice(found)
        _write_review(scorer, found, model, replace(writing, path=review), review_rows)
        found.rewind()
    if output is None:
        return
    written = _output(output, writing, reading.form, folder_allowed=not found.is_single)
    if written.format not in ("csv", "tsv") and review is None and (options := given("separator", "decimal")):
        raise click.UsageError(f"{options}: only for CSV output")
    with stopwatch() as seconds, progress_bar() as progress:
        outcome = score_table(
            scorer, found, written, explain=explain, inputs=[model], chunk_rows=chunk_rows, n_jobs=jobs,
            progress=progress,
        )  # fmt: skip
    warn_of_useless(outcome.differences)
    warn_of_bad_cells(outcome.bad_cells, outcome.errors)
    by = (
        f"scores of at least {outcome.threshold:.6g}"
        if outcome.threshold is not None
        else f"the {scoring.budget:,} highest scores"
    )
    resumed = f" ({outcome.resumed:,} chunks scored by an earlier run)" if outcome.resumed else ""
    say(
        f"Scored {outcome.rows:,} rows in {seconds():.1f} s{resumed}; {outcome.alerts:,} alerts ({by}); "
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
        if options := given("top", "budget", "review", "review_rows", "chunk_rows", "jobs"):
            raise click.UsageError(
                f"--follow writes each row at once, so it cannot be combined with {options}"
            )
    elif output is None:
        if review is None:
            raise click.UsageError("Missing option '-o' / '--output' or '--review'.")
        if options := given("top", "budget", "threshold", "explain", "keep", "chunk_rows", "jobs"):
            raise click.UsageError(f"{options}: only for the output; add -o FILE")
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


def _write_review(scorer: Scorer, table: Input, model: Path, output: Output, n_rows: int) -> None:
    """Write the rows to look at next."""
    from dplan.scoring import review_rows, write_queue

    with output.claimed(table, model), stopwatch() as seconds:
        queue = review_rows(scorer, table.chunks(), n_rows)
        write_queue(queue, output)
        keep_bad_rows(queue.bad, output, scorer.on_error)
        known = scorer.model.summary.classes
        rows = queue.rows
        say(
            f"Read {queue.n_read:,} rows in {seconds():.1f} s; wrote {rows.height:,} of them to {output.path}. Fill in "
            f"the column {rows.columns[0] if rows.width else 'verdict'} ({', '.join([*known, 'normal'])}; empty if "
            f"unsure), then run: dplan update {model} {output.path}",
            err=True,
        )


def _output(output: str, writing: Output, form: str | None, *, folder_allowed: bool) -> Output:
    from dplan.tables.writing import format_of_output

    if output == "-":
        return replace(writing, format=form or "csv")
    target = Path(output)
    is_folder = output.endswith("/") or target.is_dir() or (folder_allowed and not target.suffix)
    if is_folder and not folder_allowed:
        raise click.UsageError(f"{output} is a folder; name a file to write")
    return replace(writing, path=target, format="folder" if is_folder else format_of_output(target))
