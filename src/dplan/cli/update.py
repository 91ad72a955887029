"""``dplan update``: continue training when new labels have arrived."""

from __future__ import annotations

from pathlib import Path

import click

from dplan.cli import _reading
from dplan.cli._shared import MODEL, OUTPUT, TABLE, examples, say, stopwatch


@click.command(
    short_help="Continue training a model with new labels.",
    epilog=examples(
        "dplan update fraud.dplan june.csv --label verdict --anomaly fraud",
        "dplan update fraud.dplan june.csv --label verdict --anomaly 'card theft' -o fraud-june.dplan",
    ),
)
@click.argument("model", type=MODEL)
@click.argument("table", type=TABLE)
@click.option(
    "--label", metavar="COLUMN", help="Column that marks known anomalies.  [default: that of dplan fit]"
)
@click.option("--anomaly", multiple=True, metavar="VALUE", help="Label of known anomalies; may be repeated.")
@click.option(
    "--unlabelled", multiple=True, metavar="VALUE", help="Label of unlabelled rows; may be repeated."
)
@click.option("-o", "--output", type=OUTPUT, help="Model file to write.  [default: replace MODEL]")
@click.option("--seed", default=0, show_default=True, help="Random seed; the same seed gives the same model.")
@_reading.options
@_reading.input_format
def update(
    model: Path,
    table: Path,
    label: str | None,
    anomaly: tuple[str, ...],
    unlabelled: tuple[str, ...],
    output: Path | None,
    seed: int,
    encoding: str | None,
    missing: tuple[str, ...],
    form: str | None,
) -> None:
    """Continue training MODEL with the rows of TABLE.

    TABLE has new rows, some of them labelled. Training also uses the known anomalies and the sample of unlabelled rows
    that the model keeps, so that it does not forget them.
    """
    from dplan.persistence.claim import claimed
    from dplan.tables import from_table
    from dplan.tables.model import TableModel
    from dplan.tables.updating import update_table

    target = output or model
    source, kind = _reading.source(table, form)
    with claimed(target, _reading.files(table)), stopwatch() as seconds:
        old = TableModel.load(model)
        options = _reading.read_options(encoding, missing, old)
        own = from_table(
            source,
            label or old.summary["label"],
            anomaly=anomaly or None,
            unlabelled=unlabelled or None,
            text=[column.name for column in old.preparation.columns_ if column.kind == "text"],
            encoding=options.encoding,
            missing=options.missing,
            kind=kind,
        )
        with own.located():
            _reading.warn_of_useless(old.prepare_with_report(own.features)[1].useless())
        new = update_table(old, own, seed=seed)
        new.save(target)
        labels = ", ".join(f"{n:,} {name}" for name, n in own.counts().items())
        known = (own.y > 0).nonzero()[0]
        before, after = (float(m.percentile(m.score(own.features[known])).mean()) for m in (old, new))
        say(f"{table.name}: {own.features.height:,} rows: {labels}.")
        say(f"Mean percentile of its known anomalies: {before:.1f} before, {after:.1f} now.")
        say(f"Wrote {target} in {seconds():.1f} s.")
