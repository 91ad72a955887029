"""ONNX: another runtime gives the same scores."""

import subprocess
import sys

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner

import dplan
from dplan.cli.main import main
from dplan.tables import fit_table, from_table
from dplan.tables.onnx import export_onnx
from tests.tables.payments import QUICK, payments

onnxruntime = pytest.importorskip("onnxruntime", reason="the extra [onnx] is not installed")

_FEW = {"n_epochs": 3, "epoch_batches": 5, "random_state": 0}
DETECTORS = {
    "DPLAN": dplan.DPLAN(**QUICK),
    "DPLAN, deep": dplan.DPLAN(**QUICK, hidden_units=(30, 10)),
    "DPLANEnsemble": dplan.DPLANEnsemble(n_agents=2, n_steps=4000, warmup_steps=1000, random_state=0),
    "DPLANEnsemble, cut short": dplan.DPLANEnsemble(
        n_steps=400, warmup_steps=100, random_state=0, callback=lambda *_: True
    ),
    "DevNet": dplan.DevNet(**_FEW),
    "DUA": dplan.DUA(**_FEW),
    "PReNet": dplan.PReNet(**_FEW),
    "DeepSAD": dplan.DeepSAD(**_FEW),
    "LogisticBaseline": dplan.LogisticBaseline(random_state=0),
    "BoostedBaseline": dplan.BoostedBaseline(random_state=0),
    "IForest": dplan.IForest(random_state=0),
}


def run_onnx(path, table):
    """Score with onnxruntime alone, the columns taken from the file."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = session.get_modelmeta().custom_metadata_map
    inputs = {}
    for entry in session.get_inputs():
        columns = table.select(names[entry.name].split("\n"))
        if entry.name == "numbers":
            plain = columns.with_columns(pl.selectors.temporal().cast(pl.Datetime("us")).cast(pl.Int64)).cast(
                pl.Float64
            )
            inputs["numbers"] = plain.fill_null(np.nan).to_numpy()
        else:
            inputs["texts"] = columns.fill_null("").to_numpy().astype(object)
    return session.run(["score"], inputs)[0]


@pytest.mark.parametrize("name", DETECTORS)
def test_onnxruntime_gives_the_same_scores(name, tmp_path):
    row = pl.int_range(pl.len())
    table = payments().with_columns(
        country=pl.when(row % 90 == 1).then(None).otherwise("country"),
        verdict=pl.when(row % 60 == 7).then(pl.lit("ok")).otherwise("verdict"),
    )
    own = from_table(table, label="verdict", anomaly=["fraud"], normal=["ok"], id="payment")
    assert own.n_checked == 50
    model = fit_table(own, DETECTORS[name], estimate=False)
    export_onnx(model, tmp_path / "m.onnx")
    new = payments(500, seed=9).with_columns(
        amount=pl.when(pl.int_range(pl.len()) == 3).then(1e7).otherwise("amount"),
        country=pl.when(pl.int_range(pl.len()) == 4).then(pl.lit("never seen")).otherwise("country"),
    )
    others = 0.01 if name == "DPLANEnsemble" else 0.0
    for rows in (table, new):
        assert_equal_scores(run_onnx(tmp_path / "m.onnx", rows), model.score(rows), others)


def assert_equal_scores(theirs, ours, others=0.0):
    """Assert what the documentation promises: within 1e-5, or within 1e-5 of the score where that is larger than 1.

    In a hundredth of the rows at most, a tree of an ensemble may decide otherwise, because a distance is on the edge.
    """
    apart = np.abs(theirs - ours) / np.maximum(np.abs(ours), 1)
    assert np.quantile(apart, 1 - others, method="higher") <= 1e-5, (apart.max(), ours[apart.argmax()])
    assert apart.max() <= 0.1


def large_values(n_rows, seed):
    """Return a table of 41 columns: offsets of a million, values up to a billion, counts, rates, a constant."""
    rng = np.random.default_rng(seed)
    X = np.empty((n_rows, 41))
    X[:, :10] = np.where(rng.random((n_rows, 10)) < 0.9, 0, rng.lognormal(5, 4, (n_rows, 10)))
    X[:, 10:20] = rng.integers(0, 3, (n_rows, 10)) * (rng.random((n_rows, 10)) < 0.2)
    X[:, 20:30] = rng.beta(0.1, 0.1, (n_rows, 10)).round(2)
    X[:, 30:35] = 1e6 + rng.normal(size=(n_rows, 5))
    X[:, 35] = 7
    X[:, 36:] = 1e-3 * rng.normal(size=(n_rows, 5))
    odd = np.arange(n_rows) % 40 == 0
    X[odd, :10] += 10 ** rng.uniform(3, 9, (odd.sum(), 10))
    X[odd, 30:35] += 1e3 * rng.normal(size=(odd.sum(), 5))
    known = odd & (np.arange(n_rows) % 80 == 0)
    return pl.DataFrame({f"c{j}": X[:, j] for j in range(41)}).with_columns(
        known=pl.Series(known).cast(pl.Int64)
    )


@pytest.mark.parametrize("name", DETECTORS)
def test_scores_are_the_same_on_tables_with_large_values(name, tmp_path):
    table = large_values(3000, 0)
    model = fit_table(from_table(table, label="known"), DETECTORS[name], estimate=False)
    export_onnx(model, tmp_path / "m.onnx")
    new = large_values(2000, 1)
    far = new.with_columns(pl.col(f"c{j}") * 30 for j in range(10))  # beyond anything seen in training
    others = 0.01 if name == "DPLANEnsemble" else 0.0
    for rows in (table, new, far):
        assert_equal_scores(run_onnx(tmp_path / "m.onnx", rows), model.score(rows), others)


def test_the_command_exports_numbers_only_tables_too(table, tmp_path):
    numeric = table.select("amount", "items", "verdict")
    model = fit_table(
        from_table(numeric, label="verdict", anomaly=["fraud"]), dplan.DPLAN(**QUICK), estimate=False
    )
    model.save(tmp_path / "m.dplan")
    done = CliRunner().invoke(main, ["export", str(tmp_path / "m.dplan"), "--onnx", str(tmp_path / "m.onnx")])
    assert done.exit_code == 0, done.output
    assert "2 number and 0 text columns" in done.output
    assert_equal_scores(run_onnx(tmp_path / "m.onnx", numeric), model.score(numeric))


def test_every_detector_but_one_is_exported():
    assert {entry.name for entry in dplan.list_detectors()} - {name.split(",")[0] for name in DETECTORS} == {
        "REPEN"
    }


def test_a_detector_that_cannot_be_exported_says_so(table, tmp_path):
    own = from_table(table, label="verdict", anomaly=["fraud"], id="payment")
    model = fit_table(own, dplan.REPEN(**_FEW), estimate=False)
    with pytest.raises(TypeError, match="REPEN cannot be exported to ONNX"):
        export_onnx(model, tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_without_the_extra_the_install_command_is_named(model_path, tmp_path):
    code = f"""
import sys
sys.modules["onnx"] = None  # as if it were not installed
from dplan.cli.main import main
main(["export", {str(model_path)!r}, "--onnx", {str(tmp_path / "m.onnx")!r}])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert "pip install onnx" in run.stderr
    assert "Traceback" not in run.stderr
