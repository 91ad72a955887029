"""Alerts of a model that knows one class, and what groups and rules of them are worth."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.metrics import adjusted_mutual_info_score

from dplan import DPLANEnsemble
from dplan.arrays import Float32s, Float64s
from dplan.datasets import Task
from dplan.datasets.splits import Stream
from dplan.kinds.measures import wilson
from dplan.kinds.table import half_of
from dplan.rules.values import rule_type
from dplan.tables import fit_table, from_table
from dplan.tables.model import TableModel
from experiments.data.sources import AnyTask, load_task

__all__ = ["Alerts", "alerts_of", "described", "measures"]

Mask = NDArray[np.bool_]
Labels = NDArray[np.int64]

_TRAINING, _NORMAL, _ANOMALOUS_SHARE = 8_000, 6_000, 0.05
_UNLABELLED, _TESTED, _ANOMALIES = range(70, 73)
_ALERTS_PER_ANOMALY, _FEWEST, _MOST = 1.25, 50, 1_000


@dataclass(frozen=True, eq=False)
class Alerts:
    """The scored test rows of a task.

    Attributes
    ----------
    model : TableModel
        The model.
    table : DataFrame
        The test rows.
    prepared, scores
        Their features and scores.
    classes : ndarray of int
        Their true classes; 0 is normal.
    known : tuple of int
        The classes with labels.
    alert : ndarray of bool
        Which of them are alerts.
    """

    model: TableModel
    table: pl.DataFrame
    prepared: Float32s
    scores: Float64s
    classes: Labels
    known: tuple[int, ...]
    alert: Mask

    @cached_property
    def measuring(self) -> Mask:
        """Which rows measure rules; the others make them."""
        return half_of(self.prepared)

    @cached_property
    def effects(self) -> Float64s:
        """The positive effects of the alerts."""
        found = self.model.explain(None, self.prepared[self.alert], self.scores[self.alert])
        return np.maximum(found.effects, 0.0)

    @cached_property
    def types(self) -> dict[str, str]:
        """The columns that rules can use."""
        kinds = {name: rule_type(self.table[name]) for name in self.model.columns}
        return {name: kind for name, kind in kinds.items() if kind is not None}


def alerts_of(id: str, seed: int) -> Alerts:
    """Fit a model with 30 labelled rows of one class, and score test rows of which 5 % are anomalies."""
    task = load_task(id, seed, "resampled", 30, None)
    training, test = _frames(task)
    unlabelled = Stream(seed, _UNLABELLED).shuffled(np.flatnonzero(task.y == 0))[:_TRAINING]
    kept = np.sort(np.concatenate([np.flatnonzero(task.y), unlabelled]))
    names = pl.Series("label", [task.classes[k] if k else "" for k in task.y[kept]])
    anomaly = [task.classes[k] for k in task.known]
    own = from_table(training[kept].with_columns(names), label="label", anomaly=anomaly)
    model = fit_table(own, DPLANEnsemble(random_state=seed), estimate=False, seed=seed)
    tested = _tested(task.y_test, seed)
    table, classes = test[tested], task.y_test[tested]
    prepared = model.prepare(table)
    scores = model.scores_of(prepared)
    n = int(np.clip(round(_ALERTS_PER_ANOMALY * (classes > 0).sum()), _FEWEST, _MOST))
    alert = np.zeros(len(scores), dtype=np.bool_)
    alert[np.argsort(-scores, kind="stable")[:n]] = True
    return Alerts(model, table, prepared, scores, classes, task.known, alert)


def _frames(task: AnyTask) -> tuple[pl.DataFrame, pl.DataFrame]:
    if isinstance(task, Task):
        return task.features, task.features_test
    names = [f"x{i}" for i in range(task.X.shape[1])]
    return tuple(pl.from_numpy(np.asarray(rows), schema=names) for rows in (task.X, task.X_test))  # type: ignore[return-value]


def _tested(classes: Labels, seed: int) -> Labels:
    """Return normal rows, and anomalies of all classes alike, up to 5 %; all if there are fewer."""
    normal = Stream(seed, _TESTED).shuffled(np.flatnonzero(classes == 0))[:_NORMAL]
    share = round(_ANOMALOUS_SHARE / (1 - _ANOMALOUS_SHARE) * len(normal))
    numbers = [k for k in np.unique(classes).tolist() if k > 0]
    parts = [
        Stream(seed, _ANOMALIES, k).shuffled(np.flatnonzero(classes == k))[
            : max(8, round(share / len(numbers)))
        ]
        for k in numbers
    ]
    return np.sort(np.concatenate([normal, *parts]))


def described(found: Alerts, labels: Labels, rules: Sequence[Mask]) -> dict[str, float]:
    """Return what a method is worth: how its groups agree with classes, and how well its rules describe them.

    Parameters
    ----------
    found : Alerts
        The alerts.
    labels : ndarray of int
        The group of each alert.
    rules : sequence of ndarray of bool
        Which test rows each rule matches.
    """
    return measures(found.classes, found.known, found.alert, found.measuring, labels, rules)


def measures(
    classes: Labels,
    known: tuple[int, ...],
    alert: Mask,
    measuring: Mask,
    labels: Labels,
    rules: Sequence[Mask],
) -> dict[str, float]:
    """Return the measures of `described`, given the arrays.

    Examples
    --------
    >>> classes, alert = np.repeat([0, 1, 2], [60, 20, 20]), np.repeat([False, True], [60, 40])
    >>> rules = [classes == 1, classes == 2]
    >>> found = measures(classes, (1,), alert, np.arange(100) % 2 == 0, classes[alert], rules)
    >>> found["ami"], found["kinds"], round(found["classes"], 3), round(found["alerts"], 3)
    (1.0, 2, 0.787, 0.881)
    """
    own = classes[alert]
    result: dict[str, float] = {"ami": float(adjusted_mutual_info_score(own, labels))}
    for name, some in (("ami_anomalies", own > 0), ("ami_unlabelled", (own > 0) & ~np.isin(own, known))):
        if len(np.unique(own[some])) > 1 and some.sum() >= 10:
            result[name] = float(adjusted_mutual_info_score(own[some], labels[some]))
    by_class = []
    for number in np.unique(own[own > 0]).tolist():
        of_class = measuring & (classes == number) & alert
        if of_class.sum() < 2:
            continue
        worth = [
            wilson((rule & measuring & (classes == number)).sum(), (rule & measuring).sum())
            * (rule & of_class).sum()
            / of_class.sum()
            for rule in rules
        ]
        by_class.append(max(worth, default=0.0))
    if by_class:
        result["classes"] = float(np.mean(by_class))
    union = np.logical_or.reduce(rules) if rules else np.zeros_like(alert)
    matched = union & measuring
    result["alerts"] = float(
        wilson((matched & alert).sum(), matched.sum())
        * (matched & alert).sum()
        / max(1, (alert & measuring).sum())
    )
    result["kinds"] = len(np.unique(labels))
    return result
