"""``dplan example``: write two example tables."""

from __future__ import annotations

from pathlib import Path

import click

from dplan.cli._shared import echo, examples


@click.command(
    short_help="Write two example tables.",
    epilog=examples("dplan example", "dplan example -o my-folder"),
)
@click.option(
    "-o",
    "--output",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path("."),
    help="Folder to write to.  [default: current folder]",
)
def example(output: Path) -> None:
    """Write forest-train.csv and forest-new.csv, two tables to try the other commands on.

    Rows are plots of forest. The first table has 60 known anomalies in the column "label"; the second has new rows,
    with the true class in the column "truth".
    """
    import polars as pl

    from dplan.datasets import scenario
    from dplan.persistence.atomic import atomic_write

    task = scenario("covertype-mini/cottonwood-v1", seed=0)
    named = pl.Series("label", [*task.classes]).gather
    train = task.features.with_columns(
        pl.Series("plot", [f"train-{i:05}" for i in range(len(task.y))]),
        named(task.y).replace("normal", ""),
    )
    new = task.features_test.with_columns(
        pl.Series("plot", [f"new-{i:05}" for i in range(len(task.y_test))]), named(task.y_test).alias("truth")
    )
    for name, table in (("forest-train.csv", train), ("forest-new.csv", new)):
        with atomic_write(output / name) as temporary:
            table.select("plot", pl.exclude("plot")).write_csv(temporary)
        echo(f"Wrote {output / name}: {table.height:,} rows, {table.width} columns.")
    echo("Next: dplan fit forest-train.csv --label label --anomaly cottonwood --id plot -o forest.dplan")
