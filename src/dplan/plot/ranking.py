"""Pictures of a ranking: scores, thresholds, precision and recall."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dplan.explain.drawing import LOWERS, RAISES, axes, plain
from dplan.metrics import RankedScores
from dplan.plot.style import GREY, groups_of, labelled, repeated, threshold_of, truth_of

__all__ = ["precision_recall", "scores", "threshold"]


def scores(model: Any, table: Any, y: ArrayLike | None = None, *, bins: int = 60, ax: Any = None) -> Any:
    """Draw how many rows have which score, and the threshold.

    Parameters
    ----------
    model : TableModel, TableDetector or Detector
        The fitted model.
    table : as in its ``anomaly_score``
        The rows.
    y : array-like of shape (n_rows,), optional
        Classes to draw apart, such as the truth: numbers or words.
    bins : int, default=60
        Number of bars from the lowest to the highest score.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The picture; the number of rows is on a logarithmic axis, so that few anomalies are seen.

    Examples
    --------
    >>> import dplan
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = dplan.IForest(random_state=0).fit(X)
    >>> dplan.plot.scores(detector, X).get_xlabel()
    'anomaly score'
    """
    found, picture = model.anomaly_score(table), axes(ax, figsize=(6, 3))
    edges = np.histogram_bin_edges(found, bins)
    groups = {"": np.ones(len(found), dtype=bool)} if y is None else groups_of(y, len(found))
    for (name, own), colour in zip(groups.items(), repeated(len(groups)), strict=True):
        picture.hist(found[own], edges, color=colour, alpha=0.65, label=name or None, log=True)
    picture.axvline(threshold_of(model), color=GREY, linestyle="--", label="threshold")
    picture.legend(frameon=False)
    return labelled(picture, "anomaly score", "rows")


def threshold(model: Any, table: Any, y: ArrayLike | None = None, *, ax: Any = None) -> Any:
    """Draw how the number of alerts, precision and recall depend on the threshold.

    Parameters
    ----------
    model : TableModel, TableDetector or Detector
        The fitted model.
    table : as in its ``anomaly_score``
        The rows.
    y : array-like of shape (n_rows,), optional
        Whether each row is an anomaly, for precision and recall; without it, only the share of alerts is drawn.
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The picture; the dashed line is the threshold of the model.

    Examples
    --------
    >>> import dplan
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> detector = dplan.IForest(random_state=0).fit(X)
    >>> ax = dplan.plot.threshold(detector, X, y=np.arange(200) < 5)
    >>> [line.get_label() for line in ax.get_lines()]
    ['alerts, share of rows', 'precision', 'recall', 'threshold']
    """
    found, picture = model.anomaly_score(table), axes(ax, figsize=(6, 3))
    levels, counts = np.unique(found, return_counts=True)
    levels, n_alerts = levels[::-1], np.cumsum(counts[::-1])
    picture.step(levels, n_alerts / len(found), color=GREY, where="post", label="alerts, share of rows")
    if y is not None:
        truth = truth_of(y, len(found))
        precision, recall = RankedScores(found).precision_recall(truth, ~truth)
        picture.step(levels, precision, color=LOWERS, where="post", label="precision")
        picture.step(levels, recall, color=RAISES, where="post", label="recall")
    picture.axvline(threshold_of(model), color=GREY, linestyle="--", label="threshold")
    picture.legend(frameon=False)
    picture.set_ylim(0, 1.03)
    return labelled(picture, "threshold: the lowest score of an alert", "share")


def precision_recall(
    y: ArrayLike, scores: ArrayLike | Mapping[str, ArrayLike], *, labels: bool = True, ax: Any = None
) -> Any:
    """Draw precision against recall, for one detector or several.

    Parameters
    ----------
    y : array-like of shape (n_rows,)
        Whether each row is an anomaly.
    scores : array-like of shape (n_rows,), or mapping of str to such
        Anomaly scores, or those of several detectors by name.
    labels : bool, default=True
        Say the area under each curve (AUC-PR).
    ax : matplotlib.axes.Axes, optional
        Where to draw.

    Returns
    -------
    matplotlib.axes.Axes
        The picture; the dotted line is what random scores would give.

    Examples
    --------
    >>> import dplan
    >>> ax = dplan.plot.precision_recall([1, 0, 1, 0], {"A": [9, 8, 7, 6], "B": [6, 7, 8, 9]})
    >>> [line.get_label() for line in ax.get_lines()]
    ['A (AUC-PR 0.83)', 'B (AUC-PR 0.50)', 'random']
    """
    named = scores if isinstance(scores, Mapping) else {"": scores}
    picture = axes(ax, figsize=(5, 4))
    for (name, own), colour in zip(named.items(), repeated(len(named)), strict=True):
        values = np.asarray(own, dtype=np.float64)
        truth = truth_of(y, len(values))
        ranked = RankedScores(values)
        areas = ranked.areas(truth, ~truth)
        if areas is None:
            raise ValueError("precision and recall need both anomalies and other rows in y")
        precision, recall = ranked.precision_recall(truth, ~truth)
        said = f"AUC-PR {areas[0]:.2f}" if labels else ""
        label = f"{plain(name)} ({said})" if name and said else plain(name) or said
        picture.step(recall, precision, color=colour, where="post", label=label or None)
    picture.axhline(truth.mean(), color=GREY, linestyle=":", label="random")
    picture.legend(frameon=False)
    picture.set_ylim(0, 1.03)
    return labelled(picture, "recall: share of anomalies found", "precision: share of alerts that are right")
