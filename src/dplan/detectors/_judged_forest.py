"""Isolation forests whose leaves learn from verdicts.

A row that is easy to isolate is suspicious until someone says that it is normal. Then the leaves that it fell into are
less suspicious, and so are other rows in them. Das et al. (2017) learn weights of leaves with a hinge loss. With
squares there is a closed form: a Gaussian process whose mean is the isolation score, and whose kernel is the share of
trees in which two rows fall into the same leaf. It learns from the first verdicts, when agents have little to learn.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees, sum_of_leaves
from dplan.detectors._members import Member, grown_forest, standardised

_NOISE = 0.3  # variance of a verdict of average confidence, relative to that of a score
# Of a known anomaly, in units of the distance from the median to the 0.9 quantile; that of a checked normal row is 0.
_SUSPICION = 8.0


def judged_forests(
    forests: Sequence[Trees],
    reference: Floats,
    judged: Floats,
    anomalous: NDArray[np.bool_],
    confidence: NDArray[np.float64],
) -> list[Trees]:
    """Turn forests of path lengths into forests of suspicion that agree with verdicts; all learn together.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.normal(size=(500, 2)).astype(np.float32)
    >>> rows[:40] += np.repeat(np.array([[0, 5], [5, 0]], dtype=np.float32), 20, axis=0)  # two groups of odd rows
    >>> forest, _ = grown_forest(rows, 50, 256, rng)
    >>> (learned,) = judged_forests([forest], rows, rows[[0, 20]], np.array([True, False]), np.ones(2))
    >>> before, after = -sum_of_leaves(forest, rows) / 50, sum_of_leaves(learned, rows)
    >>> bool(abs(before[1:20].mean() - before[21:40].mean()) < before.std() < after[1:20].mean() - after[21:40].mean())
    True
    """
    n_trees = sum(len(forest.roots) for forest in forests)
    learned = [forest._replace(values=-forest.values / n_trees) for forest in forests]
    scores = sum(sum_of_leaves(forest, reference) for forest in learned)
    middle, high = np.quantile(scores, [0.5, 0.9])
    leaves = [leaves_of(forest, judged) for forest in forests]
    kernel = np.diag(_NOISE * n_trees * confidence.mean() / confidence)
    for own in np.concatenate(leaves, axis=1).T:
        kernel += own[:, None] == own
    expected = np.where(anomalous, middle + _SUSPICION * (high - middle), middle)
    missing = expected - sum(sum_of_leaves(forest, judged) for forest in learned)
    shifts = np.linalg.solve(kernel, missing)
    for forest, reached in zip(learned, leaves, strict=True):
        np.add.at(forest.values, reached, shifts[:, None])
    return learned


def judged_members(
    reference: Floats,
    judged: Floats,
    anomalous: NDArray[np.bool_],
    confidence: NDArray[np.float64],
    n_members: int,
    n_trees: int,
    tree_size: int,
    rng: np.random.Generator,
) -> list[Member]:
    """Grow forests on unlabelled rows and let them learn from verdicts."""
    forests = [grown_forest(reference, n_trees, tree_size, rng)[0] for _ in range(n_members)]
    learned = judged_forests(forests, reference, judged, anomalous, confidence)
    return [standardised("judged", None, trees, sum_of_leaves(trees, reference)) for trees in learned]


def leaves_of(trees: Trees, rows: Floats) -> NDArray[np.int32]:
    """Return the nodes that rows end in, with shape (rows, trees)."""
    nodes = np.repeat(trees.roots[None], len(rows), axis=0)
    for _ in range(int(trees.depths.max())):
        cells = np.take_along_axis(rows, trees.features[nodes], axis=1)
        nodes = trees.children[nodes, (cells > trees.thresholds[nodes]).astype(np.int64)]
    return nodes
