"""Tables to review: rows of which some are anomalies, and nobody has said which.

==============================  ================================================================================
``discovery/abalone-v1``        a CSV file in a folder; the first column is ``anomaly`` or ``nominal``
``unsw_nb15/dos-v1``            a data set of the paper: normal rows with 2 % anomalies of one class
==============================  ================================================================================

At most 10,000 rows of the paper's data sets are drawn, again for every seed, because a reviewed detector scores the
whole table after every few verdicts. The CSV files are used as they are.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.preparer import TablePreparer
from dplan.datasets.loading import Dataset
from dplan.datasets.registry import scenario_id
from dplan.datasets.splits import Stream
from experiments.data import collection_folder

__all__ = ["ReviewTable", "drawn", "table", "tables"]

_MOST_ROWS, _ANOMALY_SHARE = 10_000, 0.02
_NORMAL, _ANOMALIES, _ORDER = range(40, 43)  # one stream per kind of draw
_VERDICTS = {"anomaly": True, "nominal": False}


class ReviewTable(NamedTuple):
    """Rows, and whether each of them is an anomaly, which only the oracle knows."""

    X: NDArray[np.floating]
    anomalous: NDArray[np.bool_]


def tables(home: str | Path | None = None) -> list[str]:
    """List the tables in the folder: CSV files whose first column says anomaly or nominal."""
    place = collection_folder("discovery", home)
    return sorted(path.stem for path in place.glob("*.csv") if _first_column(path) is not None)


def table(name: str, home: str | Path | None = None) -> ReviewTable:
    """Return the table of a CSV file."""
    path = collection_folder("discovery", home) / f"{name}.csv"
    label = _first_column(path)
    if label is None:
        raise ValueError(f"{path}: the first column must be `anomaly` or `nominal` in every row")
    frame = pl.read_csv(path)
    try:
        X = frame.drop(label).cast(pl.Float64).to_numpy()
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{path}: all columns but the first must be numbers") from error
    return ReviewTable(np.ascontiguousarray(X), (frame[label] == "anomaly").to_numpy())


def drawn(id: str, seed: int, dataset: Dataset) -> ReviewTable:
    """Draw normal rows of a data set of the paper, with 2 % anomalies of the class that the scenario is named after."""
    known = dataset.anomalies.index(scenario_id(id).known[0]) + 1
    classes = dataset.class_numbers
    normal, odd = (
        Stream(seed, stream).shuffled(np.flatnonzero(classes == number))
        for stream, number in ((_NORMAL, 0), (_ANOMALIES, known))
    )
    normal = normal[: round((1 - _ANOMALY_SHARE) * _MOST_ROWS)]
    odd = odd[: round(_ANOMALY_SHARE / (1 - _ANOMALY_SHARE) * len(normal))]
    rows = Stream(seed, _ORDER).shuffled(np.concatenate([normal, odd]))
    features = dataset.features[rows]
    return ReviewTable(
        np.ascontiguousarray(TablePreparer().fit(features).transform(features)), classes[rows] == known
    )


def _first_column(path: Path) -> str | None:
    """Return the name of the first column if it has verdicts and nothing else."""
    try:
        first = pl.read_csv(path, columns=[0])
    except (pl.exceptions.PolarsError, OSError):
        return None
    (name,) = first.columns
    return name if set(first[name].to_list()) <= set(_VERDICTS) and first.height else None
