"""``dplan update``: go on training when new labels have arrived."""

from __future__ import annotations

from pathlib import Path

import click

from dplan.cli._shared import MODEL, OneLineErrors, examples, say, stopwatch


@click.command(
    cls=OneLineErrors,
    short_help="Go on training a model with new labels.",
    epilog=examples(
        "dplan update fraud.dplan june.csv --label verdict --anomaly fraud",
        "dplan update fraud.dplan june.csv --label verdict --anomaly 'card theft' -o fraud-june.dplan",
    ),
)
@click.argument("model", type=MODEL)
@click.argument("table", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--label", metavar="COLUMN", help="The column that marks known anomalies.  [default: as in dplan fit]"
)
@click.option("--anomaly", multiple=True, metavar="VALUE", help="Label of known anomalies; may be repeated.")
@click.option(
    "--unlabelled", multiple=True, metavar="VALUE", help="Label of all other rows; may be repeated."
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="New model file.  [default: MODEL itself]",
)
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same model.")
def update(
    model: Path,
    table: Path,
    label: str | None,
    anomaly: tuple[str, ...],
    unlabelled: tuple[str, ...],
    output: Path | None,
    seed: int,
) -> None:
    """Go on training MODEL with the rows of TABLE, without starting over.

    TABLE holds new rows, some of them labelled. What the model remembers of its known anomalies and of usual rows is
    learned again with them, so that old anomalies stay known.
    """
    from dplan.tables import from_table
    from dplan.tables.model import TableModel
    from dplan.tables.updating import update_table

    with stopwatch() as seconds:
        old = TableModel.load(model)
        own = from_table(
            table,
            label or old.summary["label"],
            anomaly=anomaly or None,
            unlabelled=unlabelled or None,
        )
        new = update_table(old, own, seed=seed)
        target = output or model
        new.save(target)
        labels = ", ".join(f"{n:,} {name}" for name, n in own.counts().items())
        known = (own.y > 0).nonzero()[0]
        before, after = (float(m.percentile(m.score(own.features[known])).mean()) for m in (old, new))
        say(f"{table.name}: {own.features.height:,} rows: {labels}.")
        say(f"Its known anomalies rank above {before:.1f} % of usual rows before, {after:.1f} % now.")
        say(f"Wrote {target} in {seconds():.1f} s.")
