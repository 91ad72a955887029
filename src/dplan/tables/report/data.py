"""The data of the report, computed in one pass over the table with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan._kernels.scaling import scale_rows
from dplan.columns.differences import TransformReport
from dplan.tables.chunks import Chunk
from dplan.tables.mistakes import OnError, tolerated
from dplan.tables.model import TableModel
from dplan.tables.reasons import Reason
from dplan.tables.report.distributions import MIN_ROWS, Feature, features
from dplan.tables.report.known import Labels, TrainingRows
from dplan.text import shown

__all__ = ["Feature", "Map", "ReportData", "report_data"]

_SAMPLE, _HIGHEST, _MAP_ROWS, _EXPLAINED = 5_000, 300, 1_500, 200


@dataclass(frozen=True)
class Map:
    """Rows and known anomalies on a plane: similar rows are close together."""

    places: NDArray[np.float64] = field(repr=False)
    scores: NDArray[np.float64] = field(repr=False)
    alert: NDArray[np.bool_] = field(repr=False)
    known: NDArray[np.float64] = field(repr=False)


@dataclass(frozen=True)
class ReportData:
    """All data of the report.

    Attributes
    ----------
    scores : ndarray
        The scores of all rows.
    threshold : float
        The lowest score of an alert.
    n_alerts : int
        The number of alerts.
    budget : int or None
        The number of alerts that was asked for.
    highest : polars.DataFrame
        The rows with the highest scores.
    highest_scores, row_numbers : ndarray
        Their scores, and their numbers in the table, counted from 1.
    labels : list of str
        Their labels; empty if the table has none.
    known : list of str
        For each, the known anomaly of the training table with the same values, or "".
    reasons : list of list of Reason
        Their reasons.
    keep : tuple of str
        Columns to show.
    features : list of Feature
        The columns, most important first.
    map : Map or None
        The map; None if there are too few rows.
    history : dict
        Metrics of the training.
    truth : ndarray or None
        Which rows are marked as anomalies.
    skipped : int
        Labelled rows that were left out.
    training_share : float
        The fraction of the training rows that the table contains.
    useless : dict
        Columns that differ clearly from the training table, with the reasons.
    mistakes : polars.DataFrame
        Rows with cells that cannot be used, as from `dplan.tables.mistakes.tolerated`.
    """

    scores: NDArray[np.float64] = field(repr=False)
    threshold: float
    n_alerts: int = 0
    budget: int | None = None
    highest: pl.DataFrame = field(default_factory=pl.DataFrame)
    highest_scores: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    row_numbers: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    labels: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    reasons: list[list[Reason]] = field(default_factory=list)
    keep: tuple[str, ...] = ()
    features: list[Feature] = field(default_factory=list)
    map: Map | None = None
    history: dict[str, list[float]] = field(default_factory=dict)
    truth: NDArray[np.bool_] | None = None
    skipped: int = 0
    training_share: float = 0.0
    useless: dict[str, str] = field(default_factory=dict)
    mistakes: pl.DataFrame = field(default_factory=pl.DataFrame)


def report_data(
    model: TableModel,
    table: Iterable[Chunk],
    *,
    label: str | None = None,
    anomaly: Sequence[str] = (),
    n_shown: int = 20,
    keep: Sequence[str] = (),
    budget: int | None = None,
    threshold: float | None = None,
    skip_labelled: bool = False,
    on_error: OnError = "fail",
) -> ReportData:
    """Score a table and compute the data of the report.

    Parameters
    ----------
    model : TableModel
        The model.
    table : iterable of chunks
        From `dplan.tables.chunks.chunks`.
    label, anomaly
        Label column of this table, and its values that mark anomalies, without regard to case. By default, those of
        the training table if this table has them too.
    n_shown : int
        Number of rows shown with reasons.
    keep : sequence of str
        Columns to show in addition to the ids.
    budget : int, optional
        Make this many rows with the highest scores alerts.
    threshold : float, optional
        Make rows with at least this score alerts; without `budget` and `threshold`, the model's threshold is used.
    skip_labelled : bool
        Whether to leave out rows with a verdict: known anomalies and checked normal rows.
    on_error : {"fail", "skip", "null"}
        What to do about cells that cannot be used: raise an error, leave out their rows, or treat them as missing.
    """
    rng = np.random.default_rng(0)
    labels, training = Labels(model, label, anomaly), TrainingRows(model)
    scores, truth, n_read, skipped = [np.empty(0)], [np.empty(0, dtype=bool)], 0, 0
    report, mistakes = TransformReport(0, {}, {}), list[pl.DataFrame]()
    sample, highest = _Kept(_SAMPLE), _Kept(_HIGHEST)
    for chunk in table:
        frame = chunk()
        if missing := [name for name in keep if name not in frame.columns]:
            raise ValueError(f"the table has no column {shown(missing[0])}")
        if frame.height == 0:
            continue
        numbers = np.arange(n_read, n_read + frame.height) + 1
        n_read += frame.height
        if (given := labels.read(frame)) is not None:
            frame = frame.with_columns(pl.Series(_GIVEN, given[0], dtype=pl.String))
            truth.append(given[1] > 0)
            if skip_labelled:
                judged = given[1] != 0
                skipped += int(judged.sum())
                frame, numbers = frame.filter(~judged), numbers[~judged]
        if frame.height == 0:
            continue
        with chunk.located():
            done = tolerated(frame, model.prepare_with_report, on_error)
        if done.mistakes.height:
            own = pl.Series("dplan_row_number", numbers[done.mistakes["dplan_row_number"].to_numpy() - 1])
            mistakes.append(done.mistakes.with_columns(own).drop(_GIVEN, strict=False))
        frame, numbers, (prepared, met) = done.rows, numbers[done.kept], done.result
        if given is not None and not skip_labelled:
            truth[-1] = truth[-1][done.kept]
        if frame.height == 0:
            continue
        found = model.detector.anomaly_score(prepared)
        report = report + met
        training.add(prepared)
        scores.append(found)
        sample.add(frame, numbers, rng.random(frame.height), found)
        highest.add(frame, numbers, -found, found)
    labels.check(skipped=skip_labelled)
    if skip_labelled and labels.column is None:
        raise ValueError("the table has no label column, so labelled rows cannot be skipped")
    bad = pl.concat(mistakes, how="diagonal_relaxed") if mistakes else pl.DataFrame()
    every, marks = np.concatenate(scores), np.concatenate(truth)
    level = model.threshold if threshold is None else threshold
    n_alerts = int((every >= level).sum())
    if budget is not None:
        n_alerts = min(budget, len(every))
        level = float(np.sort(every)[-n_alerts]) if n_alerts else level
    if len(every) == 0:
        return ReportData(every, level, keep=tuple(keep), skipped=skipped, mistakes=bad)
    rows, top = sample.frame, highest.frame[: max(n_shown, min(n_alerts, _HIGHEST))]
    prepared_top = model.prepare(top)
    alerts = prepared_top[: min(n_alerts, _HIGHEST)]
    prepared = model.prepare(rows)
    importance = np.abs(model.explain(rows[:_EXPLAINED]).effects).mean(axis=0)
    others = ~np.isin(sample.numbers, highest.numbers[: len(alerts)])
    listed = top[:n_shown]
    return ReportData(
        scores=every,
        threshold=level,
        n_alerts=n_alerts,
        budget=budget,
        highest=listed,
        highest_scores=highest.scores[:n_shown],
        row_numbers=highest.numbers[:n_shown],
        labels=listed[_GIVEN].to_list() if _GIVEN in listed.columns else [],
        known=training.known_names(prepared_top[:n_shown]),
        reasons=model.why(listed),
        keep=tuple(keep),
        features=features(model, prepared, alerts, importance),
        map=_map(model, prepared[others], sample.scores[others], alerts, highest.scores, level)
        if len(every) >= MIN_ROWS
        else None,
        history=model.detector.history_,
        truth=None if labels.column is None or skip_labelled else marks,
        skipped=skipped,
        training_share=training.share,
        useless=report.differences(),
        mistakes=bad,
    )


_GIVEN = "\x00label"  # no column of a file can have this name


class _Kept:
    """The rows with the lowest keys seen so far, in the order of their keys."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.frame = pl.DataFrame()
        self.numbers = np.empty(0, dtype=np.int64)
        self.scores = self._keys = np.empty(0)

    def add(
        self,
        frame: pl.DataFrame,
        numbers: NDArray[np.int64],
        keys: NDArray[np.float64],
        scores: NDArray[np.float64],
    ) -> None:
        # Only what may stay is copied.
        some = np.argsort(keys, kind="stable")[: self.n_rows]
        parts = [part for part in (self.frame, frame[some]) if part.width]
        order = np.argsort(np.concatenate([self._keys, keys[some]]), kind="stable")[: self.n_rows]
        self.frame = pl.concat(parts, how="vertical_relaxed")[order]
        self._keys, self.scores, self.numbers = (
            np.concatenate([before, new[some]])[order]
            for before, new in ((self._keys, keys), (self.scores, scores), (self.numbers, numbers))
        )


def _map(
    model: TableModel,
    prepared: Floats,
    scores: NDArray[np.float64],
    alerts: Floats,
    highest: NDArray[np.float64],
    threshold: float,
) -> Map:
    """Project rows, alerts and known anomalies on the two main directions of the embedding."""
    n_some = min(len(prepared), _MAP_ROWS)
    rows = np.concatenate([prepared[:n_some], alerts, model.known_anomalies[:_HIGHEST]])
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
    n_rows = n_some + len(alerts)
    found = np.concatenate([scores[:n_some], highest[: len(alerts)]])
    alert = (np.arange(n_rows) >= n_some) | ((found >= threshold) & (len(alerts) > 0))
    return Map(places[:n_rows], found, alert, places[n_rows:])
