"""How the commands read tables: the same options, files and warnings for all of them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from dplan.cli._shared import echo

if TYPE_CHECKING:
    import polars as pl

    from dplan.tables import ReadOptions, TableModel


def options(command: Any) -> Any:
    """Add the options for reading tables, the same in every command that reads one."""
    for option in (
        _noted("--sheet", metavar="NAME", help="Sheet of an Excel file.  [default: the first one]"),
        _noted(
            "--query",
            metavar="SQL",
            help="Query whose result is the table, if TABLE is a SQLite or DuckDB file.",
        ),
        click.option(
            "--missing",
            multiple=True,
            metavar="TEXT",
            help="Text that means a missing value, in addition to NA, NaN, null, ? and similar; may be repeated.",
        ),
        click.option("--encoding", help="Text encoding of TABLE.  [default: as in dplan fit, or detected]"),
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
    from dplan.columns.given import parse_column, read_columns

    given = {} if columns_file is None else read_columns(columns_file)
    try:
        given |= dict(map(parse_column, columns))
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    return {**{name: {"kind": "category"} for name in text}, **given}


def on_error(command: Any) -> Any:
    """Add the option for cells that cannot be used."""
    return click.option(
        "--on-error",
        type=click.Choice(["fail", "skip", "null"]),
        default="fail",
        show_default=True,
        help="At a cell that cannot be used: stop; skip the row and write it to a file beside the output; or treat the "
        "cell as missing.",
    )(command)


def _noted(name: str, **settings: Any) -> Any:
    """Return an option whose value `read_options` finds, so that commands need not pass it on."""

    def note(ctx: click.Context, option: click.Parameter, value: Any) -> None:
        ctx.meta[f"dplan.{option.name}"] = value

    return click.option(name, expose_value=False, callback=note, **settings)


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
    noted = click.get_current_context().meta
    return ReadOptions(
        encoding or trained.encoding,
        tuple(dict.fromkeys([*trained.missing, *missing])),
        noted.get("dplan.query"),
        noted.get("dplan.sheet"),
    )


def source(
    table: str | Path, form: str | None, output: Path | None = None
) -> tuple[Path | BinaryIO | list[Path], str]:
    """Return a table and its format: a file, the files of a folder or pattern, or standard input for ``-``."""
    from dplan.tables.reading import kind_of_source
    from dplan.tables.sources import files_of

    if str(table) == "-":
        if form not in (None, "csv", "tsv", "jsonl"):
            raise click.UsageError(f"{form} cannot be read from standard input")
        return sys.stdin.buffer, "jsonl" if form == "jsonl" else "csv"
    found = files_of(table, output)
    if found is None and not Path(table).is_file():
        raise click.UsageError(f"file not found: {table}")
    return found or Path(table), kind_of_source(found or Path(table))


def files(*paths: Path) -> list[Path]:
    """Return the files of some tables, without standard input."""
    from dplan.tables.sources import files_of

    given = [path for path in paths if str(path) != "-"]
    return [file for path in given for file in ([path] if path.is_dir() else files_of(path) or [path])]


def warn_of_useless(columns: Mapping[str, str]) -> None:
    """Print a warning about columns that differ from the training table, or have no information for the model."""
    if columns:
        listed = [f"{name!r} ({reason})" for name, reason in list(columns.items())[:10]]
        more = f" and {len(columns) - 10:,} more" if len(columns) > 10 else ""
        echo(f"Warning: columns that differ from the training table: {', '.join(listed)}{more}.", err=True)


def warn_of_mistakes(mistakes: Mapping[str, int], errors: Path | None) -> None:
    """Print a warning about cells that could not be used."""
    if mistakes:
        listed = ", ".join(f"{name!r} ({n:,})" for name, n in list(mistakes.items())[:10])
        done = "were treated as missing" if errors is None else f"were skipped with their rows; see {errors}"
        echo(f"Warning: cells that cannot be used {done}: {listed}.", err=True)


def keep_mistakes(mistakes: pl.DataFrame | None, output: Path, on_error: str) -> None:
    """Warn of cells of a training table that could not be used, and write the rows that were skipped to a file."""
    from dplan.tables.mistakes import errors_file, write_mistakes

    if mistakes is None or mistakes.height == 0:
        return
    errors = errors_file(output) if on_error == "skip" else None
    if errors is not None:
        write_mistakes(mistakes, errors)
    warn_of_mistakes(dict(mistakes.group_by("dplan_column", maintain_order=True).len().rows()), errors)
