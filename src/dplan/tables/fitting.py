"""Fit a detector to a table, and estimate on held-out rows how well it finds known anomalies."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from dplan.columns.preparer import TablePreparer
from dplan.detectors._base import Detector
from dplan.tables.chunks import MISSING
from dplan.tables.decoding import AUTO
from dplan.tables.labelled import LabelledTable
from dplan.tables.model import TableModel
from dplan.tables.row_keys import row_keys
from dplan.tables.summary import Summary
from dplan.text import shown

__all__ = ["fit_table"]

# Stored in the model file: enough for explanations and typical ranges, few enough for a small file.
_BACKGROUND_ROWS, _KNOWN_ROWS = 2_000, 2_000

# Held out for the estimate: of the known anomalies, and of the unlabelled rows that they are ranked among.
_KNOWN_SHARE, _UNLABELLED_SHARE = 0.3, 0.2


def fit_table(
    table: LabelledTable,
    detector: Detector,
    *,
    estimate: bool = True,
    max_levels: int = 255,
    seed: int = 0,
    sample_weight: ArrayLike | None = None,
    stage: Callable[[str], None] | None = None,
) -> TableModel:
    """Prepare a table, estimate how well known anomalies are found, and fit the detector on all rows.

    Parameters
    ----------
    table : LabelledTable
        From `dplan.tables.from_table`.
    detector : Detector
        An unfitted detector; it is fitted in place.
    estimate : bool, default=True
        Whether to first fit a copy of the detector on some of the rows and measure how high held-out known anomalies
        rank among held-out unlabelled rows.
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
    """
    begin = stage or (lambda name: None)
    rng = np.random.default_rng(seed)
    begin("preparing")
    started = time.perf_counter()
    with table.located():
        preparation, dropped = _fit_preparation(table, max_levels)
        features = table.features.drop(dropped)
        X = preparation.transform(features)
    prepared = time.perf_counter()
    found = None
    if estimate and (table.y > 0).sum() >= 2:
        begin("estimating")
        found = _estimate(features, table.y, detector, clone(preparation), rng)
    estimated = time.perf_counter()
    begin("training")
    detector.fit(X, table.y, sample_weight)
    trained = time.perf_counter()
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
        estimate=found,
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
    if read is None or (read.encoding, read.missing) == (AUTO, MISSING):
        return None
    return {"encoding": read.encoding, "missing": list(read.missing)}


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
    if len(dropped) == features.width:
        reasons = "; ".join(f"{shown(name)}: {reason}" for name, reason in list(dropped.items())[:10])
        raise ValueError(f"no feature columns left: {reasons}")
    if dropped:
        kept = [column for column in preparation.columns_ if column.is_used]
        state = preparation.to_state() | {"columns": [column.to_json() for column in kept]}
        preparation = TablePreparer.from_state(state).set_params(meanings=table.meanings)
    return preparation, dropped


def _estimate(
    features: pl.DataFrame,
    y: NDArray[np.int64],
    detector: Detector,
    preparation: TablePreparer,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Fit a copy on some of the rows and rank the held-out known anomalies."""
    known = np.concatenate(
        [_held_out(np.flatnonzero(y == k), _KNOWN_SHARE, rng) for k in np.unique(y) if k > 0]
    )
    if len(known) == 0:  # every class has a single row: hold out one of these rows
        known = rng.permutation(np.flatnonzero(y > 0))[:1]
    unlabelled = _held_out(np.flatnonzero(y == 0), _UNLABELLED_SHARE, rng)
    checked = _held_out(np.flatnonzero(y < 0), _KNOWN_SHARE, rng)
    seen = np.setdiff1d(np.arange(len(y)), np.concatenate([known, unlabelled, checked]))
    # A new preparation, because ranges and means must not come from held-out rows either.
    preparation = preparation.fit(features[seen])
    copy = clone(detector)
    copy.fit(preparation.transform(features[seen]), y[seen])
    unlabelled_scores = np.sort(copy.anomaly_score(preparation.transform(features[unlabelled])))
    known_scores = copy.anomaly_score(preparation.transform(features[known]))
    percentiles = 100 * np.searchsorted(unlabelled_scores, known_scores) / len(unlabelled_scores)
    budget = max(1, round(float(detector.contamination) * (len(known) + len(unlabelled))))
    both = np.concatenate([known_scores, unlabelled_scores])
    alerts = np.argsort(-both, kind="stable")[:budget]
    found: dict[str, Any] = {}
    if len(checked):
        # Precision among rows with a verdict, at the threshold that alerts are decided by: no unlabelled row is in it.
        checked_scores = copy.anomaly_score(preparation.transform(features[checked]))
        n_found, n_false = (int((-scores < copy.offset_).sum()) for scores in (known_scores, checked_scores))
        found = {"checked": len(checked), "alerts_found": n_found, "false_alarms": n_false}
    return {
        **found,
        "known": len(known),
        "unlabelled": len(unlabelled),
        "median_percentile": round(float(np.median(percentiles)), 2),
        "budget": budget,
        "known_in_budget": int((alerts < len(known)).sum()),
    }


def _held_out(rows: NDArray[np.int64], share: float, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a fraction of the rows, but never all of them."""
    n = max(min(max(1, round(share * len(rows))), len(rows) - 1), 0)
    return rng.permutation(rows)[:n]


def _some(rows: NDArray[np.int64], at_most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rows if len(rows) <= at_most else np.sort(rng.choice(rows, at_most, replace=False))
