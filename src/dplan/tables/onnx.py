"""Export a model as an ONNX graph: preparation and detector in one file that needs neither this package nor Python.

The inputs are the table's number, flag and date columns as one float64 tensor ``numbers`` (dates as microseconds since
1970, durations in seconds, missing values as NaN) and, if there are any, its text columns as one string tensor
``texts`` (missing values as empty strings; of IBANs and e-mail addresses only the part that the model uses). The output
is ``score``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron
from dplan._kernels.scaling import rank_step
from dplan._kernels.trees import Trees
from dplan.columns.column import Column
from dplan.columns.records import scaled_in_onnx
from dplan.detectors._base import Detector
from dplan.exceptions import needs
from dplan.persistence.atomic import store
from dplan.tables.model import TableModel

__all__ = ["Graph", "export_onnx", "tree_attributes"]

_OPSET = 19  # the first one that can compare strings
_TREES, _TREES_OPSET = "ai.onnx.ml", 3


def export_onnx(model: TableModel, path: str | Path) -> None:
    """Write a model as an ONNX file.

    Parameters
    ----------
    model : TableModel
        A model of any detector except REPEN.
    path : path
        The file to write.

    Examples
    --------
    >>> import tempfile
    >>> import polars as pl
    >>> import dplan
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> own = dplan.tables.from_table(table, label="fraud")
    >>> model = dplan.tables.fit_table(own, dplan.LogisticBaseline())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     export_onnx(model, f"{folder}/model.onnx")
    """
    try:
        import onnx
        from onnx import TensorProto, helper
    except ModuleNotFoundError as error:
        raise needs("exporting to ONNX", "onnx") from error
    graph = Graph()
    columns = [column for column in model.preparation.columns_ if column.is_used]
    names = {tensor: [c.name for c in columns if c.tensor == tensor] for tensor in ("numbers", "texts")}
    types = {"numbers": TensorProto.DOUBLE, "texts": TensorProto.STRING}
    inputs = [
        helper.make_tensor_value_info(tensor, types[tensor], ["rows", len(own)])
        for tensor, own in names.items()
        if own
    ]
    features = _prepared(graph, columns)
    graph.rename(_score(graph, model.detector, features), "score")
    made = helper.make_model(
        helper.make_graph(
            graph.nodes,
            "dplan",
            inputs,
            [helper.make_tensor_value_info("score", TensorProto.FLOAT, ["rows"])],
            graph.constants,
        ),
        opset_imports=[helper.make_opsetid("", _OPSET), helper.make_opsetid(_TREES, _TREES_OPSET)],
        ir_version=9,
        producer_name="dplan",
    )
    helper.set_model_props(made, {tensor: "\n".join(own) for tensor, own in names.items()})
    onnx.checker.check_model(made)
    store(path, made.SerializeToString())


class Graph:
    """Nodes and constants of a graph, numbered in the order in which they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        from onnx import helper

        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, value: NDArray[Any]) -> str:
        """Add a constant; return its name."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def network(self, theta: NDArray[np.float32], sizes: NDArray[np.int64], rows: str) -> str:
        """Add a network; return its outputs."""
        layers = perceptron.unflatten(theta, sizes)
        for i, (kernel, biases) in enumerate(layers):
            rows = self.add("Gemm", rows, self.constant(kernel), self.constant(biases))
            if i < len(layers) - 1:
                rows = self.add("Relu", rows)
        return rows

    def trees(self, trees: Trees, weights: NDArray[np.float64], rows: str) -> str:
        """Add trees; return the sum of their weighted leaves in float64."""
        from onnx import numpy_helper

        attributes = tree_attributes(trees, weights)
        for name in ("nodes_values", "target_weights"):  # as float64, so that leaves are summed in float64
            attributes[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(attributes.pop(name)), name)
        sums = self.add("TreeEnsembleRegressor", self.wide(rows), domain=_TREES, **attributes)
        return self.wide(self.add("Squeeze", sums, self.second_axis()))

    def with_ranks(
        self, quantiles: NDArray[np.float32], rows: str, value_weight: float, rank_weight: float
    ) -> str:
        """Add a weighted sum of each value and its rank, as `dplan._kernels.scaling.with_ranks` does."""
        values, every = self.add("Unsqueeze", rows, self.second_axis()), self.constant(quantiles[None])
        found = [
            self.add("Cast", self.add(how, values, every), to=1) for how in ("Greater", "GreaterOrEqual")
        ]
        counts = self.add("ReduceSum", self.add("Sum", *found), self.second_axis(), keepdims=0)
        weights = np.array([value_weight, rank_step(quantiles, rank_weight)], dtype=np.float32)
        parts = [
            self.add("Mul", part, self.constant(weight))
            for part, weight in zip((rows, counts), weights, strict=True)
        ]
        return self.add("Add", *parts)

    def nearest(self, neighbours: NDArray[np.float32], rows: str) -> str:
        """Add the mean distance to the nearest row of each sample: x² - 2 x·z + z², which is inaccurate in float32."""
        n_samples, n_each, n_columns = neighbours.shape
        every = neighbours.reshape(-1, n_columns).astype(np.float64)
        wide = self.wide(rows)
        own = self.add("ReduceSum", self.add("Mul", wide, wide), self.second_axis(), keepdims=1)
        shifts = self.constant((every**2).sum(axis=1))
        both = self.add("MatMul", wide, self.constant(-2 * every.T))
        squares = self.add("Add", self.add("Add", both, shifts), own)
        by_sample = self.add("Reshape", squares, self.constant(np.array([-1, n_samples, n_each])))
        last = self.constant(np.array([2], dtype=np.int64))
        nearest = self.add("ReduceMin", by_sample, last, keepdims=0)
        distances = self.add("Sqrt", self.add("Max", nearest, self.constant(np.array(0.0))))
        return self.add("ReduceMean", distances, self.second_axis(), keepdims=0)

    def wide(self, values: str) -> str:
        """Add a conversion to float64."""
        return self.add("Cast", values, to=11)

    def second_axis(self) -> str:
        """Add a constant for the second axis; return its name."""
        return self.constant(np.array([1], dtype=np.int64))

    def rename(self, last: str, name: str) -> None:
        """Rename the output of the last node."""
        self.nodes[-1].output[0] = name
        assert last == f"v{len(self.nodes) - 1}"


def tree_attributes(trees: Trees, weights: NDArray[np.float64]) -> dict[str, Any]:
    """Return the attributes of a TreeEnsembleRegressor that sums weighted leaves.

    Nodes that send all rows to one side, such as those that pad DPLAN's isolation trees, are skipped.

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
    next_node = np.where(one_sided, children[nodes, (thresholds < 0).astype(np.int64)], nodes)
    while one_sided[next_node].any():
        next_node = next_node[next_node]
    levels, owners = [next_node[trees.roots]], [np.arange(len(trees.roots))]
    while len(levels[-1]):
        inner = ~is_leaf[levels[-1]]
        owners.append(np.repeat(owners[-1][inner], 2))
        levels.append(next_node[children[levels[-1][inner]]].ravel())
    owner = np.concatenate(owners)
    order = np.argsort(owner, kind="stable")  # tree by tree, the root first
    owner, kept = owner[order], np.concatenate(levels)[order]
    leaf, numbers = is_leaf[kept], np.arange(len(kept))
    number_of = np.zeros(len(nodes), dtype=np.int64)
    number_of[kept] = numbers
    left, right = number_of[next_node[children[kept]]].T
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


