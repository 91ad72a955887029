"""Fit a detector to a table."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dplan._kernels.compiling import compiling
from dplan.columns.preparer import TablePreparer
from dplan.detectors._base import Detector
from dplan.exceptions import ManyAnomaliesWarning
from dplan.tables import estimating
from dplan.tables.chunks import MISSING
from dplan.tables.decoding import AUTO
from dplan.tables.doubtful import redundant, warn_of_leaks
from dplan.tables.labelled import LabelledTable
from dplan.tables.layout import Layout
from dplan.tables.model import TableModel
from dplan.tables.row_keys import row_keys
from dplan.tables.summary import Summary
from dplan.text import shown

__all__ = ["fit_table"]

# Stored in the model file: enough for explanations and typical ranges, few enough for a small file.
_BACKGROUND_ROWS, _KNOWN_ROWS = 2_000, 2_000


def fit_table(
    table: LabelledTable,
    detector: Detector,
    *,
    estimate: bool = True,
    budget: int | None = None,
    max_levels: int = 255,
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
    stage: Callable[[str], None] | None = None,
) -> TableModel:
    """Prepare a table, estimate how many alerts will be right, and fit the detector on all rows.

    Parameters
    ----------
    table : LabelledTable
        From `dplan.tables.from_table`.
    detector : Detector
        An unfitted detector; it is fitted in place.
    estimate : bool, default=True
        Whether to first fit copies of the detector without some of the rows, see `dplan.tables.estimate`; that takes
        twice as long as the training.
    budget : int, optional
        Number of alerts that the estimate is about.
    max_levels : int, default=255
        As in `TablePreparer`.
    seed : int, default=0
        Seed for the choice of held-out rows and of the rows stored in the model.
    sample_weight : array-like, optional
        Confidence in the verdict of each row, as in the detector's `fit`; the estimate does without.
    stage : callable, optional
        Called with the name of each stage as it begins: "preparing", "estimating", "training".

    Returns
    -------
    TableModel
        The fitted model; its `summary` describes the training.

    Examples
    --------
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import from_table
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950], "fraud": [0] * 100 + [1, 1]})
    >>> model = fit_table(from_table(table, label="fraud"), LogisticBaseline(), estimate=False)
    >>> model.predict(pl.DataFrame({"amount": [10, 920]})).tolist()
    [1, -1]
    """
    begin = stage or (lambda name: None)
    rng = np.random.default_rng(seed)
    begin("preparing")
    started = compiling.clock()
    with table.located():
        preparation, dropped = _fit_preparation(table, max_levels)
        features = table.features.drop(dropped)
        X, _ = preparation.transform_with_report(
            features
        )  # an array, whatever scikit-learn's output is set to
    if more := redundant(preparation.columns_, X):
        used = ~np.isin([column.name for column in preparation.columns_], list(more))
        X = np.ascontiguousarray(X[:, used[preparation.feature_groups()]])
        preparation, dropped = _without(preparation, dropped | more), dropped | more
        features = features.drop(more)
    if table.named:
        warn_of_leaks(features, preparation.columns_, X, table.y, stacklevel=2)
    prepared = compiling.clock()
    found = None
    if estimate:
        begin("estimating")
        with _without_a_second_warning():
            found = estimating.estimate(table, detector, budget=budget, max_levels=max_levels, seed=seed)
    estimated = compiling.clock()
    begin("training")
    with _without_a_second_warning():
        detector.fit(X, table.y, sample_weight)
    trained = compiling.clock()
    kinds: dict[str, int] = {}
    for column in preparation.columns_:
        kinds[column.kind] = kinds.get(column.kind, 0) + 1
    summary = Summary(
        rows=table.n_rows or table.features.height,
        labels=table.counts(),
        checked_normal=table.n_checked,
        label=table.label,
        ids=tuple(table.ids.columns),
        columns=kinds,
        dropped=dropped,
        estimate=None if found is None else found.to_json(),
        seconds={
            "preparing": round(prepared - started, 3),
            "estimating": round(estimated - prepared, 3),
            "training": round(trained - estimated, 3),
        },
        label_values=_label_values(table),
        sampled=None if table.n_rows is None else table.features.height,
        reading=_reading(table),
    )
    return assemble(
        detector,
        preparation,
        X,
        table.y,
        summary,
        rng,
        lambda rows: row_keys(table.ids[rows] if table.ids.width else table.ids, X[rows]),
        partial(row_name, table),
    )


@contextmanager
def _without_a_second_warning() -> Iterator[None]:
    """Whoever read the labels has said if most of them are anomalies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ManyAnomaliesWarning)
        yield


