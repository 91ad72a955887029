"""Synthetic anomalies, for more pollution than a data set has real anomalies.

As in DevNet, by the same group: a real training anomaly with 5 % of its features taken from another one.
"""

import numpy as np
import polars as pl

from dplan.datasets.loading import Dataset, hashes
from dplan.datasets.splits import Rows, Stream

__all__ = ["synthetic_anomalies"]

_SWAPPED_SHARE = 0.05
_BATCH = 1024  # a constant, so that the first rows do not depend on `n`
_MAX_BARREN_BATCHES = 50


def synthetic_anomalies(
    dataset: Dataset, pool: Rows, n: int, stream: Stream
) -> tuple[pl.DataFrame | None, Rows]:
    """Make `n` rows, each a row of `pool` with 5 % of its features (at least one) from another row of `pool`.

    A row that is equal to a row of the table is drawn again, because it could be a copy of a test row.

    Parameters
    ----------
    dataset : Dataset
        The table.
    pool : ndarray of int
        Rows of unlabelled training anomalies.
    n : int
        Rows to make.
    stream : Stream
        Random stream.

    Returns
    -------
    features : polars.DataFrame or None
        The new rows with the columns of ``dataset.features``; None if `n` is 0.
    origins : ndarray of int
        The row of `pool` that each was made from, which has the same class.
    """
    if n <= 0:
        return None, np.empty(0, dtype=np.int64)
    if len(pool) < 2:
        raise ValueError(
            f"{n} synthetic anomalies need at least two real ones in training, there are {len(pool)}"
        )
    names = dataset.features.columns
    n_swapped = max(1, int(_SWAPPED_SHARE * len(names)))
    made: list[pl.DataFrame] = []
    origins: list[Rows] = []
    n_made = 0
    for _ in range(_MAX_BARREN_BATCHES + n // _BATCH):
        first = stream.below(len(pool), _BATCH)
        second = (first + 1 + stream.below(len(pool) - 1, _BATCH)) % len(pool)
        swapped = stream.subsets(_BATCH, len(names), n_swapped)
        mine, other = dataset.features[pool[first]], dataset.features[pool[second]]
        mixed = mine.with_columns(
            pl.when(pl.Series(swapped[:, j])).then(other[name]).otherwise(mine[name]).alias(name)
            for j, name in enumerate(names)
        )
        numbers = hashes(mixed)
        places = np.searchsorted(dataset.sorted_hashes, numbers) % len(dataset.sorted_hashes)
        new = dataset.sorted_hashes[places] != numbers
        made.append(mixed.filter(new))
        origins.append(pool[first][new])
        n_made += int(new.sum())
        if n_made >= n:
            return pl.concat(made)[:n], np.concatenate(origins)[:n]
    raise ValueError(
        f"only {n_made} of {n} synthetic anomalies could be made: the {len(pool)} real ones of "
        f"{dataset.name} are too similar; use a lower contamination"
    )
