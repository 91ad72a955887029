"""How long DPLANEnsemble takes to fit, against its own arithmetic, and to score, against a forest.

The floor is the arithmetic of its agents, one after the other on one core: the products of the network agents, on as
many rows as they see, and scikit-learn growing the trees of the tree agents: histogram boosting, and extremely
randomised trees. Nothing else is counted: not the agents' forests, the explorers, standardising, the threshold (50,000
rows are scored for it), nor any copy.
On one core, work is compared with the floor by processor time; on all cores, elapsed time with the floor's divided by
their number.
"""

import os
import time
from functools import partial

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest
from sklearn.tree import ExtraTreeClassifier
from threadpoolctl import threadpool_limits

from benchmarks.agent import make_table, uniform_floor
from benchmarks.bars import Bar, interleaved, show
from dplan import BoostedBaseline, DPLANEnsemble
from dplan.arrays import Float32s

ROUNDS = 3
SHAPES = ((75_000, 196), (5_700, 561), (230_000, 54), (5_400, 21), (1_376, 1_555))
N_AGENTS, N_ROUNDS = 2, 50  # the ensemble's defaults: of most kinds, and trees of a tree agent


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    tables = {shape: make_table(*shape) for shape in SHAPES}
    bars = [bar for X, y in tables.values() for bar in fitting(X, y)]
    bars += [against_trees(*tables[1_376, 1_555])]
    bars += [scoring(*tables[shape]) for shape in ((75_000, 196), (230_000, 54))]
    return show("DPLANEnsemble", bars)


def fit_ensemble(X: Float32s, y: NDArray[np.int64], n_jobs: int = -1) -> None:
    DPLANEnsemble(n_jobs=n_jobs, random_state=0).fit(X, y)


def floor(X: Float32s, y: NDArray[np.int64]) -> None:
    """Do the products of the network agents, and let scikit-learn grow the tree agents' trees, on one core."""
    for _ in range(2 * N_AGENTS):  # slow ones and fast ones
        uniform_floor(X[:20_060])
    rows = slice(0, 5_060)  # what a tree agent sees
    for seed in range(N_AGENTS):
        model = HistGradientBoostingClassifier(
            max_iter=N_ROUNDS,
            l2_regularization=1.0,
            max_features=0.3,
            early_stopping=False,
            random_state=seed,
        )
        with threadpool_limits(1, user_api="openmp"):
            model.fit(X[rows], y[rows] > 0)
    known, others = X[y > 0], X[y == 0]
    few = np.concatenate([known, others[: 5 * len(known)]])  # what a randomised tree sees
    for tree in range((2 * N_AGENTS + 1) * N_ROUNDS):  # twice as many agents, and the first round
        features = "sqrt" if tree % 2 else 0.3
        ExtraTreeClassifier(max_features=features, min_samples_leaf=2, random_state=tree).fit(
            few, np.arange(len(few)) < len(known)
        )


def fitting(X: Float32s, y: NDArray[np.int64]) -> list[Bar]:
    fit_ensemble(X[:3_000], y[:3_000])  # compile, or load what was compiled before
    cores = os.cpu_count() or 1
    name = f"fit {len(X):,}×{X.shape[1]} / floor"
    work, fitting = interleaved(
        [partial(floor, X, y), partial(fit_ensemble, X, y, n_jobs=1)], 2, time.process_time
    )
    alone, whole = interleaved([partial(floor, X, y), partial(fit_ensemble, X, y)], ROUNDS)
    return [
        Bar(f"{name}, one core", fitting / work, f"{fitting:.2f} s and {work:.2f} s of work", at_most=2.5),
        Bar(
            f"{name}, all cores",
            whole / (alone / cores),
            f"{whole:.2f} s, the floor {alone:.2f} s on one of {cores} cores",
            at_most=2.5,
        ),
    ]


def against_trees(X: Float32s, y: NDArray[np.int64]) -> Bar:
    trees, whole = interleaved(
        [lambda: BoostedBaseline(random_state=0).fit(X, y), partial(fit_ensemble, X, y)], ROUNDS
    )
    detail = f"ensemble {whole:.2f} s, boosted trees {trees:.2f} s"
    return Bar(f"fit {len(X):,}×{X.shape[1]} / BoostedBaseline's", whole / trees, detail, at_most=2.5)


def scoring(X: Float32s, y: NDArray[np.int64]) -> Bar:
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
