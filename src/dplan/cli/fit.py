"""``dplan fit``: train a model on a table."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplan.cli import _options
from dplan.cli._ahead import compile_ahead
from dplan.cli._options import TABLE, files_read, name_of, repeated
from dplan.cli._terminal import (
    examples,
    keeping_bad_rows,
    say,
    status,
    stopwatch,
    training_progress,
    warnings_as_lines,
)

if TYPE_CHECKING:
    from dplan.detectors._base import Detector
    from dplan.tables import TableModel
    from dplan.tables.bad_cells import OnError
    from dplan.tables.words import Words
    from dplan.tables.writing import Output


@click.command(
    short_help="Train a model on a table.",
    epilog=examples(
        "dplan fit payments.csv --label verdict --anomaly fraud --id payment_id -o fraud.dplan",
        "dplan fit machines.csv --label leak --label noise -o machines.dplan",
        "dplan fit sensors.parquet --label fault -o faults.dplan --detector DevNet --set n_epochs=100",
    ),
)
@click.argument("table", type=TABLE)
@click.option(
    "--label",
    required=True,
    multiple=True,
    metavar="COLUMN",
    help="Column that marks known anomalies; may be repeated for columns that mark one class each.",
)
@_options.output("Model file to write.")
@_options.words
@repeated("--drop", "COLUMN", "Column to ignore")
@_options.ids
@click.option(
    "--detector",
    "name",
    default="DPLANEnsemble",
    show_default=True,
    help="Detector to train; `dplan detectors` lists them.",
)
@repeated("--set", "NAME=VALUE", "Parameter of the detector", "settings")
@_options.seed
@click.option(
    "--no-estimate", is_flag=True, help="Skip the estimate on held-out rows, which takes most of the time."
)
@click.option(
    "--budget",
    type=click.IntRange(1),
    metavar="N",
    help="Estimate how many of N alerts will be right.  [default: 50, or fewer for a small table]",
)
@_options.columns_and_text
@click.option(
    "--sample",
    type=click.IntRange(1_000),
    default=300_000,
    show_default=True,
    metavar="N",
    help="Train on at most N unlabelled rows and N checked normal rows, drawn from all of TABLE, and on all known "
    "anomalies.",
)
@_options.on_error
@_options.reading_or_stream
def fit(
    table: Path,
    label: tuple[str, ...],
    output: Output,
    words: Words | None,
    drop: tuple[str, ...],
    ids: tuple[str, ...],
    name: str,
    settings: tuple[str, ...],
    seed: int,
    no_estimate: bool,
    budget: int | None,
    columns: dict[str, dict[str, Any]],
    sample: int,
    on_error: OnError,
    reading: _options.Reading,
) -> None:
    """Train a model on TABLE.

    TABLE is a CSV, TSV or JSON lines file (each also .gz or .zst), a Parquet, Arrow, Feather or Excel file, a SQLite or
    DuckDB file, a folder or glob pattern of such files, or - for standard input. It may be larger than memory.

    Without --anomaly, --normal and --unlabelled, the label column is 0 or empty for unlabelled rows, 1, 2, … for known
    anomalies and -1 for rows that were checked and are normal; or no and yes. First, known anomalies are held out, each
    of them once, to estimate how many alerts will be right; then the model is trained on all rows.
    """
    from dplan.tables import fit_table, from_table

    if no_estimate and budget is not None:
        raise click.UsageError("--budget is for the estimate, and --no-estimate skips it")
    compile_ahead("fit", name)  # before scikit-learn is imported, which takes a second
    detector = create(name, settings, seed)
    given = reading.table(table)
    with output.claimed(given, *files_read()), nothing_written(), warnings_as_lines(), stopwatch() as seconds:
        status(f"Reading {table}")
        labelled = from_table(
            given,
            label,
            words=words,
            id=ids,
            drop=drop,
            columns=columns,
            sample=sample,
            seed=seed,
            on_error=on_error,
        )
        seconds_reading = seconds()
        with training_progress(detector) as stage:
            model = fit_table(
                labelled, detector, estimate=not no_estimate, budget=budget, seed=seed, stage=stage
            )
        with keeping_bad_rows(labelled.bad, output, on_error):
            model.save(output.file)
        if labelled.words is not None and labelled.labels is not None:
            say(f"Column {labelled.label}: {labelled.labels.matches()}.")
        _print_summary(name_of(table), model, seconds_reading, not no_estimate)
        say(f"Wrote {output.file} ({output.file.stat().st_size / 1000:,.0f} kB) in {seconds():.1f} s.")


@contextmanager
def nothing_written() -> Iterator[None]:
    """Say after an interruption that the training has to start over."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as error:
        error.add_note("No model was written; run the same command again to start over.")
        raise


def create(name: str, settings: tuple[str, ...], seed: int) -> Detector:
    """Return an unfitted detector by its name on the command line, with its settings."""
    from dplan.detectors._registry import list_detectors

    entries = {entry.name.casefold(): entry for entry in list_detectors()}
    if name.casefold() not in entries:
        raise click.UsageError(
            f"unknown detector {name!r}; choose from {', '.join(e.name for e in entries.values())}"
        )
    detector: Detector = entries[name.casefold()].create(random_state=seed)
    allowed = sorted(set(detector.get_params()) - {"callback", "random_state"})
    if "n_jobs" in allowed:
        detector.set_params(n_jobs=-1)  # the command may use the whole machine
    for setting in settings:
        parameter, equals, text = setting.partition("=")
        if not equals or parameter not in allowed:
            raise click.UsageError(f"--set {setting}: write NAME=VALUE with one of {', '.join(allowed)}")
        detector.set_params(**{parameter: _value(text)})
    return detector


def _print_summary(name: str, model: TableModel, reading: float, estimated: bool) -> None:
    from dplan.tables.words import described

    summary = model.summary
    kinds = ", ".join(f"{n} {kind}" for kind, n in summary.columns.items())
    say(f"{name}: {summary.rows:,} rows; columns: {kinds}; {model.detector.n_features_in_} features.")
    if summary.sampled is not None:
        say(f"Trained on {summary.sampled:,} of these rows: all known anomalies and a sample of the others.")
    say(f"Labels: {described(summary.labels, summary.checked_normal)}.")
    for left_out, reason in summary.dropped.items():
        say(f"Dropped {left_out}: {reason}.")
    for column in model.preparation.columns_:
        if not column.sure:
            say(f"Check {column.name}: {column.why} (--column {column.name}=…).")
    if summary.estimate is not None:
        say(f"Estimate: {' '.join(summary.expectations())}")
    elif estimated:
        n_known = sum(summary.labels[name] for name in summary.classes)
        say(f"Estimate: {n_known:,} known anomalies are too few to tell how many alerts will be right.")
    seconds = summary.seconds
    say(
        f"Seconds: reading {reading:.1f}, preparing {seconds['preparing']:.1f}, "
        f"estimating {seconds['estimating']:.1f}, training {seconds['training']:.1f}."
    )


def _value(text: str) -> Any:
    lowered = text.strip()
    if lowered in ("true", "false"):
        return lowered == "true"
    try:
        return ast.literal_eval(lowered)
    except (ValueError, SyntaxError):
        return lowered
