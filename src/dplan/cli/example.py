"""``dplan example``: write two example tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dplan.cli import _options
from dplan.cli._terminal import echo, examples

if TYPE_CHECKING:
    import polars as pl


@click.command(
    short_help="Write two example tables.",
    epilog=examples("dplan example", "dplan example --messy", "dplan example -o my-folder"),
)
@click.option(
    "-o",
    "--output",
    type=_options.FOLDER,
    default=Path("."),
    help="Folder to write to; created if it does not exist.  [default: current folder]",
)
@click.option("--messy", is_flag=True, help="Write the tables of a bank, as people have them.")
@_options.overwrite
def example(output: Path, messy: bool, overwrite: bool) -> None:
    """Write forest-train.csv and forest-new.csv, two tables to try the other commands on.

    Rows are plots of forest. The first table has 60 known anomalies in the column "label"; the second has new rows,
    with the true class in the column "truth".

    With --messy, write bank-train.csv and bank-new.csv: made-up transfers as a German bank would export them, with
    decimal commas, dates, currency, percent, IBANs, free text and few labels ("fraud", "ok" or blank) in the column
    "Urteil".
    """
    from dplan.persistence.atomic import atomic_write
    from dplan.persistence.claim import claimed

    tables, command = _bank() if messy else _forest()
    output.mkdir(parents=True, exist_ok=True)
    first, second = tables
    with claimed(output / first, beside=[output / second], overwrite=overwrite):
        for name, table in tables.items():
            with atomic_write(output / name) as temporary:
                table.write_csv(temporary, separator=";" if messy else ",")
            echo(f"Wrote {output / name}: {table.height:,} rows, {table.width} columns.")
    echo(f"Next: {command.replace(first, str(output / first))}")


def _forest() -> tuple[dict[str, pl.DataFrame], str]:
    import polars as pl

    from dplan.datasets import scenario

    task = scenario("covertype-mini/cottonwood-v1", seed=0)
    named = pl.Series("label", [*task.classes]).gather
    train = task.features.with_columns(
        pl.Series("plot", [f"train-{i:05}" for i in range(len(task.y))]),
        named(task.y).replace("normal", ""),
    )
    new = task.features_test.with_columns(
        pl.Series("plot", [f"new-{i:05}" for i in range(len(task.y_test))]), named(task.y_test).alias("truth")
    )
    tables = {
        name: table.select("plot", pl.exclude("plot"))
        for name, table in (("forest-train.csv", train), ("forest-new.csv", new))
    }
    return tables, "dplan fit forest-train.csv --label label --anomaly cottonwood --id plot -o forest.dplan"


def _bank() -> tuple[dict[str, pl.DataFrame], str]:
    from importlib.resources import files

    import polars as pl

    tables = {
        f"bank-{part}.csv": pl.read_parquet(
            files("dplan.datasets").joinpath(f"bank_{part}.parquet").read_bytes()
        )
        for part in ("train", "new")
    }
    return tables, "dplan inspect bank-train.csv"
