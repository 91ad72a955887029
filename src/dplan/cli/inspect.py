"""``dplan inspect``: what a model file contains."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
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
    import json

    from dplan.exceptions import ModelFileError
    from dplan.persistence import container

    # The file's own description is enough: no detector is built, so nothing slow is imported.
    tensors, metadata = container.read(model)
    try:
        found = json.loads(metadata["dplan"])
        lines = [*_lines(found, tensors)]
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ModelFileError(f"{model.name} is not a usable dplan model file: {error!r}") from error
    say(f"{model.name}: {found['detector']}, format {found['format']}, written by dplan {found['package']}")
    for line in lines:
        say(line)


def _lines(found: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    parameters, summary = found["parameters"], found["summary"]
    lines = [
        f"Features: {found['n_features']}",
        f"Threshold: {-found['numbers']['offset_']:.6g} (contamination {parameters['contamination']:g})",
        "Settings that differ from the defaults: " + (_differing(found["detector"], parameters) or "none"),
    ]
    if "rows" in summary and "labels" in summary:
        labels = ", ".join(f"{n:,} {label}" for label, n in summary["labels"].items())
        lines.append(f"Trained on {summary['rows']:,} rows: {labels}")
    if summary.get("estimate"):
        estimate = summary["estimate"]
        lines.append(
            f"Held-out known anomalies: {estimate['known']}, half of them above "
            f"{estimate['median_percentile']:.1f} % of unlabelled rows"
        )
    history = found["history"]
    if history:
        rounds = len(next(iter(history.values())))
        last = ", ".join(
            f"{name} {float('nan') if values[-1] is None else values[-1]:.4g}"
            for name, values in history.items()
            if values
        )
        lines.append(f"Training: {rounds} rounds; the last: {last}")
    if "member_weights_" in tensors:
        lines.append("Weights in the score: " + ", ".join(_members(tensors)))
    return lines + (_ranges(found, tensors) if found["preparation"] is None else _columns(found))


def _columns(found: dict[str, Any]) -> list[str]:
    from dplan.tables.formatting import number

    lines = ["Columns:"]
    for column in found["preparation"]["columns"]:
        levels = column["levels"]
        if column["kind"] == "text":
            what = f"{len(levels)} levels: {', '.join(levels[:8])}" + (", …" if len(levels) > 8 else "")
        elif column["kind"] == "date":
            what = "date"
        else:
            what = f"{column['kind']}, {number(column['minimum'])} to {number(column['maximum'])}"
        lines.append(f"  {column['name']}: {what}")
    dropped = found["summary"].get("dropped", {})
    return lines + [f"  {name}: dropped, {reason}" for name, reason in dropped.items()]


def _ranges(found: dict[str, Any], tensors: dict[str, Any]) -> list[str]:
    """Tell each feature's minimum and maximum; one that never changed has an inverse range of 0."""
    from dplan.tables.formatting import number

    names = found["feature_names"] or range(found["n_features"])
    scales = zip(names, tensors["column_low_"].tolist(), tensors["column_inverse_"].tolist(), strict=True)
    return [
        "Features and the ranges that they had in training:",
        *(
            f"  {name}: {number(2 * low)} to {number(2 * (low + (1 / inverse if inverse else 0.0)))}"
            for name, low, inverse in scales
        ),
    ]


def _members(tensors: dict[str, Any]) -> list[str]:
    """Tell how many agents of each kind there are and what they weigh together."""
    from dplan.tables.members import kinds_of_members

    return [
        f"{kind.name} {kind.weight:.2f}" + f" ({kind.n_members})" * kind.name.endswith("agents")
        for kind in kinds_of_members(SimpleNamespace(**tensors))
    ]


def _differing(name: str, parameters: dict[str, Any]) -> str:
    from dplan.detectors._registry import list_detectors

    module = next((entry.module for entry in list_detectors() if entry.name == name), None)
    if module is None:
        raise ValueError(f"there is no detector {name!r}")
    defaults = _defaults(module, name)
    plain = {
        key: tuple(setting) if isinstance(setting, list) else setting for key, setting in parameters.items()
    }
    return ", ".join(
        f"{key}={setting!r}" for key, setting in plain.items() if setting != defaults.get(key, ...)
    )


def _defaults(module: str, name: str) -> dict[str, Any]:
    """Read the default settings of a detector from its source, because importing it would take seconds."""
    import ast
    from importlib.util import find_spec

    spec = find_spec(module)
    if spec is None or spec.origin is None:
        raise ValueError(f"there is no source of {module}")
    body = ast.parse(Path(spec.origin).read_text(encoding="utf-8")).body
    detector = next(node for node in body if isinstance(node, ast.ClassDef) and node.name == name)
    for node in detector.body:
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            pairs = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            return {a.arg: ast.literal_eval(default) for a, default in pairs if default is not None}
    parents = {base.id for base in detector.bases if isinstance(base, ast.Name)}
    for node in body:  # it takes those of the class that it derives from
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for imported in node.names:
                if imported.name in parents:
                    return _defaults(node.module, imported.name)
    raise ValueError(f"{name} has no settings")
