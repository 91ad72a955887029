"""The rows that a detector learns from and compares with: labels, what they count for, and what stands in for them.

A verdict counts the same whichever way it goes: a checked normal row counts as much as a labelled anomaly, and so much
more than an unlabelled row, but all of them together count for at most half of what detectors learn as normal. A
detector that draws rows draws them uniformly from lists in which a row stands as often as it counts.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.forest import grow, isolation_scores, new_forest
from dplan.arrays import Float32s
from dplan.detectors._checks import check_confidence, check_labels, warn_of_many_anomalies
from dplan.exceptions import NoLabelsWarning

Indices = NDArray[np.int64]
Weights = NDArray[np.float64]

_LARGEST_SHARE = 0.5
_COPIES = 10  # of a verdict of mean confidence, where confidences differ

# iForest's recommended settings.
_N_TREES, _TREE_SIZE = 100, 256

# If no row is labelled, this fraction of the rows, but at least this many, are used as pseudo-anomalies.
_FRACTION, _FEWEST = 0.01, 10

_BLOCK_ROWS = 128  # fits into a processor's cache: every tree scores every row

# This many rows are enough for the quantiles.
_REFERENCE_ROWS = 50_000
SHARES = np.linspace(0, 1, 1001)


class Labelling(NamedTuple):
    """The labels of a training table, and the confidence in them.

    Examples
    --------
    >>> labelling = Labelling(np.array([0, 2, -1, 0]), np.array([1.0, 0.5, 2.0, 1.0]))
    >>> labelling.anomalies, labelling.checked, labelling.unlabelled, labelling.normal
    (array([1]), array([2]), array([0, 3]), array([0, 2, 3]))
    >>> labelling.confidence_in(np.array([2, 3]))
    array([2., 1.])
    """

    labels: Indices  # 0: unlabelled, k >= 1: an anomaly of class k, -1: checked and normal
    confidence: Weights | None = None  # 1 for unlabelled rows; None if all verdicts count the same

    @property
    def anomalies(self) -> Indices:
        """Indices of the labelled anomalies."""
        return np.flatnonzero(self.labels > 0)

    @property
    def checked(self) -> Indices:
        """Indices of the rows that were checked and are normal."""
        return np.flatnonzero(self.labels < 0)

    @property
    def unlabelled(self) -> Indices:
        """Indices of the rows without a verdict."""
        return np.flatnonzero(self.labels == 0)

    @property
    def normal(self) -> Indices:
        """Indices of all rows but labelled anomalies."""
        return np.flatnonzero(self.labels <= 0)

    def confidence_in(self, rows: Indices) -> Weights:
        """Return the confidence in the verdicts of some rows, 1 for rows without one."""
        return np.ones(len(rows)) if self.confidence is None else self.confidence[rows]

    def checked_share(self, anomalies: Indices) -> float:
        """Return the share of checked rows in what is learned as normal, beside these anomalies."""
        return checked_share(self.confidence_in(anomalies), self.confidence_in(self.checked))


def read_labelling(
    y: Any, sample_weight: Any, n_rows: int, detector: str, needed: bool, *, more: bool = False
) -> Labelling:
    """Check labels and weights; warn if there is no anomaly, or nothing else, and the detector needs labels.

    Unless the rows come in addition to others (`more`), also warn if most of them are labelled as anomalies.

    Examples
    --------
    >>> read_labelling([0, 1, -1, 1], [5, 1, 0.5, 0], 4, "DPLAN", needed=True)
    Labelling(labels=array([ 0,  1, -1,  0]), confidence=array([1. , 1. , 0.5, 1. ]))
    """
    labels, weights = check_labels(y, n_rows), check_confidence(sample_weight, n_rows)
    if needed and not more:
        warn_of_many_anomalies(labels, "y", "Convert it with y = (y == -1).astype(int)", stacklevel=3)
    if weights is None:
        return Labelling(_usable(labels, detector, needed))
    labels = _usable(np.where(weights > 0, labels, 0), detector, needed)
    confidence = np.where(labels != 0, weights, 1.0)
    return Labelling(labels, confidence if len(np.unique(weights[labels != 0])) > 1 else None)


def _usable(labels: NDArray[np.int64], detector: str, needed: bool) -> NDArray[np.int64]:
    """Return labels to learn from; warn if they contain no anomaly or nothing else.

    Labelling every row is only a warning because scikit-learn's estimator checks require that such a y is accepted.
    If there are no unlabelled rows, or too few to find pseudo-anomalies among them, the checked normal rows count as
    unlabelled.
    """
    known = labels > 0
    if np.count_nonzero(labels == 0) < (1 if known.any() else 2):
        labels = np.maximum(labels, 0)
    if known.any() != known.all() or not (known.any() or needed):
        return labels
    if known.all():
        found = f"y labels all {len(labels)} rows as anomalies, so there are no other rows to compare with"
        advice = "Add unlabelled rows to X, with 0 in y"
    else:
        found = "y labels no row as an anomaly"
        advice = "Set y to k >= 1 for known anomalies"
    warnings.warn(
        f"{found}; {detector} falls back to an unsupervised ranking. {advice}.", NoLabelsWarning, stacklevel=4
    )
    return np.minimum(labels, 0)


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


def raw_isolation_scores(rows: Float32s, chosen: Indices, rng: np.random.Generator) -> Float32s:
    """Return the isolation scores of chosen rows by a forest grown on their raw features.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(500, 3)).astype(np.float32)
    >>> rows[7] = 9
    >>> int(raw_isolation_scores(rows, np.arange(500), rng).argmax())
    7
    """
    forest = new_forest(_N_TREES, min(_TREE_SIZE, len(chosen)))
    for tree in range(_N_TREES):
        grow(forest, tree, rows[rng.choice(chosen, forest.tree_size, replace=False)], rng)
    pieces = (chosen[start : start + _BLOCK_ROWS] for start in range(0, len(chosen), _BLOCK_ROWS))
    return np.concatenate([isolation_scores(forest, rows[piece]) for piece in pieces])


def split_most_isolated(
    rows: Float32s, unlabelled: Indices, count: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Split the unlabelled rows into those that are easiest to isolate and the others; at least one row remains.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(500, 3)).astype(np.float32)
    >>> rows[7] = 9
    >>> most, others = split_most_isolated(rows, np.arange(500), 1, rng)
    >>> most, len(others)
    (array([7]), 499)
    """
    count = min(count, len(unlabelled) - 1)
    scores = raw_isolation_scores(rows, unlabelled, rng)
    isolated = np.zeros(len(unlabelled), dtype=bool)
    isolated[np.argpartition(-scores, count)[:count]] = True
    return unlabelled[isolated], unlabelled[~isolated]


