"""Pictures of rows and columns: effects, the map, drift."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dplan.explain.drawing import RAISES, axes, bars
from dplan.plot.style import GREY, groups_of, repeated
from dplan.report.data import projected
from dplan.scoring.files import as_model

__all__ = ["drift", "effects", "map"]

_MAP_ROWS = 2_000


def effects(explanation: Any, row: int = 0, *, k: int = 8, ax: Any = None) -> Any:
    """Draw what raises and what lowers the score of a row, as `Explanation.bar` does.

    Parameters
    ----------
    explanation : Explanation
        As from `TableModel.explain` or `dplan.explain.effects`.
    row : int, default=0
        Position of the row, from 0.
    k : int, default=8
        Number of columns to draw.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The picture.

    Examples
    --------
    >>> import dplan
    >>> explanation = dplan.explain.Explanation(np.array([[2.0, -0.5]]), np.array([2.5]), 1.0, ("amount", "items"))
    >>> dplan.plot.effects(explanation).get_xlabel()
    'effect on the score'
    """
    return explanation.bar(row, k=k, ax=ax)


def map(model: Any, table: Any, groups: Sequence[Any] | None = None, *, ax: Any = None) -> Any:
    """Draw rows on a plane: rows that the detector finds similar are close together.

    Parameters
    ----------
    model : TableModel or TableDetector
        The fitted model.
    table : as in its ``anomaly_score``
        The rows; of more than 2,000, the highest scores and a sample of the others.
    groups : sequence, optional
        The group of each row, drawn in a colour of its own; by default, alerts and other rows.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The picture; rings are known anomalies of the training table.

    Examples
    --------
    >>> import dplan, polars as pl
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "items": [1, 2] * 51})
    >>> detector = dplan.TableDetector(dplan.LogisticBaseline()).fit(table, [0] * 100 + [1, 1])
    >>> dplan.plot.map(detector, table).get_legend() is not None
    True
    """
    fitted, picture = as_model(model), axes(ax, figsize=(5, 4))
    rows = fitted.prepare(model._checked(table))
    found = fitted.scores_of(rows)
    named = groups if groups is not None else np.where(fitted.is_alert(found), "alerts", "other rows")
    members = groups_of(named, len(rows))
    some = np.random.default_rng(0).permutation(len(rows))
    some = some[np.argsort(~fitted.is_alert(found)[some], kind="stable")][:_MAP_ROWS]
    known = fitted.known_anomalies
    places = projected(fitted, np.concatenate([rows[some], known]), len(some))
    ours = dict(zip(members, repeated(len(members)), strict=True))
    if groups is None:
        ours = {"alerts": RAISES, "other rows": GREY}
    for name in sorted(members, key=lambda one: -int(members[one].sum())):
        own = members[name][some]
        if own.any():
            x, y = places[: len(some)][own].T
            picture.scatter(x, y, s=14, color=ours[name], alpha=0.7, linewidths=0, label=name)
    if len(known):
        x, y = places[len(some) :].T
        picture.scatter(x, y, s=42, facecolors="none", edgecolors="black", label="known anomalies")
    picture.legend(frameon=False)
    picture.set_xticks([])
    picture.set_yticks([])
    return picture


def drift(model: Any, table: Any, *, k: int = 12, ax: Any = None) -> Any:
    """Draw how much the columns of a table differ from the training rows, the most first.

    Parameters
    ----------
    model : TableModel or TableDetector
        The fitted model.
    table : as in its ``anomaly_score``
        The rows, at least 50 of them.
    k : int, default=12
        Number of columns to draw.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The picture: 0 means the same distribution as in training, 1 no overlap.

    Examples
    --------
    >>> import dplan, polars as pl
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "items": [1, 2] * 51})
    >>> detector = dplan.TableDetector(dplan.LogisticBaseline()).fit(table, [0] * 100 + [1, 1])
    >>> ax = dplan.plot.drift(detector, table.with_columns(pl.col("amount") + 500))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['amount', 'items']
    """
    fitted = as_model(model)
    rows = fitted.prepare(model._checked(table))
    found = fitted.reference.distances(fitted.reference.drift_of(rows))
    ordered = sorted(found.items(), key=lambda one: -one[1])[:k]
    picture = bars([name for name, _ in ordered], np.array([own for _, own in ordered]), "", ax)
    picture.set_xlim(0, 1)
    picture.set_xlabel("drift: 0 is the distribution of training, 1 no overlap")
    return picture
