"""Which rows to ask a person about next."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dplan._kernels.scaling import arrange, column_scale
from dplan.detectors._checks import as_generator, check_flag, check_integer, check_labels, check_number
from dplan.detectors._isolation import raw_isolation_scores

__all__ = ["query"]

# Rows are near duplicates if they are closer than this share of the usual distance between a row and its nearest
# neighbour in a sample of the table.
_NEAR, _SAMPLE = 0.5, 256


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
        Whether near duplicates of a chosen row wait for the next batch: the verdict on one is likely that on all.
    explore : float, default=0.0
        Share of the rows that only an unsupervised score finds: those with the highest `novelty` of all that are not
        chosen by `scores`. It finds anomalies of kinds that no verdict has taught yet.
    novelty : array-like of shape (n_rows,), default=None
        An unsupervised score for `explore`; None for an isolation forest on X.
    random_state : int, Generator or None, default=0
        Seed of the isolation forest and of the sample that near duplicates are judged by.

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
    >>> dplan.query(n=2, X=X, diverse=True)  # a cold start; row 8 is a copy of row 7
    array([  7, 276])
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
    n_explored = round(explore * n)
    left = np.flatnonzero(labels == 0)
    near = _Near(rows, rng) if diverse else None
    chosen = _take(left[np.argsort(-values[left], kind="stable")], n - n_explored, [], near)
    if n_explored:
        unusual = _checked("novelty", novelty)
        if len(unusual) != len(values):
            raise ValueError(f"novelty has {len(unusual)} values, but there are {len(values)} scores.")
        chosen = _take(left[np.argsort(-unusual[left], kind="stable")], n_explored, chosen, near)
    return np.array(chosen, dtype=np.int64)


def _take(ranked: NDArray[np.int64], n: int, chosen: list[int], near: "_Near | None") -> list[int]:
    """Add the first n rows that are not chosen yet; near duplicates of chosen rows only if nothing else is left."""
    taken, waiting = list(chosen), []
    goal, already = len(chosen) + n, set(chosen)
    for row in ranked.tolist():
        if len(taken) == goal:
            break
        if row in already:
            continue
        if near is not None and near.any(row, taken):
            waiting.append(row)
        else:
            taken.append(row)
    return taken + waiting[: goal - len(taken)]


class _Near:
    """Whether rows are near duplicates of each other."""

    def __init__(self, rows: NDArray[np.float32] | None, rng: np.random.Generator) -> None:
        if rows is None:
            raise ValueError("diverse=True needs X.")
        self.rows = rows
        sample = rows[rng.choice(len(rows), min(_SAMPLE, len(rows)), replace=False)].astype(np.float64)
        squares = (sample**2).sum(axis=1)
        distances = squares[:, None] + squares - 2 * sample @ sample.T
        np.fill_diagonal(distances, np.inf)
        nearest = np.sqrt(np.maximum(distances.min(axis=1), 0))
        positive = nearest[np.isfinite(nearest) & (nearest > 0)]
        self.radius = _NEAR * float(np.median(positive)) if len(positive) else 0.0

    def any(self, row: int, others: list[int]) -> bool:
        gaps = np.linalg.norm(self.rows[others] - self.rows[row], axis=1) if others else np.empty(0)
        return bool((gaps <= self.radius).any())


def _scaled(X: ArrayLike) -> NDArray[np.float32]:
    table = np.asarray(X, dtype=np.float64)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError("X must be a 2-D array of finite numbers.")
    rows: NDArray[np.float32] = arrange(table, None, *column_scale(table))
    return rows


def _isolation(name: str, rows: NDArray[np.float32] | None, rng: np.random.Generator) -> NDArray[np.floating]:
    if rows is None:
        raise ValueError(f"without {name}, an isolation forest ranks the rows; pass X.")
    return raw_isolation_scores(rows, np.arange(len(rows)), rng)


def _checked(name: str, values: ArrayLike | None) -> NDArray[np.float64]:
    found = np.asarray(values, dtype=np.float64)
    if found.ndim != 1 or not np.isfinite(found).all():
        raise ValueError(f"{name} must be a 1-D array of finite numbers.")
    return found
