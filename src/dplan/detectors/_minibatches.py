"""Minibatches in which the few labelled anomalies have the same weight as the unlabelled rows."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled
from dplan._kernels.perceptron import Floats

Indices = NDArray[np.int64]

_DRAWN_AT_ONCE = 64


def gather(rows: Floats, indices: Indices, out: Floats) -> None:
    """Copy the rows with these indices into a preallocated array."""
    np.take(rows, indices, axis=0, out=out, mode="clip")  # "clip" copies directly, "raise" would buffer


def buffered_draws(draw: Callable[[int], Indices]) -> Iterator[Indices]:
    """Draw indices for many minibatches at once, which is much faster, and yield them one by one."""
    while True:
        yield from draw(_DRAWN_AT_ONCE)


class HalfAndHalf:
    """Minibatches of half labelled anomalies and half unlabelled rows, both drawn with replacement.

    The anomalies come first (see `anomalous`). If there are fewer anomalies than draws, each appears once and its
    weight says how often it was drawn: the same mean loss with fewer rows to multiply. If there are no anomalies, all
    rows of a minibatch are unlabelled.

    Examples
    --------
    >>> rows = np.arange(10, dtype=np.float32)[:, None]
    >>> sampler = HalfAndHalf(rows, np.array([8, 9]), np.arange(8), 6, np.random.default_rng(0))
    >>> sampler().ravel()[:2]  # the two anomalies
    array([8., 9.], dtype=float32)
    >>> sampler.weights * 6  # the second anomaly was drawn three times; then come three unlabelled rows
    array([0., 3., 1., 1., 1.], dtype=float32)
    """

    def __init__(
        self, rows: Floats, anomalies: Indices, unlabelled: Indices, size: int, rng: np.random.Generator
    ) -> None:
        self.rows = rows
        n_drawn = size // 2 if len(anomalies) else 0
        self.n_standing = n = min(n_drawn, len(anomalies))
        self.drawn_once = n == n_drawn
        shape = (n + size - n_drawn, rows.shape[1])
        self.anomalous = np.arange(shape[0]) < n
        self.weights = np.full(shape[0], 1 / size, dtype=np.float32)
        self.batch = np.empty(shape, dtype=np.float32)
        gather(rows, anomalies[:n], self.batch[:n])
        self.places = buffered_draws(
            lambda times: rng.integers(max(len(anomalies), 1), size=(times, n_drawn))
        )
        self.anomalies = anomalies
        self.draws = buffered_draws(lambda times: rng.choice(unlabelled, (times, size - n_drawn)))

    def __call__(self) -> Floats:
        """Draw the next minibatch, overwriting the previous one."""
        n, places = self.n_standing, next(self.places)
        if self.drawn_once:
            gather(self.rows, self.anomalies[places], self.batch[:n])
        else:
            self.weights[:n] = np.bincount(places, minlength=n) * self.weights[-1]
        gather(self.rows, next(self.draws), self.batch[n:])
        return self.batch


class WeightedChoice:
    """Draw indices with probabilities proportional to weights, each in constant time (Walker's alias method).

    Every index has a bin of equal size; the part that its weight does not fill belongs to one other index.

    Examples
    --------
    >>> choice = WeightedChoice(np.array([1.0, 3.0, 0.0]))
    >>> np.bincount(choice(1000, np.random.default_rng(0)), minlength=3)
    array([231, 769,   0])
    """

    def __init__(self, weights: NDArray[np.float64]) -> None:
        total = weights.sum()
        if not total > 0:
            weights = np.ones(len(weights))
            total = float(len(weights))
        self.filled, self.other = _alias_table(weights * (len(weights) / total))

    def __call__(self, size: int | tuple[int, ...], rng: np.random.Generator) -> Indices:
        """Draw an array of indices."""
        place = rng.random(size) * len(self.filled)
        number = place.astype(np.int64)
        return np.where(place - number < self.filled[number], number, self.other[number])


@compiled
def _alias_table(levels: NDArray[np.float64]) -> tuple[NDArray[np.float64], Indices]:
    """Fill bins of size 1 from levels with mean 1; return how full each bin is, and the index that owns the rest."""
    n = len(levels)
    other = np.arange(n)
    low, high = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    n_low = n_high = 0
    for i in range(n):
        if levels[i] < 1:
            low[n_low] = i
            n_low += 1
        else:
            high[n_high] = i
            n_high += 1
    filled = levels.copy()
    while n_low > 0 and n_high > 0:
        n_low -= 1
        i, donor = low[n_low], high[n_high - 1]
        other[i] = donor
        filled[donor] -= 1 - filled[i]
        if filled[donor] < 1:
            n_high -= 1
            low[n_low] = donor
            n_low += 1
    for left in high[:n_high]:
        filled[left] = 1
    for left in low[:n_low]:  # short of 1 by rounding only
        filled[left] = 1
    return filled, other


@compiled
def weighted_mean(losses: Floats, slopes: Floats, weights: Floats) -> float:
    """Return Σ weight · loss, and multiply each row's gradient by its weight in place."""
    mean = 0.0
    for row in range(slopes.shape[0]):
        mean += weights[row] * losses[row]
        for unit in range(slopes.shape[1]):
            slopes[row, unit] *= weights[row]
    return mean
