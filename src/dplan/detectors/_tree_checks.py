"""Checks of trees from a file: kernels traverse them without checking bounds."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.trees import Trees

# Far deeper than fitted trees. The time to explain a score is proportional to nodes times levels.
_DEEPEST = 1_000


def check_trees(name: str, trees: Trees, n_columns: int) -> None:
    """Raise ValueError unless every node is in one tree and tests a column, and all depths are right.

    Examples
    --------
    >>> from dplan._kernels.trees import complete_trees
    >>> stump = complete_trees(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32), np.ones((1, 2), np.float32))
    >>> check_trees("trees_", stump, n_columns=1)
    >>> check_trees("trees_", stump._replace(depths=np.array([9])), n_columns=1)
    Traceback (most recent call last):
    ValueError: trees_: tree 0 has a depth of 1, but the file says 9
    """
    n_nodes = len(trees.values)
    for key in ("children", "features", "thresholds"):
        found = len(getattr(trees, key))
        if found != n_nodes:
            raise ValueError(f"{name} has {found:,} {key} for {n_nodes:,} nodes")
    if len(trees.depths) != len(trees.roots):
        raise ValueError(f"{name} has {len(trees.depths):,} depths for {len(trees.roots):,} trees")
    _reject(name, "tests a column that does not exist", (trees.features < 0) | (trees.features >= n_columns))
    places = np.arange(n_nodes)[:, None]
    is_leaf = (trees.children == places).all(axis=1)
    # Children come after their parent, so that every traversal ends.
    is_inner = ((trees.children > places) & (trees.children < n_nodes)).all(axis=1)
    _reject(name, "has invalid children", ~(is_leaf | is_inner))
    outside = (trees.roots < 0) | (trees.roots >= n_nodes)
    if outside.any():
        raise ValueError(f"{name}: the root of tree {np.argmax(outside)} does not exist")
    # A node must not have two parents: visiting all paths could take forever.
    parents = np.bincount(np.append(trees.children[~is_leaf], trees.roots), minlength=n_nodes)
    _reject(name, "has two parents", parents > 1)
    _reject(name, "is in no tree", parents < 1)
    _check_depths(name, trees, is_leaf)


def _check_depths(name: str, trees: Trees, is_leaf: NDArray[np.bool_]) -> None:
    """Traverse all trees level by level, and compare their depths with the stored ones."""
    depths = np.zeros(len(trees.roots), dtype=np.int64)
    nodes, tree_of = trees.roots, np.arange(len(trees.roots))
    for depth in range(_DEEPEST + 1):
        inner = ~is_leaf[nodes]
        if not inner.any():
            break
        nodes, tree_of = trees.children[nodes[inner]].ravel(), np.repeat(tree_of[inner], 2)
        depths[tree_of] = depth + 1
    else:
        raise ValueError(f"{name}: tree {tree_of[0]} is more than {_DEEPEST:,} levels deep")
    wrong = depths != trees.depths
    if wrong.any():
        tree = int(np.argmax(wrong))
        raise ValueError(
            f"{name}: tree {tree} has a depth of {depths[tree]:,}, but the file says {trees.depths[tree]:,}"
        )


def _reject(name: str, why: str, wrong: NDArray[np.bool_]) -> None:
    if wrong.any():
        raise ValueError(f"{name}: node {np.argmax(wrong)} {why}")
