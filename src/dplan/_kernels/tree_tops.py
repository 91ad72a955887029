"""The upper nodes of trees, arranged so that a row is compared with all of them and needs to follow no path.

Following a path is slow: every step loads from places that only the previous step tells. So the upper nodes of a tree
are compared with many rows at once, one node after the other, whether or not a row's path leads there (QuickScorer:
Lucchese et al., 2015). The places where paths leave the top, its exits, are numbered from left to right, one bit each.
A row that goes right at a node cannot leave through the exits on its left; the lowest bit that is left over is its
exit. Most boosted trees have no other nodes; from an exit of a larger tree, paths are followed.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

N_EXITS = 32  # bits of a mask
TOGETHER = 4  # nodes that a kernel compares at the same time
_ALL = 2**N_EXITS - 1

Nodes = NDArray[np.int32]


class Tops(NamedTuple):
    """The tops of all trees, tree by tree."""

    starts: NDArray[np.int32]  # (trees + 1): the first node of each top
    features: NDArray[np.int32]  # the column that a node tests
    thresholds: NDArray[np.float32]  # up to this value a row goes left
    masks: NDArray[np.uint32]  # the exits of a row that goes right
    exits: NDArray[np.int32]  # (trees, N_EXITS): the nodes below the top, in the numbering of the trees
    levels: NDArray[np.int32]  # (trees): from an exit to the deepest leaf


def tops(roots: Nodes, children: Nodes, features: Nodes, thresholds: NDArray[np.float32]) -> Tops:
    """Take as many inner nodes of each tree as a mask has bits for, level by level from the root.

    Examples
    --------
    >>> children = np.array([[1, 4], [2, 3], [2, 2], [3, 3], [4, 4]], dtype=np.int32)
    >>> top = tops(np.zeros(1, np.int32), children, np.arange(5, dtype=np.int32), np.ones(5, np.float32))
    >>> top.features, [f"{mask:b}"[-3:] for mask in top.masks], top.exits[0, :3]
    (array([0, 1, 0, 0], dtype=int32), ['100', '110', '111', '111'], array([2, 3, 4], dtype=int32))
    """
    levels = _levels(roots, children)
    n_exits, first = np.ones(len(children), np.int64), np.zeros(len(children), np.int64)
    heights = np.zeros(len(children), np.int32)
    for inner, _, in_top in reversed(levels):
        left, right = children[inner].T
        heights[inner] = 1 + np.maximum(heights[left], heights[right])
        n_exits[inner[in_top]] = (n_exits[left] + n_exits[right])[in_top]
    exits = np.zeros((len(roots), N_EXITS), dtype=np.int32)
    exits[:, 0] = roots
    for inner, tree_of, in_top in levels:
        nodes, own = inner[in_top], tree_of[in_top]
        left, right = children[nodes].T
        first[left], first[right] = first[nodes], first[nodes] + n_exits[left]
        # A child in the top is not an exit: the next level replaces it.
        exits[own, first[left]], exits[own, first[right]] = left, right
    is_exit = np.arange(N_EXITS) < n_exits[roots, None]

    inner, tree_of, in_top = (np.concatenate(parts) for parts in zip(*levels, strict=True))
    order = np.flatnonzero(in_top)[np.argsort(tree_of[in_top], kind="stable")]
    nodes, own = inner[order], tree_of[order]
    counts = np.bincount(own, minlength=len(roots))
    starts = np.append(0, np.cumsum(-(-counts // TOGETHER) * TOGETHER))
    # Tops are filled up with nodes where all rows go left.
    places = starts[own] + np.arange(len(own)) - (np.cumsum(counts) - counts)[own]
    in_left = (1 << n_exits[children[nodes, 0]]) - 1 << first[nodes]
    return Tops(
        starts=starts.astype(np.int32),
        features=_placed(features[nodes], places, starts[-1], 0),
        thresholds=_placed(thresholds[nodes], places, starts[-1], np.inf),
        masks=_placed((_ALL & ~in_left).astype(np.uint32), places, starts[-1], _ALL),
        exits=exits,
        levels=np.where(is_exit, heights[exits], 0).max(axis=1, initial=0).astype(np.int32),
    )


def _levels(roots: Nodes, children: Nodes) -> list[tuple[Nodes, NDArray[np.int64], NDArray[np.bool_]]]:
    """Return the inner nodes of each level, their trees, and whether they are in the top."""
    levels = []
    nodes, tree_of = roots, np.arange(len(roots))
    n_before = np.zeros(len(roots), dtype=np.int64)
    while True:
        is_inner = children[nodes, 0] != nodes
        inner, tree_of = nodes[is_inner], tree_of[is_inner]
        place = np.arange(len(inner)) - np.searchsorted(tree_of, tree_of)
        levels.append((inner, tree_of, n_before[tree_of] + place < N_EXITS - 1))
        if len(inner) == 0:
            return levels
        n_before += np.bincount(tree_of, minlength=len(roots))
        nodes, tree_of = children[inner].ravel(), np.repeat(tree_of, 2)


def _placed(values: NDArray[Any], places: NDArray[np.int64], length: int, others: float) -> NDArray[Any]:
    """Return an array with values at some places."""
    array = np.full(length, others, dtype=values.dtype)
    array[places] = values
    return array
