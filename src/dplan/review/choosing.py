"""The order in which rows are asked about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan.detectors.query import query
from dplan.review.rounds import Judged

__all__ = ["BATCH", "asking_order", "blended", "duplicates_first", "explored_share", "trust_in_first"]

BATCH = 10  # rows between two refits, by default
_BATCHES = 5  # that are chosen with care; behind them, rows are in the order of their scores
_RECENT = 20  # verdicts that show how good the top of the queue is


def asking_order(
    scores: NDArray[np.float64], rows: Floats, novelty: NDArray[np.float64], share: float
) -> tuple[list[int], list[int]]:
    """Return positions of rows in the order to ask about them, and which of them are asked for their novelty.

    In each batch of ten, near duplicates of a row wait for the next batch, and the last rows are those that only the
    explorers find (`dplan.query`).

    Parameters
    ----------
    scores : ndarray of float
        The scores of the candidates.
    rows : ndarray of float
        The candidates as the detector sees them.
    novelty : ndarray of float
        How anomalous the explorers find them.
    share : float
        Share of each batch that is chosen by novelty.

    Examples
    --------
    >>> scores, rows = np.arange(40, 0, -1.0), np.random.default_rng(0).random((40, 3), dtype=np.float32)
    >>> order, explored = asking_order(scores, rows, novelty=np.arange(40.0), share=0.1)
    >>> order[:12], explored[:2]
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 39, 9, 10], [39, 38])
    """
    asked = np.zeros(len(scores), dtype=np.int64)
    order: list[int] = []
    explored: list[int] = []
    for _ in range(_BATCHES):
        if asked.all():
            break
        batch = query(scores, BATCH, X=rows, y=asked, diverse=True, explore=share, novelty=novelty)
        asked[batch] = -1
        order += batch.tolist()
        if round(share * BATCH):
            explored += batch[-round(share * BATCH) :].tolist()
    left = np.flatnonzero(asked == 0)
    return [*order, *left[np.argsort(-scores[left], kind="stable")].tolist()], explored


def duplicates_first(
    waiting: Sequence[int], groups: Mapping[int, int], decisions: Mapping[int, str]
) -> list[int]:
    """Return the rows that wait with near duplicates of anomalies before the others, those of the latest find first.

    A near duplicate of a row without a verdict can wait, but that of a find is likely a find, and with a second one the
    reviewer can decide the whole group. Groups whose verdicts contradict each other stay where they are.

    Parameters
    ----------
    waiting : sequence of int
        Rows in the order to ask about them.
    groups : mapping of int to int
        The group of near duplicates that each row belongs to.
    decisions : mapping of int to str
        The verdicts so far by row, the oldest first.

    Examples
    --------
    >>> groups = {1: 1, 2: 2, 3: 3, 4: 1, 5: 2}
    >>> duplicates_first([3, 4, 5], groups, {1: "anomaly", 2: "normal"})
    [4, 3, 5]
    """
    decided: dict[int, str] = {}
    for row, decision in decisions.items():
        if row in groups:
            agreed = decided.pop(groups[row], decision) == decision  # the latest group is moved to the end
            decided[groups[row]] = decision if agreed else ""
    found = [group for group, decision in reversed(decided.items()) if decision == "anomaly"]
    places = {group: place for place, group in enumerate(found)}
    return sorted(waiting, key=lambda row: places.get(groups[row], len(places)))


def explored_share(judged: Sequence[Judged], found_by_explorers: Collection[int]) -> float:
    """Return the share of a batch to ask about for its novelty: one row of ten, or none.

    Exploring must not cost anomalies that are at the top of the queue. It begins when verdicts show that the explorers
    may find as many as the top does, and ends when they do not.

    Parameters
    ----------
    judged : sequence of Judged
        The verdicts so far, the oldest first.
    found_by_explorers : collection of int
        The rows that the explorers alone find.

    Examples
    --------
    >>> explored_share([Judged(row, "fraud") for row in range(10)], {77})
    0.0
    >>> explored_share([Judged(row, "") for row in range(10)], {77})
    0.1
    """
    explored = [bool(name) for row, name in judged if row in found_by_explorers]
    top = [bool(name) for row, name in judged if row not in found_by_explorers][-_RECENT:]
    hope = (sum(explored) + 1) / (len(explored) + 2)  # the rule of succession
    return 1 / BATCH if top and hope > sum(top) / len(top) else 0.0


def trust_in_first(judged: Sequence[Judged]) -> float:
    """Return how much the ranking of the first model counts: the share of anomalies among the last ten verdicts.

    A refit knows the verdicts, but has seen fewer rows than the first training. As long as the top of the queue is
    right, there is no reason to leave the first ranking.

    Examples
    --------
    >>> trust_in_first([Judged(1, "fraud"), Judged(2, "")]), trust_in_first([])
    (0.5, 0.0)
    """
    recent = [bool(name) for _, name in judged][-BATCH:]
    return sum(recent) / len(recent) if recent else 0.0


def blended(scores: NDArray[np.float64], first: NDArray[np.float64], trust: float) -> NDArray[np.float64]:
    """Return scores by which rows come first that rank high now and, as far as it is trusted, in the first ranking.

    Ranks are those among the rows that wait, so a row that is now at the very top stays near it.

    Examples
    --------
    >>> now, first = np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 3.0, 4.0, 2.0])
    >>> [np.argsort(-blended(now, first, trust)).tolist() for trust in (0, 1)]
    [[0, 1, 2, 3], [2, 0, 1, 3]]
    """
    return -(np.log(_ranks(scores)) + trust * np.log(_ranks(first)))


def _ranks(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rank of each score, counted from 1 for the highest; ties have the same."""
    return 1 + len(scores) - np.searchsorted(np.sort(scores), scores, "right")
