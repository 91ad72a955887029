"""ADGym's published splits of the ADBench tables, to compare with the results published for 17 methods.

ADGym (Jiang et al., NeurIPS 2023) published one AUC-PR and one AUC-ROC per table, seed, number of labels and method.
`task` repeats its splits exactly: the same seed labels, trains on and tests the same rows. The tables (``.npz`` files
of ADBench with ``X`` and ``y``) and the results (``published.csv``) are read from a folder.

1. Tables with fewer than 1,000 rows are left out. Of tables with more than 3,000 rows, 3,000 are drawn.
2. 70 % of the rows are for training and 30 % for the test, stratified by class. Nothing is scaled.
3. 5, 10 or 20 anomalies of the training rows are labelled; all other training rows are unlabelled. A table with fewer
   anomalies than labels is left out for that number of labels.
"""

from functools import lru_cache
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from experiments.data import collection_folder
from experiments.data.arrays import ArrayTask

__all__ = ["n_labelled_at_most", "published", "table", "tables", "task"]

_FEWEST_ROWS, _MOST_ROWS = 1_000, 3_000
_RESULTS = "published.csv"
_COLUMNS = {
    "table": pl.String,
    "seed": pl.Int64,
    "labels": pl.Int64,
    "method": pl.String,
    "auc_pr": pl.Float64,
    "auc_roc": pl.Float64,
}

Rows = NDArray[np.int64]


def tables(home: str | Path | None = None) -> list[str]:
    """List the tables in the folder that have enough rows, in the order of their numbers.

    Raises
    ------
    FileNotFoundError
        If the folder has no such table.
    """
    place = collection_folder("adgym", home)
    names = [path.stem for path in place.glob("*.npz") if len(_labels(path)) >= _FEWEST_ROWS]
    if not names:
        raise FileNotFoundError(
            f"no ADBench tables with at least {_FEWEST_ROWS:,} rows in {place}: download the .npz files of "
            "https://github.com/Minqi824/ADBench (datasets/Classical) and pass their folder with --data-home"
        )
    numbers = {name: name.partition("_")[0] for name in names}
    return sorted(names, key=lambda name: (not numbers[name].isdecimal(), numbers[name].zfill(9), name))


def table(name: str, home: str | Path | None = None) -> tuple[NDArray[np.float64], Rows]:
    """Return the rows of a table and their classes: 1 for anomalies, 0 for normal rows."""
    path = _file(name, home)
    return _array(path, "X").astype(np.float64), _labels(path)


def n_labelled_at_most(name: str, seed: int, home: str | Path | None = None) -> int:
    """Return the number of anomalies among the training rows."""
    y = _labels(_file(name, home))
    training, _, _ = _split(y, seed)
    return int(y[training].sum())


def task(name: str, seed: int, n_labels: int, home: str | Path | None = None) -> ArrayTask:
    """Return ADGym's split of a table."""
    X, y = table(name, home)
    training, test, generator = _split(y, seed)
    anomalies = np.flatnonzero(y[training] == 1)
    if n_labels > len(anomalies):
        raise ValueError(f"{name} has {len(anomalies)} anomalies among its training rows, not {n_labels}")
    labels = np.zeros(len(training), dtype=np.int64)
    labels[generator.choice(anomalies, n_labels, replace=False)] = 1
    names = ("normal", "anomaly")
    return ArrayTask(X[training], labels, X[test], y[test], (1,), names, true_classes=y[training])


def published(home: str | Path | None = None) -> pl.DataFrame:
    """Return the published results of the tables, with no rows if the folder has no ``published.csv``."""
    path = collection_folder("adgym", home) / _RESULTS
    if not path.exists():
        return pl.DataFrame(schema=_COLUMNS)
    try:
        return pl.read_csv(path, columns=list(_COLUMNS), schema_overrides=_COLUMNS)
    except pl.exceptions.PolarsError as error:
        wanted = ", ".join(_COLUMNS)
        raise ValueError(f"cannot read {path}; it must have the columns {wanted}: {error}") from error


def _file(name: str, home: str | Path | None) -> Path:
    return collection_folder("adgym", home) / f"{name}.npz"


def _split(y: Rows, seed: int) -> tuple[Rows, Rows, np.random.RandomState]:
    """Return training and test rows, and the generator that has drawn them."""
    from sklearn.model_selection import train_test_split

    # The same stream as ADGym's global `np.random.seed(seed)`.
    generator = np.random.RandomState(seed)
    rows = np.arange(len(y))
    if len(rows) > _MOST_ROWS:
        rows = generator.choice(rows, _MOST_ROWS, replace=False)
    training, test = train_test_split(
        rows, test_size=0.3, shuffle=True, stratify=y[rows], random_state=generator
    )
    return training, test, generator


@lru_cache(maxsize=128)
def _labels(path: Path) -> Rows:
    y = _array(path, "y")
    if not np.isin(y, (0, 1)).all():
        raise ValueError(f"{path}: y must be 0 or 1")
    return y.astype(np.int64).ravel()


def _array(path: Path, name: str) -> NDArray[np.generic]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            array: NDArray[np.generic] = arrays[name]
            return array
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"{path} is not an ADBench table: {error}") from error
