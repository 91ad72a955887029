"""Trees as the attributes of ONNX's TreeEnsembleRegressor."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.trees import Trees

__all__ = ["tree_attributes"]


def tree_attributes(trees: Trees, weights: NDArray[np.float64]) -> dict[str, Any]:
    """Return attributes that make the operator sum up weighted leaves.

    Nodes that send every row to one side, such as those that pad DPLAN's isolation trees, are left out.

    Examples
    --------
    >>> from dplan._kernels.trees import complete_trees
    >>> padded = complete_trees(np.array([[1, 0, 1]], np.int32), np.array([[0.5, np.inf, 2.0]], np.float32),
    ...                         np.array([[3.0, 4.0, 5.0, 6.0]], np.float32))
    >>> made = tree_attributes(padded, np.array([10.0]))
    >>> made["nodes_modes"], made["target_weights"]
    (['BRANCH_LEQ', 'LEAF', 'BRANCH_LEQ', 'LEAF', 'LEAF'], [30.0, 50.0, 60.0])
    """
    children, thresholds = trees.children.astype(np.int64), trees.thresholds
    nodes = np.arange(len(thresholds))
    is_leaf = children[:, 0] == nodes
    one_sided = np.isinf(thresholds) & ~is_leaf
    led_to = np.where(one_sided, children[nodes, (thresholds < 0).astype(np.int64)], nodes)
    while one_sided[led_to].any():
        led_to = led_to[led_to]
    levels, owners = [led_to[trees.roots]], [np.arange(len(trees.roots))]
    while len(levels[-1]):
        inner = ~is_leaf[levels[-1]]
        owners.append(np.repeat(owners[-1][inner], 2))
        levels.append(led_to[children[levels[-1][inner]]].ravel())
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")  # tree by tree, and its root first
    owner, kept = owner[order], np.concatenate(levels)[order]
    leaf, numbers = is_leaf[kept], np.arange(len(kept))
    number_of = np.zeros(len(nodes), dtype=np.int64)
    number_of[kept] = numbers
    left, right = number_of[led_to[children[kept]]].T
    return {
        "nodes_treeids": owner.tolist(),
        "nodes_nodeids": numbers.tolist(),
        "nodes_featureids": trees.features[kept].tolist(),
        "nodes_values": np.where(leaf, 0.0, thresholds[kept]).tolist(),
        "nodes_modes": np.where(leaf, "LEAF", "BRANCH_LEQ").tolist(),
        "nodes_truenodeids": np.where(leaf, 0, left).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, right).tolist(),
        "target_treeids": owner[leaf].tolist(),
        "target_nodeids": numbers[leaf].tolist(),
        "target_ids": [0] * int(leaf.sum()),
        "target_weights": (weights[owner] * trees.values[kept])[leaf].tolist(),
        "n_targets": 1,
    }
