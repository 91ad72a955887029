"""Scorers for scikit-learn's `cross_val_score`, `GridSearchCV` and their like.

scikit-learn's own scorers take the highest scores for the positive class; its outlier detectors give anomalies the
*lowest*, so ``scoring="roc_auc"`` rates a perfect detector 0. The scorers here have the right sign, and take the labels
that detectors take: k ≥ 1 is an anomaly, 0 is unlabelled and counts as normal, and so does -1, a row that someone has
checked.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

__all__ = ["average_precision", "roc_auc"]


def average_precision(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Return the area under the precision–recall curve, as average precision; 1 is perfect.

    Parameters
    ----------
    estimator : Detector or Pipeline
        Anything fitted that has scikit-learn's `score_samples`.
    X : array-like or frame of shape (n_rows, n_columns)
        Rows.
    y : array-like of shape (n_rows,)
        Their labels: k ≥ 1 for an anomaly, 0 or -1 for any other row.

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
    anomalous, scores = _ranked(estimator, X, y)
    return float(average_precision_score(anomalous, scores))


def roc_auc(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """Return the area under the ROC curve; 1 is perfect, 0.5 is chance.

    Parameters
    ----------
    estimator : Detector or Pipeline
        Anything fitted that has scikit-learn's `score_samples`.
    X : array-like or frame of shape (n_rows, n_columns)
        Rows.
    y : array-like of shape (n_rows,)
        Their labels: k ≥ 1 for an anomaly, 0 or -1 for any other row.
    """
    anomalous, scores = _ranked(estimator, X, y)
    return float(roc_auc_score(anomalous, scores))


def _ranked(estimator: Any, X: ArrayLike, y: ArrayLike) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    anomalous: NDArray[np.bool_] = np.asarray(y) > 0
    if anomalous.all() or not anomalous.any():
        raise ValueError(
            f"of {len(anomalous)} rows, {int(anomalous.sum())} are labelled as anomalies; some must be, and some not: "
            "cross-validate with sklearn.model_selection.StratifiedKFold, in no more folds than anomalies."
        )
    return anomalous, -np.asarray(estimator.score_samples(X), dtype=np.float64)
