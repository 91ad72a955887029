"""The members of an ensemble: agents and explorers, their fitted state, scale and weight."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dplan._kernels.forest import average_path_length, grow, new_forest
from dplan._kernels.neighbours import mean_nearest_distance, sample_sizes
from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees, complete_trees, isolation, join_trees
from dplan.detectors.baselines import boosted_tree

Indices = NDArray[np.int64]

# The kinds of agents, and their shares in the score if no kind is better on held-out anomalies.
KINDS = {"slow": 0.25, "fast": 0.25, "trees": 0.5}
# Added to the error of each kind, so that a single anomaly does not dominate the weights.
_ERROR_FLOOR = 0.01

# Shares of the explorers in their total weight. Neighbours find more on most tables; the forest still sees small
# differences in columns with a few extreme values.
EXPLORERS = {"neighbours": 5 / 6, "forest": 1 / 6}

_REFERENCE_ROWS = 10_000  # rows that standardise scores


class Member(NamedTuple):
    """An agent or an explorer: its fitted state, and what standardises its scores."""

    kind: str
    theta: Floats | None  # of a network agent
    trees: Trees | None  # of a tree agent
    middle: float
    spread: float
    error: (
        float  # mean fraction of unlabelled rows that score above its held-out anomalies; NaN if it has none
    )


def boosted_trees(rows: Floats, known: NDArray[np.bool_], n_rounds: int, rng: np.random.Generator) -> Trees:
    """Fit boosted trees to the log odds of being a known anomaly; each split sees some of the columns."""
    from dplan.detectors._boosting import BoostedClassifier  # here, because scoring does not need it

    model = BoostedClassifier(
        max_iter=n_rounds,
        l2_regularization=1.0,  # as in BoostedBaseline, and for the same reason
        max_features=0.3,
        early_stopping=False,  # it would hold out some of the few labelled anomalies
        random_state=int(rng.integers(2**31)),
    )
    with threadpool_limits(1, user_api="openmp"):
        model.fit(rows, known)
    return join_trees([boosted_tree(tree.nodes) for (tree,) in model._predictors])


def standardised(
    kind: str,
    theta: Floats | None,
    trees: Trees | None,
    reference: NDArray[np.floating],
    held_out: NDArray[np.floating],
) -> Member:
    """Return a member, given its scores of unlabelled rows and of held-out anomalies.

    The unit is the distance from the median to the 0.9 quantile: up to a tenth of the rows can be extreme without
    enlarging the unit, so an agent that separates a few rows clearly has more influence on them.

    Examples
    --------
    >>> member = standardised("trees", None, None, np.arange(101.0), np.array([90.5, 200.0]))
    >>> member.middle, member.spread, round(member.error, 3)
    (50.0, 40.0, 0.05)
    """
    reference = reference.astype(np.float64)
    middle, high = np.quantile(reference, [0.5, 0.9])
    spread = max(high - middle, 0.1 * reference.std())  # most rows may be equal, for trees especially
    ordered = np.sort(reference)
    below = 0.5 * (np.searchsorted(ordered, held_out) + np.searchsorted(ordered, held_out, side="right"))
    error = 1.0 - float(below.mean()) / len(reference) if len(held_out) else np.nan
    spread = float(spread) or 1.0
    return Member(kind, theta, trees, float(middle), spread, error)


def agent_weights(agents: Sequence[Member]) -> NDArray[np.float64]:
    """Return the weights of agents, which add up to 1; kinds that rank held-out anomalies lower get less.

    Examples
    --------
    >>> agents = [standardised(kind, None, None, np.arange(100.0), np.array([held_out]))
    ...           for kind, held_out in (("slow", 90.5), ("trees", 99.5))]
    >>> agent_weights(agents).round(3)
    array([0.048, 0.952])
    """
    kinds = np.array([agent.kind for agent in agents])
    errors = np.array([agent.error for agent in agents])
    weights = np.zeros(len(agents))
    mean_errors = {kind: errors[kinds == kind].mean() for kind in KINDS if (kinds == kind).any()}
    lowest = min(mean_errors.values())
    for kind, error in mean_errors.items():
        worth = 1.0 if np.isnan(error) else (lowest + _ERROR_FLOOR) / (error + _ERROR_FLOOR)
        weights[kinds == kind] = KINDS[kind] * worth / (kinds == kind).sum()
    normal: NDArray[np.float64] = weights / weights.sum()
    return normal


def weighted_sum(scores: Iterable[NDArray[np.float64]], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up the weighted scores of members in order: not a matrix product, whose rounding depends on other rows.

    Examples
    --------
    >>> weighted_sum([np.array([1.0, 2.0]), np.array([10.0, 20.0])], np.array([1.0, 0.5]))
    array([ 6., 12.])
    """
    total: NDArray[np.float64] = np.zeros(())
    for own, weight in zip(scores, weights, strict=True):
        total = total + weight * own
    return total


class Explorers(NamedTuple):
    """Two unsupervised members that measure how rare a row is: nearest neighbours and an isolation forest."""

    neighbours: Floats  # rows to search, with shape (samples, rows, columns)
    forest: Trees
    average_path_length: float  # normalises path lengths in the forest


def draw_rows(unlabelled: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Draw samples of neighbours, and other rows to standardise with: a neighbour would be nearest to itself.

    Examples
    --------
    >>> samples, reference = draw_rows(np.arange(100), np.random.default_rng(0))
    >>> samples.shape, len(reference), np.intersect1d(samples, reference)
    ((4, 6), 76, array([], dtype=int64))
    """
    n_samples, n_each = sample_sizes(len(unlabelled))
    n_neighbours = n_samples * n_each
    drawn = rng.choice(unlabelled, min(n_neighbours + _REFERENCE_ROWS, len(unlabelled)), replace=False)
    others = drawn[n_neighbours:] if len(drawn) > n_neighbours else drawn
    return drawn[:n_neighbours].reshape(n_samples, n_each), others


def grown_forest(
    reference: Floats, n_trees: int, tree_size: int, rng: np.random.Generator
) -> tuple[Trees, float]:
    """Grow an isolation forest on the raw features; return it with its average path length."""
    forest = new_forest(n_trees, min(tree_size, len(reference)))
    for tree in range(n_trees):
        grow(forest, tree, reference[rng.choice(len(reference), forest.tree_size, replace=False)], rng)
    trees = complete_trees(forest.features, forest.thresholds, forest.path_lengths)
    return trees, max(average_path_length(forest.tree_size), 1.0)


def explore(explorers: Explorers, rows: Floats) -> list[NDArray[np.float64]]:
    """Return each row's mean distance to nearest neighbours, and its isolation score in (0, 1]."""
    return [
        mean_nearest_distance(explorers.neighbours, rows),
        isolation(explorers.forest, explorers.average_path_length, rows),
    ]


def as_members(explorers: Explorers, reference: Floats) -> list[Member]:
    """Return the explorers as members, standardised with reference rows."""
    found = zip(EXPLORERS, explore(explorers, reference), strict=True)
    return [standardised(kind, None, None, scores, scores[:0]) for kind, scores in found]