def labelled_or_pseudo_anomalies(
    rows: Float32s, labelling: Labelling, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return the indices of anomalies and unlabelled rows: labelled anomalies or, if there are none, pseudo-anomalies.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    >>> labelling = Labelling(np.zeros(1000, dtype=int))
    >>> [len(part) for part in labelled_or_pseudo_anomalies(rows, labelling, np.random.default_rng(0))]
    [10, 990]
    """
    anomalies, unlabelled = labelling.anomalies, labelling.unlabelled
    if len(anomalies):
        return anomalies, unlabelled
    count = max(_FEWEST, round(_FRACTION * len(rows)))
    return split_most_isolated(rows, unlabelled, min(count, len(rows) // 2), rng)


def reference_rows(normal: Indices, kept: Indices | None, rng: np.random.Generator) -> Indices:
    """Return the rows to take quantiles of: those that the detector does not store, or a sample of them.

    Examples
    --------
    >>> reference_rows(np.arange(5), np.array([1, 3]), np.random.default_rng(0))
    array([0, 2, 4])
    """
    others = normal if kept is None else np.setdiff1d(normal, kept)
    rows = others if len(others) else normal
    if len(rows) > _REFERENCE_ROWS:
        # In table order, which is read fastest.
        rows = np.sort(rng.choice(rows, _REFERENCE_ROWS, replace=False))
    return rows


def percentiles(scores: Weights, quantiles: Weights) -> Weights:
    """Return the percentage of reference rows with a lower score, given their quantiles at `SHARES`.

    Examples
    --------
    >>> percentiles(np.array([-1.0, 500.0, 2000.0]), np.arange(1001.0))
    array([  0.,  50., 100.])
    """
    found = np.interp(scores, quantiles, 100 * SHARES)
    # Where training rows have equal scores, a row that scores the same is above none of them.
    first = np.minimum(np.searchsorted(quantiles, scores), len(quantiles) - 1)
    lower: Weights = np.where(quantiles[first] == scores, 100 * SHARES[first], found)
    return lower
