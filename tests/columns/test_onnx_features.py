"""Columns in ONNX: their nodes compute the features that Python computes, for every type that can be exported."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

from dplan.columns.frequencies import Frequency
from dplan.columns.preparer import TablePreparer
from dplan.tables.onnx import _OPSET, Graph, _prepared

onnx = pytest.importorskip("onnx", reason="the extra [onnx] is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="the extra [onnx] is not installed")


def features_in_onnx(preparer, table):
    """Return the features of rows, computed by onnxruntime."""
    columns = [column for column in preparer.columns_ if column.is_used]
    graph, helper = Graph(), onnx.helper
    types = {"numbers": onnx.TensorProto.DOUBLE, "texts": onnx.TensorProto.STRING}
    inputs, given = [], {}
    for tensor, type_ in types.items():
        own = table.select(column.name for column in columns if column.tensor == tensor)
        if own.width:
            inputs.append(helper.make_tensor_value_info(tensor, type_, ["rows", own.width]))
            moments = pl.selectors.temporal().cast(pl.Datetime("us")).cast(pl.Int64)
            plain = own.with_columns(moments) if tensor == "numbers" else own.fill_null("")
            plain = plain.cast(pl.Float64).fill_null(np.nan) if tensor == "numbers" else plain
            given[tensor] = plain.to_numpy() if tensor == "numbers" else plain.to_numpy().astype(object)
    graph.rename(_prepared(graph, columns), "features")
    output = helper.make_tensor_value_info("features", onnx.TensorProto.FLOAT, ["rows", "features"])
    made = helper.make_model(
        helper.make_graph(graph.nodes, "columns", inputs, [output], graph.constants),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=9,
    )
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(["features"], given)[0]


def gaps(frame, every):
    row = pl.int_range(pl.len())
    return frame.with_columns(
        pl.when(row % every != 3).then(pl.col(name)).alias(name) for name in frame.columns
    )


def rows(n, seed):
    rng = np.random.default_rng(seed)
    days = [dt.date(1890, 1, 1) + dt.timedelta(days=int(day)) for day in rng.integers(0, 60_000, n)]
    moments = [
        dt.datetime(1999, 12, 31) + dt.timedelta(days=int(day), seconds=int(second))
        for day, second in zip(rng.integers(0, 800, n), rng.integers(0, 86_400, n), strict=True)
    ]
    early = [
        moment - dt.timedelta(hours=int(h))
        for moment, h in zip(moments, rng.integers(-9, 99, n), strict=True)
    ]
    return pl.DataFrame(
        {
            "amount": rng.lognormal(3, 2, n),
            "day": days,
            "paid": moments,
            "ordered": early,
            "card": rng.choice(["a", "b", "c"], n),
            "shop": [f"s{int(k)}" for k in rng.lognormal(2, 1, n)],
            "new": rng.random(n) < 0.3,
        }
    )  # fmt: skip


def test_onnxruntime_computes_the_same_features():
    preparer = TablePreparer(meanings={"shop": Frequency()}).fit(gaps(rows(3000, 0), 40))
    names = preparer.get_feature_names_out().tolist()
    for part in ("hour", "weekday", "day", "since"):
        assert any(part in name for name in names)
    new = gaps(rows(3000, 1), 30).with_columns(
        card=pl.when(pl.int_range(pl.len()) % 50 == 4).then(pl.lit("never seen")).otherwise("card"),
        amount=pl.when(pl.int_range(pl.len()) % 50 == 5).then(1e12).otherwise("amount"),
    )
    for table in (gaps(rows(3000, 0), 40), new):
        np.testing.assert_array_equal(features_in_onnx(preparer, table), preparer.transform(table))
