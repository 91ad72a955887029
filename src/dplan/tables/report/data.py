"""The data of the report, computed in one pass over the table with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan._kernels.scaling import scale_rows
from dplan.tables.chunks import Chunk
from dplan.tables.columns import Column
from dplan.tables.formatting import format_date
from dplan.tables.model import TableModel
from dplan.tables.preparing import TransformReport

__all__ = ["Feature", "ReportData", "report_data"]

_SAMPLE, _HIGHEST, _MAP_ROWS = 5_000, 300, 1_500


@dataclass(frozen=True)
class Feature:
    """A column: its distribution in the background rows, in the scored table and among the highest scores.

    For a number, `edges` are the edges of the bins; otherwise `labels` name the bars and `edges` is None.
    """

    column: Column
    labels: list[str]
    edges: NDArray[np.float64] | None
    background: NDArray[np.float64]
    table: NDArray[np.float64]
    highest: NDArray[np.float64]
    drift: float
    importance: float


@dataclass(frozen=True)
class ReportData:
    """All data of the report."""

    scores: NDArray[np.float64] = field(repr=False)
    threshold: float
    highest: pl.DataFrame
    highest_scores: NDArray[np.float64]
    reasons: list[str]
    features: list[Feature]
    places: NDArray[np.float64]
    place_scores: NDArray[np.float64]
    known_places: NDArray[np.float64]
    history: dict[str, list[float]]
    truth: NDArray[np.bool_] | None = None
    useless: dict[str, str] = field(default_factory=dict)


def report_data(
    model: TableModel,
    table: Iterable[Chunk],
    *,
    label: str | None = None,
    anomaly: Sequence[str] = (),
    n_shown: int = 20,
) -> ReportData:
    """Score a table and compute the data of the report.

    Parameters
    ----------
    model : TableModel
        The model.
    table : iterable of chunks
        From `dplan.tables.chunks.chunks`.
    label, anomaly
        Label column of this table, and its values that mark anomalies; without values, everything except 0, false,
        empty and missing values marks an anomaly.
    n_shown : int
        Number of rows shown with reasons.
    """
    rng = np.random.default_rng(0)
    scores, truth = [], []
    report = TransformReport(0, {}, {})
    sample = _Kept(_SAMPLE)
    highest = _Kept(_HIGHEST)
    for chunk in table:
        frame = chunk()
        if frame.height == 0:
            continue
        with chunk.located():
            found, met = model.score_with_report(frame)
        report = report + met
        scores.append(found)
        if label is not None:
            truth.append(_truth(frame, label, anomaly))
        sample.add(frame, rng.random(frame.height), found)
        highest.add(frame, -found, found)
    if not scores:
        raise ValueError("the table has no rows")
    rows, row_scores = sample.rows(), sample.scores()
    top, top_scores = highest.rows(), highest.scores()
    shown = top[:n_shown]
    # Compare alerts with background rows, or the highest scores if there are too few alerts.
    n_alerts = max(int((top_scores >= model.threshold).sum()), min(20, len(top_scores)))
    prepared, prepared_top = model.prepare(rows), model.prepare(top[:n_alerts])
    places, known_places, chosen = _map(model, prepared, prepared_top)
    return ReportData(
        scores=np.concatenate(scores),
        threshold=model.threshold,
        highest=shown,
        highest_scores=top_scores[:n_shown],
        reasons=model.reasons(shown),
        features=_features(model, rows, prepared, prepared_top),
        places=places,
        place_scores=np.concatenate([row_scores, top_scores[:n_alerts]])[chosen],
        known_places=known_places,
        history=model.detector.history_,
        truth=np.concatenate(truth) if truth else None,
        useless=report.differences(),
    )


class _Kept:
    """The rows with the lowest keys seen so far, in the order of their keys."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self._frame: pl.DataFrame | None = None
        self._keys = self._scores = np.empty(0)

    def add(self, frame: pl.DataFrame, keys: NDArray[np.float64], scores: NDArray[np.float64]) -> None:
        # Only what may stay is copied.
        some = np.argsort(keys, kind="stable")[: self.n_rows]
        joined = (
            frame[some]
            if self._frame is None
            else pl.concat([self._frame, frame[some]], how="vertical_relaxed")
        )
        keys, scores = np.concatenate([self._keys, keys[some]]), np.concatenate([self._scores, scores[some]])
        order = np.argsort(keys, kind="stable")[: self.n_rows]
        self._frame, self._keys, self._scores = joined[order], keys[order], scores[order]

    def rows(self) -> pl.DataFrame:
        assert self._frame is not None
        return self._frame

    def scores(self) -> NDArray[np.float64]:
        return self._scores


