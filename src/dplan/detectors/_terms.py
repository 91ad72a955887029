"""Detector scores as sums of terms.

A term knows its value, how the value changes if features are replaced (which explains the score), and its ONNX form. A
detector returns its terms from `_terms`. A detector without terms is explained by scoring replaced rows, and cannot be
exported.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import product
from dplan._kernels.neighbours import RANK_WEIGHT, mean_nearest_distance, spread_out
from dplan._kernels.perceptron import Sizes
from dplan._kernels.replaced import Changes, Indices, neighbour_changes, network_changes, single_output
from dplan._kernels.replaced_trees import forest_changes, tree_changes
from dplan._kernels.trees import Trees, isolation, sum_of_leaves
from dplan.arrays import Float32s

_CELLS_AT_ONCE = 2_000_000  # bounds the memory of scoring replaced rows
_MOST_CELLS = 2**26  # and this one that of explaining models far larger than usual


class MemberKind(NamedTuple):
    """The members of one kind in a detector that has several."""

    name: str
    n_members: int
    weight: float  # total weight of these members in the score


class Replacing(NamedTuple):
    """Rows whose features are replaced, one at a time, by those of background rows, and vice versa."""

    rows: Float32s
    background: Float32s
    feature_of: Indices  # the feature that each column belongs to
    n_features: int


class Term(ABC):
    """One term of a score. Subclasses implement `values`, and override `changes` where there is a faster way."""

    @abstractmethod
    def values(self, rows: Float32s) -> NDArray[np.floating]:
        """Return the value of the term for each scaled row."""

    def changes(self, replacing: Replacing) -> Changes:
        """Return mean changes of the value, as (2, rows, features).

        First for the background rows, with only this feature taken from the row; then for the row, with only this
        feature taken from the background rows.
        """
        rows, background, feature_of, n_features = replacing
        means = np.empty((2, len(rows), n_features))
        at_once = max(1, _CELLS_AT_ONCE // background.size)
        for start in range(0, n_features, at_once):
            features = np.arange(start, min(start + at_once, n_features))
            replaced = (feature_of == features[:, None])[:, None, :]  # features × background rows × columns
            for i, row in enumerate(rows):
                mixed = np.where(replaced, row, background), np.where(replaced, background, row)
                for which, changed in enumerate(mixed):
                    values = self.values(changed.reshape(-1, rows.shape[1])).reshape(len(features), -1)
                    means[which, i, features] = values.mean(axis=1, dtype=np.float64)
        means[0] -= self.values(background).mean(dtype=np.float64)
        means[1] -= self.values(rows)[:, None]
        return means

    def to_onnx(self, graph: Any, rows: str) -> str | None:
        """Add nodes to a `dplan.tables.onnx.Graph`, given the name of scaled rows; return the name of the values.

        None means that the term cannot be exported.
        """
        return None


def in_pieces(changes: Callable[[Replacing], Changes], replacing: Replacing, n_cells: int) -> Changes:
    """Return mean changes, computed for parts of the background if all of it would take too much memory."""
    at_once, background = max(1, _MOST_CELLS // n_cells), replacing.background
    if at_once >= len(background):
        return changes(replacing)
    total: Changes = np.zeros(())
    for start in range(0, len(background), at_once):
        piece = background[start : start + at_once]
        total = total + len(piece) / len(background) * changes(replacing._replace(background=piece))
    return total


def _cells_of_trees(trees: Trees, n_features: int) -> int:
    return len(trees.values) // 4 + 2 * len(trees.roots) + 4 * n_features  # a node takes a byte


@dataclass(frozen=True, eq=False)
class ScoreTerm(Term):
    """A whole score, given by the function that computes it."""

    score: Callable[[Float32s], NDArray[np.floating]]

    def values(self, rows: Float32s) -> NDArray[np.floating]:
        """See `Term`."""
        return self.score(rows)


@dataclass(frozen=True, eq=False)
class ConstantTerm(Term):
    """A number that is added to every score."""

    value: float

    def values(self, rows: Float32s) -> NDArray[np.floating]:
        """See `Term`."""
        return np.full(len(rows), self.value)

    def changes(self, replacing: Replacing) -> Changes:
        """See `Term`."""
        return np.zeros((2, len(replacing.rows), replacing.n_features))

    def to_onnx(self, graph: Any, rows: str) -> str:
        """See `Term`."""
        return str(graph.constant(np.array(self.value)))


@dataclass(frozen=True, eq=False)
class LinearTerm(Term):
    """A weighted sum of the columns."""

    coefficients: NDArray[np.float64]

    def values(self, rows: Float32s) -> NDArray[np.floating]:
        """See `Term`."""
        values: NDArray[np.float64] = (rows * self.coefficients).sum(axis=1)
        return values

    def changes(self, replacing: Replacing) -> Changes:
        """See `Term`."""
        rows, background, feature_of, n_features = replacing
        gaps = (rows - background.mean(axis=0, dtype=np.float64)) * self.coefficients
        change = gaps @ (feature_of[:, None] == np.arange(n_features))
        return np.stack([change, -change])

    def to_onnx(self, graph: Any, rows: str) -> str:
        """See `Term`."""
        return str(graph.add("MatMul", graph.wide(rows), graph.constant(self.coefficients)))


@dataclass(frozen=True, eq=False)
class NetworkTerm(Term):
    """A weighted sum of the outputs of a network with at least one hidden layer."""

    theta: Float32s
    sizes: Sizes
    weights: NDArray[np.float64]

    def values(self, rows: Float32s) -> NDArray[np.floating]:
        """See `Term`."""
        values: NDArray[np.float64] = product.outputs(self.theta, self.sizes, rows) @ self.weights
        return values

    def changes(self, replacing: Replacing) -> Changes:
        """See `Term`."""
        theta, sizes = single_output(self.theta, self.sizes, self.weights)
        n_cells = replacing.n_features * int(sizes[1]) + 4 * int(sizes[1:].max())
        return in_pieces(lambda piece: network_changes(theta, sizes, *piece), replacing, n_cells)

    def to_onnx(self, graph: Any, rows: str) -> str:
        """See `Term`."""
        outputs = graph.wide(graph.network(self.theta, self.sizes, rows))
        return str(graph.add("MatMul", outputs, graph.constant(self.weights)))


@dataclass(frozen=True, eq=False)
class TreesTerm(Term):
    """A sum of leaves, with a weight for each tree."""

    trees: Trees
    weights: NDArray[np.float64]

    def values(self, rows: Float32s) -> NDArray[np.floating]:
        """See `Term`."""
        return sum_of_leaves(self.trees, rows, self.weights)

    def changes(self, replacing: Replacing) -> Changes:
        """See `Term`."""
        n_cells = _cells_of_trees(self.trees, replacing.n_features)
        return in_pieces(lambda piece: tree_changes(self.trees, self.weights, *piece), replacing, n_cells)

    def to_onnx(self, graph: Any, rows: str) -> str:
        """See `Term`."""
        return str(graph.trees(self.trees, self.weights, rows))


def stacked(rows: Float32s, more: Sequence[NDArray[np.floating]]) -> Float32s:
    """Return rows with additional columns."""
    return np.column_stack([rows, *more]).astype(np.float32)


@dataclass(frozen=True, eq=False)
class ForestTerm(Term):
    """An isolation forest's score, 2^(-mean path length / average path length), times a weight."""

    forest: Trees
    average_path_length: float
    weight: float = 1.0

    def values(self, rows: Float32s) -> NDArray[np.floating]:
        """See `Term`."""
        values: NDArray[np.float64] = self.weight * isolation(self.forest, self.average_path_length, rows)
        return values

    def changes(self, replacing: Replacing) -> Changes:
        """See `Term`."""
        n_cells = _cells_of_trees(self.forest, replacing.n_features)
        return in_pieces(
            lambda piece: forest_changes(self.forest, self.average_path_length, self.weight, *piece),
            replacing,
            n_cells,
        )

    def to_onnx(self, graph: Any, rows: str) -> str:
        """See `Term`."""
        n_trees = len(self.forest.roots)
        rate = np.full(n_trees, -1 / (n_trees * self.average_path_length))
        isolated = graph.add("Pow", graph.constant(np.array(2.0)), graph.trees(self.forest, rate, rows))
        return str(graph.add("Mul", isolated, graph.constant(np.array(self.weight))))


@dataclass(frozen=True, eq=False)
class NeighboursTerm(Term):
    """The mean distance to the nearest row of each sample."""

    neighbours: Float32s  # (samples, rows, columns), spread out
    quantiles: Float32s  # which tell how far to spread out other rows

    def values(self, rows: Float32s) -> NDArray[np.floating]:
        """See `Term`."""
        return mean_nearest_distance(self.neighbours, spread_out(self.quantiles, rows))

    def changes(self, replacing: Replacing) -> Changes:
        """See `Term`."""
        rows, background = (
            spread_out(self.quantiles, part) for part in (replacing.rows, replacing.background)
        )
        n_cells = 4 * self.neighbours.shape[0] * self.neighbours.shape[1]
        return in_pieces(
            lambda piece: neighbour_changes(self.neighbours, *piece),
            replacing._replace(rows=rows, background=background),
            n_cells,
        )

    def to_onnx(self, graph: Any, rows: str) -> str:
        """See `Term`."""
        rows = graph.with_ranks(self.quantiles, rows, 1.0, RANK_WEIGHT)
        return str(graph.nearest(self.neighbours, rows))
