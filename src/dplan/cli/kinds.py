"""``dplan kinds``: group the alerts of a table into kinds with rules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _options, _scoring
from dplan.cli._ahead import compile_ahead
from dplan.cli._options import FILE, TABLE, files_read, given, name_of
from dplan.cli._terminal import echo, examples, keeping_bad_rows, say, status, stopwatch
from dplan.cli.rules import DIALECTS

if TYPE_CHECKING:
    from dplan.tables.writing import Output


@click.command(
    short_help="Group alerts into kinds, with rules.",
    epilog=examples(
        "dplan kinds fraud.dplan new.csv -o kinds.html",
        "dplan kinds fraud.dplan new.csv -o kinds.json --budget 200",
        "dplan kinds fraud.dplan new.csv -o kinds.sql --dialect duckdb --sql-table payments",
    ),
)
@click.argument("model", type=FILE)
@click.argument("table", type=TABLE)
@_options.output("File to write: .html (a page), .json (rules as data, for dplan score) or .sql.")
@click.option(
    "--kinds",
    "n_kinds",
    type=click.IntRange(1, 20),
    metavar="N",
    help="Number of kinds.  [default: 3 to 8, found]",
)
@click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    default="postgresql",
    show_default=True,
    help="The database, for .sql.",
)
@click.option(
    "--sql-table",
    metavar="NAME",
    default="your_table",
    show_default=True,
    help="Name of the table in the database, for .sql.",
)
@_scoring.alerts
@_options.reading_or_stream
def kinds(
    model: Path,
    table: Path,
    output: Output,
    n_kinds: int | None,
    dialect: str,
    sql_table: str,
    scoring: _scoring.Scoring,
    reading: _options.Reading,
) -> None:
    """Score TABLE with MODEL and group its alerts into kinds: alerts whose scores the same columns raise.

    Each kind has a name (a known class that it is like, if any), typical rows and, where one is found, a rule: up to
    three conditions on columns, with its precision and coverage on rows that it was not made from.
    """
    from dplan.kinds.writing import check_enough, find, format_of, text_of
    from dplan.persistence.atomic import store
    from dplan.tables.model import TableModel

    compile_ahead("explain")
    loaded = TableModel.load(model)
    read = reading.table(table, loaded)
    with output.claimed(read, *files_read()), stopwatch() as seconds:
        form = format_of(output.file)
        if form != "sql" and (options := given("dialect", "sql_table")):
            raise click.UsageError(f"{options}: only for an output such as kinds.sql")
        status(f"Scoring {table}")
        found = check_enough(find(scoring.scorer(loaded), read, n_kinds))
        names = {"model_name": model.name, "table_name": name_of(table)}
        text = text_of(found, form, dialect=dialect, sql_table=sql_table, **names)
        with keeping_bad_rows(found.table.bad, output, scoring.on_error):
            store(output.file, text)
        for group in found.groups:
            echo(str(group.kind.about["sentence"]))
        say(
            f"Wrote {output.file}: {len(found.groups):,} kinds of {found.n_alerts:,} alerts of "
            f"{len(found.table.scores):,} rows, in {seconds():.1f} s."
        )
