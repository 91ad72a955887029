"""Explain scores: the effect of each feature on a row's score, compared with background rows.

Replacing a feature of a row by that of a background row, and averaging over the background, removes the feature's
effect. There are two natural ways to measure it:

- *first in*: insert only this feature into the background rows, and measure how much the mean score rises;
- *last out*: replace only this feature of the row, and measure how much the mean score falls.

They differ by the interactions of the feature with others. The effect is their mean. If all interactions are between
two features, it is exactly the Shapley value: *first in* ignores an interaction, *last out* counts it in full for both
features, so the mean gives half of it to each. The remainder, from interactions of more than two features, is
distributed in proportion to |last out - first in|. So effects always add up to the row's score minus the mean score of
the background, a feature without influence has an effect of exactly zero, nothing is random, and the cost is two scores
per feature and background row instead of 2^features for the Shapley value itself.
"""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels import threads
from dplan._kernels.replaced import Changes
from dplan.arrays import highest_first
from dplan.detectors._base import Detector
from dplan.detectors._terms import Replacing, Term

__all__ = ["Explanation", "effects", "sample_of"]

# Of a block of rows: Ctrl-C is heeded before the next one, and threads take turns.
_MOST_STEPS, _ROWS_AT_ONCE = 2**32, 250


@dataclass(frozen=True, eq=False)
class Explanation:
    """The effects of features on the scores of rows.

    Attributes
    ----------
    effects : ndarray of shape (n_rows, n_features)
        How much each feature raises or lowers the score.
    scores : ndarray of shape (n_rows,)
        The rows' anomaly scores: ``baseline`` plus the sum of the row's effects.
    baseline : float
        The mean score of the background rows.
    names : tuple of str
        The names of the features; empty if they have none.

    Examples
    --------
    >>> explanation = Explanation(np.array([[0.5, 2.0]]), np.array([3.0]), 0.5, ("items", "amount"))
    >>> explanation.top(1).tolist(), explanation.ranking().tolist()
    ([['amount']], ['amount', 'items'])
    >>> explanation.strongest(1).tolist()
    [[1]]
    """

    effects: NDArray[np.float64]
    scores: NDArray[np.float64]
    baseline: float
    names: tuple[str, ...] = ()

    def top(self, k: int = 3) -> NDArray[Any]:
        """Return, for each row, the k features with the largest positive effects, in descending order.

        They are names, or positions if the features have no names.
        """
        return self._called(self.strongest(k))

    def strongest(self, k: int = 3) -> NDArray[np.int64]:
        """Return the positions of the features that `top` names."""
        return highest_first(self.effects)[:, :k]

    def ranking(self) -> NDArray[Any]:
        """Return all features, by name or position, in descending order of their mean absolute effect."""
        return self._called(highest_first(np.abs(self.effects).mean(axis=0)))

    def frame(self) -> Any:
        """Return the effects as a frame with the columns ``row``, ``column`` and ``effect``, a line for each effect.

        Rows are counted from 1, and the strongest effect of a row comes first. The explanation of a table also has
        ``value`` and ``typical``, and is a frame of the library that the table came in.

        Examples
        --------
        >>> Explanation(np.array([[0.5, 2.0]]), np.array([3.0]), 0.5, ("items", "amount")).frame().rows()
        [(1, 'amount', 2.0), (1, 'items', 0.5)]
        """
        import polars as pl

        n_rows, n_features = self.effects.shape
        order = self.strongest(n_features)
        columns = {
            "row": np.repeat(np.arange(1, n_rows + 1), n_features),
            "column": self._called(order).ravel(),
            "effect": np.take_along_axis(self.effects, order, axis=1).ravel(),
        }
        return pl.DataFrame(columns, schema_overrides={"column": pl.String} if self.names else None)

    def bar(self, row: int = 0, *, k: int = 8, ax: Any = None) -> Any:
        """Draw the strongest effects of a row as bars; return the matplotlib ``Axes``.

        Parameters
        ----------
        row : int, default=0
            Position of the row, from 0.
        k : int, default=8
            Number of features to draw.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default, a new figure.

        Examples
        --------
        >>> explanation = Explanation(np.array([[0.5, -2.0]]), np.array([1.0]), 2.5, ("items", "amount"))
        >>> [label.get_text() for label in explanation.bar(0).get_yticklabels()]
        ['amount', 'items']
        """
        from dplan.explain.drawing import bars

        order = highest_first(np.abs(self.effects[row]))[:k]
        title = f"score {self.scores[row]:.4g}, background {self.baseline:.4g}"
        return bars([self._label(row, int(j)) for j in order], self.effects[row, order], title, ax)

    def _called(self, features: NDArray[np.int64]) -> NDArray[Any]:
        return np.array(self.names, dtype=object)[features] if self.names else features

    def _label(self, row: int, feature: int) -> str:
        """Return what a picture calls a feature of a row."""
        return self.names[feature] if self.names else f"feature {feature}"


