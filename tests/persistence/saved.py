"""What the suites of this folder share: quick models of every detector, and a small table."""

import numpy as np
import polars as pl
from sklearn.base import clone

from dplan.detectors import _saving
from dplan.persistence import model_file
from dplan.tables import TablePreparer
from dplan.tables.summary import Summary
from tests.detectors.quick import QUICK

# Of a model that was fitted to the small table, whose first ten rows are known anomalies.
SUMMARY = Summary(
    rows=300,
    labels={"unlabelled": 290, "fraud": 10},
    label="verdict",
    verdict_keys=tuple(f"{row:016x}" for row in range(10)),
    known_names=tuple(f"training row {row + 1}" for row in range(10)),
)


def small_table(n_rows=300, seed=0):
    rng = np.random.default_rng(seed)
    amount = rng.normal(100, 10, n_rows)
    amount[:20] += 80
    return pl.DataFrame(
        {
            "amount": amount,
            "country": rng.choice(["de", "fr", "it"], n_rows),
            "paid": rng.random(n_rows) < 0.5,
        }
    ), (np.arange(n_rows) < 10).astype(int)


def quick_model(name="DPLAN", seed=0, n_checked=0):
    """Return a detector fitted on the prepared table, the preparation, and the prepared rows."""
    table, y = small_table(seed=seed)
    y[30 : 30 + n_checked] = -1
    preparer = TablePreparer().fit(table)
    X = preparer.transform(table)
    return clone(QUICK[name]).set_params(random_state=seed).fit(X, y), preparer, X


def write_golden(folder):
    """Write the golden files of the current format, each with rows and the scores that they must get."""
    for name in ("DPLAN", "DPLANEnsemble", "REPEN", "IForest", "BoostedBaseline"):
        detector, preparer, X = quick_model(name)
        rows = np.ascontiguousarray(X[:25])
        arrays = {"rows": rows, "scores": detector.anomaly_score(rows)}
        path = folder / f"{name.lower()}-format-{model_file.FORMAT}.dplan"
        _saving.save(path, detector, preparation=preparer.to_state(), arrays=arrays, summary={"rows": 300})
