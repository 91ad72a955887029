"""Simulated reviews: how many anomalies a reviewer finds whose verdicts the detector learns from.

The reviewer looks at the rows with the highest scores that were not judged yet, `per_refit` at a time, and says of each
whether it is an anomaly; the detector is refitted with all verdicts so far. There are no labels at the start. The
forests of coniferest are forests without verdicts, so they are used from the start; an isolation forest chooses the
first rows for detectors of this package. `DPLANEnsemble` learns from false alarms alone; for the others, which learn
from known anomalies, the isolation forest goes on until one is found.
"""

import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan.exceptions import NoLabelsWarning
from experiments.data.reviews import ReviewTable
from experiments.methods import create
from experiments.rivals import RIVALS

__all__ = ["CHECKPOINTS", "VERDICTS", "review"]

CHECKPOINTS = (20, 50, 100, 300)
VERDICTS = CHECKPOINTS[-1]

_FROM_FALSE_ALARMS = (*RIVALS, "DPLANEnsemble")  # learn before the first anomaly is found


def review(
    method: str, table: ReviewTable, per_refit: int, seed: int, n_verdicts: int = VERDICTS, **parameters: Any
) -> dict[str, Any]:
    """Simulate a review.

    Parameters
    ----------
    method : str
        A name of `experiments.methods.method_names`.
    table : ReviewTable
        The rows, and the truth.
    per_refit : int
        Verdicts between two refits.
    seed : int
        Seed of the detector.
    n_verdicts : int, default=300
        Verdicts in all; fewer if the table has fewer rows or all its anomalies are found.
    **parameters
        Parameters of the detector.

    Returns
    -------
    dict
        finds (the numbers of the verdicts, from 1, that found an anomaly), found (how many of them after 20, 50, 100
        and 300 verdicts), verdicts, rows, anomalies, refits, and the seconds to fit and to score.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> anomalous = np.arange(400) < 12
    >>> table = ReviewTable(rng.normal(size=(400, 3)) + 4 * anomalous[:, None], anomalous)
    >>> review("LogisticBaseline", table, per_refit=10, seed=0)["found"]["20"] >= 10
    True
    """
    X, anomalous = table
    verdicts = np.zeros(len(X), dtype=np.int64)
    judged: list[int] = []
    clock = {"fit_seconds": 0.0, "score_seconds": 0.0}
    most = min(n_verdicts, len(X))
    detector = create(method, **parameters, random_state=seed)
    learns = getattr(detector, "uses_labels", True)
    start = detector if method in RIVALS or not learns else create("IForest", random_state=seed)
    scores = _fit_and_score(start, X, verdicts, clock)
    refits = 1
    while True:
        order = np.argsort(np.where(verdicts == 0, -scores, np.inf), kind="stable")
        batch = order[: min(per_refit, most - len(judged))]
        judged.extend(batch.tolist())
        verdicts[batch] = np.where(anomalous[batch], 1, -1)
        if len(judged) == most or (verdicts > 0).sum() == anomalous.sum():
            break
        if learns and ((verdicts > 0).any() or method in _FROM_FALSE_ALARMS):
            scores = _fit_and_score(detector, X, verdicts, clock)
            refits += 1
    finds = (1 + np.flatnonzero(anomalous[judged])).tolist()
    return {
        "finds": finds,
        "found": {str(n): sum(find <= n for find in finds) for n in CHECKPOINTS if n <= n_verdicts},
        "verdicts": len(judged),
        "rows": len(X),
        "anomalies": int(anomalous.sum()),
        "refits": refits,
        **clock,
    }


def _fit_and_score(
    detector: Any, X: NDArray[np.floating], verdicts: NDArray[np.int64], clock: dict[str, float]
) -> NDArray[np.float64]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoLabelsWarning)
        detector.fit(X, verdicts)
    fitted = time.perf_counter()
    scores: NDArray[np.float64] = detector.anomaly_score(X)
    clock["fit_seconds"] += fitted - started
    clock["score_seconds"] += time.perf_counter() - fitted
    return scores
