"""Compare methods over data sets: Wilcoxon, Friedman and Nemenyi tests, wins, ties and losses.

A table has one row per data set and one column per method; higher is better. If a value is missing, a
comparison of two methods omits the data set for both, and a comparison of all methods omits it for all.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "Ranking",
    "WinsTiesLosses",
    "average_ranks",
    "correlations",
    "rank_methods",
    "wilcoxon_p_value",
    "wins_ties_losses",
]

Table = NDArray[np.float64]
_TIE = 0.0005  # equal when shown with three digits


class WinsTiesLosses(NamedTuple):
    """How often the first method is better than, equal to and worse than the second."""

    wins: int
    ties: int
    losses: int


class Ranking(NamedTuple):
    """Methods ranked over data sets.

    Attributes
    ----------
    ranks : ndarray
        Average rank of each method, 1 being best.
    p_value : float
        Friedman's test: the probability of such differences if all methods were equal.
    critical_difference : float
        Nemenyi's test: smaller differences of ranks are not significant.
    n : int
        Number of data sets.
    """

    ranks: NDArray[np.float64]
    p_value: float
    critical_difference: float
    n: int


def wilcoxon_p_value(first: Table, second: Table) -> float | None:
    """Return the p-value of the paired signed-rank test, as the paper reports it; None if there is no difference.

    Examples
    --------
    >>> wilcoxon_p_value(np.array([.5, .6, .7, .8, .9]), np.array([.4, .4, .4, .4, .4]))
    0.0625
    >>> wilcoxon_p_value(np.array([0.5]), np.array([0.5])) is None
    True
    """
    from scipy.stats import wilcoxon

    # Round first, so that equal differences in a table are exactly equal here.
    difference = np.round((first - second)[~np.isnan(first - second)], 12)
    difference = difference[difference != 0]
    if not len(difference):
        return None
    return float(wilcoxon(difference).pvalue)


def wins_ties_losses(first: Table, second: Table) -> WinsTiesLosses:
    """Count the data sets on which the first method is better than, equal to and worse than the second.

    Examples
    --------
    >>> wins_ties_losses(np.array([.5, .6, .7]), np.array([.4, .6001, np.nan]))
    WinsTiesLosses(wins=1, ties=1, losses=0)
    """
    difference = (first - second)[~np.isnan(first - second)]
    return WinsTiesLosses(
        int((difference >= _TIE).sum()),
        int((abs(difference) < _TIE).sum()),
        int((difference <= -_TIE).sum()),
    )


def correlations(first: Table, second: Table) -> tuple[float | None, float | None]:
    """Return Pearson's and Spearman's correlation over the data sets; None with fewer than three or without spread.

    Examples
    --------
    >>> correlations(np.array([.1, .2, .3, np.nan]), np.array([.2, .4, .9, .5]))[1]
    1.0
    >>> correlations(np.array([.1, .2]), np.array([.2, .4]))
    (None, None)
    """
    from scipy.stats import rankdata

    shared = ~np.isnan(first + second)
    values = first[shared], second[shared]
    if shared.sum() < 3 or any(np.ptp(value) == 0 for value in values):
        return None, None
    pearson, spearman = (
        float(np.round(np.corrcoef(*pair)[0, 1], 12)) for pair in (values, tuple(map(rankdata, values)))
    )
    return pearson, spearman


def average_ranks(table: Table) -> NDArray[np.float64]:
    """Return each method's rank, 1 being best, averaged over the data sets; ties share their ranks.

    Examples
    --------
    >>> average_ranks(np.array([[.9, .8, .7], [.5, .6, .5]])).tolist()
    [1.75, 1.5, 2.75]
    """
    from scipy.stats import rankdata

    ranks: NDArray[np.float64] = rankdata(-table, axis=1).mean(axis=0)
    return ranks


def rank_methods(table: Table, level: float = 0.05) -> Ranking | None:
    """Rank methods over data sets, with Friedman's and Nemenyi's tests (Demšar 2006).

    Parameters
    ----------
    table : ndarray of shape (n_data_sets, n_methods)
        Results, NaN if missing.
    level : float, default=0.05
        Level of significance of the critical difference.

    Returns
    -------
    Ranking or None
        None with fewer than three methods or two complete data sets.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ranking = rank_methods(rng.random((13, 6)) + np.linspace(0, 1, 6))
    >>> ranking.ranks.argmin(), round(ranking.critical_difference, 3)
    (np.int64(5), 2.091)
    """
    from scipy.stats import friedmanchisquare, studentized_range

    table = table[~np.isnan(table).any(axis=1)]
    n, k = table.shape
    if n < 2 or k < 3:
        return None
    ranks = average_ranks(table)
    step = np.sqrt(k * (k + 1) / (6.0 * n))  # the standard error of a difference of two ranks
    constant = bool((table == table[:, :1]).all())
    return Ranking(
        ranks=ranks,
        p_value=1.0 if constant else float(friedmanchisquare(*table.T).pvalue),
        critical_difference=float(studentized_range.ppf(1 - level, k, np.inf) / np.sqrt(2) * step),
        n=n,
    )
