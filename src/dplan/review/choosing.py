"""The order in which rows are asked about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["asking_order"]

BATCH = 10  # rows between two refits, by default
_OF_ONE_GROUP = 3  # at most, in a batch
_EXPLORED_AT = (4,)  # places in a batch for rows that the explorers alone find


def asking_order(
    scores: NDArray[np.float64], groups: NDArray[np.int64], explored: Sequence[int], n: int | None = None
) -> list[int]:
    """Return positions of rows in the order to ask about them.

    The highest scores come first, at most three of a group of near duplicates in each batch of ten, and one row of each
    batch is one that the explorers alone find.

    Parameters
    ----------
    scores : ndarray of float
        The scores of the candidates.
    groups : ndarray of int
        The group of each candidate.
    explored : sequence of int
        Candidates that the explorers find most anomalous, the most anomalous first.
    n : int, optional
        How many; all by default.

    Examples
    --------
    >>> scores, groups = np.arange(20, 0, -1.0), np.array([0] * 8 + list(range(8, 20)))
    >>> asking_order(scores, groups, explored=[19], n=6)
    [0, 1, 2, 8, 19, 9]
    """
    waiting = np.argsort(-scores, kind="stable").tolist()
    extra = list(explored)
    order: list[int] = []
    taken: set[int] = set()
    while waiting and (n is None or len(order) < n):
        batch: list[int] = []
        counts: Counter[int] = Counter()
        later: list[int] = []
        for position, row in enumerate(waiting):
            if len(batch) in _EXPLORED_AT:
                extra = [other for other in extra if other not in taken]
                if extra:
                    batch.append(extra.pop(0))
                    taken.add(batch[-1])
            if len(batch) == BATCH:
                later += waiting[position:]
                break
            if row in taken:
                continue
            if counts[int(groups[row])] == _OF_ONE_GROUP:
                later.append(row)
                continue
            counts[int(groups[row])] += 1
            batch.append(row)
            taken.add(row)
        order += batch
        waiting = [row for row in later if row not in taken]
    return order[:n]
