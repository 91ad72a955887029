"""What to ask a person about next: the order of rows, near duplicates, and rows that only explorers find.

`query` is all that most programs need. The review page builds its queue from the same parts: `asking_order` calls for
one batch after another, with the near duplicates of `dplan.likeness`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels.scaling import arrange, column_scale
from dplan.arrays import Float32s, highest_first
from dplan.detectors._checks import as_generator, check_flag, check_integer, check_labels, check_number
from dplan.detectors._rows import raw_isolation_scores
from dplan.likeness import Likeness

__all__ = [
    "BATCH",
    "asking_order",
    "blended",
    "duplicates_first",
    "explored_share",
    "query",
    "trust",
]

BATCH = 10  # rows between two refits, by default
_BATCHES = 5  # that are chosen with care; behind them, rows are in the order of their scores
_RECENT = 20  # verdicts that show how good the top of the queue is


def query(
    scores: ArrayLike | None = None,
    n: int = 10,
    *,
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    diverse: bool = False,
    explore: float = 0.0,
    novelty: ArrayLike | None = None,
    random_state: int | np.random.Generator | None = 0,
) -> NDArray[np.int64]:
    """Return the rows that a person should look at next, in order.

    By default, these are the rows with the highest scores among those without a verdict: looking at the top finds most
    anomalies, and a false alarm at the top teaches most.

    Parameters
    ----------
    scores : array-like of shape (n_rows,), default=None
        Anomaly scores of all rows, higher for more anomalous. None for a cold start, when there is no detector yet:
        rows of X that an isolation forest isolates easily come first.
    n : int, default=10
        Number of rows to return; fewer if fewer have no verdict.
    X : array-like of shape (n_rows, n_columns), default=None
        The rows, as numbers. Needed for a cold start, `diverse` and `explore` without `novelty`.
    y : array-like of shape (n_rows,), default=None
        Labels as in `fit`. Only rows with 0 are returned.
    diverse : bool, default=False
        Whether near duplicates of a chosen row wait for the next batch: the verdict on one is likely that on all. Rows
        are near duplicates if no column differs by more than a tenth of its typical range, the middle 90 % of X.
    explore : float, default=0.0
        Share of the rows that only an unsupervised score finds: those with the highest `novelty` of all that are not
        chosen by `scores`. It finds anomalies of kinds that no verdict has taught yet.
    novelty : array-like of shape (n_rows,), default=None
        An unsupervised score for `explore`; None for an isolation forest on X.
    random_state : int, Generator or None, default=0
        Seed of the isolation forest.

    Returns
    -------
    ndarray of int64
        Indices of rows, the most important first.

    Examples
    --------
    >>> import numpy as np
    >>> import dplan
    >>> scores = [0.1, 0.9, 0.8, 0.7, 0.2]
    >>> dplan.query(scores, n=2, y=[0, -1, 0, 0, 0])  # row 1 has a verdict
    array([2, 3])
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> X[7] = X[8] = 9
    >>> found = dplan.query(n=2, X=X, diverse=True, random_state=0)  # a cold start; row 8 is a copy of row 7
    >>> len({7, 8} & set(found.tolist()))
    1
    """
    check_integer("n", n, minimum=1)
    check_flag("diverse", diverse)
    check_number("explore", explore, "[0, 1]")
    rng = as_generator(random_state)
    rows = None if X is None else _scaled(X)
    if scores is None:
        scores = _isolation("scores", rows, rng)
    values = _checked("scores", scores)
    if explore > 0 and novelty is None:
        novelty = _isolation("novelty", rows, rng)
    labels = check_labels(y, len(values))
    if rows is not None and len(rows) != len(values):
        raise ValueError(f"X has {len(rows)} rows, but there are {len(values)} scores.")
    unusual = None if novelty is None else _checked("novelty", novelty)
    if unusual is not None and len(unusual) != len(values):
        raise ValueError(f"novelty has {len(unusual)} values, but there are {len(values)} scores.")
    alike = None
    if diverse:
        if rows is None:
            raise ValueError("diverse=True needs X.")
        alike = Likeness(rows).duplicates_in(rows)
    return np.array(_batch(values, unusual, np.flatnonzero(labels == 0), n, round(explore * n), alike))


def asking_order(
    scores: NDArray[np.float64],
    novelty: NDArray[np.float64],
    share: float,
    alike: Callable[[int, Sequence[int]], bool],
) -> tuple[list[int], list[int]]:
    """Return positions of rows in the order to ask about them, and which of them are asked for their novelty.

    In each batch of ten, near duplicates of a row wait for the next batch, and the last rows are those that only the
    explorers find, as in `query`.

    Parameters
    ----------
    scores : ndarray of float
        The scores of the candidates.
    novelty : ndarray of float
        How anomalous the explorers find them.
    share : float
        Share of each batch that is chosen by novelty.
    alike : callable
        Tells whether a row nearly duplicates one of some others (`Likeness.duplicates_in`).

    Examples
    --------
    >>> scores, novelty = np.arange(40, 0, -1.0), np.arange(40.0)
    >>> order, explored = asking_order(scores, novelty, share=0.1, alike=lambda row, others: False)
    >>> order[:12], explored[:2]
    ([0, 1, 2, 3, 4, 5, 6, 7, 8, 39, 9, 10], [39, 38])
    """
    left = np.arange(len(scores))
    order: list[int] = []
    explored: list[int] = []
    n_explored = round(share * BATCH)
    for _ in range(_BATCHES):
        batch = _batch(scores, novelty, left, BATCH, n_explored, alike)
        order += batch
        explored += batch[len(batch) - n_explored :]
        left = left[~np.isin(left, batch)]
    return [*order, *_highest(scores, left)], explored


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


def explored_share(found: Mapping[int, bool], by_explorers: Collection[int]) -> float:
    """Return the share of a batch to ask about for its novelty: one row of ten, or none.

    Exploring must not cost anomalies that are at the top of the queue. It begins when verdicts show that the explorers
    may find as many as the top does, and ends when they do not.

    Parameters
    ----------
    found : mapping of int to bool
        The rows with a verdict, the oldest first, and whether they are anomalies.
    by_explorers : collection of int
        The rows that the explorers alone find.

    Examples
    --------
    >>> explored_share(dict.fromkeys(range(10), True), {77}), explored_share(dict.fromkeys(range(10), False), {77})
    (0.0, 0.1)
    """
    explored = [anomalous for row, anomalous in found.items() if row in by_explorers]
    top = [anomalous for row, anomalous in found.items() if row not in by_explorers][-_RECENT:]
    hope = (sum(explored) + 1) / (len(explored) + 2)  # the rule of succession
    return 1 / BATCH if top and hope > sum(top) / len(top) else 0.0


def trust(found: Mapping[int, bool]) -> float:
    """Return how much the ranking of the first model counts: the share of anomalies among the last ten verdicts.

    A refit knows the verdicts, but has seen fewer rows than the first training. As long as the top of the queue is
    right, there is no reason to leave the first ranking.

    Examples
    --------
    >>> trust({1: True, 2: False}), trust({})
    (0.5, 0.0)
    """
    recent = list(found.values())[-BATCH:]
    return sum(recent) / len(recent) if recent else 0.0


def blended(scores: NDArray[np.float64], first: NDArray[np.float64], trust: float) -> NDArray[np.float64]:
    """Return scores by which rows come first that rank high now and, as far as it is trusted, in the first ranking.

    Ranks are those among the rows that wait, so a row that is now at the very top stays near it.

    Examples
    --------
    >>> now, first = np.array([4.0, 3.0, 2.0, 1.0]), np.array([1.0, 3.0, 4.0, 2.0])
    >>> [highest_first(blended(now, first, trust)).tolist() for trust in (0, 1)]
    [[0, 1, 2, 3], [2, 0, 1, 3]]
    """
    return -(np.log(_ranks(scores)) + trust * np.log(_ranks(first)))


def _ranks(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the rank of each score, counted from 1 for the highest; ties have the same."""
    return 1 + len(scores) - np.searchsorted(np.sort(scores), scores, "right")


