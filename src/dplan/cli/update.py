"""``dplan update``: continue training with new labels."""

from __future__ import annotations

from pathlib import Path

import click

from dplan.cli import _reading
from dplan.cli._shared import MODEL, OUTPUT, TABLE, examples, overwrite, say, status, stopwatch


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
    "--label", metavar="COLUMN", help="Column that marks known anomalies.  [default: as in dplan fit]"
)
@_reading.labels
@click.option("-o", "--output", type=OUTPUT, help="Model file to write.  [default: replace MODEL]")
@_reading.seed
@_reading.options
@_reading.input_format
@overwrite
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
    overwrite: bool,
) -> None:
    """Continue training MODEL with the rows of TABLE.

    TABLE has new rows, some of them labelled. Training also uses the known anomalies and unlabelled rows stored in
    MODEL, so that it does not forget old anomalies.
    """
    from dplan.persistence.claim import claimed
    from dplan.tables import from_table
    from dplan.tables.model import TableModel
    from dplan.tables.updating import update_model

    target = output or model
    source, kind = _reading.source(table, form)
    replaces = overwrite or output is None
    with claimed(target, _reading.files(table), overwrite=replaces), stopwatch() as seconds:
        status(f"Reading {table}")
        old = TableModel.load(model)
        options = _reading.read_options(encoding, missing, old)
        labelled = from_table(
            source,
            label or old.summary["label"],
            anomaly=anomaly or None,
            unlabelled=unlabelled or None,
            text=[column.name for column in old.preparation.columns_ if column.kind == "text"],
            encoding=options.encoding,
            missing=options.missing,
            kind=kind,
            query=options.query,
            sheet=options.sheet,
        )
        status("Training")
        with labelled.located():
            _reading.warn_of_useless(old.prepare_with_report(labelled.features)[1].useless())
        new = update_model(old, labelled, seed=seed)
        new.save(target)
        labels = ", ".join(f"{n:,} {name}" for name, n in labelled.counts().items())
        known = (labelled.y > 0).nonzero()[0]
        before, after = (float(m.percentile(m.score(labelled.features[known])).mean()) for m in (old, new))
        say(f"{table.name}: {labelled.features.height:,} rows: {labels}.")
        say(f"Mean percentile of its known anomalies: {before:.1f} before, {after:.1f} now.")
        say(f"Wrote {target} in {seconds():.1f} s.")
