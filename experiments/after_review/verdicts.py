"""What verdicts teach a detector: let the truth judge rows that it ranks high, fit it again, and look at other rows.

A detector is fitted on rows with some known anomalies. Training rows that it scores highest are then judged, and it is
fitted again from the start with all that is known by now, as ``dplan fit`` does with a column of verdicts: y is k for
an anomaly of class k, -1 for a row that was checked and is normal, and 0 for all others. Both fits are compared on the
test rows, which nobody has judged. The verdicts are of these kinds:

====================  ==========================================================================================
``false alarms``      the highest normal rows, marked as normal
``finds``             the highest anomalies, marked as anomalies of their class
``both``              the highest rows, whatever they are
``both, 10 % wrong``  the same; in every ten verdicts, one is the opposite of the truth
====================  ==========================================================================================

If there are fewer such rows than verdicts, all of them are judged.

A fit with one more verdict also draws other random numbers. To tell what the verdict teaches from luck, the detector is
fitted once more without verdicts, with another seed.
"""

import time
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan.datasets.splits import Stream
from dplan.exceptions import NoLabelsWarning
from dplan.metrics import RankedScores
from experiments.data.arrays import ArrayTask
from experiments.methods import create

__all__ = ["KINDS", "Arm", "arms", "learn"]

_NUMBERS = (1, 3, 10, 30, 100)
_FALSE_ALARMS, _FINDS, _BOTH, _WRONG = "false alarms", "finds", "both", "both, 10 % wrong"
KINDS = {
    _FALSE_ALARMS: _NUMBERS,
    _FINDS: _NUMBERS,
    _BOTH: (1, 3, 10, 30, 40, 100),
    _WRONG: (10, 30, 40, 100),
}
_ONE_WRONG_IN = 10
_MISTAKES = 60  # a random stream
_ANOTHER_SEED = 1_000  # is added to the seed

Scores = NDArray[np.float64]
Labels = NDArray[np.int64]


class Arm(NamedTuple):
    """Verdicts of one kind: how many were asked for, and the labels of all training rows with them."""

    kind: str
    n: int
    y: Labels


def arms(task: ArrayTask, scores: Scores, seed: int) -> Iterator[Arm]:
    """Yield the labels after every kind and number of verdicts; the rows with the highest scores are judged.

    Examples
    --------
    >>> X, y, truth = np.zeros((6, 1)), np.array([2, 0, 0, 0, 0, 0]), np.array([2, 0, 1, 0, 2, 0])
    >>> task = ArrayTask(X, y, X, truth, (2,), ("normal", "a", "b"), true_classes=truth)
    >>> after = {arm[:2]: arm.y.tolist() for arm in arms(task, np.array([9., 5, 4, 3, 2, 1]), seed=0)}
    >>> after["false alarms", 1], after["finds", 1], after["both", 3]
    ([2, -1, 0, 0, 0, 0], [2, 0, 1, 0, 0, 0], [2, -1, 1, -1, 0, 0])
    """
    truth = np.where(task.true_classes > 0, task.true_classes, -1)
    order = np.argsort(-scores, kind="stable")
    order = order[task.y[order] == 0]
    blocks = -(-max(KINDS[_WRONG]) // _ONE_WRONG_IN)
    wrong = np.arange(blocks) * _ONE_WRONG_IN + Stream(seed, _MISTAKES).below(_ONE_WRONG_IN, blocks)
    mistaken = truth.copy()
    mistaken[order[wrong[wrong < len(order)]]] *= -1
    # A normal row that is taken for an anomaly is taken for one of a class that is known.
    mistaken[(mistaken > 0) & (truth < 0)] = task.known[0]
    mistaken[mistaken < 0] = -1
    for kind, numbers in KINDS.items():
        rows = order
        if kind in (_FALSE_ALARMS, _FINDS):
            rows = order[(truth[order] > 0) == (kind == _FINDS)]
        for n in numbers:
            y = task.y.copy()
            y[rows[:n]] = (mistaken if kind == _WRONG else truth)[rows[:n]]
            yield Arm(kind, n, y)


def learn(method: str, task: ArrayTask, seed: int, **parameters: Any) -> tuple[Scores, dict[str, Any]]:
    """Fit a method without verdicts, and with every kind and number of them.

    Parameters
    ----------
    method : str
        A name of `experiments.methods.method_names`.
    task : ArrayTask
        Training rows with their true classes, and test rows.
    seed : int
        Seed of the detector.
    **parameters
        Parameters of the detector.

    Returns
    -------
    scores : ndarray
        The scores of the test rows without verdicts.
    found : dict
        arms (for each kind and number of verdicts: judged, finds, and auc_pr and auc_roc of the test rows), rows,
        hidden (anomalies that could be found), refits, another_seed (auc_pr of a fit without verdicts and with another
        seed), and the seconds to fit and to score.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> truth = (np.arange(400) % 20 == 0).astype(np.int64)
    >>> X = rng.normal(size=(400, 3)) + 4 * truth[:, None]
    >>> y = truth * (np.arange(400) < 60)
    >>> task = ArrayTask(X[:300], y[:300], X[300:], truth[300:], (1,), ("normal", "a"), true_classes=truth[:300])
    >>> before, found = learn("LogisticBaseline", task, seed=0)
    >>> found["arms"][-1]["judged"], found["arms"][-1]["auc_pr"] > 0.9, found["hidden"]
    (100, True, 12)
    """
    clock = {"fit_seconds": 0.0, "score_seconds": 0.0}
    found: dict[bytes, tuple[Scores, Scores]] = {}
    uses_checked = getattr(create(method, **parameters), "uses_checked", True)

    def fitted_scores(y: Labels, seed: int) -> tuple[Scores, Scores]:
        detector = create(method, **parameters, random_state=seed)
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoLabelsWarning)
            detector.fit(task.X, y)
        fitted = time.perf_counter()
        scores = detector.anomaly_score(task.X), detector.anomaly_score(task.X_test)
        clock["fit_seconds"] += fitted - started
        clock["score_seconds"] += time.perf_counter() - fitted
        return scores

    def scores_after(y: Labels) -> tuple[Scores, Scores]:
        """Return the scores of training and test rows; equal verdicts are learned once."""
        key = (y if uses_checked else np.maximum(y, 0)).tobytes()
        if key not in found:
            found[key] = fitted_scores(y, seed)
        return found[key]

    on_training_rows, before = scores_after(task.y)
    anomalous = task.y_test > 0
    records = []
    for kind, n, y in arms(task, on_training_rows, seed):
        auc_pr, auc_roc = RankedScores(scores_after(y)[1]).areas(anomalous, ~anomalous) or (None, None)
        new = y != task.y
        finds = int((task.true_classes[new] > 0).sum())
        records.append(
            {
                "kind": kind,
                "n": n,
                "judged": int(new.sum()),
                "finds": finds,
                "auc_pr": auc_pr,
                "auc_roc": auc_roc,
            }
        )
    hidden = int(((task.true_classes > 0) & (task.y == 0)).sum())
    again = RankedScores(fitted_scores(task.y, seed + _ANOTHER_SEED)[1]).areas(anomalous, ~anomalous)
    counts = {"rows": len(task.X), "hidden": hidden, "refits": len(found)}
    return before, {"arms": records, **counts, "another_seed": again[0] if again else None, **clock}
