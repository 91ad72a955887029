"""The distribution of each column in the training rows, in the scored table and among its alerts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.columns.column import Column
from dplan.tables.model import TableModel

__all__ = ["MIN_ROWS", "Feature", "features"]

MIN_ROWS = 30  # fewer rows have no distribution to speak of


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
    drifts = model.reference.distances(model.reference.drift_of(prepared))
    found = []
    for j, column in enumerate(model.preparation.columns_):
        own = groups == j
        parts = [part[:, own] for part in (model.background, prepared, alerts) if len(part)]
        histogram = column.histogram(parts)
        found.append(
            Feature(
                column,
                histogram.labels,
                histogram.edges,
                histogram.shares[0],
                histogram.shares[1],
                histogram.shares[2] if len(alerts) else None,
                drifts[column.name] if len(prepared) >= MIN_ROWS else None,
                float(importance[j]),
                model.evidence.typical[j].text,
            )
        )
    return sorted(found, key=lambda feature: -feature.importance)
