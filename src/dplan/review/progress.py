"""How the review is going: what was found, what would have been found without it, and when to stop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import betabinom
from sklearn.isotonic import IsotonicRegression

__all__ = ["Estimate", "alert_volume", "found_so_far", "next_rows", "without_feedback"]

_HALF_LIFE = 15.0  # verdicts: older ones count less in the estimate, because finds become rarer
_FEWEST = 10  # verdicts that an estimate needs


class Estimate(NamedTuple):
    """How many of the next rows are anomalies: the most plausible number, and an interval that covers 90 %."""

    rows: int
    expected: float
    low: int
    high: int


def found_so_far(found: Sequence[bool]) -> list[int]:
    """Return the anomalies found after each verdict.

    Examples
    --------
    >>> found_so_far([True, False, True])
    [1, 1, 2]
    """
    return list(accumulate(map(int, found)))


def without_feedback(
    order: Sequence[int], verdicts: Mapping[int, bool], n: int, truth: Mapping[int, bool] | None = None
) -> list[float]:
    """Return how many anomalies the first n rows of the model without feedback contain, after each row.

    Rows that were looked at count as they were found. For the others, the share of anomalies at their place in the
    ranking is estimated from the rows that were looked at; it can only fall with the rank.

    Parameters
    ----------
    order : sequence of int
        Rows in the order of the model without feedback.
    verdicts : mapping of int to bool
        The rows that were looked at, and whether they are anomalies.
    n : int
        How many rows.
    truth : mapping, optional
        The truth about rows, if it is known, as in a simulation.

    Examples
    --------
    >>> without_feedback([4, 5, 6], {4: True, 6: False}, 3)
    [1.0, 1.5, 1.5]
    """
    known = verdicts if truth is None else truth
    ranks = [place for place, row in enumerate(order) if row in known]
    if not ranks:
        return []
    shares = IsotonicRegression(increasing=False, out_of_bounds="clip", y_min=0, y_max=1).fit(
        ranks, [float(known[order[place]]) for place in ranks]
    )
    first = order[:n]
    estimated = shares.predict(np.arange(len(first), dtype=np.float64))
    values = [float(known.get(row, guess)) for row, guess in zip(first, estimated.tolist(), strict=True)]
    return list(accumulate(values))


def next_rows(found: Sequence[bool], n: int = 50) -> Estimate | None:
    """Estimate how many of the next n rows are anomalies, from the verdicts so far, the oldest first.

    The recent verdicts are taken as draws with the probability of an anomaly now; a beta-binomial distribution gives
    the interval. Finds become rarer as the review proceeds, so this is more likely too high than too low.

    Returns
    -------
    Estimate or None
        None with fewer than ten verdicts.

    Examples
    --------
    >>> next_rows([True] * 5 + [False] * 60)
    Estimate(rows=50, expected=1.8, low=0, high=6)
    """
    if len(found) < _FEWEST:
        return None
    weights = 0.5 ** (np.arange(len(found))[::-1] / _HALF_LIFE)
    hits = float(weights @ np.asarray(found, dtype=np.float64))
    # One half of each is Jeffreys' prior.
    belief = betabinom(n, hits + 0.5, float(weights.sum()) - hits + 0.5)
    low, high = belief.ppf([0.05, 0.95])
    return Estimate(n, round(float(belief.mean()), 1), int(low), int(high))


def alert_volume(ascending: NDArray[np.float64], points: int = 200) -> list[tuple[float, int]]:
    """Return thresholds and how many rows reach each, from the highest score to the median, closer at the top.

    Parameters
    ----------
    ascending : ndarray of float64
        The scores of all rows, sorted.

    Examples
    --------
    >>> alert_volume(np.arange(5.0), points=3)
    [(4.0, 1), (3.0, 2), (2.0, 3)]
    """
    n = len(ascending)
    last = max(n // 2 + 1, 1)
    ranks = np.unique(np.geomspace(1, last, points).round().astype(np.int64))
    thresholds = ascending[n - ranks]
    volumes = n - np.searchsorted(ascending, thresholds)
    return [(float(t), int(v)) for t, v in zip(thresholds, volumes, strict=True)]
