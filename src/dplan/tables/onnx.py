"""A model as an ONNX graph: preparation and detector in one file that needs neither this package nor Python.

The graph takes the table's number, flag and date columns as one float64 tensor ``numbers`` (dates as microseconds since
1970, NaN for a missing value) and, if there are any, its text columns as one string tensor ``texts`` (an empty text for
a missing value), and gives ``score``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron
from dplan._kernels.trees import Trees
from dplan.detectors._score_parts import NAMES, Parts, score_parts
from dplan.persistence.atomic import written_whole
from dplan.tables.columns import LIMIT, Column
from dplan.tables.model import TableModel
from dplan.tables.onnx_trees import tree_attributes

__all__ = ["export_onnx"]

_OPSET = 19  # the first one that compares texts
_TREES, _TREES_OPSET = "ai.onnx.ml", 3


def export_onnx(model: TableModel, path: str | Path) -> None:
    """Write a model as an ONNX file.

    Parameters
    ----------
    model : TableModel
        A model of any detector but REPEN, whose score needs its training rows, and CatBoost's trees.
    path : path
        The file to write.
    """
    try:
        import onnx
        from onnx import TensorProto, helper
    except ModuleNotFoundError as error:
        raise ImportError("exporting needs ONNX: run  pip install 'dplan-ad[onnx]'") from error
    graph = _Graph()
    numbers = [column for column in model.preparation.columns_ if column.kind != "text"]
    texts = [column for column in model.preparation.columns_ if column.kind == "text"]
    inputs = []
    prepared: dict[str, str] = {}
    if numbers:
        inputs.append(helper.make_tensor_value_info("numbers", TensorProto.DOUBLE, ["rows", len(numbers)]))
        prepared |= _numbers(graph, numbers)
    if texts:
        inputs.append(helper.make_tensor_value_info("texts", TensorProto.STRING, ["rows", len(texts)]))
        prepared |= _texts(graph, texts)
    features = graph.add("Concat", *(prepared[column.name] for column in model.preparation.columns_), axis=1)
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
    names = {"numbers": [column.name for column in numbers], "texts": [column.name for column in texts]}
    helper.set_model_props(made, {kind: "\n".join(columns) for kind, columns in names.items()})
    onnx.checker.check_model(made)
    with written_whole(path) as temporary:
        temporary.write_bytes(made.SerializeToString())


class _Graph:
    """Nodes and constants, named as they are added."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        from onnx import helper

        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def constant(self, value: NDArray[Any]) -> str:
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def rename(self, last: str, name: str) -> None:
        self.nodes[-1].output[0] = name
        assert last == f"v{len(self.nodes) - 1}"


def _numbers(graph: _Graph, columns: list[Column]) -> dict[str, str]:
    """Scale all number columns at once, with the mean for what is missing, and take them apart."""
    factor, shift, span = (np.array(values) for values in zip(*(c.scaling() for c in columns), strict=True))
    fill = np.array([column.fill[0] for column in columns])
    scaled = graph.add("Sub", graph.add("Mul", "numbers", graph.constant(factor)), graph.constant(shift))
    scaled = graph.add("Div", scaled, graph.constant(span))
    scaled = graph.add("Clip", scaled, graph.constant(np.array(-LIMIT)), graph.constant(np.array(LIMIT)))
    filled = graph.add("Where", graph.add("IsNaN", "numbers"), graph.constant(fill), scaled)
    single = graph.add("Cast", filled, to=1)  # to float32
    return {column.name: _column(graph, single, j) for j, column in enumerate(columns)}


def _texts(graph: _Graph, columns: list[Column]) -> dict[str, str]:
    """Compare every text with the levels of its column; what is missing becomes the shares of the levels."""
    found = {}
    empty = graph.constant(np.array([""], dtype=object))
    for j, column in enumerate(columns):
        text = _column(graph, "texts", j)
        levels = graph.constant(np.array([column.levels], dtype=object))
        hot = graph.add("Cast", graph.add("Equal", text, levels), to=1)
        shares = graph.constant(np.array([column.fill], dtype=np.float32))
        found[column.name] = graph.add("Where", graph.add("Equal", text, empty), shares, hot)
    return found


def _column(graph: _Graph, table: str, j: int) -> str:
    return graph.add("Gather", table, graph.constant(np.array([j], dtype=np.int64)), axis=1)


