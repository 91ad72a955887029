"""How fast DPLAN trains and scores, against the bare matrix products that the algorithm needs."""

import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest

from benchmarks.bars import Bar, interleaved, seconds, show
from dplan import DPLAN
from dplan._kernels.forest import grow, isolation_scores, new_forest
from dplan._kernels.scaling import arrange, column_scale
from dplan._kernels.threads import single_threaded_blas
from dplan.arrays import Float32s

# Of DPLAN as published, and of an agent that draws rows uniformly, as in the ensemble; with their bars.
UNIFORM_SHAPES = {
    (75_000, 196): 2.0,
    (5_700, 561): 2.0,
    (1_376, 1_555): 2.0,
    (230_000, 54): 3.0,
    (5_400, 21): 3.0,
}
SHAPES = {(75_000, 196): 3.0, (230_000, 54): 5.0, (5_700, 561): 3.0, (5_400, 21): 5.0}


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    bars = [
        *against_the_floor(),
        *uniform_against_the_floor(),
        growth_with_the_data(),
        peak_memory(),
        scoring(),
        forest(),
        *against_torch(),
    ]
    return show("DPLAN, one BLAS thread", bars)


def make_table(n_rows: int, n_columns: int) -> tuple[Float32s, NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    X = rng.random((n_rows, n_columns), dtype=np.float32)
    y = np.zeros(n_rows, dtype=np.int64)
    y[:60] = 1
    X[:60] += 0.5
    return X, y


def fit(X: NDArray[np.floating], y: NDArray[np.int64], sampler: str = "proximity") -> None:
    DPLAN(random_state=0, sampler=sampler).fit(X, y)


def floor(X: Float32s) -> None:
    """Do the products of a default fit and nothing else: 5,000 windows and 10,000 gradient steps."""
    rng = np.random.default_rng(0)
    weights = rng.random((X.shape[1], 20), dtype=np.float32)
    window = np.empty((1_000, 20), dtype=np.float32)
    with single_threaded_blas():
        for start in rng.integers(len(X) - 1_000, size=5_000):
            np.dot(X[start : start + 1_000], weights, window)
    learning_floor(X)


def learning_floor(X: Float32s) -> None:
    """Do the products of 10,000 gradient steps: online and target network forwards, and the gradient."""
    rng = np.random.default_rng(0)
    n_columns = X.shape[1]
    weights = rng.random((n_columns, 20), dtype=np.float32)
    batch = X[:32].copy()
    hidden, deltas = np.empty((32, 20), dtype=np.float32), rng.random((32, 20), dtype=np.float32)
    gradient = np.empty((n_columns, 20), dtype=np.float32)
    with single_threaded_blas():
        for _ in range(10_000):
            np.dot(batch, weights, hidden)
            np.dot(batch, weights, hidden)
            np.dot(batch.T, deltas, gradient)


def uniform_floor(X: Float32s) -> None:
    """Do the products of an agent that draws rows uniformly: gradient steps, and ψ of what its five forests see.

    Not counted: products of single rows (acting, the value of what follows, ψ of a row that is rewarded), those of the
    output layer, growing and asking the forests, the optimiser, and checking, scaling and shuffling the table.
    """
    weights = np.random.default_rng(0).random((X.shape[1], 20), dtype=np.float32)
    rows = X[:5_000]
    with single_threaded_blas():
        for _ in range(5):
            for start in np.random.default_rng(0).integers(len(X) - 256, size=100):
                np.dot(X[start : start + 256], weights)
            np.dot(rows, weights)
    learning_floor(X)


def uniform_against_the_floor() -> list[Bar]:
    bars = []
    for (n_rows, n_columns), bar in UNIFORM_SHAPES.items():
        X, y = make_table(n_rows, n_columns)
        jobs = [partial(uniform_floor, X), partial(fit, X, y, sampler="uniform")]
        products, whole = interleaved(jobs, 7, time.process_time)  # both have one thread
        detail = f"fit {whole:.2f} s, products alone {products:.2f} s"
        name = f"uniform agent, fit {n_rows:,}×{n_columns} / products"
        bars.append(Bar(name, whole / products, detail, at_most=bar))
    return bars


def against_the_floor() -> list[Bar]:
    fit(*make_table(2_000, 5))  # compile, or load what was compiled before
    bars = []
    for (n_rows, n_columns), bar in SHAPES.items():
        X, y = make_table(n_rows, n_columns)
        products, whole = interleaved([lambda X=X: floor(X), lambda X=X, y=y: fit(X, y)], 5)  # type: ignore[misc]
        detail = f"fit {whole:.2f} s, products alone {products:.2f} s"
        bars.append(Bar(f"fit {n_rows:,}×{n_columns} / products", whole / products, detail, at_most=bar))
    return bars


def growth_with_the_data() -> Bar:
    """Compare ten times the rows, apart from copying (scanning, scaling and shuffling) the input once."""
    small, large = make_table(75_000, 196), make_table(750_000, 196)

    def copy(X: Float32s) -> None:
        np.isfinite(X.sum())
        arrange(X, np.random.default_rng(0).permutation(len(X)), column_scale(X))

    # Each size by itself: memory that was given back to the system meanwhile is slow to get again.
    small_fit, small_copy = interleaved([lambda: fit(*small), lambda: copy(small[0])], 5)
    large_fit, large_copy = interleaved([lambda: fit(*large), lambda: copy(large[0])], 5)
    few, many = small_fit - small_copy, large_fit - large_copy
    detail = f"{few:.2f} s and {many:.2f} s, each less copying the input ({small_copy:.2f} s and {large_copy:.2f} s)"
    return Bar("fit 750,000 / 75,000 rows", many / few, detail, at_most=1.3)


def peak_memory() -> Bar:
    """Measure in a process of its own, because a process never gives its peak back."""
    run = subprocess.run(
        [sys.executable, "-c", "from benchmarks.agent import _print_peak; _print_peak()"],
        capture_output=True,
        text=True,
        check=True,
    )
    extra, copy = (float(part) for part in run.stdout.split())
    detail = f"fit on 750,000×196 float64 takes {extra:.0f} MB, the float32 copy is {copy:.0f} MB of that"
    return Bar("peak memory beyond the float32 copy", extra - copy, detail, at_most=200, unit=" MB")


def _print_peak() -> None:
    X, y = make_table(2_000, 196)
    fit(X.astype(np.float64), y)
    table = np.random.default_rng(0).random((750_000, 196))
    labels = np.zeros(750_000, dtype=np.int64)
    labels[:60] = 1
    pages_now = int(Path("/proc/self/statm").read_text().split()[1])
    fit(table, labels)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(peak - pages_now * resource.getpagesize() / 2**20, table.size * 4 / 2**20)


def scoring() -> Bar:
    X, y = make_table(1_000_000, 196)
    detector = DPLAN(random_state=0, n_steps=2_000, warmup_steps=1_000).fit(X[:20_000], y[:20_000])
    first = np.random.default_rng(0).random((196, 20), dtype=np.float32)
    second = np.random.default_rng(0).random((20, 2), dtype=np.float32)

    def products() -> None:
        with single_threaded_blas():
            for start in range(0, len(X), 10_000):
                np.dot(np.dot(X[start : start + 10_000], first), second)

    bare, whole = interleaved([products, lambda: detector.anomaly_score(X)], 5)
    detail = f"anomaly_score {whole:.2f} s, products alone {bare:.2f} s"
    return Bar("products / score 1,000,000×196", bare / whole, detail, at_least=0.6)


def forest() -> Bar:
    """Compare one refresh of the intrinsic reward (100 trees, 5,000 rows scored) with scikit-learn's forest."""
    rows = np.maximum(np.random.default_rng(0).normal(size=(25_600, 20)), 0).astype(np.float32)

    def ours() -> None:
        rng = np.random.default_rng(0)
        trees = new_forest(100, 256)
        for tree in range(100):
            grow(trees, tree, rows[tree * 256 : tree * 256 + 256], rng)
        isolation_scores(trees, rows[:5_000])

    def theirs() -> None:
        IsolationForest(random_state=0).fit(rows).score_samples(rows[:5_000])

    ours()
    mine, other = interleaved([ours, theirs], 5)
    detail = f"ours {mine * 1e3:.0f} ms, scikit-learn's {other * 1e3:.0f} ms"
    return Bar("scikit-learn's forest / ours", other / mine, detail, at_least=3)


def against_torch() -> list[Bar]:
    try:
        from benchmarks.torch_loop import train
    except ModuleNotFoundError:
        return []
    X, y = make_table(75_000, 196)
    eager = seconds(lambda: train(X, y))
    ours = min(seconds(lambda: fit(X, y)) for _ in range(3))
    detail = f"eager PyTorch {eager:.1f} s, ours {ours:.2f} s"
    return [Bar("PyTorch loop / ours, 75,000×196", eager / ours, detail, at_least=10)]
