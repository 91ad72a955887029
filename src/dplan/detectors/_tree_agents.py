"""Agents that are trees: with rows drawn uniformly, an action value is the expected reward, which trees can learn."""

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees, join_trees, sum_of_leaves
from dplan.detectors._members import Explored, Verdicts, some_of
from dplan.detectors._verdicts import balanced_weights
from dplan.detectors.baselines import boosted_tree

Indices = NDArray[np.int64]
Weights = NDArray[np.float64]

_TREE_ROWS = 5_000  # unlabelled rows per agent: so few that hidden anomalies matter little

BOOSTED_LEAVES = 31  # of a boosted tree, at most

# A randomised tree learns from all verdicts and this many unlabelled rows per known anomaly: so few that only some
# trees see a hidden anomaly, and many such trees that every unlabelled row is seen by some.
_UNLABELLED_PER_ANOMALY, _FEWEST_ANOMALIES = 5, 5


def tree_agent(
    kind: str,
    n_trees: int,
    n_leaves: int,
    verdicts: Verdicts,
    found: Explored,
    allowed: Indices,
    rng: np.random.Generator,
) -> Trees:
    """Train the trees of one agent; their unlabelled rows, some of the allowed ones, are explored already."""
    drawn = some_of(allowed, _TREE_ROWS, rng)
    n_known, confidence = len(found.known), verdicts.confidence
    rows = np.concatenate([found.known, found.reference[drawn]])
    labels = np.repeat([1, 0], [n_known, len(drawn)])
    none, believed = np.zeros(0, dtype=np.int64), np.ones(n_known) if confidence is None else confidence
    weights = balanced_weights(len(rows), np.arange(n_known), none, believed, np.zeros(0))
    if kind == "boosted":
        return boosted_trees(
            rows, labels > 0, None if confidence is None else weights, n_trees, n_leaves, rng
        )
    # Checked rows are repeated among the explored ones.
    origins = np.append(verdicts.anomalies, verdicts.explored[drawn]) if len(verdicts.checked) else None
    return randomised_trees(rows, labels, weights, origins, n_trees, rng)


def boosted_trees(
    rows: Floats,
    known: NDArray[np.bool_],
    weights: Weights | None,
    n_trees: int,
    n_leaves: int,
    rng: np.random.Generator,
) -> Trees:
    """Fit boosted trees to the log odds of being a known anomaly; each split sees some of the columns."""
    from dplan.detectors._boosting import BoostedClassifier  # here, because scoring does not need it

    model = BoostedClassifier(
        max_iter=n_trees,
        max_leaf_nodes=n_leaves,
        l2_regularization=1.0,  # as in BoostedBaseline, and for the same reason
        max_features=0.3,
        early_stopping=False,  # it would hold out some of the few labelled anomalies
        random_state=int(rng.integers(2**31)),
    )
    with threadpool_limits(1, user_api="openmp"):
        model.fit(rows, known, weights)
    return join_trees([boosted_tree(tree.nodes) for (tree,) in model._predictors])


def randomised_trees(
    rows: Floats,
    labels: Indices,
    weights: Weights,
    origins: Indices | None,
    n_trees: int,
    rng: np.random.Generator,
) -> Trees:
    """Fit extremely randomised trees, each to all verdicts and its own few unlabelled rows.

    Leaves are the shares of known anomalies if they weigh as much as all other rows. This is bagging for positive and
    unlabelled rows (Mordelet and Vert, 2014). If some unlabelled rows are copies, `origins` tells of which row: a tree
    sees a row once, with the weight of its copies, so that a single verdict does not fill a leaf.
    """
    from dplan.detectors._randomised import randomised_tree  # here, because scoring does not need it

    known, unlabelled = np.flatnonzero(labels), np.flatnonzero(labels == 0)
    n_anomalies = max(int((labels > 0).sum()), _FEWEST_ANOMALIES)
    n_drawn = min(_UNLABELLED_PER_ANOMALY * n_anomalies, len(unlabelled))
    # Unlabelled rows together weigh the same in each tree, however few are drawn.
    scale = len(unlabelled) / n_drawn
    n_columns = rows.shape[1]
    # Few columns per split are better on small tables, many on wide ones.
    few, many = max(1, int(np.sqrt(n_columns))), max(1, int(0.3 * n_columns))
    random_state = np.random.RandomState()
    trees = []
    for tree in range(n_trees):
        drawn, copies = rng.choice(unlabelled, n_drawn), np.ones(n_drawn, dtype=np.int64)
        if origins is not None:
            _, first, copies = np.unique(origins[drawn], return_index=True, return_counts=True)
            drawn = drawn[first]
        chosen = np.concatenate([known, drawn])
        own = weights[chosen] * np.concatenate([np.ones(len(known)), scale * copies])
        random_state.seed(int(rng.integers(2**31)))
        max_features = few if tree % 2 else many
        trees.append(randomised_tree(rows[chosen], labels[chosen] > 0, own, max_features, random_state))
    return join_trees(trees)


def plausible(trees: Trees, reference: Floats) -> Indices:
    """Return the rows that randomised trees find more like other rows than like known anomalies; all if there are none.

    Examples
    --------
    >>> from dplan._kernels.trees import one_tree
    >>> stump = one_tree(*np.array([[1, 0, 0], [2, 0, 0]]), np.array([False, True, True]), np.zeros(3, dtype=int),
    ...                  np.full(3, 0.5), np.array([0.0, 0.1, 0.9]))
    >>> plausible(stump, np.array([[0.0], [1.0], [0.2]], dtype=np.float32))
    array([0, 2])
    """
    kept = np.flatnonzero(sum_of_leaves(trees, reference) < 0.5 * len(trees.roots))
    return kept if len(kept) else np.arange(len(reference))
