"""Fitted trees as plain arrays: extracted from scikit-learn, traversed here, easy to save."""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly
from dplan._kernels.product import LANES
from dplan._kernels.tree_tops import MANY, WORD, Tops, exits_of_few, exits_of_many, tops
from dplan.arrays import Float32s

_BLOCK_ROWS = 128  # so few that all their columns stay in the processor's nearest cache


class _Nodes(NamedTuple):
    roots: NDArray[np.int32]  # the root node of each tree
    depths: NDArray[np.int32]  # steps from the root to the deepest leaf
    children: NDArray[np.int32]  # (nodes, 2): left and right; a leaf is its own child
    features: NDArray[np.int32]  # the column that a node tests
    thresholds: Float32s  # up to this value a row goes left
    values: NDArray[np.float64]  # of a leaf


class Trees(_Nodes):
    """The nodes of all trees, tree by tree."""

    @cached_property
    def tops(self) -> Tops:
        """The upper nodes of each tree, arranged for `sum_of_leaves`."""
        return tops(self.roots, self.children, self.features, self.thresholds, self.values)


def one_tree(
    left: NDArray[np.integer],
    right: NDArray[np.integer],
    is_leaf: NDArray[np.bool_],
    features: NDArray[np.integer],
    thresholds: NDArray[np.float64],
    values: NDArray[np.float64],
) -> Trees:
    """Return a single tree whose nodes are numbered from 0, children after their parents."""
    nodes = np.arange(len(is_leaf))
    children = np.where(is_leaf[:, None], nodes[:, None], np.stack([left, right], axis=1))
    # The largest float32 not above the threshold splits float32 rows identically.
    rounded = np.where(is_leaf, 0.0, thresholds).astype(np.float32)
    rounded = np.where(rounded > thresholds, np.nextafter(rounded, np.float32(-np.inf)), rounded)
    return Trees(
        roots=np.zeros(1, dtype=np.int32),
        depths=np.array([depth_of_nodes(left, right, is_leaf).max()], dtype=np.int32),
        children=children.astype(np.int32),
        features=np.where(is_leaf, 0, features).astype(np.int32),
        thresholds=rounded,
        values=np.where(is_leaf, values, 0.0),
    )


def complete_trees(features: NDArray[np.int32], thresholds: Float32s, path_lengths: Float32s) -> Trees:
    """Convert the trees of `dplan._kernels.forest`, whose nodes are in heap order; leaf values are path lengths.

    Examples
    --------
    >>> stump = complete_trees(np.zeros((1, 1), np.int32), np.full((1, 1), 0.5, np.float32),
    ...                        np.array([[1.0, 2.0]], np.float32))
    >>> sum_of_leaves(stump, np.array([[0.0], [1.0]], dtype=np.float32))
    array([1., 2.])
    """
    n_trees, n_inner = features.shape
    n_nodes = 2 * n_inner + 1
    inner, nodes = np.arange(n_inner), np.arange(n_nodes)
    children = np.stack([nodes, nodes], axis=1)
    children[:n_inner] = np.stack([2 * inner + 1, 2 * inner + 2], axis=1)
    roots = n_nodes * np.arange(n_trees)
    no_inner, no_leaf = np.zeros((n_trees, n_inner)), np.zeros((n_trees, n_inner + 1))
    return Trees(
        roots=roots.astype(np.int32),
        depths=np.full(n_trees, int(np.log2(n_inner + 1)), dtype=np.int32),
        children=(roots[:, None, None] + children).reshape(-1, 2).astype(np.int32),
        features=np.concatenate([features, no_leaf], axis=1).ravel().astype(np.int32),
        thresholds=np.concatenate([thresholds, no_leaf], axis=1).ravel().astype(np.float32),
        values=np.concatenate([no_inner, path_lengths], axis=1).ravel(),
    )


def depth_of_nodes(
    left: NDArray[np.integer], right: NDArray[np.integer], is_leaf: NDArray[np.bool_]
) -> NDArray[np.int64]:
    """Return the depth of each node.

    Examples
    --------
    >>> depth_of_nodes(np.array([1, 0, 3, 0, 0]), np.array([2, 0, 4, 0, 0]), np.array([0, 1, 0, 1, 1], bool))
    array([0, 1, 1, 2, 2])
    """
    depths = np.zeros(len(is_leaf), dtype=np.int64)
    for node in np.flatnonzero(~is_leaf):
        depths[left[node]] = depths[right[node]] = depths[node] + 1
    return depths


def join_trees(trees: Sequence[Trees]) -> Trees:
    """Concatenate trees.

    Examples
    --------
    >>> stump = one_tree(*np.array([[1, 0, 0], [2, 0, 0]]), np.array([False, True, True]), np.zeros(3, dtype=int),
    ...                  np.full(3, 0.5), np.array([0.0, 10.0, 20.0]))
    >>> both = join_trees([stump, stump])
    >>> both.roots, sum_of_leaves(both, np.array([[0.0], [1.0]], dtype=np.float32))
    (array([0, 3], dtype=int32), array([20., 40.]))
    """
    if not trees:
        no_trees, no_nodes = np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int32)
        return Trees(
            no_trees, no_trees, no_nodes.reshape(0, 2), no_nodes, np.zeros(0, np.float32), np.zeros(0)
        )
    starts = np.cumsum([0, *(len(tree.values) for tree in trees)])[:-1].astype(np.int32)
    moved = [
        tree._replace(roots=tree.roots + start, children=tree.children + start)
        for tree, start in zip(trees, starts, strict=True)
    ]
    return Trees(*(np.concatenate(parts) for parts in zip(*moved, strict=True)))


