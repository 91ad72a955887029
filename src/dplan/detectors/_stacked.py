"""Trees that see other terms as columns, and sums that bend: a term of `DPLANEnsemble`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.replaced import Changes
from dplan._kernels.trees import Trees
from dplan.arrays import Float32s
from dplan.detectors._terms import Replacing, Term, TreesTerm, stacked


class Bend(NamedTuple):
    """A function of a value that consists of two straight lines; it is zero at zero if the bend is not below.

    Examples
    --------
    >>> bend = Bend(at=2.0, below=0.5, above=1.0)
    >>> bend.of(np.array([-1.0, 2.0, 4.0]))
    array([-0.5,  1. ,  3. ])
    >>> bend.slope(np.array([4.0, 2.0, 1.0]), np.array([0.0, 2.0, 0.0]))
    array([0.75, 0.5 , 0.5 ])
    """

    at: float
    below: float  # the slope below the bend
    above: float

    def of(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the function of values."""
        low, high = np.minimum(values, self.at), np.maximum(values - self.at, 0)
        bent: NDArray[np.float64] = self.below * low + self.above * high
        return bent

    def slope(self, left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the slope of the line through the function at two values; at a single value, its slope there."""
        gap = left - right
        local = np.where(left > self.at, self.above, self.below)
        between: NDArray[np.float64] = np.divide(
            self.of(left) - self.of(right), gap, out=local.astype(np.float64), where=gap != 0
        )
        return between

    def to_onnx(self, graph: Any, values: str) -> str:
        """Add nodes to a graph, given the name of the values."""
        if self.below == self.above:
            return str(graph.add("Mul", values, graph.constant(np.array(self.below))))
        at = graph.constant(np.array(self.at))
        low, high = graph.add("Min", values, at), graph.add("Relu", graph.add("Sub", values, at))
        parts = [
            graph.add("Mul", part, graph.constant(np.array(slope)))
            for part, slope in ((low, self.below), (high, self.above))
        ]
        return str(graph.add("Add", *parts))


def straight(slope: float) -> Bend:
    """Return a straight line through zero."""
    return Bend(0.0, slope, slope)


STRAIGHT = straight(1.0)


@dataclass(frozen=True, eq=False)
class StackedTreesTerm(Term):
    """A sum of bent columns, themselves terms, and of a bent sum: of trees that see these columns, and other terms."""

    trees: Trees
    weights: NDArray[np.float64]
    columns: Sequence[Term]
    column_bends: Sequence[Bend]
    others: Sequence[Term] = ()
    bend: Bend = STRAIGHT

    def values(self, rows: Float32s) -> NDArray[np.floating]:
        """See `Term`."""
        columns = [column.values(rows).astype(np.float64) for column in self.columns]
        values = self.bend.of(self._inner(rows, columns))
        for bend, column in zip(self.column_bends, columns, strict=True):
            values = values + bend.of(column)
        return values

    def _inner(self, rows: Float32s, columns: Sequence[NDArray[np.floating]]) -> NDArray[np.float64]:
        """Return the sum before it is bent."""
        values = TreesTerm(self.trees, self.weights).values(stacked(rows, columns)).astype(np.float64)
        for other in self.others:
            values = values + other.values(rows)
        return values

    def changes(self, replacing: Replacing) -> Changes:
        """See `Term`.

        For trees, a column is replaced as a whole, as if it were a feature of its own. The change is then divided among
        the features, in proportion to how much they change the column. The changes of what is bent are multiplied by
        the slope from the mean of the background to the row: exact unless the bend is in between.
        """
        rows, background, feature_of, n_features = replacing
        more = n_features + np.arange(len(self.columns))
        own, other = ([column.values(part) for column in self.columns] for part in (rows, background))
        groups = np.concatenate([feature_of, more])
        wide = Replacing(stacked(rows, own), stacked(background, other), groups, n_features + len(more))
        found = TreesTerm(self.trees, self.weights).changes(wide)
        changes: Changes = found[..., :n_features]
        of_columns = [column.changes(replacing) for column in self.columns]
        for place, moved in zip(more, of_columns, strict=True):
            sizes = np.abs(moved)
            total = sizes.sum(axis=2, keepdims=True)
            equal = np.full_like(sizes, 1 / n_features)
            shares = np.divide(sizes, total, out=equal, where=total > 0)
            changes = changes + found[..., [place]] * shares
        for term in self.others:
            changes = changes + term.changes(replacing)
        changes = changes * _slopes(self.bend, self._inner(rows, own), self._inner(background, other))
        for bend, moved, mine, theirs in zip(self.column_bends, of_columns, own, other, strict=True):
            changes = changes + moved * _slopes(bend, mine, theirs)
        return changes

    def to_onnx(self, graph: Any, rows: str) -> str | None:
        """See `Term`."""
        columns = [str(column.to_onnx(graph, rows)) for column in self.columns]
        inner = [str(other.to_onnx(graph, rows)) for other in self.others]
        if len(self.weights):  # training may have been stopped before the first tree
            single = [
                graph.add("Cast", graph.add("Unsqueeze", c, graph.second_axis()), to=1) for c in columns
            ]
            inner.append(graph.trees(self.trees, self.weights, graph.add("Concat", rows, *single, axis=1)))
        parts = [bend.to_onnx(graph, column) for bend, column in zip(self.column_bends, columns, strict=True)]
        if inner:
            parts.append(self.bend.to_onnx(graph, graph.add("Sum", *inner)))
        return str(graph.add("Sum", *parts))


def _slopes(
    bend: Bend, values: NDArray[np.floating], background: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return the slope for each row, to be multiplied with changes."""
    mean = np.full(len(values), background.mean(dtype=np.float64))
    return bend.slope(values.astype(np.float64), mean)[:, None]