def assemble(
    detector: Detector,
    preparation: TablePreparer,
    X: NDArray[np.float32],
    y: NDArray[np.int64],
    summary: Summary,
    rng: np.random.Generator,
    keys_of: Callable[[NDArray[np.int64]], list[str]],
    name_of: Callable[[int], str],
) -> TableModel:
    """Combine a fitted detector with the training rows that explanations and updates need."""
    unlabelled, labelled = np.flatnonzero(y == 0), np.flatnonzero(y > 0)
    if len(unlabelled) == 0:  # a detector that ignores labels can still be fitted
        unlabelled = np.arange(len(y))
    background = np.ascontiguousarray(X[_some(unlabelled, _BACKGROUND_ROWS, rng)])
    known = _some(labelled, _KNOWN_ROWS, rng)
    known_rows, known_classes = np.ascontiguousarray(X[known]), y[known].astype(np.int64)
    checked = _some(np.flatnonzero(y < 0), _KNOWN_ROWS, rng)
    summary = replace(
        summary,
        verdict_keys=tuple(keys_of(np.concatenate([known, checked]))),
        known_names=tuple(name_of(int(row)) for row in known),
    )
    checked_rows = np.ascontiguousarray(X[checked])
    return TableModel(detector, preparation, background, known_rows, known_classes, summary, checked_rows)


def _label_values(table: LabelledTable) -> dict[str, list[str]] | None:
    """Return the words of the label column by their meaning, if it has words."""
    if table.words is None:
        return None
    return {"anomaly": list(table.classes[1:]), "normal": list(table.words.normal or ())}


def _reading(table: LabelledTable) -> dict[str, Any] | None:
    """Return how the table was read, unless that is the default."""
    read = table.input
    encoding = AUTO if read is None else read.encoding
    found: dict[str, Any] = {"encoding": encoding, "missing": list(table.missing)}
    if read is not None and read.layout != Layout():
        found["layout"] = read.layout.to_json()
    if read is not None and read.sheet is not None:
        found["sheet"] = read.sheet
    return None if found == {"encoding": AUTO, "missing": list(MISSING)} else found


def row_name(table: LabelledTable, row: int) -> str:
    """Return the id of a training row, or its number in the file if it has none."""
    ids = table.ids
    found = [str(value) for value in (ids.row(row) if ids.width else ()) if value is not None]
    number = row if table.positions is None else int(table.positions[row])
    return ", ".join(found) or f"training row {number + 1}"


def _fit_preparation(table: LabelledTable, max_levels: int) -> tuple[TablePreparer, dict[str, str]]:
    """Fit the preparation without the columns that it drops, so that new tables need not have them."""
    features = rows = table.features
    if table.extremes is not None:
        # Ranges and levels are those of the whole table, even if the features are a sample.
        rows = pl.concat([features, table.extremes], how="diagonal_relaxed")
    preparation = TablePreparer(max_levels=max_levels, meanings=table.meanings).fit(rows)
    dropped = {column.name: column.why for column in preparation.columns_ if not column.is_used}
    return _without(preparation, dropped), dropped


def _without(preparation: TablePreparer, dropped: Mapping[str, str]) -> TablePreparer:
    """Return the preparation without columns that are dropped."""
    kept = [column for column in preparation.columns_ if column.name not in dropped]
    if not kept:
        reasons = "; ".join(f"{shown(name)}: {reason}" for name, reason in list(dropped.items())[:10])
        raise ValueError(f"no feature columns left: {reasons}")
    if len(kept) == len(preparation.columns_):
        return preparation
    state = preparation.to_state() | {"columns": [column.to_json() for column in kept]}
    found = TablePreparer.from_state(state)
    found.meanings = preparation.meanings
    return found


def _some(rows: NDArray[np.int64], at_most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= at_most else np.sort(rng.choice(rows, at_most, replace=False))
