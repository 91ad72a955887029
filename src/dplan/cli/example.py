"""``dplan example``: two tables to try the other commands on."""

from __future__ import annotations

from pathlib import Path

import click

from dplan.cli._shared import examples, say


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
    """Write forest-train.csv and forest-new.csv, two small tables to try the commands on.

    The first has 60 known anomalies among unlabelled plots of forest; the second has new plots, with their true class
    in the column "truth".
    """
    import polars as pl

    from dplan.datasets import scenario
    from dplan.persistence.atomic import written_whole

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
        with written_whole(output / name) as temporary:
            table.select("plot", pl.exclude("plot")).write_csv(temporary)
        say(f"Wrote {output / name}: {table.height:,} rows, {table.width} columns.")
