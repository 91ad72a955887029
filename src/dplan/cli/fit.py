"""``dplan fit``: from a table to a model file."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplan.cli import _reading
from dplan.cli._shared import OUTPUT, TABLE, examples, say, stopwatch, training_bar

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
@click.option("--anomaly", multiple=True, metavar="VALUE", help="Label of known anomalies; may be repeated.")
@click.option(
    "--unlabelled", multiple=True, metavar="VALUE", help="Label of unlabelled rows; may be repeated."
)
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
@click.option("--seed", default=0, show_default=True, help="Random seed; the same seed gives the same model.")
@click.option("--no-estimate", is_flag=True, help="Skip the estimate on held-out rows: twice as fast.")
@click.option(
    "--text", multiple=True, metavar="COLUMN", help="Column to keep as text, such as codes; may be repeated."
)
@_reading.options
@_reading.input_format
def fit(
    table: Path,
    label: str,
    output: Path,
    anomaly: tuple[str, ...],
    unlabelled: tuple[str, ...],
    drop: tuple[str, ...],
    ids: tuple[str, ...],
    name: str,
    settings: tuple[str, ...],
    seed: int,
    no_estimate: bool,
    text: tuple[str, ...],
    encoding: str | None,
    missing: tuple[str, ...],
    form: str | None,
) -> None:
    """Train a model on TABLE (CSV, TSV, JSON lines, each also .gz, or Parquet; - for standard input).

    Without --anomaly and --unlabelled, the label column is 0 or empty for unlabelled rows and 1, 2, … for known
    anomalies. First, some known anomalies are held out to estimate how high they rank; then the model is trained on all
    rows.
    """
    from dplan.persistence.claim import claimed
    from dplan.tables import fit_table, from_table

    detector = create(name, settings, seed)
    source, kind = _reading.source(table, form)
    reading_as = _reading.read_options(encoding, missing)
    with claimed(output, _reading.files(table)), stopwatch() as seconds:
        own = from_table(
            source,
            label,
            anomaly=anomaly or None,
            unlabelled=unlabelled or None,
            id=ids,
            drop=drop,
            text=text,
            encoding=reading_as.encoding,
            missing=reading_as.missing,
            kind=kind,
        )
        reading = seconds()
        with training_bar(detector) as stage:
            model = fit_table(own, detector, estimate=not no_estimate, seed=seed, stage=stage)
        model.save(output)
        tell(table.name, model, reading)
        say(f"Wrote {output} ({output.stat().st_size / 1000:,.0f} kB) in {seconds():.1f} s.")


def create(name: str, settings: tuple[str, ...], seed: int) -> Detector:
    """Return an unfitted detector by its name on the command line, with its settings."""
    from dplan.detectors._registry import list_detectors

    entries = {entry.name.casefold(): entry for entry in list_detectors()}
    if name.casefold() not in entries:
        raise click.UsageError(
            f"there is no detector {name!r}; there are {', '.join(e.name for e in entries.values())}"
        )
    detector: Detector = entries[name.casefold()].create(random_state=seed)
    allowed = sorted(set(detector.get_params()) - {"callback", "random_state"})
    if "n_jobs" in allowed:
        detector.set_params(n_jobs=-1)  # the command has the machine for itself
    for setting in settings:
        parameter, equals, text = setting.partition("=")
        if not equals or parameter not in allowed:
            raise click.UsageError(f"--set {setting}: write NAME=VALUE with one of {', '.join(allowed)}")
        detector.set_params(**{parameter: _value(text)})
    return detector


def tell(name: str, model: TableModel, reading: float) -> None:
    """Say what was done."""
    summary = model.summary
    kinds = ", ".join(f"{n} {kind}" for kind, n in summary["columns"].items())
    say(f"{name}: {summary['rows']:,} rows; columns: {kinds}; {model.detector.n_features_in_} features.")
    say("Labels: " + ", ".join(f"{n:,} {label}" for label, n in summary["labels"].items()) + ".")
    for column, reason in summary["dropped"].items():
        say(f"Dropped {column}: {reason}.")
    found = summary["estimate"]
    if found is not None:
        say(
            f"Estimate: {found['known']} known anomalies and {found['unlabelled']:,} unlabelled rows were held out. "
            f"Half of these anomalies rank above {found['median_percentile']:.1f} % of the unlabelled rows; "
            f"{found['budget']:,} alerts would find {found['known_in_budget']} of {found['known']} "
            f"(precision at least {found['known_in_budget'] / found['budget']:.0%}, because unlabelled rows may be "
            "anomalies too)."
        )
        if found["known"] < 10:
            say("With so few held-out anomalies, this is a rough estimate.")
    seconds = summary["seconds"]
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
