"""``dplan inspect``: what a model file contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dplan.cli._shared import MODEL, examples, say


@click.command(
    short_help="Print what a model file contains.",
    epilog=examples("dplan inspect fraud.dplan"),
)
@click.argument("model", type=MODEL)
def inspect(model: Path) -> None:
    """Print what MODEL contains: detector, settings, columns with their ranges, training."""
    from dplan.detectors.ensemble import DPLANEnsemble
    from dplan.persistence import model_file
    from dplan.tables.formatting import number

    found = model_file.read(model)
    detector = found.detector
    say(
        f"{model.name}: {type(detector).__name__}, format {model_file.FORMAT}, written by dplan {found.package}"
    )
    say(f"Features: {detector.n_features_in_}")
    say(f"Threshold: {-detector.offset_:.6g} (contamination {detector.contamination:g})")
    say("Settings that differ from the defaults: " + (_differing(detector) or "none"))
    summary = found.summary
    if "rows" in summary and "labels" in summary:
        labels = ", ".join(f"{n:,} {label}" for label, n in summary["labels"].items())
        say(f"Trained on {summary['rows']:,} rows: {labels}")
    if summary.get("estimate"):
        estimate = summary["estimate"]
        say(
            f"Held-out known anomalies: {estimate['known']}; half of them rank above "
            f"{estimate['median_percentile']:.1f} % of unlabelled rows"
        )
    history = detector.history_
    if history:
        rounds = len(next(iter(history.values())))
        last = ", ".join(f"{name} {values[-1]:.4g}" for name, values in history.items() if values)
        say(f"Training: {rounds} rounds; last round: {last}")
    if isinstance(detector, DPLANEnsemble):
        say("Weights in the score: " + ", ".join(_members(detector)))
    if found.preparation is None:
        say("Features and their ranges in training:")
        for name, low, high in _ranges(detector):
            say(f"  {name}: {number(low)} to {number(high)}")
    else:
        say("Columns:")
        for column in found.preparation.columns_:
            if column.kind == "text":
                what = f"{len(column.levels)} levels: {', '.join(column.levels[:8])}" + (
                    ", …" if len(column.levels) > 8 else ""
                )
            elif column.kind == "date":
                what = "date"
            else:
                what = f"{column.kind}, {number(column.minimum)} to {number(column.maximum)}"
            say(f"  {column.name}: {what}")
        for name, reason in summary.get("dropped", {}).items():
            say(f"  {name}: dropped, {reason}")


def _ranges(detector: Any) -> list[tuple[str, float, float]]:
    """Return each feature's name, minimum and maximum; one that never changed has an inverse range of 0."""
    names = getattr(detector, "feature_names_in_", range(detector.n_features_in_))
    scales = zip(names, detector.column_low_.tolist(), detector.column_inverse_.tolist(), strict=True)
    return [
        (str(name), 2 * low, 2 * (low + (1 / inverse if inverse else 0.0))) for name, low, inverse in scales
    ]


def _members(detector: Any) -> list[str]:
    """Return the number of agents of each kind and their total weight."""
    from dplan.tables.members import kinds_of_members

    return [
        f"{kind.name} {kind.weight:.2f}" + f" ({kind.n_members})" * kind.name.endswith("agents")
        for kind in kinds_of_members(detector)
    ]


def _differing(detector: Any) -> str:
    defaults = type(detector)().get_params()
    return ", ".join(
        f"{name}={value!r}" for name, value in detector.get_params().items() if value != defaults[name]
    )
