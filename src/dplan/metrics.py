"""Metrics of a ranking: AUC-PR, AUC-ROC, and precision among the highest scores.

All areas are computed from one sort of the scores. scikit-learn would sort and validate again for every group of
anomalies, which takes longer than some detectors take to fit.

`average_precision` and `roc_auc` are scorers for scikit-learn's `cross_val_score`, `GridSearchCV` and similar
functions. scikit-learn's own scorers expect high scores for the positive class, but its outlier detectors give
anomalies low scores: ``scoring="roc_auc"`` gives a perfect detector 0. These scorers have the right sign, and accept
the labels of detectors.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan.arrays import Float64s, highest_first

__all__ = ["RankedScores", "average_precision", "precision_at", "roc_auc"]

Mask = NDArray[np.bool_]


class RankedScores:
    """Scores in descending order, to evaluate many groups of rows.

    Parameters
    ----------
    scores : ndarray
        Higher means more anomalous.

    Examples
    --------
    >>> ranked = RankedScores(np.array([0.9, 0.5, 0.8, 0.1]))
    >>> anomalous = np.array([True, False, False, True])
    >>> ranked.areas(anomalous, ~anomalous)  # AUC-PR and AUC-ROC
    (0.75, 0.5)
    """

    def __init__(self, scores: NDArray[np.floating]) -> None:
        self._order = highest_first(scores)
        self._scores = scores[self._order]

    def areas(self, anomalous: Mask, normal: Mask) -> tuple[float, float] | None:
        """Return AUC-PR (average precision) and AUC-ROC of some rows against others; None if either is empty."""
        if not (anomalous.any() and normal.any()):
            return None
        hits, misses = self._counts(anomalous, normal)
        recall = hits / hits[-1]
        average_precision = np.sum(np.diff(recall, prepend=0.0) * hits / (hits + misses))
        roc = np.trapezoid(np.append(0, hits), np.append(0, misses)) / (hits[-1] * misses[-1])
        return float(average_precision), float(roc)

    def precision_recall(self, anomalous: Mask, normal: Mask) -> tuple[Float64s, Float64s]:
        """Return precision and recall for every threshold, the highest first; both groups must have rows.

        Examples
        --------
        >>> anomalous = np.array([True, False, True])
        >>> RankedScores(np.array([3.0, 2.0, 1.0])).precision_recall(anomalous, ~anomalous)[1]
        array([0.5, 0.5, 1. ])
        """
        hits, misses = self._counts(anomalous, normal)
        return hits / (hits + misses), hits / hits[-1]

    def _counts(self, anomalous: Mask, normal: Mask) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Count anomalous and normal rows at or above each distinct score."""
        compared = (anomalous | normal)[self._order]
        scores, truth = self._scores[compared], anomalous[self._order][compared]
        ends = np.flatnonzero(np.append(scores[1:] != scores[:-1], True))  # tied rows count together
        hits = np.cumsum(truth, dtype=np.int64)[ends]
        return hits, ends + 1 - hits


def precision_at(top: int, anomalous: Mask, scores: NDArray[np.floating]) -> float:
    """Return the fraction of anomalies among the `top` highest scores; ties at the boundary count fractionally.

    Examples
    --------
    >>> precision_at(2, np.array([True, False, True, False]), np.array([3.0, 2.0, 2.0, 1.0]))
    0.75
    """
    top = min(top, len(scores))
    edge = np.partition(scores, len(scores) - top)[len(scores) - top]
    above, level = scores > edge, scores == edge
    found = anomalous[above].sum() + anomalous[level].mean() * (top - above.sum())
    return float(found / top)


def average_precision(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Score an estimator by AUC-PR, the area under the precision–recall curve; 1 is perfect.

    Parameters
    ----------
    estimator : Detector or Pipeline
        Any fitted estimator with scikit-learn's `score_samples`.
    X : array-like or frame of shape (n_rows, n_columns)
        Rows.
    y : array-like of shape (n_rows,)
        Their labels: k ≥ 1 for an anomaly; 0 for an unlabelled row, which counts as normal; -1 for a checked normal
        row.

    Examples
    --------
    >>> from sklearn.model_selection import StratifiedKFold, cross_val_score
    >>> from dplan import LogisticBaseline
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> X[:30] += 3
    >>> y = (np.arange(300) < 30).astype(int)
    >>> found = cross_val_score(LogisticBaseline(), X, y, scoring=average_precision, cv=StratifiedKFold(3))
    >>> bool((found > 0.9).all())
    True
    """
    return _areas(estimator, X, y)[0]


def roc_auc(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Score an estimator by AUC-ROC, the area under the ROC curve; 1 is perfect, 0.5 is chance.

    Parameters
    ----------
    estimator, X, y
        As in `average_precision`.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> X, y = [[0], [1], [2], [3], [9]], [0, 0, 0, 0, 1]
    >>> roc_auc(LogisticBaseline().fit(X, y), X, y)
    1.0
    """
    return _areas(estimator, X, y)[1]


def _areas(estimator: Any, X: ArrayLike, y: ArrayLike) -> tuple[float, float]:
    anomalous: Mask = np.asarray(y) > 0
    scores = -np.asarray(estimator.score_samples(X), dtype=np.float64)
    areas = RankedScores(scores).areas(anomalous, ~anomalous)
    if areas is None:
        raise ValueError(
            f"{int(anomalous.sum())} of {len(anomalous)} rows are labelled as anomalies; both classes are required. "
            "Cross-validate with sklearn.model_selection.StratifiedKFold, with no more folds than anomalies."
        )
    return areas
