"""How the commands read tables: the same options, files and warnings for all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from dplan.cli._shared import echo

if TYPE_CHECKING:
    import polars as pl

    from dplan.tables import Input, TableModel
    from dplan.tables.words import Words


@dataclass(frozen=True)
class Reading:
    """How the options of a command say that its table is read."""

    sheet: str | None
    query: str | None
    missing: tuple[str, ...]
    encoding: str | None
    form: str | None = None

    def table(self, source: str | Path, model: TableModel | None = None) -> Input:
        """Return a table: a file, a folder, a pattern or - for standard input; read like that of a model."""
        from dplan.tables.input import Input

        settings = {"encoding": self.encoding or "auto", "sheet": self.sheet, "sql": self.query}
        if str(source) == "-":
            if self.form not in (None, "csv", "tsv", "jsonl"):
                raise click.UsageError(f"{self.form} cannot be read from standard input")
            form = "jsonl" if self.form == "jsonl" else "csv"
            found = Input(sys.stdin.buffer, form, **settings)  # type: ignore[arg-type]
        else:
            try:
                found = Input(source, **settings)  # type: ignore[arg-type]
            except FileNotFoundError as error:
                raise click.UsageError(str(error)) from error
        found = found.like(model)
        return replace(found, missing=tuple(dict.fromkeys([*found.missing, *self.missing])))


def grouped(name: str, record: Callable[..., Any], *options: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a decorator that adds options to a command, which gets their values as one record."""

    def add(command: Any) -> Any:
        before = len(getattr(command, "__click_params__", ()))

        @wraps(command)
        def run(**values: Any) -> Any:
            own = {key: values.pop(key) for key in keys}
            return command(**values, **{name: record(**own)})

        for option in options:
            option(run)
        keys = [parameter.name for parameter in cast(Any, run).__click_params__[before:]]
        return run

    return add


_INPUT = (
    click.option("--sheet", metavar="NAME", help="Sheet of an Excel file.  [default: the first one]"),
    click.option(
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
)


def _format(of: str, formats: Sequence[str]) -> Callable[[Any], Any]:
    text = f"Format of {of}.  [default: csv]"
    return click.option("--format", "form", type=click.Choice(formats), help=text)


# The options for reading tables, the same in every command that reads one. Some also read standard input, or write to
# standard output.
options = grouped("reading", Reading, *_INPUT)
options_and_format = grouped("reading", Reading, _format("standard input", ["csv", "jsonl"]), *_INPUT)
options_and_formats = grouped(
    "reading",
    Reading,
    _format("standard input and output", ["csv", "tsv", "jsonl", "parquet", "arrow"]),
    *_INPUT,
)


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


def _words(anomaly: tuple[str, ...], normal: tuple[str, ...], unlabelled: tuple[str, ...]) -> Words | None:
    from dplan.tables.words import Words

    return Words.of(anomaly or None, normal or None, unlabelled or None)


def _word(name: str, of: str) -> Callable[[Any], Any]:
    return click.option(f"--{name}", multiple=True, metavar="VALUE", help=f"Label of {of}; may be repeated.")


# The options for the words of a label column.
words = grouped(
    "words",
    _words,
    _word("unlabelled", "unlabelled rows"),
    _word("normal", "rows that were checked and are normal"),
    _word("anomaly", "known anomalies"),
)


seed = click.option(
    "--seed", default=0, show_default=True, help="Random seed; the same seed gives the same model."
)


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
