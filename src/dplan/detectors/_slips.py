"""Slips: verdicts that were probably given by mistake.

A reviewer who judges hundreds of rows sometimes presses the wrong key. Most rows at the top of a list are of a few
kinds, so a row that was called normal among rows like it that were called anomalous is more likely a slip than a
discovery. Slips the other way are not searched for: in a long review, few rows are anomalies, and each of them
contradicts most others.
"""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import join_trees, sums_of_leaves

Indices = NDArray[np.int64]

_FEWEST_VERDICTS, _FEWEST_OF_A_KIND = 100, 5  # with fewer, nothing can be said
_AGREEMENT = 0.11  # share of trees that must agree with a verdict
_TREES, _MOST_ROWS = 200, 512  # of a tree


def slips(rows: Floats, anomalous: NDArray[np.bool_], rng: np.random.Generator) -> Indices:
    """Return the rows that were called normal although nine in ten trees that learned from the other verdicts disagree.

    Parameters
    ----------
    rows : ndarray of float32
        Rows with a verdict.
    anomalous : ndarray of bool
        The verdicts.
    rng : Generator
        Source of random numbers; not used if there are too few verdicts.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> rows = rng.normal(size=(200, 3)).astype(np.float32)
    >>> anomalous = np.arange(200) < 100
    >>> rows[anomalous] += 5
    >>> anomalous[[3, 150]] = [False, True]  # slips
    >>> slips(rows, anomalous, rng)
    array([3])
    """
    n = len(rows)
    n_anomalous = int(anomalous.sum())
    if n <= _FEWEST_VERDICTS or min(n_anomalous, n - n_anomalous) < _FEWEST_OF_A_KIND:
        return np.zeros(0, dtype=np.int64)
    from dplan.detectors._randomised import randomised_tree  # here, because scoring does not need it

    random_state = np.random.RandomState(int(rng.integers(2**31)))
    n_columns = max(1, int(np.sqrt(rows.shape[1])))
    drawn = rng.integers(n, size=(_TREES, min(n, _MOST_ROWS)))
    weights = np.stack([np.bincount(own, minlength=n) for own in drawn]).astype(np.float64)
    trees = []
    for own in weights:
        seen = np.flatnonzero(own)
        trees.append(randomised_tree(rows[seen], anomalous[seen], own[seen], n_columns, random_state))
    # One sum per tree; a row is judged by the trees that have not seen it.
    found = sums_of_leaves(join_trees(trees), rows, _TREES)
    suspicion = np.ma.masked_array(found, weights > 0).mean(axis=0).filled(0.0)
    return np.flatnonzero(~anomalous & (suspicion > 1 - _AGREEMENT))
