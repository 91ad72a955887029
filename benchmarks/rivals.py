"""How fast the competitors train and score, against the bare matrix products that their algorithms need.

Two of them do something beside their network that is no matrix product: REPEN looks for nearest neighbours, DUA asks
a forest. The bars hold without these parts; the whole is told beside them.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import dplan
from benchmarks.agent import make_table
from benchmarks.bars import Bar, seconds, show
from dplan._kernels.threads import single_threaded_blas
from dplan.arrays import Float32s

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
# Bars of a fit other than twice its products. REPEN fetches 768 of all rows for every step, which takes memory
# about as long as one of the two products takes; how long those take depends on the processor's BLAS kernels.
FIT_BARS = {"REPEN": 3.0}
# What a detector does beside its network: where the function stands that does it, and what to call it.
BESIDE = {
    "REPEN": ("dplan.detectors.repen", "mean_nearest_distance", "neighbours"),
    "DUA": ("dplan.detectors.dua", "split_most_isolated", "forest"),
}


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    X, y = make_table(75_000, 196)
    bars = [fitting(name, X, y) for name in WORK]
    many, _ = make_table(1_000_000, 196)
    bars += [scoring(name, many, X, y) for name in WORK]
    bars += [only_reported(name, X, y) for name in ("IForest", "LogisticBaseline")]
    return show("The competitors, 75,000×196, one thread", bars)


def fit(name: str, X: Float32s, y: NDArray[np.int64], **parameters: Any) -> Any:
    return getattr(dplan, name)(random_state=0, **parameters).fit(X, y)


def products(X: Float32s, work: Work) -> None:
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


def score_products(X: Float32s, work: Work) -> None:
    first = np.full((X.shape[1], UNITS), 0.1, dtype=np.float32)
    second = np.full((UNITS, work.outputs), 0.1, dtype=np.float32)
    with single_threaded_blas():
        for start in range(0, len(X), 10_000):
            hidden = np.dot(X[start : start + 10_000], first)
            if work.outputs:
                np.dot(hidden, second)


class Times(NamedTuple):
    """Best times over some rounds, in seconds."""

    products: float
    whole: float
    beside: float  # in the round in which the rest was quickest

    @property
    def network(self) -> float:
        """What is left without the part beside the network."""
        return self.whole - self.beside


def measure(name: str, products: Callable[[], object], job: Callable[[], object]) -> Times:
    """Time the products and a job in turns; the part beside the network is timed inside of the job."""
    best = Times(np.inf, np.inf, 0.0)
    for _ in range(ROUNDS):
        bare = min(best.products, seconds(products))
        with stopwatch(name) as lap:
            whole = seconds(job)
        candidate = Times(bare, whole, sum(lap))
        best = candidate if candidate.network < best.network else best._replace(products=bare)
    return best


@contextmanager
def stopwatch(name: str) -> Iterator[list[float]]:
    """Collect how long each call of the part beside the network takes, if the detector has one."""
    laps: list[float] = []
    if name not in BESIDE:
        yield laps
        return
    module, function = import_module(BESIDE[name][0]), BESIDE[name][1]
    original = getattr(module, function)

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        result = original(*arguments)
        laps.append(time.perf_counter() - start)
        return result

    setattr(module, function, timed)
    try:
        yield laps
    finally:
        setattr(module, function, original)


def describe(name: str, times: Times, verb: str) -> tuple[str, str]:
    detail = f"{verb} {times.whole:.3f} s, products alone {times.products:.3f} s"
    if name not in BESIDE or not times.beside:
        return verb, detail
    part = BESIDE[name][2]
    return f"{verb} without {part}", f"{detail}, {part} {times.beside:.3f} s"


def fitting(name: str, X: Float32s, y: NDArray[np.int64]) -> Bar:
    fit(name, X[:3_000], y[:3_000])  # compile, or load what was compiled before
    times = measure(name, partial(products, X, WORK[name]), partial(fit, name, X, y))
    what, detail = describe(name, times, "fit")
    return Bar(
        f"{name}: {what} / products", times.network / times.products, detail, at_most=FIT_BARS.get(name, 2.0)
    )


def scoring(name: str, many: Float32s, X: Float32s, y: NDArray[np.int64]) -> Bar:
    detector = fit(name, X[:20_000], y[:20_000])
    times = measure(name, partial(score_products, many, WORK[name]), partial(detector.anomaly_score, many))
    what, detail = describe(name, times, "score")
    figure = times.products / times.network
    return Bar(f"{name}: products / {what}, 1,000,000×196", figure, detail, at_least=0.6)


def only_reported(name: str, X: Float32s, y: NDArray[np.int64]) -> Bar:
    detector = fit(name, X[:3_000], y[:3_000])
    scoring_seconds = seconds(lambda: detector.anomaly_score(X))
    fitting_seconds = seconds(lambda: fit(name, X, y))
    return Bar(f"{name}: fit", fitting_seconds, f"scoring the same rows: {scoring_seconds:.2f} s", unit=" s")


if __name__ == "__main__":
    raise SystemExit(0 if run() else 1)