def _score(graph: _Graph, detector: Any, features: str) -> str:
    """Scale features as the detector does, and score them."""
    halved = graph.add("Mul", _wide(graph, features), graph.constant(np.array(0.5)))
    centred = graph.add("Sub", halved, graph.constant(detector.column_low_))
    rows = graph.add("Cast", graph.add("Mul", centred, graph.constant(detector.column_inverse_)), to=1)
    name = type(detector).__name__
    if name == "LogisticBaseline":
        values = graph.add("MatMul", rows, graph.constant(detector.coefficients_.astype(np.float32)))
        return graph.add("Add", values, graph.constant(np.array(detector.intercept_, dtype=np.float32)))
    if name == "DeepSAD":
        embedded = graph.add("Relu", _network(graph, detector, rows))
        gaps = graph.add("Sub", embedded, graph.constant(detector.centre_))
        return graph.add("ReduceSum", graph.add("Mul", gaps, gaps), _second_axis(graph), keepdims=0)
    parts = score_parts(detector)
    if parts is None:
        allowed = ", ".join([*NAMES, "DeepSAD", "LogisticBaseline"])
        raise TypeError(f"{name} cannot be exported to ONNX; these can: {allowed}")
    return _sum_of_parts(graph, detector, parts, rows)


def _sum_of_parts(graph: _Graph, detector: Any, parts: Parts, rows: str) -> str:
    """Add up in float64: what standardises a member can be far larger than the score, and float32 would round it."""
    score = graph.constant(np.array(parts.constant))
    if len(parts.output_weights):
        values = _wide(graph, _network(graph, detector, rows))
        score = graph.add("Add", graph.add("MatMul", values, graph.constant(parts.output_weights)), score)
    if parts.trees is not None and len(parts.trees.roots):
        score = graph.add("Add", _trees(graph, parts.trees, parts.tree_weights, rows), score)
    if parts.neighbours is not None:
        distances = _nearest(graph, parts.neighbours, rows)
        weighted = graph.add("Mul", distances, graph.constant(np.array(parts.neighbours_weight)))
        score = graph.add("Add", weighted, score)
    if parts.forest is not None:
        n_trees = len(parts.forest.roots)
        rate = np.full(n_trees, -1 / (n_trees * parts.usual_path_length))
        exponents = _trees(graph, parts.forest, rate, rows)
        isolated = graph.add("Pow", graph.constant(np.array(2.0)), exponents)
        weighted = graph.add("Mul", isolated, graph.constant(np.array(parts.forest_weight)))
        score = graph.add("Add", weighted, score)
    return graph.add("Cast", score, to=1)  # to float32


def _network(graph: _Graph, detector: Any, rows: str) -> str:
    layers = perceptron.unflatten(detector.weights_, detector.layer_sizes_)
    for i, (kernel, biases) in enumerate(layers):
        rows = graph.add("Gemm", rows, graph.constant(kernel), graph.constant(biases))
        if i < len(layers) - 1:
            rows = graph.add("Relu", rows)
    return rows


def _trees(graph: _Graph, trees: Trees, weights: NDArray[np.float64], rows: str) -> str:
    from onnx import numpy_helper

    attributes = tree_attributes(trees, weights)
    for name in ("nodes_values", "target_weights"):  # as float64, so that leaves are added up in float64
        attributes[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(attributes.pop(name)), name)
    sums = graph.add("TreeEnsembleRegressor", _wide(graph, rows), domain=_TREES, **attributes)
    return _wide(graph, graph.add("Squeeze", sums, _second_axis(graph)))


def _nearest(graph: _Graph, neighbours: NDArray[np.float32], rows: str) -> str:
    """Return the mean distance to the nearest row of each sample: x² - 2 x·z + z², coarse unless it is in float64."""
    n_samples, n_each, n_columns = neighbours.shape
    every = neighbours.reshape(-1, n_columns).astype(np.float64)
    wide = _wide(graph, rows)
    own = graph.add("ReduceSum", graph.add("Mul", wide, wide), _second_axis(graph), keepdims=1)
    shifts = graph.constant((every**2).sum(axis=1))
    both = graph.add("MatMul", wide, graph.constant(-2 * every.T))
    squares = graph.add("Add", graph.add("Add", both, shifts), own)
    by_sample = graph.add("Reshape", squares, graph.constant(np.array([-1, n_samples, n_each])))
    last = graph.constant(np.array([2], dtype=np.int64))
    nearest = graph.add("ReduceMin", by_sample, last, keepdims=0)
    distances = graph.add("Sqrt", graph.add("Max", nearest, graph.constant(np.array(0.0))))
    return graph.add("ReduceMean", distances, _second_axis(graph), keepdims=0)


def _wide(graph: _Graph, values: str) -> str:
    return graph.add("Cast", values, to=11)  # to float64


def _second_axis(graph: _Graph) -> str:
    return graph.constant(np.array([1], dtype=np.int64))
