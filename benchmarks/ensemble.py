"""How long DPLANEnsemble takes, with all cores, against one agent of DPLAN as published."""

from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.agent import fit, make_table
from benchmarks.bars import Bar, interleaved, show
from dplan import DPLANEnsemble
from dplan.perceptron import Floats

ROUNDS = 3
SHAPES = ((75_000, 196), (230_000, 54), (5_700, 265), (5_400, 21))


def run() -> bool:
    """Measure everything, print it, and return whether every bar holds."""
    return show("DPLANEnsemble", [fitting(*make_table(*shape)) for shape in SHAPES])


def fit_ensemble(X: Floats, y: NDArray[np.int64]) -> None:
    DPLANEnsemble(random_state=0).fit(X, y)


def fitting(X: Floats, y: NDArray[np.int64]) -> Bar:
    fit_ensemble(X[:3_000], y[:3_000])  # compile, or load what was compiled before
    one, all_of_them = interleaved([partial(fit, X, y), partial(fit_ensemble, X, y)], ROUNDS)
    detail = f"ensemble {all_of_them:.2f} s, one agent {one:.2f} s"
    return Bar(f"fit / DPLAN's fit, {len(X):,}×{X.shape[1]}", all_of_them / one, detail, at_most=6)


if __name__ == "__main__":
    raise SystemExit(0 if run() else 1)
