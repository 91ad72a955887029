"""The distribution of each column in the training rows, in the scored table and among its alerts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.columns.column import Column
from dplan.columns.cycles import CYCLES, WEEKDAYS, feature_positions
from dplan.columns.formatting import format_date, typical_values
from dplan.tables.model import TableModel

__all__ = ["MIN_ROWS", "Feature", "features"]

MIN_ROWS = 30  # fewer rows have no distribution to speak of
_LEVELS = 7


@dataclass(frozen=True)
class Feature:
    """A column: its distribution in the background rows, in the scored table and among the alerts.

    For a number, `edges` are the edges of the bins; otherwise `labels` name the bars and `edges` is None. Without
    alerts, `alerts` is None; with fewer than `MIN_ROWS` rows, `drift` is None.
    """

    column: Column
    labels: list[str]
    edges: NDArray[np.float64] | None
    background: NDArray[np.float64]
    table: NDArray[np.float64]
    alerts: NDArray[np.float64] | None
    drift: float | None
    importance: float
    typical: str


def features(
    model: TableModel, prepared: Floats, alerts: Floats, importance: NDArray[np.float64]
) -> list[Feature]:
    """Compare background rows, the table and its alerts by column, the most important column first."""
    groups = model.preparation.feature_groups()
    found = []
    for j, column in enumerate(model.preparation.columns_):
        own = groups == j
        parts = [
            part[:, own].astype(np.float64) for part in (model.background, prepared, alerts) if len(part)
        ]
        spread = _text_spread if column.kind == "text" else _date_spread if column.parts else _number_spread
        labels, edges, shares, drift = spread(column, parts)
        found.append(
            Feature(
                column,
                labels,
                edges,
                shares[0],
                shares[1],
                shares[2] if len(alerts) else None,
                drift if len(prepared) >= MIN_ROWS else None,
                float(importance[j]),
                typical_values(column, model.background[:, own]),
            )
        )
    return sorted(found, key=lambda feature: -feature.importance)


Spread = tuple[list[str], NDArray[np.float64] | None, list[NDArray[np.float64]], float]


def _text_spread(column: Column, parts: list[NDArray[np.float64]]) -> Spread:
    """Return the fractions of the most frequent levels and of all others; drift is the total variation distance."""
    means = [part.mean(axis=0) for part in parts]
    # With levels that were unseen in training.
    full = [np.append(mean, max(0.0, 1 - mean.sum())) for mean in means]
    drift = 0.5 * float(np.abs(full[0] - full[1]).sum())
    strongest = np.argsort(-np.maximum(full[0][:-1], full[-1][:-1]), kind="stable")[:_LEVELS]
    labels = [column.levels[level] for level in strongest]
    shares = [np.append(mean[strongest], max(0.0, 1 - mean[strongest].sum())) for mean in means]
    if max(share[-1] for share in shares) < 0.005:
        return labels, None, [share[:-1] for share in shares], drift
    n_others = len(column.levels) - len(strongest)
    others = f"{n_others:,} other levels and new ones" if n_others else "levels not seen in training"
    while others in labels:
        others = f"all {others}"
    return [*labels, others], None, shares, drift


def _date_spread(column: Column, parts: list[NDArray[np.float64]]) -> Spread:
    """Return the fractions in the hours of the day, or of the first cycle; drift is the total variation distance."""
    cycle = column.parts[0]
    n_bins = {"hour": 8, "weekday": 7}.get(cycle, 31)
    places = [feature_positions(cycle, part) * n_bins // CYCLES[cycle] for part in parts]
    shares = [np.bincount(place, minlength=n_bins) / max(1, len(place)) for place in places]
    labels = {
        "hour": [f"{hour}–{hour + 3} h" for hour in range(0, 24, 3)],
        "weekday": list(WEEKDAYS),
    }.get(cycle, [f"{day}." for day in range(1, 32)])
    return labels, None, shares, 0.5 * float(np.abs(shares[0] - shares[1]).sum())


def _number_spread(column: Column, parts: list[NDArray[np.float64]]) -> Spread:
    """Return the fractions in equal bins; drift is the Kolmogorov–Smirnov distance."""
    parts = [np.sort(part[:, 0]) for part in parts]
    background, table = parts[:2]
    low, high = np.quantile(np.concatenate([background, parts[-1]]), [0.005, 0.995])
    if column.kind == "flag":
        low, high = 0.0, 1.0
    n_bins = {"flag": 2, "date": 8}.get(column.kind, 18)
    edges = np.linspace(low, high if high > low else low + 1, n_bins + 1)
    shares = [np.histogram(np.clip(part, low, high), edges)[0] / len(part) for part in parts]
    at = np.concatenate([background, table])
    below = [np.searchsorted(part, at, "right") / len(part) for part in (background, table)]
    drift = float(np.abs(below[0] - below[1]).max())
    if column.kind == "flag":
        return ["false", "true"], None, shares, drift
    factor, shift, span = column.scaling()
    with np.errstate(over="ignore"):
        values = np.nan_to_num((edges * span + shift) / factor)  # the largest float if a value overflows
    if column.kind == "date":
        return [f"from {format_date(value)}" for value in values[:-1].tolist()], None, shares, drift
    return [], values, shares, drift
