"""``dplan update``: continue training when new labels have arrived."""

from __future__ import annotations

from pathlib import Path

import click

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
def update(
    model: Path,
    table: Path,
    label: str | None,
    anomaly: tuple[str, ...],
    unlabelled: tuple[str, ...],
    output: Path | None,
    seed: int,
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
    with claimed(target, [table]), stopwatch() as seconds:
        old = TableModel.load(model)
        own = from_table(
            table,
            label or old.summary["label"],
            anomaly=anomaly or None,
            unlabelled=unlabelled or None,
        )
        new = update_table(old, own, seed=seed)
        new.save(target)
        labels = ", ".join(f"{n:,} {name}" for name, n in own.counts().items())
        known = (own.y > 0).nonzero()[0]
        before, after = (float(m.percentile(m.score(own.features[known])).mean()) for m in (old, new))
        say(f"{table.name}: {own.features.height:,} rows: {labels}.")
        say(f"Mean percentile of its known anomalies: {before:.1f} before, {after:.1f} now.")
        say(f"Wrote {target} in {seconds():.1f} s.")