def _prepared(graph: Graph, columns: Sequence[Column]) -> str:
    """Add the features of all columns: scaled together where that is all, and by each other column itself."""
    names = {tensor: [c.name for c in columns if c.tensor == tensor] for tensor in ("numbers", "texts")}
    of = {column.name: column for column in columns}

    def cell_of(name: str) -> str:
        tensor = of[name].tensor
        return _column(graph, tensor, names[tensor].index(name))

    scalings = {column.name: scaling for column in columns if (scaling := column.scaling()) is not None}
    found: dict[str, str] = {}
    if scalings:
        places = np.array([names["numbers"].index(name) for name in scalings], dtype=np.int64)
        cells = graph.add("Gather", "numbers", graph.constant(places), axis=1)
        scaled = scaled_in_onnx(graph, cells, list(scalings.values()))
        fill = graph.constant(np.array([of[name].fill[0] for name in scalings]))
        filled = graph.add("Where", graph.add("IsNaN", cells), fill, scaled)
        scaled = graph.add("Cast", filled, to=1)  # to float32
        found = {name: _column(graph, scaled, k) for k, name in enumerate(scalings)}
    for column in columns:
        if column.name not in found:
            found[column.name] = column.onnx(graph, cell_of)
    return graph.add("Concat", *(found[column.name] for column in columns), axis=1)


def _column(graph: Graph, table: str, j: int) -> str:
    return graph.add("Gather", table, graph.constant(np.array([j], dtype=np.int64)), axis=1)


def _score(graph: Graph, detector: Detector, features: str) -> str:
    """Scale features as the detector does, and score them."""
    low, inverse, quantiles, rank_share = detector._scaling
    halved = graph.add("Mul", graph.wide(features), graph.constant(np.array(0.5)))
    centred = graph.add("Sub", halved, graph.constant(low))
    rows = graph.add("Cast", graph.add("Mul", centred, graph.constant(inverse)), to=1)
    if quantiles is not None:
        rows = graph.with_ranks(quantiles, rows, 1 - rank_share, rank_share)
    terms: list[str] = []
    for term in detector._terms():
        values = term.to_onnx(graph, rows)
        if values is None:
            raise TypeError(f"{type(detector).__name__} cannot be exported to ONNX")
        terms.append(values)
    score, *others = terms
    # In float64: the medians of members can be far larger than the score, and float32 would round them.
    for other in others:
        score = graph.add("Add", score, other)
    return graph.add("Cast", score, to=1)  # to float32
