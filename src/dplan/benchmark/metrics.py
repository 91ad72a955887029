"""How well scores rank the test anomalies: in all, known and unknown ones apart, class by class, at the top.

All areas are read off one sorting of the scores; scikit-learn would sort and check anew for every group of
anomalies, which takes longer than some detectors take to fit.
"""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dplan.datasets import Task

__all__ = ["TOPS", "SortedScores", "measure", "precision_at"]

TOPS = (50, 100, 500)

Mask = NDArray[np.bool_]


class SortedScores:
    """Scores in falling order, to judge many groups of rows.

    Examples
    --------
    >>> ranked = SortedScores(np.array([0.9, 0.5, 0.8, 0.1]))
    >>> anomalous = np.array([True, False, False, True])
    >>> ranked.areas(anomalous, ~anomalous)  # AUC-PR and AUC-ROC
    (0.75, 0.5)
    """

    def __init__(self, scores: NDArray[np.floating]) -> None:
        self._order = np.argsort(-scores, kind="stable")
        self._scores = scores[self._order]

    def areas(self, anomalous: Mask, normal: Mask) -> tuple[float, float] | None:
        """Return AUC-PR (average precision) and AUC-ROC of some rows against others; None if either is empty."""
        if not (anomalous.any() and normal.any()):
            return None
        judged = (anomalous | normal)[self._order]
        scores, truth = self._scores[judged], anomalous[self._order][judged]
        ends = np.flatnonzero(
            np.append(scores[1:] != scores[:-1], True)
        )  # rows with one score stand or fall together
        hits = np.cumsum(truth)[ends]
        misses = ends + 1 - hits
        recall = hits / hits[-1]
        average_precision = np.sum(np.diff(recall, prepend=0.0) * hits / (ends + 1))
        roc = np.trapezoid(np.append(0, hits), np.append(0, misses)) / (hits[-1] * misses[-1])
        return float(average_precision), float(roc)


def measure(task: Task, scores: NDArray[np.floating]) -> dict[str, Any]:
    """Return every figure that the report needs; None where a group of anomalies is empty.

    Examples
    --------
    >>> from dplan.datasets import scenario
    >>> task = scenario("covertype-mini/cottonwood-v1")
    >>> perfect = measure(task, (task.y_test > 0).astype(float))
    >>> perfect["auc_pr"], perfect["auc_pr_unknown"], perfect["classes"]["douglas-fir"]
    (1.0, 1.0, [1.0, 1.0])
    >>> perfect["precision_at"]["50"], perfect["anomalies"], perfect["test_rows"]
    (1.0, 320, 4320)
    """
    normal = task.y_test == 0
    ranked = SortedScores(scores)
    figures: dict[str, Any] = {}
    for suffix, group in (("", ~normal), ("_known", task.known_mask), ("_unknown", task.unknown_mask)):
        areas = ranked.areas(group, normal) or (None, None)
        figures[f"auc_pr{suffix}"], figures[f"auc_roc{suffix}"] = areas
    classes = {
        name: ranked.areas(task.y_test == number, normal)
        for number, name in enumerate(task.classes)
        if number > 0
    }
    return {
        **figures,
        "classes": {name: list(areas) for name, areas in classes.items() if areas},
        "known": [task.classes[number] for number in task.known],
        "precision_at": {str(top): precision_at(top, ~normal, scores) for top in TOPS},
        "test_rows": len(normal),
        "anomalies": int((~normal).sum()),
        # Tells whether two runs gave the same scores to the last bit.
        "scores_sha256": hashlib.sha256(np.ascontiguousarray(scores).tobytes()).hexdigest()[:16],
    }


def precision_at(top: int, truth: Mask, scores: NDArray[np.floating]) -> float:
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
