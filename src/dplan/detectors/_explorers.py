"""What an ensemble looks at beside its agents: how rare a row is in itself, by two explorers of the raw features."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.forest import average_path_length, grow, new_forest
from dplan._kernels.neighbours import mean_nearest_distance, sample_sizes
from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees, complete_trees, isolation
from dplan.detectors._members import Member, standardised

# What each explorer has of their weight. Neighbours find more on most tables; the forest sees small differences in
# columns that a few huge values have squeezed together.
EXPLORERS = {"neighbours": 5 / 6, "forest": 1 / 6}

_REFERENCE_ROWS = 10_000  # against which scores are standardised

Indices = NDArray[np.int64]


class Explorers(NamedTuple):
    """Rows among which nearest neighbours are looked for, and an isolation forest; nothing that learns from labels."""

    neighbours: Floats  # (samples, rows, columns)
    forest: Trees
    usual_path_length: float  # what path lengths in the forest are compared with


def draw_rows(unlabelled: Indices, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Draw samples of neighbours, and other rows to standardise by: neighbours would be their own nearest.

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
    usual: Floats, n_trees: int, tree_size: int, rng: np.random.Generator
) -> tuple[Trees, float]:
    """Grow DPLAN's forest on the raw features; return it, and the path length that is usual in it."""
    forest = new_forest(n_trees, min(tree_size, len(usual)))
    for tree in range(n_trees):
        grow(forest, tree, usual[rng.choice(len(usual), forest.tree_size, replace=False)], rng)
    trees = complete_trees(forest.features, forest.thresholds, forest.path_lengths)
    return trees, max(average_path_length(forest.tree_size), 1.0)


def explore(explorers: Explorers, rows: Floats) -> list[NDArray[np.float64]]:
    """Return each row's mean distance to nearest neighbours, and its isolation score in (0, 1]."""
    neighbours, forest, usual_path_length = explorers
    return [mean_nearest_distance(neighbours, rows), isolation(forest, usual_path_length, rows)]


def as_members(explorers: Explorers, usual: Floats) -> list[Member]:
    """Return explorers as members of an ensemble, standardised by unlabelled rows."""
    found = zip(EXPLORERS, explore(explorers, usual), strict=True)
    return [standardised(kind, None, None, scores, scores[:0]) for kind, scores in found]
