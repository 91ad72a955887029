"""The rows that an isolation forest isolates most easily: pseudo anomalies for detectors that want labelled ones."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.forest import grow, isolation_scores, new_forest
from dplan._kernels.perceptron import Floats

# iForest's recommended settings.
N_TREES, TREE_SIZE = 100, 256

# Without any label, this share of the rows, and no fewer than that, stand in for labelled anomalies.
_STAND_IN_SHARE, _FEWEST_STAND_INS = 0.01, 10

_BLOCK_ROWS = 128  # what a processor's cache holds: every tree asks every row


def raw_isolation_scores(rows: Floats, chosen: NDArray[np.int64], rng: np.random.Generator) -> Floats:
    """Return the isolation score of chosen rows by a forest grown on them: DPLAN's forest, on raw features.

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


def split_off_most_isolated(
    rows: Floats, unlabelled: NDArray[np.int64], count: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Part the unlabelled rows into those easiest to isolate and the others; at least one row is left over.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(500, 3)).astype(np.float32)
    >>> rows[7] = 9
    >>> most, others = split_off_most_isolated(rows, np.arange(500), 1, rng)
    >>> most, len(others)
    (array([7]), 499)
    """
    count = min(count, len(unlabelled) - 1)
    scores = raw_isolation_scores(rows, unlabelled, rng)
    isolated = np.zeros(len(unlabelled), dtype=bool)
    isolated[np.argpartition(-scores, count)[:count]] = True
    return unlabelled[isolated], unlabelled[~isolated]


def labelled_or_stand_ins(
    rows: Floats, labels: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the numbers of the labelled and of the other rows; without any label, of stand-ins and of the others.

    Examples
    --------
    >>> rows = np.random.default_rng(0).normal(size=(1000, 3)).astype(np.float32)
    >>> labels = np.zeros(1000, dtype=int)
    >>> [len(part) for part in labelled_or_stand_ins(rows, labels, np.random.default_rng(0))]
    [10, 990]
    """
    labelled, unlabelled = np.flatnonzero(labels), np.flatnonzero(labels == 0)
    if len(labelled):
        return labelled, unlabelled
    count = max(_FEWEST_STAND_INS, round(_STAND_IN_SHARE * len(rows)))
    return split_off_most_isolated(rows, unlabelled, min(count, len(rows) // 2), rng)
