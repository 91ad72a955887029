"""Threshold and percentiles: quantiles of the scores of training rows that are not known anomalies."""

import numpy as np
from numpy.typing import NDArray

# This many rows are enough for the quantiles.
_REFERENCE_ROWS = 50_000
SHARES = np.linspace(0, 1, 1001)


def reference_rows(
    normal: NDArray[np.int64], kept: NDArray[np.int64] | None, rng: np.random.Generator
) -> NDArray[np.int64]:
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


def percentiles(scores: NDArray[np.float64], quantiles: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the percentage of reference rows with a lower score, given their quantiles at `SHARES`.

    Examples
    --------
    >>> percentiles(np.array([-1.0, 500.0, 2000.0]), np.arange(1001.0))
    array([  0.,  50., 100.])
    """
    found = np.interp(scores, quantiles, 100 * SHARES)
    # Where training rows have equal scores, a row that scores the same is above none of them.
    first = np.minimum(np.searchsorted(quantiles, scores), len(quantiles) - 1)
    lower: NDArray[np.float64] = np.where(quantiles[first] == scores, 100 * SHARES[first], found)
    return lower
