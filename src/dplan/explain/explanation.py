"""Why a row scores high: the effect of each feature on its score, against a sample of unlabelled rows.

Replacing a feature of a row by that of a background row, and averaging over the background, takes the feature away.
There are two natural ways to measure what a feature does:

- *first in*: put the feature alone into background rows, and see how far the mean score rises;
- *last out*: take the feature alone out of the row, and see how far the mean score falls.

They differ by what the feature does together with others. Their mean is the effect here. If no more than two features
act together at a time, it is exactly the Shapley value, the one fair share: an interaction of two features is
left out by *first in* and counted in full for both by *last out*, so the mean gives half of it to each. What more than
two features do together remains; it is shared among the features in proportion to how much each acts together with
others, |last out - first in|. So effects always add up to the row's score minus the mean score of the background, a
feature without influence gets exactly zero, nothing is drawn at random, and the cost is two scores per feature and
background row instead of the 2^features of the Shapley value itself.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from operator import methodcaller

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels import stopping
from dplan._kernels.perceptron import Floats
from dplan._kernels.scaling import scale_rows
from dplan.detectors._base import Detector
from dplan.detectors._terms import Replacing

__all__ = ["Explanation", "effects"]

_MOST_STEPS = 2**32  # of explaining some rows: Ctrl-C is heeded before the next ones


@dataclass(frozen=True, eq=False)
class Explanation:
    """The effects of features on the scores of rows.

    Attributes
    ----------
    effects : ndarray of shape (n_rows, n_features)
        How far each feature moves the row's score up or down.
    scores : ndarray of shape (n_rows,)
        The rows' anomaly scores: ``baseline`` plus the sum of the row's effects.
    baseline : float
        The mean score of the background rows.
    """

    effects: NDArray[np.float64]
    scores: NDArray[np.float64]
    baseline: float

    def top(self, k: int = 3) -> NDArray[np.int64]:
        """Return, per row, the k features that push its score up most, the strongest first."""
        return np.argsort(-self.effects, axis=1, kind="stable")[:, :k]

    def ranking(self) -> NDArray[np.int64]:
        """Return all features, the one with the largest mean absolute effect first."""
        return np.argsort(-np.abs(self.effects).mean(axis=0), kind="stable")


def effects(
    detector: Detector,
    X: ArrayLike,
    background: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    max_background: int = 100,
) -> Explanation:
    """Explain the scores of rows.

    Parameters
    ----------
    detector : Detector
        A fitted detector. Sums over a network's outputs, trees or neighbours are explained fast; other scores by
        scoring every replaced row.
    X : array-like of shape (n_rows, n_columns)
        The rows to explain.
    background : array-like of shape (n_background, n_columns)
        Unlabelled rows that stand for what is usual.
    groups : array-like of shape (n_columns,), optional
        The feature that each column belongs to, counted from 0, such as `TablePreparer.feature_groups` gives: the
        columns of a feature are replaced together, so that a one-hot text has one effect.
    max_background : int, default=100
        Of a larger background, that many rows are drawn, always the same ones.

    Returns
    -------
    Explanation
        The effects, one per row and feature.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> X[:10, 1] += 9
    >>> detector = LogisticBaseline().fit(X, np.arange(200) < 10)
    >>> explanation = effects(detector, X[:5], background=X[10:])
    >>> explanation.top(1).ravel().tolist(), explanation.ranking()[0].item()
    ([1, 1, 1, 1, 1], 1)
    >>> bool(np.allclose(explanation.baseline + explanation.effects.sum(axis=1), explanation.scores))
    True
    """
    against = np.asarray(background, dtype=np.float64)
    if against.ndim != 2 or len(against) == 0:
        raise ValueError(f"the background must have rows and columns, got the shape {against.shape}.")
    if len(against) > max_background:
        drawn = np.random.default_rng(0).choice(len(against), max_background, replace=False)
        against = against[np.sort(drawn)]
    table = np.asarray(X, dtype=np.float64)
    scores, baseline = detector.anomaly_score(table), float(detector.anomaly_score(against).mean())
    feature_of = np.arange(table.shape[1]) if groups is None else np.asarray(groups, dtype=np.int64)
    if feature_of.shape != (table.shape[1],) or (len(feature_of) and feature_of.min() < 0):
        raise ValueError(
            f"groups must name a feature, counted from 0, for each of the {table.shape[1]} columns."
        )
    replacing = Replacing(
        _scaled(detector, table), _scaled(detector, against), feature_of, int(feature_of.max()) + 1
    )
    first_in, last_out = _changes(detector, replacing)
    return Explanation(_shared(first_in, -last_out, scores - baseline), scores, baseline)


def _changes(detector: Detector, replacing: Replacing) -> NDArray[np.float64]:
    """Return the changes of the score, some rows after the other if the model is large."""
    terms, rows = detector._terms(), replacing.rows
    at_once = max(1, _MOST_STEPS // (detector._row_steps() * len(replacing.background)))
    changes = np.empty((2, len(rows), replacing.n_features))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for start in range(0, len(rows), at_once):
            stopping.check()
            some = slice(start, start + at_once)
            piece = replacing._replace(rows=rows[some])
            # Each term in a thread of its own: compiled code holds no lock.
            changes[:, some] = sum(pool.map(methodcaller("changes", piece), terms))
    return changes


def _shared(
    first_in: NDArray[np.float64], last_out: NDArray[np.float64], totals: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean of both measures, and the rest shared by how much a feature acts together with others."""
    mean: NDArray[np.float64] = 0.5 * (first_in + last_out)
    together = np.abs(last_out - first_in)
    # Rounding must not look like acting together; and if nothing does, the rest is rounding and goes to the effects.
    together[together < 1e-5 * np.abs(totals)[:, None]] = 0.0
    nothing = _sums(together) == 0
    together[nothing] = np.abs(mean[nothing])
    together[_sums(together) == 0] = 1.0
    rest = totals - _sums(mean)
    mean += together * (rest / _sums(together))[:, None]
    return mean


def _sums(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of each row, taken from left to right: `sum` may take it otherwise if there are other rows."""
    return np.cumsum(table, axis=1)[:, -1]


def _scaled(detector: Detector, table: NDArray[np.float64]) -> Floats:
    rows = np.empty(table.shape, dtype=np.float32)
    scale_rows(np.ascontiguousarray(table), detector.column_low_, detector.column_inverse_, rows)
    return rows
