"""How well scores rank the test anomalies: in all, known and unknown ones apart, class by class, at the top."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, roc_auc_score

from dplan.compare import ranking_quality
from dplan.data import Task

__all__ = ["TOPS", "area_pair", "measure", "precision_at"]

TOPS = (50, 100, 500)


def measure(task: Task, scores: NDArray[np.floating]) -> dict[str, Any]:
    """Return every figure that the report needs; None where a group of anomalies is empty.

    Examples
    --------
    >>> from dplan.data import scenario
    >>> task = scenario("covertype-mini/cottonwood-v1")
    >>> perfect = measure(task, (task.y_test > 0).astype(float))
    >>> perfect["auc_pr"], perfect["auc_pr_unknown"], perfect["classes"]["douglas-fir"]
    (1.0, 1.0, [1.0, 1.0])
    >>> perfect["precision_at"]["50"], perfect["anomalies"], perfect["test_rows"]
    (1.0, 320, 4320)
    """
    normal = task.y_test == 0
    quality = ranking_quality(scores, task.known_mask, task.unknown_mask)
    classes = {}
    for number in range(1, len(task.classes)):
        members = task.y_test == number
        judged = members | normal
        if members.any():
            classes[task.classes[number]] = list(area_pair(members[judged], scores[judged]))
    return {
        **{name: None if np.isnan(value) else value for name, value in quality.items()},
        "classes": classes,
        "known": [task.classes[number] for number in task.known],
        "precision_at": {str(top): precision_at(top, ~normal, scores) for top in TOPS},
        "test_rows": len(normal),
        "anomalies": int((~normal).sum()),
        # Tells whether two runs gave the same scores to the last bit.
        "scores_sha256": hashlib.sha256(np.ascontiguousarray(scores).tobytes()).hexdigest()[:16],
    }


def area_pair(truth: NDArray[np.bool_], scores: NDArray[np.floating]) -> tuple[float, float]:
    """Return AUC-PR and AUC-ROC.

    Examples
    --------
    >>> area_pair(np.array([True, False]), np.array([1.0, 0.0]))
    (1.0, 1.0)
    """
    return float(average_precision_score(truth, scores)), float(roc_auc_score(truth, scores))


def precision_at(top: int, truth: NDArray[np.bool_], scores: NDArray[np.floating]) -> float:
    """Return the share of anomalies among the `top` highest scores; rows that tie at the edge count in part.

    Examples
    --------
    >>> precision_at(2, np.array([True, False, True, False]), np.array([3.0, 2.0, 2.0, 1.0]))
    0.75
    """
    top = min(top, len(scores))
    edge = np.partition(scores, len(scores) - top)[len(scores) - top]
    above, level = scores > edge, scores == edge
    found = truth[above].sum() + truth[level].mean() * (top - above.sum())
    return float(found / top)
