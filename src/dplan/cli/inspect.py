"""``dplan inspect``: describe a model file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dplan.cli._shared import MODEL, echo, examples

if TYPE_CHECKING:
    from dplan.persistence.model_file import Contents


@click.command(
    short_help="Describe a model file.",
    epilog=examples("dplan inspect fraud.dplan"),
)
@click.argument("model", type=MODEL)
def inspect(model: Path) -> None:
    """Describe MODEL: detector, settings, training, and columns with their ranges."""
    from dplan.persistence.model_file import model_file_errors, read

    # Read only the description, because importing the detectors takes longer than everything else.
    contents = read(model)
    with model_file_errors(contents.name):
        for line in _lines(contents):
            echo(line)


def _lines(contents: Contents) -> list[str]:
    found = contents.description
    parameters, summary, history = found["parameters"], found["summary"], found["history"]
    lines = [
        f"{contents.name}: {found['detector']}, format {found['format']}, written by dplan {contents.package}",
        f"Features: {found['n_features']}",
        f"Threshold: {-found['numbers']['offset_']:.6g} (contamination {parameters['contamination']:g})",
    ]
    if "changed" in found:  # not in older files
        changed = [f"{name}={parameters[name]!r}" for name in found["changed"] if name != "n_jobs"]
        lines.append("Settings that differ from the defaults: " + (", ".join(changed) or "none"))
    if "rows" in summary and "labels" in summary:
        counts = {**summary["labels"], "checked normal": summary.get("checked_normal", 0)}
        labels = ", ".join(f"{n:,} {label}" for label, n in counts.items() if n or label in summary["labels"])
        lines.append(f"Trained on {summary['rows']:,} rows: {labels}")
    if summary.get("estimate"):
        estimate = summary["estimate"]
        lines.append(
            f"Held-out known anomalies: {estimate['known']}; half of them rank above "
            f"{estimate['median_percentile']:.1f} % of unlabelled rows"
        )
    if history:
        last = ", ".join(
            f"{name.replace('_', ' ')} {_shown(values[-1])}" for name, values in history.items() if values
        )
        lines.append(f"Training: {len(next(iter(history.values())))} rounds; last round: {last}")
    if found.get("members"):
        members = [
            f"{kind['name']} {kind['weight']:.2f}" + f" ({kind['n_members']})" * (kind["n_members"] > 1)
            for kind in found["members"]
        ]
        lines.append("Weights in the score: " + ", ".join(members))
    return lines + _columns(contents)


def _columns(contents: Contents) -> list[str]:
    from dplan.tables.formatting import format_number

    found = contents.description
    if found["preparation"] is None:
        ranges = _ranges(contents)
        lines = [f"  {name}: {format_number(low)} to {format_number(high)}" for name, low, high in ranges]
        return ["Features and their ranges in training:", *lines]
    lines = ["Columns:"]
    for column in found["preparation"]["columns"]:
        if column["kind"] == "text":
            levels = column["levels"]
            what = f"{len(levels)} levels: {', '.join(levels[:8])}" + (", …" if len(levels) > 8 else "")
        elif column["kind"] == "date":
            what = "date"
        else:
            what = (
                f"{column['kind']}, {format_number(column['minimum'])} to {format_number(column['maximum'])}"
            )
        lines.append(f"  {column['name']}: {what}")
    dropped = found["summary"].get("dropped", {})
    return lines + [f"  {name}: dropped, {reason}" for name, reason in dropped.items()]


def _ranges(contents: Contents) -> list[tuple[str, float, float]]:
    """Return each feature's name, minimum and maximum; the inverse range of a constant feature is 0."""
    names = contents.description["feature_names"] or range(contents.description["n_features"])
    low, inverse = (contents.tensors[key].tolist() for key in ("column_low_", "column_inverse_"))
    scales: Any = zip(names, low, inverse, strict=True)
    return [(str(name), 2 * lo, 2 * (lo + (1 / factor if factor else 0.0))) for name, lo, factor in scales]


def _shown(value: float | None) -> str:
    return "nan" if value is None else f"{value:.4g}"
