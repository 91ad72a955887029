"""Scores a second time in another way, if the environment variable ``DPLAN_VERIFY`` is 1.

Rows are scored in reverse order and in blocks of another size, which must not change a bit, and their score is computed
from the detector's terms in plain NumPy and float64, which must agree but for rounding. Both take far longer than the
score itself, so this is for tests, and for a doubt.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import singledispatch

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron
from dplan._kernels.neighbours import spread_out
from dplan._kernels.trees import Trees
from dplan.arrays import Float32s, Float64s
from dplan.detectors._stacked import StackedTreesTerm
from dplan.detectors._terms import (
    ConstantTerm,
    ForestTerm,
    LinearTerm,
    NeighboursTerm,
    NetworkTerm,
    Term,
    TreesTerm,
    stacked,
)

__all__ = ["is_asked_for", "plain_scores", "verify"]

_OTHER_ROWS = 97  # of a block
_TOLERANCE = 1e-4  # of the largest score, or of 1: kernels add float32 numbers in another order

Scoring = Callable[[NDArray[np.floating]], Float64s]


def is_asked_for() -> bool:
    """Return whether scores are to be computed twice."""
    return os.environ.get("DPLAN_VERIFY") == "1"


def verify(rows: NDArray[np.floating], scores: Float64s, score: Scoring, plainly: Scoring | None) -> None:
    """Raise RuntimeError if rows have other scores in another order, in other blocks or in plain NumPy.

    Parameters
    ----------
    rows : ndarray of shape (n_rows, n_columns)
        The rows.
    scores : ndarray of shape (n_rows,)
        Their scores.
    score : callable
        Scores rows in the same way.
    plainly : callable or None
        Scores rows in plain NumPy; None if the detector has no such twin.
    """
    if not len(rows):
        return
    turned = rows[::-1]
    blocks = [score(turned[start : start + _OTHER_ROWS]) for start in range(0, len(rows), _OTHER_ROWS)]
    _compare(scores, np.concatenate(blocks)[::-1], 0.0, "among other rows")
    if plainly is not None:
        _compare(scores, plainly(rows), _tolerance(scores), "in plain NumPy")


def plain_scores(terms: Sequence[Term]) -> Callable[[Float32s], Float64s] | None:
    """Return a function that scores scaled rows in plain NumPy; None if a term has no twin there."""
    if not all(map(_has_twin, terms)):
        return None
    return lambda rows: np.sum([_plain(term, rows) for term in terms], axis=0)


def _tolerance(scores: NDArray[np.floating]) -> float:
    return _TOLERANCE * max(1.0, float(np.abs(scores).max()))


def _compare(scores: Float64s, others: Float64s, tolerance: float, how: str) -> None:
    wrong = np.flatnonzero(~(np.abs(scores - others) <= tolerance))
    if len(wrong):
        row = int(wrong[0])
        raise RuntimeError(
            f"DPLAN_VERIFY: row {row + 1:,} has the score {scores[row]!r}, but {others[row]!r} {how}; "
            "please report this"
        )


def _has_twin(term: Term) -> bool:
    if isinstance(term, StackedTreesTerm):
        return all(map(_has_twin, (*term.columns, *term.others)))
    return _plain.dispatch(type(term)) is not _plain.dispatch(object)


@singledispatch
def _plain(term: Term, rows: Float32s) -> Float64s:
    """Return the value of a term for each scaled row."""
    raise NotImplementedError(type(term).__name__)


@_plain.register
def _constant(term: ConstantTerm, rows: Float32s) -> Float64s:
    return np.full(len(rows), float(term.value))


@_plain.register
def _linear(term: LinearTerm, rows: Float32s) -> Float64s:
    return np.asarray(rows.astype(np.float64) @ term.coefficients)


@_plain.register
def _network(term: NetworkTerm, rows: Float32s) -> Float64s:
    *hidden, (kernel, biases) = perceptron.unflatten(term.theta, term.sizes)
    units = rows.astype(np.float64)
    for weights, own in hidden:
        units = np.maximum(units @ weights.astype(np.float64) + own, 0)
    return np.asarray((units @ kernel.astype(np.float64) + biases) @ term.weights)


@_plain.register
def _trees(term: TreesTerm, rows: Float32s) -> Float64s:
    return _leaves(term.trees, rows) @ term.weights


@_plain.register
def _forest(term: ForestTerm, rows: Float32s) -> Float64s:
    lengths = _leaves(term.forest, rows).mean(axis=1)
    return np.asarray(term.weight * 2.0 ** (-lengths / term.average_path_length))


@_plain.register
def _neighbours(term: NeighboursTerm, rows: Float32s) -> Float64s:
    # Half of a rank is added to each value; how is tested apart.
    places = spread_out(term.quantiles, rows).astype(np.float64)
    found = np.zeros(len(rows))
    for sample in term.neighbours.astype(np.float64):
        for row, place in enumerate(places):
            found[row] += np.sqrt(((sample - place) ** 2).sum(axis=1).min())
    return found / len(term.neighbours)


@_plain.register
def _stack(term: StackedTreesTerm, rows: Float32s) -> Float64s:
    # Trees jump where a column passes a threshold, often its value of a training row, so they get the kernel's column.
    columns = [np.asarray(column.values(rows), dtype=np.float64) for column in term.columns]
    for column, values in zip(term.columns, columns, strict=True):
        _compare(values, _plain(column, rows), _tolerance(values), "as a column of trees in plain NumPy")
    inner = _leaves(term.trees, stacked(rows, columns)) @ term.weights
    inner = inner + sum(_plain(other, rows) for other in term.others)
    bent = zip(term.column_bends, columns, strict=True)
    return np.asarray(term.bend.of(inner) + sum(bend.of(column) for bend, column in bent))


def _leaves(trees: Trees, rows: Float32s) -> Float64s:
    """Return the value of the leaf that each row reaches in each tree."""
    found = np.empty((len(rows), len(trees.roots)))
    for tree, root in enumerate(trees.roots.tolist()):
        nodes = np.full(len(rows), root)
        for _ in range(int(trees.depths[tree])):
            goes_right = rows[np.arange(len(rows)), trees.features[nodes]] > trees.thresholds[nodes]
            nodes = trees.children[nodes, goes_right.astype(np.intp)]
        found[:, tree] = trees.values[nodes]
    return found
