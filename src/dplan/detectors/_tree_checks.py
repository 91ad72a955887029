"""Whether trees from a file are trees: kernels walk them without looking, and a walk must end where it should."""

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.trees import Trees

# Far deeper than trees get. Explaining a score takes time in proportion to nodes times levels.
_DEEPEST = 1_000


def check_trees(name: str, trees: Trees, n_columns: int) -> None:
    """Raise ValueError unless every node belongs to one tree, asks about a column, and is as deep as the file says.

    Examples
    --------
    >>> from dplan._kernels.trees import complete_trees
    >>> stump = complete_trees(np.zeros((1, 1), np.int32), np.zeros((1, 1), np.float32), np.ones((1, 2), np.float32))
    >>> check_trees("trees_", stump, n_columns=1)
    >>> check_trees("trees_", stump._replace(depths=np.array([9])), n_columns=1)
    Traceback (most recent call last):
    ValueError: trees_: tree 0 has 1 level below its root, not 9 as the file says
    """
    n_nodes = len(trees.values)
    for key in ("children", "features", "thresholds"):
        found = len(getattr(trees, key))
        if found != n_nodes:
            raise ValueError(f"{name} has {found:,} {key} for {n_nodes:,} nodes")
    if len(trees.depths) != len(trees.roots):
        raise ValueError(f"{name} has {len(trees.depths):,} depths for {len(trees.roots):,} trees")
    _refuse(name, "asks about no column", (trees.features < 0) | (trees.features >= n_columns))
    places = np.arange(n_nodes)[:, None]
    is_leaf = (trees.children == places).all(axis=1)
    # Children stand after their parent, so that every walk comes to an end.
    leads_on = ((trees.children > places) & (trees.children < n_nodes)).all(axis=1)
    _refuse(name, "points outside of its tree, or back", ~(is_leaf | leads_on))
    outside = (trees.roots < 0) | (trees.roots >= n_nodes)
    if outside.any():
        raise ValueError(f"{name}: tree {np.argmax(outside)} begins at a node that is not there")
    # Nor may two ways lead to one node: walking all of them would take forever.
    ways = np.bincount(np.append(trees.children[~is_leaf], trees.roots), minlength=n_nodes)
    _refuse(name, "belongs to two others", ways > 1)
    _refuse(name, "belongs to no tree", ways < 1)
    _check_depths(name, trees, is_leaf)


def _check_depths(name: str, trees: Trees, is_leaf: NDArray[np.bool_]) -> None:
    """Go down all trees at once, level by level, and compare what is found with what the file says."""
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
        levels = f"{depths[tree]:,} level" + ("" if depths[tree] == 1 else "s")
        raise ValueError(
            f"{name}: tree {tree} has {levels} below its root, not {trees.depths[tree]:,} as the file says"
        )


def _refuse(name: str, why: str, wrong: NDArray[np.bool_]) -> None:
    if wrong.any():
        raise ValueError(f"{name}: node {np.argmax(wrong)} {why}")
