"""Draw rows at random: the same seed gives the same rows on every machine and with every version of NumPy.

NumPy guarantees the raw output of its bit generators, but not `permutation` and `choice`, so everything here sorts by
raw random numbers.
"""

import numpy as np
from numpy.typing import NDArray

__all__ = ["Stream", "equal_shares", "split_by_class"]

Rows = NDArray[np.int64]


class Stream:
    """A random stream for one purpose, independent of all streams with a different key.

    Parameters
    ----------
    *key : int
        Non-negative numbers that identify the stream.

    Examples
    --------
    >>> Stream(0, 1).shuffled(np.arange(5)).tolist()
    [4, 1, 2, 0, 3]
    >>> Stream(0, 1).shuffled(np.arange(5)).tolist() == Stream(0, 1).shuffled(np.arange(5)).tolist()
    True
    """

    def __init__(self, *key: int) -> None:
        self._bits = np.random.PCG64(np.random.SeedSequence(key))

    def shuffled(self, rows: Rows) -> Rows:
        """Return the same rows in a random order."""
        order: Rows = rows[np.argsort(self._bits.random_raw(len(rows)), kind="stable")]
        return order

    def below(self, bound: int, size: int) -> Rows:
        """Return `size` numbers of 0 … bound - 1, each equally likely (up to a bias of bound / 2**53)."""
        fractions = (self._bits.random_raw(size) >> np.uint64(11)) / 2.0**53
        return (fractions * bound).astype(np.int64)

    def subsets(self, size: int, n: int, n_chosen: int) -> NDArray[np.bool_]:
        """Return `size` rows of `n` flags, with `n_chosen` set in each."""
        raw = self._bits.random_raw(size * n).reshape(size, n)
        flags = np.zeros((size, n), dtype=np.bool_)
        np.put_along_axis(flags, np.argsort(raw, axis=1, kind="stable")[:, :n_chosen], True, axis=1)
        return flags


def split_by_class(
    classes: NDArray[np.int64], groups: NDArray[np.int64], share: float, stream: Stream
) -> NDArray[np.bool_]:
    """Choose a fraction of the rows of each class for the test set, without separating copies of a row.

    Whole groups of equal rows are taken, up to `share` of them, unless a class would get more than its share;
    rows without a copy fill the rest, so each class reaches its share exactly unless it has too few of those.

    Parameters
    ----------
    classes : ndarray of int
        The class of each row, counted from 0.
    groups : ndarray of int
        Rows with equal features have equal numbers.
    share : float
        Fraction of each class in the test set.
    stream : Stream
        Random stream.

    Returns
    -------
    ndarray of bool
        Whether the row is in the test set.

    Examples
    --------
    >>> classes = np.array([0] * 10 + [1] * 5)
    >>> in_test = split_by_class(classes, np.arange(15), 0.2, Stream(7))
    >>> np.bincount(classes[in_test]).tolist()
    [2, 1]
    """
    wanted = np.rint(np.bincount(classes) * share).astype(np.int64)
    in_test = np.zeros(len(classes), dtype=np.bool_)
    _, groups, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    single = sizes[groups] == 1
    copied = np.flatnonzero(~single)
    copied = copied[np.argsort(groups[copied], kind="stable")]
    members = np.split(copied, np.cumsum(sizes[sizes > 1]))[:-1]
    order = stream.shuffled(np.arange(len(members)))
    left = wanted.copy()
    for g in order[: round(share * len(members))].tolist():
        counts = np.bincount(classes[members[g]], minlength=len(wanted))
        if (counts <= left).all():
            in_test[members[g]] = True
            left -= counts
    for k, n in enumerate(left.tolist()):
        candidates = np.flatnonzero(single & (classes == k))
        in_test[stream.shuffled(candidates)[:n]] = True
    return in_test


def equal_shares(total: int, available: list[int]) -> list[int]:
    """Divide `total` among classes as equally as possible.

    Examples
    --------
    >>> equal_shares(10, [100, 100, 100])
    [3, 3, 4]
    >>> equal_shares(10, [1, 100, 100])
    [1, 4, 5]
    >>> equal_shares(10, [1, 2, 3])
    [1, 2, 3]
    """
    shares = [0] * len(available)
    left = total
    by_size = sorted(range(len(available)), key=available.__getitem__)
    for n_before, k in enumerate(by_size):  # larger classes make up for small ones
        shares[k] = min(available[k], left // (len(available) - n_before))
        left -= shares[k]
    return shares
