"""What learns as trees: agents of boosted and of randomised trees, forests that learn from verdicts, and slips.

With rows drawn uniformly, an action value is the expected reward, which trees can learn directly. scikit-learn grows
the trees; it is imported where it is needed, because scoring does not need it.
"""

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from packaging.version import Version
from threadpoolctl import threadpool_limits

from dplan._kernels.trees import Trees, join_trees, one_tree, sum_of_leaves, sums_of_leaves
from dplan.arrays import Float32s
from dplan.detectors._rows import Indices, Weights, balanced_weights
from dplan.detectors.baselines import boosted_tree
from dplan.detectors.ensemble.members import (
    Explored,
    Member,
    TrainingRows,
    grown_forest,
    some_of,
    standardised,
)

_TREE_ROWS = 5_000  # unlabelled rows per agent: so few that hidden anomalies matter little

BOOSTED_LEAVES = 31  # of a boosted tree, at most

# A randomised tree learns from all verdicts and this many unlabelled rows per known anomaly: so few that only some
# trees see a hidden anomaly, and many such trees that every unlabelled row is seen by some.
_UNLABELLED_PER_ANOMALY, _FEWEST_ANOMALIES = 5, 5

_LEAF_ROWS = 2  # of a randomised tree, at least

# What grows randomised trees is private. In versions that nobody has looked at, the public class does, with its checks.
KNOWN_TREES = Version("1.7") <= Version(version("scikit-learn")) < Version("1.10")

_NOISE = 0.3  # variance of a verdict of average confidence, relative to that of a score
# Of a known anomaly, in units of the distance from the median to the 0.9 quantile; that of a checked normal row is 0.
_SUSPICION = 8.0

_FEWEST_VERDICTS, _FEWEST_OF_A_KIND = 100, 5  # with fewer, nothing can be said about slips
_AGREEMENT = 0.11  # share of trees that must agree with a verdict
_TREES, _MOST_ROWS = 200, 512  # of a tree


def tree_agent(
    kind: str,
    n_trees: int,
    n_leaves: int,
    training: TrainingRows,
    found: Explored,
    allowed: Indices,
    rng: np.random.Generator,
) -> Trees:
    """Train the trees of one agent; their unlabelled rows, some of the allowed ones, are explored already."""
    drawn = some_of(allowed, _TREE_ROWS, rng)
    n_known, labelling = len(found.known), training.labelling
    rows = np.concatenate([found.known, found.reference[drawn]])
    labels = np.repeat([1, 0], [n_known, len(drawn)])
    nobody, believed = np.zeros(0, dtype=np.int64), labelling.confidence_in(training.anomalies)
    weights = balanced_weights(len(rows), np.arange(n_known), nobody, believed, np.zeros(0))
    if kind == "boosted":
        own = None if labelling.confidence is None else weights
        return boosted_trees(rows, labels > 0, own, n_trees, n_leaves, rng)
    # Checked rows are repeated among the explored ones.
    origins = (
        np.append(training.anomalies, training.explored[drawn]) if len(training.labelling.checked) else None
    )
    return randomised_trees(rows, labels, weights, origins, n_trees, rng)


