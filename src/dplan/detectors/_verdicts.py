"""What verdicts count for in training: labelled anomalies, checked normal rows, and the confidence in each.

A verdict counts the same whichever way it goes: a checked normal row counts as much as a labelled anomaly, and so much
more than an unlabelled row, but all of them together count for at most half of what detectors learn as normal. A
detector that draws rows draws them uniformly from lists in which a row stands as often as it counts.
"""

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Weights = NDArray[np.float64]

_LARGEST_SHARE = 0.5
_COPIES = 10  # of a verdict of mean confidence, where confidences differ


def checked_share(anomalies: Weights, checked: Weights) -> float:
    """Return the share of checked rows in what is learned as normal, given the confidences of all verdicts.

    A checked row counts as much as a known anomaly.

    Examples
    --------
    >>> checked_share(np.ones(100), np.ones(20)), checked_share(np.ones(5), np.ones(20))
    (0.2, 0.5)
    """
    ratio = float(checked.sum()) / max(float(anomalies.sum()), 1e-9)
    return min(_LARGEST_SHARE, ratio) if len(checked) else 0.0


def repeated(rows: Indices, weights: Weights) -> Indices:
    """Return rows, each as often as its weight says, at least once; once if all weights are equal.

    Examples
    --------
    >>> repeated(np.array([3, 4]), np.ones(2)), np.bincount(repeated(np.array([0, 1]), np.array([0.5, 1.5])))
    (array([3, 4]), array([ 5, 15]))
    """
    if len(rows) == 0 or (weights == weights[0]).all():
        return rows
    return np.repeat(rows, np.maximum(1, np.rint(_COPIES * weights / weights.mean())).astype(np.int64))


def normal_rows(unlabelled: Indices, checked: Indices, weights: Weights, share: float) -> Indices:
    """Return unlabelled and checked rows, the latter repeated so that they make up the given share.

    Examples
    --------
    >>> np.bincount(normal_rows(np.arange(8), np.array([8, 9]), np.ones(2), share=0.5))
    array([1, 1, 1, 1, 1, 1, 1, 1, 4, 4])
    """
    if len(checked) == 0:
        return unlabelled
    total = share / (1 - share) * len(unlabelled)
    copies = np.maximum(1, np.rint(total * weights / weights.sum())).astype(np.int64)
    return np.concatenate([unlabelled, np.repeat(checked, copies)])


def balanced_weights(
    n_rows: int, anomalies: Indices, checked: Indices, anomaly_weights: Weights, checked_weights: Weights
) -> Weights:
    """Return the weight of each row if anomalies count as much as all other rows; the weights add up to `n_rows`.

    Examples
    --------
    >>> balanced_weights(8, np.array([0, 1]), np.array([2]), np.ones(2), np.ones(1))
    array([2. , 2. , 2. , 0.4, 0.4, 0.4, 0.4, 0.4])
    """
    share = checked_share(anomaly_weights, checked_weights)
    half = n_rows / 2
    n_unlabelled = n_rows - len(anomalies) - len(checked)
    weights = np.full(n_rows, (1 - share) * half / max(n_unlabelled, 1))
    weights[anomalies] = half * anomaly_weights / anomaly_weights.sum()
    if len(checked):
        weights[checked] = share * half * checked_weights / checked_weights.sum()
    return weights
