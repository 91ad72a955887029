"""``dplan inspect``: show how a table is understood, or describe a model file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplan.cli import _options
from dplan.cli._options import TABLE, given_besides, name_of, repeated
from dplan.cli._terminal import echo, examples
from dplan.text import printable

if TYPE_CHECKING:
    import polars as pl

    from dplan.persistence.model_file import Contents
    from dplan.tables.words import Words


@click.command(
    short_help="Show how a table is understood, or describe a model file.",
    epilog=examples(
        "dplan inspect payments.csv",
        "dplan inspect payments.csv --column amount=number,decimal=comma --column booked=date,month-first",
        "dplan inspect fraud.dplan",
    ),
)
@click.argument("file", type=TABLE)
@repeated("--label", "COLUMN", "Column that marks known anomalies, or one class of them")
@_options.words
@repeated("--drop", "COLUMN", "Column to ignore")
@_options.ids
@_options.columns_and_text
@_options.reading_or_stream
def inspect(
    file: Path,
    label: tuple[str, ...],
    words: Words | None,
    drop: tuple[str, ...],
    ids: tuple[str, ...],
    columns: dict[str, dict[str, Any]],
    reading: _options.Reading,
) -> None:
    """Show how dplan understands each column of a table, and why, before anything is trained.

    FILE is a table as in dplan fit, - for standard input, or a model file: then its detector, settings, training and
    columns are described. The options are for tables, and the same as in dplan fit. Everything that would stop dplan
    fit is listed at once, with the option that solves it.
    """
    if file.suffix == ".dplan" or not _is_table(file):
        if options := given_besides("file"):
            raise click.UsageError(f"{options}: only for tables, and {file.name} is not one")
        _describe_model(file)
        return
    from dplan.tables.inspecting import inspect as inspected

    found = inspected(reading.table(file), label=label, words=words, id=ids, drop=drop, columns=columns)
    for name in columns:
        if name not in found.table.columns:
            raise click.UsageError(f"--column {name}: the table has no such column")
    _print_table(found.columns)
    for line in replace(found, name=name_of(file)).lines():
        echo(line)
    if found.problems:
        raise click.exceptions.Exit(1)


def _is_table(file: Path) -> bool:
    from dplan.tables.sources import format_of_file

    try:
        return str(file) == "-" or not file.is_file() or bool(format_of_file(file))
    except ValueError:
        return False


def _print_table(columns: pl.DataFrame) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for title in columns.columns[:-1]:
        shown.add_column(title, overflow="fold", justify="right" if title == "missing" else "left")
    for *cells, sure in columns.rows():
        shown.add_row(*(Text(printable(cell)) for cell in cells), style="" if sure else "yellow")
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    console.print(shown)


def _describe_model(file: Path) -> None:
    from dplan.exceptions import ModelFileError
    from dplan.persistence.model_file import model_file_errors, read
    from dplan.tables.sources import format_of_file

    # Read only the description, because importing the detectors takes longer than everything else.
    try:
        contents = read(file)
    except ModelFileError:
        if file.suffix != ".dplan":
            format_of_file(file)  # says which files are tables
        raise
    with model_file_errors(contents.name):
        for line in _lines(contents):
            echo(line)


def _lines(contents: Contents) -> list[str]:
    from dplan.tables.summary import Summary

    found = contents.description
    parameters, history = found["parameters"], found["history"]
    changed = [f"{name}={parameters[name]!r}" for name in found["changed"] if name != "n_jobs"]
    lines = [
        f"{contents.name}: {found['detector']}, format {found['format']}, written by dplan {contents.package}",
        f"Features: {found['n_features']}",
        f"Threshold: {-found['numbers']['offset_']:.6g} (contamination {parameters['contamination']:g})",
        "Settings that differ from the defaults: " + (", ".join(changed) or "none"),
    ]
    summary = None if found["preparation"] is None else Summary.from_json(found["summary"])
    if summary is not None:
        counts = {**summary.labels, "checked normal": summary.checked_normal}
        labels = ", ".join(f"{n:,} {label}" for label, n in counts.items() if n or label in summary.labels)
        lines.append(f"Trained on {summary.rows:,} rows: {labels}")
        lines += summary.expectations()
        if summary.updates and (compared := summary.updates[-1].get("compared")):
            lines.append(_update(summary.updates[-1]["ranking"], compared))
    if history:
        last = ", ".join(
            f"{name.replace('_', ' ')} {values[-1]:.4g}"
            for name, values in history.items()
            if values and values[-1] is not None
        )
        n_rounds = len(next(iter(history.values())))
        lines.append(f"Training: {n_rounds:,} round{'s' * (n_rounds != 1)}; last round: {last}")
    if found.get("members"):
        members = [
            f"{kind['name']} {kind['weight']:.2f}" + f" ({kind['n_members']})" * (kind["n_members"] > 1)
            for kind in found["members"]
        ]
        lines.append("Weights in the score: " + ", ".join(members))
    return lines + (_ranges(contents) if summary is None else _columns(contents, summary.dropped))


def _update(ranking: str, compared: Mapping[str, Any]) -> str:
    taken = "the new ranking" if ranking == "new" else "the old ranking, because the new one was worse"
    return (
        f"Last update: the model has {taken} (average precision on held-out verdicts {compared['before']:.2f} "
        f"before, {compared['after']:.2f} after)"
    )


def _columns(contents: Contents, dropped: Mapping[str, str]) -> list[str]:
    from dplan.columns import from_json

    lines = ["Columns:"]
    for column in map(from_json, contents.description["preparation"]["columns"]):
        lines.append(f"  {column.name}: {column.summary()}" + (f" ({column.why})" if column.why else ""))
    return lines + [f"  {name}: dropped, {reason}" for name, reason in dropped.items()]


def _ranges(contents: Contents) -> list[str]:
    from dplan.columns.formatting import format_number

    names = contents.description["feature_names"] or range(contents.description["n_features"])
    low, inverse = (contents.tensors[key].tolist() for key in ("column_low_", "column_inverse_"))
    lines = ["Features and their ranges in training:"]
    for name, lo, factor in zip(names, low, inverse, strict=True):
        hi = lo + (1 / factor if factor else 0.0)  # the inverse range of a constant feature is 0
        lines.append(f"  {name}: {format_number(2 * lo)} to {format_number(2 * hi)}")
    return lines
