"""How long DPLANEnsemble takes to fit, against one agent of DPLAN as published, and to score, against a forest."""

from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from benchmarks.agent import fit, make_table
from benchmarks.bars import Bar, interleaved, show
from dplan import DPLANEnsemble
from dplan._kernels.perceptron import Floats

ROUNDS = 3
SHAPES = ((75_000, 196), (230_000, 54), (5_700, 265), (5_400, 21))


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    tables = [make_table(*shape) for shape in SHAPES]
    bars = [fitting(X, y) for X, y in tables] + [scoring(X, y) for X, y in tables[:2]]
    return show("DPLANEnsemble, all cores", bars)


def fit_ensemble(X: Floats, y: NDArray[np.int64]) -> None:
    DPLANEnsemble(n_jobs=-1, random_state=0).fit(X, y)


def fitting(X: Floats, y: NDArray[np.int64]) -> Bar:
    fit_ensemble(X[:3_000], y[:3_000])  # compile, or load what was compiled before
    one, all_of_them = interleaved([partial(fit, X, y), partial(fit_ensemble, X, y)], ROUNDS)
    detail = f"ensemble {all_of_them:.2f} s, one agent {one:.2f} s"
    return Bar(f"fit / DPLAN's fit, {len(X):,}×{X.shape[1]}", all_of_them / one, detail, at_most=6)


def scoring(X: Floats, y: NDArray[np.int64]) -> Bar:
    """Compare with what people have: scikit-learn's isolation forest, all cores as well."""
    ensemble = DPLANEnsemble(n_jobs=-1, random_state=0).fit(X, y)
    forest = IsolationForest(random_state=0, n_jobs=-1).fit(X)
    rows = X[:50_000]
    ensemble.anomaly_score(rows[:100])
    ours, theirs = interleaved(
        [partial(ensemble.anomaly_score, rows), partial(forest.score_samples, rows)], ROUNDS
    )
    detail = f"ensemble {1e6 * ours / len(rows):.1f} µs a row, scikit-learn's forest {1e6 * theirs / len(rows):.1f}"
    return Bar(f"score / an isolation forest's, {len(rows):,}×{X.shape[1]}", ours / theirs, detail, at_most=2)


if __name__ == "__main__":
    raise SystemExit(0 if run() else 1)
