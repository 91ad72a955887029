"""Compare the estimate of ``dplan fit`` with the truth.

The training rows of a task, whose true classes are known, are divided into halves at random, each with half of the
labelled anomalies. One half is fitted with its labels, as ``dplan fit`` does, which estimates how many of the highest
scores of as many new rows are anomalies; the other half are these new rows. Both are alike, as the estimate assumes,
but anomalies of classes without a label count as right alerts, too.
"""

import time
import warnings
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import highest_first
from dplan.datasets.splits import Stream
from dplan.tables import fit_table, from_table
from experiments.data.arrays import ArrayTask
from experiments.methods import create

__all__ = ["halves", "measure"]

_HALVES = 61  # a random stream
_LABEL = "label"

Rows = NDArray[np.int64]


def halves(y: Rows, seed: int) -> tuple[Rows, Rows]:
    """Divide rows into halves at random, each with half of the labelled ones.

    Examples
    --------
    >>> first, second = halves(np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 0]), seed=0)
    >>> (first < 4).sum(), (second < 4).sum(), sorted([*first, *second]) == list(range(10))
    (np.int64(2), np.int64(2), True)
    """
    order = Stream(seed, _HALVES).shuffled(np.arange(len(y)))
    order = order[np.argsort(y[order] == 0, kind="stable")]
    return np.sort(order[::2]), np.sort(order[1::2])


def measure(method: str, task: ArrayTask, seed: int, **parameters: Any) -> dict[str, Any]:
    """Fit a table of half of the rows, and count the right alerts among the others.

    Parameters
    ----------
    method : str
        A detector.
    task : ArrayTask
        Training rows with their true classes; the test rows are not used.
    seed : int
        Seed of the halves and of the detector.
    **parameters
        Parameters of the detector.

    Returns
    -------
    dict
        estimate (as in a model file; None if there were too few labels to tell), right (the anomalies among as many of
        the highest scores of new rows as the estimate is about), rows, anomalies (of the new rows), and the seconds to
        fit, with the estimate, and to score.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = (np.arange(2000) % 20 == 0).astype(np.int64)
    >>> X = rng.normal(size=(2000, 3)) + 5 * truth[:, None]
    >>> y = truth * (np.arange(2000) < 800)
    >>> task = ArrayTask(X, y, X, truth, (1,), ("normal", "a"), true_classes=truth)
    >>> found = measure("LogisticBaseline", task, seed=0)
    >>> found["right"], found["estimate"]["low"] <= found["right"] <= found["estimate"]["high"]
    (20, True)
    """
    training, new = halves(task.y, seed)
    frame = pl.DataFrame(task.X, schema=[f"c{column}" for column in range(task.X.shape[1])])
    labelled = frame[training].with_columns(pl.Series(_LABEL, task.y[training]))
    detector = create(method, **parameters, random_state=seed)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = fit_table(from_table(labelled, label=_LABEL), detector, seed=seed)
    fitted = time.perf_counter()
    scores = model.score(frame[new])
    scored = time.perf_counter()
    estimate = model.summary.estimate
    anomalous = task.true_classes[new] > 0
    alerts = highest_first(scores)[: estimate["budget"] if estimate else 0]
    return {
        "estimate": None if estimate is None else dict(estimate),
        "right": int(anomalous[alerts].sum()),
        "rows": len(new),
        "anomalies": int(anomalous.sum()),
        "fit_seconds": fitted - started,
        "score_seconds": scored - fitted,
    }
