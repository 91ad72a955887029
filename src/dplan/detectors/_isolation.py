"""Pseudo-anomalies for detectors that need labels: the rows with the highest isolation scores."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.forest import grow, isolation_scores, new_forest
from dplan._kernels.perceptron import Floats

# iForest's recommended settings.
N_TREES, TREE_SIZE = 100, 256

# If no row is labelled, this fraction of the rows, but at least this many, are used as pseudo-anomalies.
_FRACTION, _FEWEST = 0.01, 10

_BLOCK_ROWS = 128  # fits into a processor's cache: every tree scores every row


def raw_isolation_scores(rows: Floats, chosen: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Return the isolation scores of chosen rows by a forest grown on their raw features.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(500, 3)).astype(np.float32)
    >>> rows[7] = 9
    >>> int(raw_isolation_scores(rows, np.arange(500), rng).argmax())
    7
    """
    forest = new_forest(N_TREES, min(TREE_SIZE, len(chosen)))
    for tree in range(N_TREES):
        grow(forest, tree, rows[rng.choice(chosen, forest.tree_size, replace=False)], rng)
    pieces = (chosen[start : start + _BLOCK_ROWS] for start in range(0, len(chosen), _BLOCK_ROWS))
    return np.concatenate([isolation_scores(forest, rows[piece]) for piece in pieces])


def split_most_isolated(
    rows: Floats, unlabelled: NDArray[np.int64], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
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
    rows: Floats, labels: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the indices of anomalies and unlabelled rows: labelled anomalies or, if there are none, pseudo-anomalies.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    >>> labels = np.zeros(1000, dtype=int)
    >>> [len(part) for part in labelled_or_pseudo_anomalies(rows, labels, np.random.default_rng(0))]
    [10, 990]
    """
    labelled, unlabelled = np.flatnonzero(labels > 0), np.flatnonzero(labels == 0)
    if len(labelled):
        return labelled, unlabelled
    count = max(_FEWEST, round(_FRACTION * len(rows)))
    return split_most_isolated(rows, unlabelled, min(count, len(rows) // 2), rng)