def boosted_trees(
    rows: Float32s,
    known: NDArray[np.bool_],
    weights: Weights | None,
    n_trees: int,
    n_leaves: int,
    rng: np.random.Generator,
) -> Trees:
    """Fit boosted trees to the log odds of being a known anomaly; each split sees some of the columns."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    class Boosted(HistGradientBoostingClassifier):  # type: ignore[misc]  # scikit-learn is not typed
        def _bin_data(self, X: Any, *weights: Any, **options: Any) -> Any:
            # Weighted quantiles of all columns would take longer than growing the trees.
            return super()._bin_data(X, *(None for _ in weights), **options)

    model = Boosted(
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
    rows: Float32s,
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


def randomised_tree(
    rows: Float32s,
    known: NDArray[np.bool_],
    weights: Weights,
    max_features: int,
    random_state: np.random.RandomState,
) -> Trees:
    """Grow a tree that tells known anomalies from other rows; leaf values are shares of known anomalies.

    The tree is that of scikit-learn's ExtraTreeClassifier to the last bit, whose checks of the rows take longer than
    growing a small tree: a fifth to a third of a whole fit.

    Parameters
    ----------
    rows : ndarray of float32, contiguous
        Finite rows.
    known : ndarray of bool
        Which rows are known anomalies.
    weights : ndarray of float64
        Weights of the rows.
    max_features : int
        Columns that a split may choose from.
    random_state : RandomState
        Source of random numbers.
    """
    if KNOWN_TREES:
        from sklearn.tree._criterion import Gini
        from sklearn.tree._splitter import RandomSplitter
        from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

        n_classes = np.array([2], dtype=np.intp)
        splitter = RandomSplitter(Gini(1, n_classes), max_features, _LEAF_ROWS, 0.0, random_state, None)
        grower = DepthFirstTreeBuilder(splitter, 2 * _LEAF_ROWS, _LEAF_ROWS, 0.0, np.iinfo(np.int32).max, 0.0)
        nodes = Tree(rows.shape[1], n_classes, 1)
        grower.build(nodes, rows, known.astype(np.float64).reshape(-1, 1), weights, None)
        return converted(nodes)
    from sklearn.tree import ExtraTreeClassifier

    model = ExtraTreeClassifier(
        max_features=max_features, min_samples_leaf=_LEAF_ROWS, random_state=random_state
    )
    return converted(model.fit(rows, known, weights).tree_)


def converted(nodes: Any) -> Trees:
    """Convert scikit-learn's tree; leaf values are shares of the last class."""
    left, right = nodes.children_left, nodes.children_right
    return one_tree(left, right, left < 0, nodes.feature, nodes.threshold, nodes.value[:, 0, -1])


def plausible(trees: Trees, reference: Float32s) -> Indices:
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


def judged_members(
    reference: Float32s,
    judged: Float32s,
    anomalous: NDArray[np.bool_],
    confidence: NDArray[np.float64],
    n_members: int,
    n_trees: int,
    tree_size: int,
    rng: np.random.Generator,
) -> list[Member]:
    """Grow isolation forests on unlabelled rows, and let their leaves learn from verdicts.

    A row that is easy to isolate is suspicious until someone says that it is normal. Then the leaves that it fell into
    are less suspicious, and so are other rows in them. They learn from the first verdicts, when agents have little to
    learn.
    """
    forests = [grown_forest(reference, n_trees, tree_size, rng)[0] for _ in range(n_members)]
    learned = judged_forests(forests, reference, judged, anomalous, confidence)
    return [standardised("judged", None, trees, sum_of_leaves(trees, reference)) for trees in learned]


def judged_forests(
    forests: Sequence[Trees],
    reference: Float32s,
    judged: Float32s,
    anomalous: NDArray[np.bool_],
    confidence: NDArray[np.float64],
) -> list[Trees]:
    """Turn forests of path lengths into forests of suspicion that agree with verdicts; all learn together.

    Das et al. (2017) learn weights of leaves with a hinge loss. With squares there is a closed form: a Gaussian process
    whose mean is the isolation score, and whose kernel is the share of trees in which two rows fall into the same leaf.

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


def leaves_of(trees: Trees, rows: Float32s) -> NDArray[np.int32]:
    """Return the nodes that rows end in, with shape (rows, trees)."""
    nodes = np.repeat(trees.roots[None], len(rows), axis=0)
    for _ in range(int(trees.depths.max())):
        cells = np.take_along_axis(rows, trees.features[nodes], axis=1)
        nodes = trees.children[nodes, (cells > trees.thresholds[nodes]).astype(np.int64)]
    return nodes


def slips(rows: Float32s, anomalous: NDArray[np.bool_], rng: np.random.Generator) -> Indices:
    """Return the rows that were called normal although nine in ten trees that learned from the other verdicts disagree.

    A reviewer who judges hundreds of rows sometimes presses the wrong key. Most rows at the top of a list are of a few
    kinds, so a row that was called normal among rows like it that were called anomalous is more likely a slip than a
    discovery. Slips the other way are not searched for: in a long review, few rows are anomalies, and each of them
    contradicts most others.

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