def _truth(frame: pl.DataFrame, label: str, anomaly: Sequence[str]) -> NDArray[np.bool_]:
    if label not in frame.columns:
        raise ValueError(f"the table has no column {label!r}")
    texts = frame[label].cast(pl.String).str.strip_chars()
    if anomaly:
        marked = texts.is_in(list(anomaly))
    else:
        marked = ~texts.str.to_lowercase().is_in(["", "0", "0.0", "false"])
    return marked.fill_null(False).to_numpy()


def _features(model: TableModel, rows: pl.DataFrame, prepared: Floats, highest: Floats) -> list[Feature]:
    """Compare background rows, the table and its highest scores by column, the most important column first."""
    explanation = model.explain(rows[:200])
    importance = np.abs(explanation.effects).mean(axis=0)
    groups = model.preparation.feature_groups()
    found = []
    for j, column in enumerate(model.preparation.columns_):
        parts = [array[:, groups == j].astype(np.float64) for array in (model.background, prepared, highest)]
        spread = _text_spread if column.kind == "text" else _number_spread
        labels, edges, (background, table, top), drift = spread(column, parts)
        found.append(Feature(column, labels, edges, background, table, top, drift, float(importance[j])))
    return sorted(found, key=lambda feature: -feature.importance)


Spread = tuple[list[str], NDArray[np.float64] | None, list[NDArray[np.float64]], float]


def _text_spread(column: Column, parts: list[NDArray[np.float64]]) -> Spread:
    """Return the fractions of the most frequent levels and of all others; drift is the total variation distance."""
    means = [part.mean(axis=0) for part in parts]
    full = [
        np.append(mean, max(0.0, 1 - mean.sum())) for mean in means
    ]  # levels that were unseen in training
    drift = 0.5 * float(np.abs(full[0] - full[1]).sum())
    strongest = np.argsort(-np.maximum(full[0][:-1], full[2][:-1]), kind="stable")[:7]
    labels = [*(column.levels[level] for level in strongest), "other"]
    shares = [np.append(mean[strongest], max(0.0, 1 - mean[strongest].sum())) for mean in means]
    if max(share[-1] for share in shares) < 0.005:
        labels, shares = labels[:-1], [share[:-1] for share in shares]
    return labels, None, shares, drift


def _number_spread(column: Column, parts: list[NDArray[np.float64]]) -> Spread:
    """Return the fractions in equal bins; drift is the Kolmogorov–Smirnov distance."""
    background, table, highest = (np.sort(part[:, 0]) for part in parts)
    low, high = np.quantile(np.concatenate([background, highest]), [0.005, 0.995])
    if column.kind == "flag":
        low, high = 0.0, 1.0
    n_bins = {"flag": 2, "date": 8}.get(column.kind, 18)
    edges = np.linspace(low, high if high > low else low + 1, n_bins + 1)
    shares = [
        np.histogram(np.clip(part, low, high), edges)[0] / len(part) for part in (background, table, highest)
    ]
    at = np.concatenate([background, table])
    below = [np.searchsorted(part, at, "right") / len(part) for part in (background, table)]
    drift = float(np.abs(below[0] - below[1]).max())
    if column.kind == "flag":
        return ["false", "true"], None, shares, drift
    factor, shift, span = column.scaling()
    with np.errstate(over="ignore"):
        values = np.nan_to_num((edges * span + shift) / factor)  # the largest float if a value overflows
    if column.kind == "date":
        return [f"from {format_date(value)}" for value in values[:-1].tolist()], None, shares, drift
    return [], values, shares, drift


def _map(
    model: TableModel, prepared: Floats, highest: Floats
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    """Project rows and known anomalies on the two main directions of the embedding."""
    n_some = min(len(prepared), _MAP_ROWS)
    chosen = np.concatenate([np.arange(n_some), len(prepared) + np.arange(len(highest))])
    rows = np.concatenate([prepared[:n_some], highest, model.known_anomalies[:_HIGHEST]])
    detector, scaled = model.detector, np.empty(rows.shape, dtype=np.float32)
    scale_rows(np.ascontiguousarray(rows), detector.column_low_, detector.column_inverse_, scaled)
    embedded = detector._embed(scaled).astype(np.float64)
    centre = embedded[:n_some].mean(axis=0)
    directions = np.linalg.svd(embedded[:n_some] - centre, full_matrices=False)[2][:2]
    # The sign of a direction is arbitrary; fix it, so that the same table gives the same map.
    directions *= np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])[:, None]
    places = (embedded - centre) @ directions.T
    if places.shape[1] == 1:
        places = np.column_stack([places, np.zeros(len(places))])
    return places[: len(chosen)], places[len(chosen) :], chosen
