"""How fast the competitors train and score, against the bare matrix products that their algorithms need.

Two of them do something beside their network that is no matrix product: REPEN looks for nearest neighbours, DUA asks
a forest. The bars hold without these parts; the whole is told beside them.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dplan
from benchmarks.agent import make_table
from benchmarks.bars import Bar, interleaved, seconds, show
from dplan._blas import single_threaded_blas
from dplan.detectors._isolation import split_off_most_isolated
from dplan.detectors.repen import in_columns, lesinn
from dplan.perceptron import Floats

ROUNDS = 7
UNITS = 20


class Work(NamedTuple):
    """What a default fit on 75,000 rows multiplies."""

    rows: int  # that go through the network per gradient step
    steps: int
    outputs: int  # of a linear layer behind the representation
    passes: int  # of all rows through the network: for the threshold, and for Deep SAD's centre


WORK = {
    "DevNet": Work(512, 50 * 20, 1, 1),
    "DeepSAD": Work(512, 50 * 20, 0, 2),
    "DUA": Work(512, 50 * 20, 1, 1),
    "PReNet": Work(2 * 512, 50 * 20, 2, 1),
    "REPEN": Work(3 * 256, 30 * 50, 0, 1),
}
BESIDE = {"REPEN": "neighbours", "DUA": "forest"}


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    X, y = make_table(75_000, 196)
    bars = [fitting(name, X, y) for name in WORK]
    many, _ = make_table(1_000_000, 196)
    bars += [scoring(name, many, X, y) for name in WORK]
    bars += [only_reported(name, X, y) for name in ("IForest", "LogisticBaseline")]
    return show("The competitors, 75,000×196, one thread", bars)


def fit(name: str, X: Floats, y: NDArray[np.int64], **parameters: Any) -> Any:
    return getattr(dplan, name)(random_state=0, **parameters).fit(X, y)


def products(X: Floats, work: Work) -> None:
    """Do the products of a fit and nothing else."""
    rng = np.random.default_rng(0)
    batch, deltas = X[: work.rows].copy(), rng.random((work.rows, UNITS), dtype=np.float32)
    first, first_gradient = (rng.random((X.shape[1], UNITS), dtype=np.float32) for _ in range(2))
    second, second_gradient = (rng.random((UNITS, work.outputs), dtype=np.float32) for _ in range(2))
    outputs, slopes = (rng.random((work.rows, work.outputs), dtype=np.float32) for _ in range(2))
    hidden = np.empty_like(deltas)
    with single_threaded_blas():
        for _ in range(work.steps):
            np.dot(batch, first, hidden)
            if work.outputs:
                np.dot(hidden, second, outputs)
                np.dot(hidden.T, slopes, second_gradient)
                np.dot(slopes, second.T, deltas)
            np.dot(batch.T, deltas, first_gradient)
        for _ in range(work.passes):
            score_products(X, work)


def score_products(X: Floats, work: Work) -> None:
    first = np.full((X.shape[1], UNITS), 0.1, dtype=np.float32)
    second = np.full((UNITS, work.outputs), 0.1, dtype=np.float32)
    with single_threaded_blas():
        for start in range(0, len(X), 10_000):
            hidden = np.dot(X[start : start + 10_000], first)
            if work.outputs:
                np.dot(hidden, second)


def fitting(name: str, X: Floats, y: NDArray[np.int64]) -> Bar:
    fitted = fit(name, X[:3_000], y[:3_000])  # compile, or load what was compiled before

    def beside() -> None:
        if name == "REPEN":
            lesinn(X, in_columns(X[:400], 50))
            neighbours(fitted, len(X))
        if name == "DUA":
            split_off_most_isolated(X, np.flatnonzero(y == 0), 37, np.random.default_rng(0))

    jobs: list[Callable[[], object]] = [partial(products, X, WORK[name]), partial(fit, name, X, y), beside]
    bare, whole, apart = interleaved(jobs, ROUNDS)
    detail = f"fit {whole:.3f} s, products alone {bare:.3f} s"
    if name not in BESIDE:
        return Bar(f"{name}: fit / products", whole / bare, detail, at_most=2)
    detail += f", {BESIDE[name]} {apart:.3f} s; with them {whole / bare:.2f}×"
    return Bar(f"{name}: fit without {BESIDE[name]} / products", (whole - apart) / bare, detail, at_most=2)


def neighbours(detector: Any, n_rows: int) -> None:
    """Do the search of REPEN's score, in blocks as it is done there."""
    block = np.full((256, UNITS), 0.1, dtype=np.float32)
    for _ in range(0, n_rows, 256):
        lesinn(block, detector.references_)


def scoring(name: str, many: Floats, X: Floats, y: NDArray[np.int64]) -> Bar:
    detector = fit(name, X[:20_000], y[:20_000])

    def beside() -> None:
        if name == "REPEN":
            neighbours(detector, len(many))

    jobs: list[Callable[[], object]] = [
        partial(score_products, many, WORK[name]),
        partial(detector.anomaly_score, many),
        beside,
    ]
    bare, whole, apart = interleaved(jobs, ROUNDS)
    detail = f"score {whole:.2f} s, products alone {bare:.2f} s"
    detail += f", neighbours {apart:.2f} s" if name == "REPEN" else ""
    what = "score without neighbours" if name == "REPEN" else "score"
    return Bar(f"{name}: products / {what}, 1,000,000×196", bare / (whole - apart), detail, at_least=0.6)


def only_reported(name: str, X: Floats, y: NDArray[np.int64]) -> Bar:
    detector = fit(name, X[:3_000], y[:3_000])
    scoring_seconds = seconds(lambda: detector.anomaly_score(X))
    fitting_seconds = seconds(lambda: fit(name, X, y))
    return Bar(f"{name}: fit", fitting_seconds, f"scoring the same rows: {scoring_seconds:.2f} s", unit=" s")


if __name__ == "__main__":
    raise SystemExit(0 if run() else 1)
