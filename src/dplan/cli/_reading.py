"""How the commands read tables: the same options, files and warnings for all of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from dplan.cli._shared import echo

if TYPE_CHECKING:
    from dplan.tables import ReadOptions, TableModel


def options(command: Any) -> Any:
    """Add the options for reading text files, the same in every command that reads a table."""
    for option in (
        click.option(
            "--missing",
            multiple=True,
            metavar="TEXT",
            help="Text that means a missing value, in addition to NA, NaN, null, ? and similar; may be repeated.",
        ),
        click.option("--encoding", help="Text encoding of TABLE.  [default: as in dplan fit, or utf-8]"),
    ):
        command = option(command)
    return command


def columns(command: Any) -> Any:
    """Add the options that overrule how columns are understood."""
    for option in (
        click.option(
            "--columns",
            "columns_file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            metavar="FILE",
            help="TOML file with one table per column, as --column.",
        ),
        click.option(
            "--column",
            "columns",
            multiple=True,
            metavar="NAME=KIND[,OPTION]",
            help="How to understand a column: number (decimal=comma|point, thousands=comma|point|space|apostrophe, "
            "unit=TEXT), date (day-first, month-first, year-first, calendar, since=COLUMN), time, duration, flag, "
            "category, country, domain, host, filled, id or drop; may be repeated.",
        ),
    ):
        command = option(command)
    return command


def given_columns(
    columns: tuple[str, ...], columns_file: Path | None, text: tuple[str, ...] = ()
) -> dict[str, dict[str, Any]]:
    """Return what the options say about columns."""
    from dplan.tables.understanding.overruling import parse_column, read_columns

    given = {} if columns_file is None else read_columns(columns_file)
    try:
        given |= dict(map(parse_column, columns))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return {**{name: {"kind": "category"} for name in text}, **given}


def labels(command: Any) -> Any:
    """Add the options for the values of a label column."""
    meanings = {
        "unlabelled": "unlabelled rows",
        "normal": "rows that were checked and are normal",
        "anomaly": "known anomalies",
    }
    for name, meaning in meanings.items():
        text = f"Label of {meaning}; may be repeated."
        command = click.option(f"--{name}", multiple=True, metavar="VALUE", help=text)(command)
    return command


seed = click.option(
    "--seed", default=0, show_default=True, help="Random seed; the same seed gives the same model."
)

input_format = click.option(
    "--format",
    "form",
    type=click.Choice(["csv", "jsonl"]),
    help="Format of standard input.  [default: csv]",
)


def read_options(
    encoding: str | None, missing: tuple[str, ...], model: TableModel | None = None
) -> ReadOptions:
    """Return how to read a table: like the training table, changed by the options of the command line."""
    from dplan.tables.chunks import ReadOptions

    trained = ReadOptions() if model is None else model.read_options
    return ReadOptions(encoding or trained.encoding, tuple(dict.fromkeys([*trained.missing, *missing])))


def source(table: str | Path, form: str | None) -> tuple[Path | BinaryIO, str]:
    """Return the table, a file or standard input for ``-``, and its format."""
    from dplan.tables.chunks import kind_of_file

    if str(table) != "-":
        path = Path(table)
        if not path.is_file():
            raise click.UsageError(f"file not found: {table}")
        return path, kind_of_file(path)
    if form == "parquet":
        raise click.UsageError("Parquet cannot be read from standard input")
    return sys.stdin.buffer, "jsonl" if form == "jsonl" else "csv"


def files(*paths: Path) -> list[Path]:
    """Return the paths except standard input."""
    return [path for path in paths if str(path) != "-"]


def warn_of_useless(columns: Mapping[str, str]) -> None:
    """Print a warning about columns without information for the model."""
    if columns:
        listed = [f"{name!r} ({reason})" for name, reason in list(columns.items())[:10]]
        more = f" and {len(columns) - 10:,} more" if len(columns) > 10 else ""
        echo(f"Warning: columns without information for the model: {', '.join(listed)}{more}.", err=True)
