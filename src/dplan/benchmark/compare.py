"""Comparing detectors on one task: how well they rank the test rows, and how long they take."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from rich.box import SIMPLE_HEAD
from rich.table import Table
from sklearn.base import clone
from sklearn.metrics import average_precision_score, roc_auc_score


class Task(Protocol):
    """What a comparison needs of a task; `dplan.datasets.scenario` returns such tasks."""

    @property
    def X(self) -> NDArray[np.floating]:
        """Training rows."""

    @property
    def y(self) -> NDArray[np.int64]:
        """Their labels: 0 for unlabelled, k for a labelled anomaly of class k."""

    @property
    def X_test(self) -> NDArray[np.floating]:
        """Test rows."""

    @property
    def known_mask(self) -> NDArray[np.bool_]:
        """Whether a test row is an anomaly of a class with labelled rows."""

    @property
    def unknown_mask(self) -> NDArray[np.bool_]:
        """Whether a test row is an anomaly of a class without any."""


@dataclass(frozen=True)
class Figures:
    """What one detector reached: on all test anomalies, on those of known and of unknown classes alone."""

    auc_pr: float
    auc_pr_known: float
    auc_pr_unknown: float
    auc_roc: float
    auc_roc_known: float
    auc_roc_unknown: float
    fit_seconds: float
    score_seconds: float


@dataclass(frozen=True)
class Outcome:
    """The figures of one detector for one seed."""

    detector: str
    seed: int
    figures: Figures


def compare(
    make_task: Callable[[int], Task],
    detectors: Mapping[str, Any],
    seeds: Iterable[int],
    on_outcome: Callable[[Outcome], None] | None = None,
) -> list[Outcome]:
    """Fit and score every detector once per seed.

    Parameters
    ----------
    make_task : callable
        Returns the task of a seed.
    detectors : mapping of str to detector
        Unfitted detectors by name. Copies are fitted, with the seed as `random_state`.
    seeds : iterable of int
        One run each.
    on_outcome : callable or None, default=None
        Called after every fit, for progress.

    Returns
    -------
    list of Outcome
        In the order of the runs.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> from dplan import IForest
    >>> def make_task(seed):
    ...     X, anomalous = np.random.default_rng(seed).normal(size=(600, 3)), np.arange(600) < 30
    ...     X[anomalous] += 4
    ...     return SimpleNamespace(
    ...         X=X, y=np.where(np.arange(600) < 5, 1, 0), X_test=X, y_test=anomalous.astype(int),
    ...         known_mask=anomalous, unknown_mask=np.zeros(600, dtype=bool))
    >>> outcome, = compare(make_task, {"iForest": IForest()}, seeds=[0])
    >>> outcome.figures.auc_roc > 0.9, outcome.figures.auc_roc_unknown
    (True, nan)
    """
    outcomes = []
    for seed in seeds:
        task = make_task(seed)
        for name, detector in detectors.items():
            outcome = Outcome(name, seed, judge(clone(detector).set_params(random_state=seed), task))
            outcomes.append(outcome)
            if on_outcome is not None:
                on_outcome(outcome)
    return outcomes


def judge(detector: Any, task: Task) -> Figures:
    """Fit a detector on a task and measure it on the test rows."""
    X, X_test = task.X, task.X_test  # prepared when they are first asked for, which is not to be timed
    started = time.perf_counter()
    detector.fit(X, task.y)
    fitted = time.perf_counter()
    scores = detector.anomaly_score(X_test)
    scored = time.perf_counter()
    curves = ranking_quality(scores, task.known_mask, task.unknown_mask)
    return Figures(**curves, fit_seconds=fitted - started, score_seconds=scored - fitted)


def ranking_quality(
    scores: NDArray[np.floating], known: NDArray[np.bool_], unknown: NDArray[np.bool_]
) -> dict[str, float]:
    """Return AUC-PR and AUC-ROC for all anomalies, and for each group of them against the normal rows alone.

    Examples
    --------
    >>> known, unknown = np.array([1, 0, 0, 0], bool), np.array([0, 0, 0, 1], bool)
    >>> quality = ranking_quality(np.array([4, 2, 1, 1.5]), known, unknown)
    >>> quality["auc_roc"], quality["auc_roc_known"], quality["auc_roc_unknown"]
    (0.75, 1.0, 0.5)
    """
    normal = ~(known | unknown)
    quality = {}
    for suffix, group in (("", known | unknown), ("_known", known), ("_unknown", unknown)):
        judged = normal | group
        possible = group.any() and normal.any()
        for name, measure in (("auc_pr", average_precision_score), ("auc_roc", roc_auc_score)):
            value = measure(group[judged], scores[judged]) if possible else np.nan
            quality[name + suffix] = float(value)
    return quality


def averages(outcomes: Iterable[Outcome]) -> dict[str, tuple[Figures, Figures]]:
    """Return mean and standard deviation of all figures over the seeds, per detector, in the order of appearance."""
    by_detector: dict[str, list[Figures]] = {}
    for outcome in outcomes:
        by_detector.setdefault(outcome.detector, []).append(outcome.figures)
    return {name: (_each(np.mean, runs), _each(np.std, runs)) for name, runs in by_detector.items()}


def _each(measure: Callable[[list[float]], Any], runs: list[Figures]) -> Figures:
    columns = {field.name: [getattr(run, field.name) for run in runs] for field in fields(Figures)}
    return Figures(**{name: float(measure(values)) for name, values in columns.items()})


def as_table(
    outcomes: Iterable[Outcome], title: str, published: Mapping[str, tuple[float, float]] | None = None
) -> Table:
    """Return a table for the terminal, one line per detector.

    Parameters
    ----------
    outcomes : iterable of Outcome
        From `compare`.
    title : str
        Stands above the table.
    published : mapping of str to (float, float) or None, default=None
        AUC-PR and AUC-ROC for all anomalies from elsewhere, by detector, to be shown beside ours.

    Returns
    -------
    rich.table.Table
    """
    # Without frames, so that it fits a terminal of 80 columns.
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    table.add_column("\ndetector", no_wrap=True)
    for curve in ("AUC-PR", "AUC-ROC"):
        for heading in (f"{curve}\nall", "\nknown", "\nunknown"):
            table.add_column(heading, justify="right", no_wrap=True)
        if published is not None:
            table.add_column("\npaper", justify="right", no_wrap=True)
    table.add_column("fit\ns", justify="right", no_wrap=True)
    table.add_column("score\ns", justify="right", no_wrap=True)
    for name, (mean, deviation) in averages(outcomes).items():
        cells = [name]
        for place, curve in enumerate(("auc_pr", "auc_roc")):
            cells.append(_with_deviation(getattr(mean, curve), getattr(deviation, curve)))
            cells += [_three_digits(getattr(mean, f"{curve}_{group}")) for group in ("known", "unknown")]
            if published is not None:
                cells.append(_three_digits(published[name][place]) if name in published else "–")
        table.add_row(*cells, f"{mean.fit_seconds:.2f}", f"{mean.score_seconds:.3f}")
    return table


def _three_digits(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _with_deviation(mean: float, deviation: float) -> str:
    return f"{_three_digits(mean)} ±{deviation:.3f}" if deviation > 0 else _three_digits(mean)