def effects(
    detector: Detector,
    X: ArrayLike,
    background: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    max_background: int = 100,
    scores: NDArray[np.float64] | None = None,
    baseline: float | None = None,
    novelty: bool = False,
) -> Explanation:
    """Explain the scores of rows.

    Parameters
    ----------
    detector : Detector
        A fitted detector. There are fast methods for networks, trees and nearest neighbours; other detectors are
        explained by scoring every replaced row.
    X : array-like or frame of shape (n_rows, n_columns)
        The rows to explain, with the columns of the training table in their order.
    background : array-like or frame of shape (n_background, n_columns)
        Background rows: a sample of unlabelled rows.
    groups : array-like of shape (n_columns,), optional
        Index of the feature that each column belongs to, as returned by `TablePreparer.feature_groups`. The columns
        of a feature are replaced together, so that a one-hot encoded text column has one effect.
    max_background : int, default=100
        Maximum number of background rows; a larger background is sampled with a fixed seed.
    scores : ndarray of shape (n_rows,), optional
        The anomaly scores of the rows, if they are known already.
    baseline : float, optional
        The mean score of the background rows that are used, as from `sample_of`, if it is known already.
    novelty : bool, default=False
        Explain how novel the rows are to the detector's explorers, instead of the anomaly scores; `scores` and
        `baseline` are those of the explorers then.

    Returns
    -------
    Explanation
        One effect per row and feature.

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
    shape = np.shape(background)
    if len(shape) != 2 or shape[0] == 0:
        raise ValueError(f"background must be a non-empty 2-D array, got shape {shape}.")
    background = sample_of(background, max_background)
    table, against = _features(detector, X), _features(detector, background)
    score = detector._novelty_scores if novelty else detector.anomaly_score
    scores = score(X) if scores is None else scores
    baseline = float(score(background).mean()) if baseline is None else baseline
    feature_of = np.arange(table.shape[1]) if groups is None else np.asarray(groups, dtype=np.int64)
    if feature_of.shape != (table.shape[1],) or (len(feature_of) and feature_of.min() < 0):
        raise ValueError(
            f"groups must contain one non-negative feature index for each of the {table.shape[1]} columns."
        )
    rows, others = detector._arrange(table), detector._arrange(against)
    replacing = Replacing(rows, others, feature_of, int(feature_of.max()) + 1)
    first_in, last_out = _changes(detector, replacing, novelty=novelty)
    names = tuple(getattr(X, "columns", ())) if groups is None else ()
    found = _distribute_interactions(first_in, -last_out, scores - baseline)
    return Explanation(found, scores, baseline, names if all(isinstance(own, str) for own in names) else ())


def sample_of(background: Any, most: int = 100) -> Any:
    """Return the background rows that `effects` uses: all, or a sample with a fixed seed if there are more."""
    n_rows = np.shape(background)[0]
    if n_rows <= most:
        return background
    some = np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))
    if isinstance(background, np.ndarray):
        return background[some]
    from sklearn.utils import _safe_indexing

    return _safe_indexing(background, some)


def _features(detector: Detector, X: ArrayLike) -> NDArray[np.float64]:
    """Return rows as numbers; raise an error if a frame does not have the columns of the training, in their order."""
    if hasattr(X, "columns"):
        from sklearn.utils.validation import validate_data

        validate_data(detector, X, reset=False, skip_check_array=True)
    return np.asarray(X, dtype=np.float64)


def _changes(detector: Detector, replacing: Replacing, *, novelty: bool) -> NDArray[np.float64]:
    """Return the changes of the score, for a few rows at a time, in several threads: kernels release the GIL."""
    terms, rows = detector._explorer_terms() if novelty else detector._terms(), replacing.rows
    steps = detector._row_steps() * len(replacing.background)
    at_once = max(1, min(_ROWS_AT_ONCE, _MOST_STEPS // steps))
    starts = range(0, len(rows), at_once)

    def found(start: int, term: Term) -> Changes:
        return term.changes(replacing._replace(rows=rows[start : start + at_once]))

    changes = np.zeros((2, len(rows), replacing.n_features))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        parts = [[pool.submit(found, start, term) for term in terms] for start in starts]
        try:
            for start, part in zip(starts, parts, strict=True):
                threads.check_stopped()
                changes[:, start : start + at_once] = sum(future.result() for future in part)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    return changes


def _distribute_interactions(
    first_in: NDArray[np.float64], last_out: NDArray[np.float64], totals: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the mean of both measures, with the remainder distributed by the strength of interactions."""
    mean: NDArray[np.float64] = 0.5 * (first_in + last_out)
    interaction = np.abs(last_out - first_in)
    # Ignore differences due to rounding; without interactions, distribute the remainder by effect size.
    interaction[interaction < 1e-5 * np.abs(totals)[:, None]] = 0.0
    none = _sums(interaction) == 0
    interaction[none] = np.abs(mean[none])
    interaction[_sums(interaction) == 0] = 1.0
    remainder = totals - _sums(mean)
    mean += interaction * (remainder / _sums(interaction))[:, None]
    return mean


def _sums(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of each row, from left to right: the order in `sum` may depend on the number of rows."""
    return np.cumsum(table, axis=1)[:, -1]