def sum_of_leaves(
    trees: Trees, rows: Float32s, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the sum, over all trees, of the values of the leaves that each row ends in, times the tree's weight."""
    sums: NDArray[np.float64] = sums_of_leaves(trees, rows, 1, weights)[0]
    return sums


def sums_of_leaves(
    trees: Trees, rows: Float32s, n_groups: int, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return the sums for groups of consecutive trees, as many in each, with shape (groups, rows)."""
    sums = np.zeros((n_groups, len(rows)))
    every = np.ones(len(trees.roots)) if weights is None else weights
    top = trees.tops
    # Addresses, plain arrays and memory: compiling what unpacks or allocates takes longer than compiling the loops.
    _add_leaves(
        top.features.ctypes.data,
        top.thresholds.ctypes.data,
        top.masks.ctypes.data,
        top.words,
        top.starts,
        top.exits.ravel(),
        top.values.ravel(),
        top.levels,
        trees.children.ravel(),
        trees.features,
        trees.thresholds,
        trees.values,
        np.ascontiguousarray(rows),
        every,
        np.zeros(rows.shape[1] * _BLOCK_ROWS, dtype=np.float32),
        np.zeros(_BLOCK_ROWS, dtype=np.int32),
        np.zeros(_BLOCK_ROWS, dtype=np.int32),
        sums,
    )
    return sums


@compiled_exactly
def _add_leaves(
    top_features: int,
    top_thresholds: int,
    masks: int,
    words: NDArray[np.int64],
    starts: NDArray[np.int64],
    exits: NDArray[np.int32],
    exit_values: NDArray[np.float64],
    levels: NDArray[np.int64],
    children: NDArray[np.int32],
    features: NDArray[np.int32],
    thresholds: Float32s,
    values: NDArray[np.float64],
    rows: Float32s,
    weights: NDArray[np.float64],
    cells: Float32s,  # (columns × rows of a block), column by column
    places: NDArray[np.int32],  # (rows of a block)
    nodes: NDArray[np.int32],  # (rows of a block)
    sums: NDArray[np.float64],
) -> None:
    n_rows, n_columns = rows.shape
    n_trees = len(weights)
    first_cell, first_place = cells.ctypes.data, places.ctypes.data
    for start in range(0, n_rows, _BLOCK_ROWS):
        n_block = min(_BLOCK_ROWS, n_rows - start)
        for row in range(n_block):
            for column in range(n_columns):
                cells[column * _BLOCK_ROWS + row] = rows[start + row, column]
        for tree in range(n_trees):
            for word in range(words[tree], words[tree + 1]):
                begin, n, place = 4 * starts[word], starts[word + 1] - starts[word], np.int32(WORD * word)
                a, b, c = top_features + begin, top_thresholds + begin, masks + begin
                row = 0
                while row < n_block:
                    own, out = first_cell + 4 * row, first_place + 4 * row
                    if n_block - row > LANES:
                        exits_of_many(a, b, c, n, own, _BLOCK_ROWS, place, out)
                        row += MANY
                    else:
                        exits_of_few(a, b, c, n, own, _BLOCK_ROWS, place, out)
                        row += LANES
            group, weight = tree * len(sums) // n_trees, weights[tree]
            if levels[tree] == 0:
                for row in range(n_block):
                    sums[group, start + row] += weight * exit_values[np.uint32(places[row])]
                continue
            for row in range(n_block):
                nodes[row] = exits[np.uint32(places[row])]
            for _ in range(levels[tree]):
                # Level by level and with unsigned indices, so that the loop over rows is vectorised.
                for row in range(n_block):
                    node = np.uint32(nodes[row])
                    cell = np.uint32(features[node]) * np.uint32(_BLOCK_ROWS) + np.uint32(row)
                    goes_right = np.uint32(cells[cell] > thresholds[node])
                    nodes[row] = children[np.uint32(2 * node + goes_right)]
            for row in range(n_block):
                sums[group, start + row] += weight * values[np.uint32(nodes[row])]


def isolation(forest: Trees, average_path_length: float, rows: Float32s) -> NDArray[np.float64]:
    """Return the isolation score of each row, in (0, 1], by a forest whose leaf values are path lengths.

    It is 2^(-mean path length / average path length).

    Examples
    --------
    >>> stump = complete_trees(np.zeros((1, 1), np.int32), np.full((1, 1), 0.5, np.float32),
    ...                        np.array([[1.0, 2.0]], np.float32))
    >>> isolation(stump, 1.0, np.array([[0.0], [1.0]], dtype=np.float32))
    array([0.5 , 0.25])
    """
    return exp2(sum_of_leaves(forest, rows) / (-len(forest.roots) * average_path_length))


def exp2(exponents: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 2^x, computed with additions and multiplications only.

    Their results are bit-identical everywhere; those of ``np.exp2`` depend on the C library and the processor.

    Examples
    --------
    >>> exp2(np.array([-2.0, -0.5, 0.0]))
    array([0.25      , 0.70710678, 1.        ])
    """
    powers = np.empty_like(exponents)
    _exp2(exponents, powers)
    return powers


@compiled_exactly
def _exp2(exponents: NDArray[np.float64], powers: NDArray[np.float64]) -> None:
    for i in range(len(exponents)):
        exponent = max(exponents[i], -1100.0)  # below this, the result is 0
        whole = np.rint(exponent)
        x = (exponent - whole) * np.log(2)
        power = 1.0
        for k in range(14, 0, -1):  # Taylor series of e^x; the 15th term does not matter for |x| < 0.35
            power = 1 + x / k * power
        powers[i] = math.ldexp(power, np.int32(whole))  # type: ignore[arg-type]  # numba needs this width
