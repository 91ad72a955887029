"""``dplan report``: an HTML page about a scored table."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _reading
from dplan.cli._shared import MODEL, OUTPUT, TABLE, examples, overwrite, say, status, stopwatch

if TYPE_CHECKING:
    from dplan.tables.mistakes import OnError


@click.command(
    short_help="Write an HTML report about a table.",
    epilog=examples(
        "dplan report fraud.dplan new.csv -o report.html",
        "dplan report fraud.dplan new.csv -o report.html --budget 50 --keep branch",
        "dplan report fraud.dplan checked.csv -o report.html --label verdict --anomaly fraud",
    ),
)
@click.argument("model", type=MODEL)
@click.argument("table", type=TABLE)
@click.option("-o", "--output", required=True, type=OUTPUT, help="HTML file to write.")
@click.option(
    "--label",
    metavar="COLUMN",
    help="Column that marks anomalies: adds precision and recall.  [default: as in dplan fit, if TABLE has it]",
)
@click.option(
    "--anomaly",
    multiple=True,
    metavar="VALUE",
    help="Label of anomalies, in upper or lower case; may be repeated.",
)
@click.option("--skip-labelled", is_flag=True, help="Leave out rows that already have a verdict.")
@click.option(
    "--keep", multiple=True, metavar="COLUMN", help="Column to show in addition to the ids; may be repeated."
)
@click.option("--budget", type=click.IntRange(1), metavar="N", help="Make the N highest scores alerts.")
@click.option("--threshold", type=float, metavar="SCORE", help="Make scores of at least SCORE alerts.")
@click.option(
    "--top", default=20, show_default=True, type=click.IntRange(1, 300), help="Rows shown with reasons."
)
@_reading.on_error
@_reading.options_and_format
@overwrite
def report(
    model: Path,
    table: Path,
    output: Path,
    label: str | None,
    anomaly: tuple[str, ...],
    skip_labelled: bool,
    keep: tuple[str, ...],
    budget: int | None,
    threshold: float | None,
    top: int,
    reading: _reading.Reading,
    on_error: OnError,
    overwrite: bool,
) -> None:
    """Score TABLE with MODEL and write a self-contained HTML page about the result."""
    from dplan.persistence.atomic import atomic_write
    from dplan.persistence.claim import check_new, claimed
    from dplan.report.data import report_data
    from dplan.report.page import page
    from dplan.scoring.scorer import Alerts, Scorer
    from dplan.tables.mistakes import errors_file
    from dplan.tables.model import TableModel

    if anomaly and label is None:
        raise click.UsageError("--anomaly needs --label COLUMN")
    if budget is not None and threshold is not None:
        raise click.UsageError("--budget and --threshold cannot be combined, because both define the alerts")
    if threshold is not None and not math.isfinite(threshold):
        raise click.UsageError("--threshold must be a finite number")
    loaded = TableModel.load(model)
    given = reading.table(table, loaded)
    given.check_output(output)
    with claimed(output, [model, *given.files()], overwrite=overwrite), stopwatch() as seconds:
        check_new(errors_file(output), overwrite)
        status(f"Scoring {table}")
        scorer = Scorer(loaded, keep=keep, on_error=on_error, alerts=Alerts(threshold, budget))
        data = report_data(
            scorer, given.chunks(), label=label, anomaly=anomaly, n_shown=top, skip_labelled=skip_labelled
        )
        _reading.warn_of_useless(data.useless)
        _reading.keep_mistakes(data.bad, output, on_error)
        name = "standard input" if str(table) == "-" else table.name
        text = page(data, loaded, model_name=model.name, table_name=name)
        with atomic_write(output) as temporary:
            temporary.write_text(text, encoding="utf-8")
        say(f"Wrote {output} ({len(text) / 1000:,.0f} kB; {len(data.scores):,} rows) in {seconds():.1f} s.")
