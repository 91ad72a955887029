"""``dplan fit``: from a table to a model file."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplan.cli._shared import OneLineErrors, examples, say, stopwatch, training_bar

if TYPE_CHECKING:
    from dplan.detectors._base import Detector
    from dplan.tables import TableModel


@click.command(
    cls=OneLineErrors,
    short_help="Learn from a table and write a model file.",
    epilog=examples(
        "dplan fit payments.csv --label verdict --anomaly fraud --id payment_id -o fraud.dplan",
        "dplan fit sensors.parquet --label fault -o faults.dplan --detector DevNet --set n_epochs=100",
    ),
)
@click.argument("table", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--label", required=True, metavar="COLUMN", help="The column that marks known anomalies.")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Model file."
)
@click.option("--anomaly", multiple=True, metavar="VALUE", help="Label of known anomalies; may be repeated.")
@click.option(
    "--unlabelled", multiple=True, metavar="VALUE", help="Label of all other rows; may be repeated."
)
@click.option("--drop", multiple=True, metavar="COLUMN", help="A column not to learn from; may be repeated.")
@click.option(
    "--id", "ids", multiple=True, metavar="COLUMN", help="A column that identifies rows; may be repeated."
)
@click.option(
    "--detector", "name", default="DPLANEnsemble", show_default=True, help="One of dplan.list_detectors()."
)
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of the detector.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same model.")
@click.option("--no-estimate", is_flag=True, help="Do not hold out known anomalies first: twice as fast.")
@click.option(
    "--encoding", default="utf-8", show_default=True, help="How the characters of a text file are written."
)
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
    encoding: str,
) -> None:
    """Learn from TABLE (CSV, TSV, JSON lines, each also .gz, or Parquet) and write a model file.

    Without --anomaly and --unlabelled, the label column holds 0 or nothing for unlabelled rows and 1, 2, … for known
    anomalies. Part of the known anomalies are held out first, to see how high they rank; then all rows are learned.
    """
    from dplan.tables import fit_table, from_table

    detector = create(name, settings, seed)
    if not output.parent.is_dir():
        raise click.UsageError(f"there is no folder {output.parent} to write {output.name} into")
    with stopwatch() as seconds:
        own = from_table(
            table,
            label,
            anomaly=anomaly or None,
            unlabelled=unlabelled or None,
            id=ids,
            drop=drop,
            encoding=encoding,
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
            f"with {found['budget']:,} alerts, {found['known_in_budget']} of {found['known']} are found "
            f"(precision at least {found['known_in_budget'] / found['budget']:.0%}, as unlabelled rows may be "
            "anomalies too)."
        )
        if found["known"] < 10:
            say("With so few held out, this is a rough guess.")
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
