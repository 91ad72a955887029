"""``dplan report``: an HTML page about a scored table."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _options, _scoring
from dplan.cli._ahead import compile_ahead
from dplan.cli._options import FILE, TABLE, files_read, name_of, repeated
from dplan.cli._terminal import examples, keeping_bad_rows, say, status, stopwatch, warn_of, warn_of_useless

if TYPE_CHECKING:
    from dplan.tables.writing import Output


@click.command(
    short_help="Write an HTML report about a table.",
    epilog=examples(
        "dplan report fraud.dplan new.csv -o report.html",
        "dplan report fraud.dplan new.csv -o report.html --budget 50 --keep branch",
        "dplan report fraud.dplan checked.csv -o report.html --label verdict --anomaly fraud",
    ),
)
@click.argument("model", type=FILE)
@click.argument("table", type=TABLE)
@_options.output("HTML file to write.")
@click.option(
    "--label",
    metavar="COLUMN",
    help="Column that marks anomalies: adds precision and recall.  [default: as in dplan fit, if TABLE has it]",
)
@repeated("--anomaly", "VALUE", "Label of anomalies, in upper or lower case")
@click.option(
    "--top",
    type=click.IntRange(1, 1000),
    metavar="K",
    help="Rows shown with reasons, at most 1,000.  [default: the budget, otherwise 20]",
)
@_scoring.scoring("show", _scoring.kinds)
@_options.reading_or_stream
def report(
    model: Path,
    table: Path,
    output: Output,
    label: str | None,
    anomaly: tuple[str, ...],
    top: int | None,
    scoring: _scoring.Scoring,
    reading: _options.Reading,
) -> None:
    """Score TABLE with MODEL and write a self-contained HTML page about the result."""
    from dplan.persistence.atomic import store
    from dplan.report.data import report_data
    from dplan.report.page import page
    from dplan.tables.model import TableModel

    if anomaly and label is None:
        raise click.UsageError("--anomaly needs --label COLUMN")
    compile_ahead("explain")
    loaded = TableModel.load(model)
    found = reading.table(table, loaded)
    with output.claimed(found, *files_read()), stopwatch() as seconds:
        status(f"Scoring {table}")
        # The report leaves out labelled rows itself: it may be told of another label than the model's.
        scorer = replace(scoring, skip_labelled=False).scorer(loaded)
        data = report_data(
            scorer,
            found.chunks(),
            label=label,
            anomaly=anomaly,
            n_shown=top,
            skip_labelled=scoring.skip_labelled,
        )
        warn_of_useless(data.useless)
        warn_of(data.surprise)
        text = page(data, loaded, model_name=model.name, table_name=name_of(table))
        with keeping_bad_rows(data.bad, output, scoring.on_error):
            store(output.file, text)
        say(
            f"Wrote {output.file} ({len(text) / 1000:,.0f} kB; {len(data.scores):,} rows) in {seconds():.1f} s."
        )