def _highest(scores: NDArray[np.float64], rows: NDArray[np.int64]) -> list[int]:
    """Return rows by their scores, the highest first; ties are in the order of the rows."""
    ordered: list[int] = rows[highest_first(scores[rows])].tolist()
    return ordered


def _batch(
    scores: NDArray[np.float64],
    novelty: NDArray[np.float64] | None,
    left: NDArray[np.int64],
    n: int,
    n_explored: int,
    alike: Callable[[int, Sequence[int]], bool] | None,
) -> list[int]:
    """Return n rows to ask about: those with the highest scores, then some for their novelty."""
    chosen = _take(_highest(scores, left), n - n_explored, [], alike)
    if n_explored and novelty is not None:
        chosen = _take(_highest(novelty, left), n_explored, chosen, alike)
    return chosen


def _take(
    ranked: Sequence[int],
    n: int,
    chosen: Sequence[int],
    alike: Callable[[int, Sequence[int]], bool] | None,
) -> list[int]:
    """Add the first n rows that are not chosen yet; near duplicates of chosen rows only if nothing else is left."""
    taken, waiting = list(chosen), []
    goal, already = len(chosen) + n, set(chosen)
    for row in ranked:
        if len(taken) == goal:
            break
        if row in already:
            continue
        if alike is not None and alike(row, taken):
            waiting.append(row)
        else:
            taken.append(row)
    return taken + waiting[: goal - len(taken)]


def _scaled(X: ArrayLike) -> Float32s:
    table = np.asarray(X, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError("X must be a 2-D array of finite numbers.")
    rows: Float32s = arrange(table, None, column_scale(table))
    return rows


def _isolation(name: str, rows: Float32s | None, rng: np.random.Generator) -> NDArray[np.floating]:
    if rows is None:
        raise ValueError(f"without {name}, an isolation forest ranks the rows; pass X.")
    return raw_isolation_scores(rows, np.arange(len(rows)), rng)


def _checked(name: str, values: ArrayLike | None) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ValueError(f"{name} must be a 1-D array of finite numbers.")
    return found
