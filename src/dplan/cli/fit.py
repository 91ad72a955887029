"""``dplan fit``: train a model on a table."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplan.cli import _reading
from dplan.cli._shared import OUTPUT, TABLE, echo, examples, stopwatch, training_progress

if TYPE_CHECKING:
    from dplan.detectors._base import Detector
    from dplan.tables import TableModel


@click.command(
    short_help="Train a model on a table.",
    epilog=examples(
        "dplan fit payments.csv --label verdict --anomaly fraud --id payment_id -o fraud.dplan",
        "dplan fit sensors.parquet --label fault -o faults.dplan --detector DevNet --set n_epochs=100",
    ),
)
@click.argument("table", type=TABLE)
@click.option("--label", required=True, metavar="COLUMN", help="Column that marks known anomalies.")
@click.option("-o", "--output", required=True, type=OUTPUT, help="Model file to write.")
@_reading.labels
@click.option("--drop", multiple=True, metavar="COLUMN", help="Column to ignore; may be repeated.")
@click.option(
    "--id", "ids", multiple=True, metavar="COLUMN", help="Column that identifies rows; may be repeated."
)
@click.option(
    "--detector",
    "name",
    default="DPLANEnsemble",
    show_default=True,
    help="Detector to train; `dplan detectors` lists them.",
)
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Parameter of the detector; may be repeated.",
)
@_reading.seed
@click.option(
    "--no-estimate", is_flag=True, help="Skip the estimate on held-out rows, which takes half of the time."
)
@click.option(
    "--text", multiple=True, metavar="COLUMN", help="Column to read as text, such as codes; may be repeated."
)
@_reading.columns
@_reading.options
@_reading.input_format
def fit(
    table: Path,
    label: str,
    output: Path,
    anomaly: tuple[str, ...],
    normal: tuple[str, ...],
    unlabelled: tuple[str, ...],
    drop: tuple[str, ...],
    ids: tuple[str, ...],
    name: str,
    settings: tuple[str, ...],
    seed: int,
    no_estimate: bool,
    text: tuple[str, ...],
    columns: tuple[str, ...],
    columns_file: Path | None,
    encoding: str | None,
    missing: tuple[str, ...],
    form: str | None,
) -> None:
    """Train a model on TABLE (CSV, TSV, JSON lines, each also .gz, or Parquet; - for standard input).

    Without --anomaly, --normal and --unlabelled, the label column is 0 or empty for unlabelled rows, 1, 2, … for known
    anomalies and -1 for rows that were checked and are normal. First, some known anomalies are held out to estimate how
    high they rank; then the model is trained on all rows.
    """
    from dplan.persistence.claim import claimed
    from dplan.tables import fit_table, from_table

    detector = create(name, settings, seed)
    source, kind = _reading.source(table, form)
    reading_as = _reading.read_options(encoding, missing)
    with claimed(output, _reading.files(table)), stopwatch() as seconds:
        labelled = from_table(
            source,
            label,
            anomaly=anomaly or None,
            normal=normal or None,
            unlabelled=unlabelled or None,
            id=ids,
            drop=drop,
            columns=_reading.given_columns(columns, columns_file, text),
            encoding=reading_as.encoding,
            missing=reading_as.missing,
            kind=kind,
        )
        reading = seconds()
        with training_progress(detector) as stage:
            model = fit_table(labelled, detector, estimate=not no_estimate, seed=seed, stage=stage)
        model.save(output)
        if labelled.values is not None:
            echo(f"Column {label}: {labelled.values.matches()}.")
        _print_summary("standard input" if str(table) == "-" else table.name, model, reading)
        echo(f"Wrote {output} ({output.stat().st_size / 1000:,.0f} kB) in {seconds():.1f} s.")


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


def _print_summary(name: str, model: TableModel, reading: float) -> None:
    from dplan.tables.label_values import described

    summary = model.summary
    kinds = ", ".join(f"{n} {kind}" for kind, n in summary["columns"].items())
    echo(f"{name}: {summary['rows']:,} rows; columns: {kinds}; {model.detector.n_features_in_} features.")
    echo(f"Labels: {described(summary['labels'], summary['checked_normal'])}.")
    for column, reason in summary["dropped"].items():
        echo(f"Dropped {column}: {reason}.")
    for column in model.preparation.columns_:
        if column.meaning is not None and not column.meaning.sure:
            echo(f"Check {column.name}: {column.meaning.why} (--column {column.name}=…).")
    found = summary["estimate"]
    if found is not None:
        echo(
            f"Estimate: {found['known']} known anomalies and {found['unlabelled']:,} unlabelled rows were held out. "
            f"Half of these anomalies rank above {found['median_percentile']:.1f} % of the unlabelled rows; "
            f"{found['budget']:,} alerts would find {found['known_in_budget']} of {found['known']} "
            f"(precision at least {100 * found['known_in_budget'] / found['budget']:.0f} %, because unlabelled rows "
            "may be anomalies too)."
        )
        if "checked" in found:
            n_alerts = found["alerts_found"] + found["false_alarms"]
            precision = (
                f"{100 * found['alerts_found'] / n_alerts:.0f} %" if n_alerts else "unknown: no alerts"
            )
            echo(
                f"Precision on rows with a verdict: {precision} ({found['alerts_found']} of {found['known']} held-out "
                f"anomalies and {found['false_alarms']} of {found['checked']} held-out normal rows are alerts)."
            )
        if found["known"] < 10:
            echo("With so few held-out anomalies, this is a rough estimate.")
    seconds = summary["seconds"]
    echo(
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
