"""The data of the report, computed in one pass over the table with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan._kernels.perceptron import Floats
from dplan._kernels.scaling import scale_rows
from dplan.columns.column import Column
from dplan.columns.differences import TransformReport
from dplan.columns.records import Histogram
from dplan.report.known import TableLabels, TrainingRows
from dplan.scoring.scorer import Batch, Best, Scored, Scorer, together
from dplan.tables.chunks import Chunk
from dplan.tables.model import TableModel
from dplan.tables.reasons import Reason

__all__ = ["MIN_ROWS", "Feature", "Map", "ReportData", "report_data"]

MIN_ROWS = 30  # fewer rows have no distribution to speak of
_SAMPLE, _HIGHEST, _MAP_ROWS, _EXPLAINED = 5_000, 300, 1_500, 200


class Feature(NamedTuple):
    """A column of the model.

    Attributes
    ----------
    column : Column
        The column.
    histogram : Histogram
        Its distribution in the background rows, in the scored table and, if there are alerts, among them.
    drift : float or None
        How much its distribution differs from training; None with fewer than `MIN_ROWS` rows.
    importance : float
        Its mean effect on the scores of the table.
    typical : str
        Its typical values in training.
    """

    column: Column
    histogram: Histogram
    drift: float | None
    importance: float
    typical: str


class Map(NamedTuple):
    """Rows and known anomalies on a plane: similar rows are close together."""

    places: NDArray[np.float64]
    percentile: NDArray[np.float64]
    alert: NDArray[np.bool_]
    known: NDArray[np.float64]


@dataclass(frozen=True)
class ReportData:
    """All data of the report.

    Attributes
    ----------
    scores : ndarray
        The scores of all rows.
    alert : ndarray of bool
        Which of them are alerts.
    threshold : float
        The lowest score of an alert.
    budget : int or None
        The number of alerts that was asked for.
    shown : Scored or None
        The rows with the highest scores; None if the table has no rows.
    columns : list of str
        Their columns to show.
    labels : list of str
        Their labels; empty if the table has none.
    same_as : list of str
        For each, the known anomaly of the training table with the same values, or "".
    marked : list of bool
        Whether they are known already: by their label or, without labels, because they equal a known anomaly.
    reasons : list of list of Reason
        Their reasons.
    features : list of Feature
        The columns of the model, most important first.
    map : Map or None
        The map; None if there are too few rows.
    truth : ndarray or None
        Which rows are labelled as anomalies.
    skipped : int
        Labelled rows that were left out.
    training_share : float
        The fraction of the training rows that the table contains.
    useless : dict
        Columns that differ clearly from the training table, with the reasons.
    bad : polars.DataFrame
        Rows with cells that could not be used, as from `dplan.tables.bad_cells.without_bad_cells`.
    """

    scores: NDArray[np.float64] = field(repr=False)
    alert: NDArray[np.bool_] = field(repr=False)
    threshold: float
    budget: int | None = None
    shown: Scored | None = None
    columns: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)
    same_as: list[str] = field(default_factory=list)
    marked: list[bool] = field(default_factory=list)
    reasons: list[list[Reason]] = field(default_factory=list)
    features: list[Feature] = field(default_factory=list)
    map: Map | None = None
    truth: NDArray[np.bool_] | None = None
    skipped: int = 0
    training_share: float = 0.0
    useless: dict[str, str] = field(default_factory=dict)
    bad: pl.DataFrame = field(default_factory=pl.DataFrame)

    @property
    def n_alerts(self) -> int:
        """The number of alerts."""
        return int(self.alert.sum())


def report_data(
    scorer: Scorer,
    chunks: Iterable[Chunk],
    *,
    label: str | None = None,
    anomaly: Sequence[str] = (),
    n_shown: int = 20,
    skip_labelled: bool = False,
) -> ReportData:
    """Score a table and compute the data of the report.

    Parameters
    ----------
    scorer : Scorer
        Scores the rows, and says which are alerts and which columns are shown.
    chunks : iterable of Chunk
        The table.
    label, anomaly
        Label column of this table, and its values that mark anomalies, without regard to case. By default, those of
        the training table if this table has them too.
    n_shown : int
        Number of rows shown with reasons.
    skip_labelled : bool
        Whether to leave out rows with a verdict by these labels: known anomalies and checked normal rows.
    """
    rng, model = np.random.default_rng(0), scorer.model
    labels, training = TableLabels(model, label, anomaly), TrainingRows(model)
    rows, scores = [np.empty(0, dtype=np.int64)], [np.empty(0)]
    verdicts, bad, met = [np.empty(0, dtype=np.int64)], [pl.DataFrame()], TransformReport(0, {}, {})
    n_read, sample, highest = 0, Best(_SAMPLE), Best(_HIGHEST)
    for chunk in chunks:
        frame = chunk()
        scorer.check(frame.columns)
        if frame.height == 0:
            continue
        given = labels.read(frame)
        scored = scorer.score(Batch(frame, chunk.place, n_read), given != 0 if skip_labelled else None)
        n_read += frame.height
        verdicts.append(given)
        rows.append(scored.rows)
        scores.append(scored.score)
        bad += [scored.bad] if scored.bad.height else []
        met += scored.differences
        training.add(scored.prepared)
        sample.add(scored, -rng.random(len(scored)))
        highest.add(scored, scored.score)
    labels.check(skipped=skip_labelled)
    if skip_labelled and not labels.found:
        raise ValueError("the table has no label column, so labelled rows cannot be skipped")
    every, numbers, verdict = np.concatenate(scores), np.concatenate(rows), np.concatenate(verdicts)
    alert = scorer.is_alert(every)
    budget = scorer.alerts.budget
    data = ReportData(
        scores=every,
        alert=alert,
        threshold=scorer.threshold if budget is None or not alert.any() else float(every[alert].min()),
        budget=budget,
        skipped=int((verdict != 0).sum()) if skip_labelled else 0,
        bad=pl.concat(bad, how="diagonal_relaxed"),
    )
    if len(every) == 0:
        return data
    assert sample.scored is not None
    assert highest.scored is not None
    shown, alerts = highest.scored[:n_shown], highest.scored[: data.n_alerts]
    assert shown.table is not None
    same_as, with_truth = training.known_names(shown.prepared), labels.found and not skip_labelled
    return replace(
        data,
        shown=shown,
        columns=[name for name in scorer.kept if name in shown.table.columns],
        labels=labels.texts(shown.table) if labels.found else [],
        same_as=same_as,
        marked=(verdict[shown.rows] > 0).tolist() if with_truth else list(map(bool, same_as)),
        reasons=scorer.explain(shown),
        features=_features(model, sample.scored, alerts),
        map=_map(model, sample.scored, alerts, numbers[alert]) if len(every) >= MIN_ROWS else None,
        truth=verdict[numbers] > 0 if with_truth else None,
        training_share=training.share,
        useless=met.differences(),
    )


def _features(model: TableModel, sample: Scored, alerts: Scored) -> list[Feature]:
    """Compare background rows, the table and its alerts by column, the most important column first."""
    some = sample[:_EXPLAINED]
    assert some.table is not None
    importance = np.abs(model.explain(some.table, some.prepared, some.score).effects).mean(axis=0)
    groups, reference = model.preparation.feature_groups(), model.reference
    drifts = reference.distances(reference.drift_of(sample.prepared)) if len(sample) >= MIN_ROWS else {}
    groups_of_rows = [part for part in (model.background, sample.prepared, alerts.prepared) if len(part)]
    found = [
        Feature(
            column,
            column.histogram([part[:, groups == j] for part in groups_of_rows]),
            drifts.get(column.name),
            float(importance[j]),
            model.evidence.typical[j].text,
        )
        for j, column in enumerate(model.preparation.columns_)
    ]
    return sorted(found, key=lambda feature: -feature.importance)


def _map(model: TableModel, sample: Scored, alerts: Scored, alert_rows: NDArray[np.int64]) -> Map:
    """Project rows, alerts and known anomalies on the two main directions of the embedding."""
    others = sample[~np.isin(sample.rows, alerts.rows)][:_MAP_ROWS]
    drawn = together([others, alerts])
    embedded = _embedded(model, np.concatenate([drawn.prepared, model.known_anomalies[:_HIGHEST]]))
    centre = embedded[: len(others)].mean(axis=0)
    directions = np.linalg.svd(embedded[: len(others)] - centre, full_matrices=False)[2][:2]
    # The sign of a direction is arbitrary; fix it, so that the same table gives the same map.
    directions *= np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])[:, None]
    places = (embedded - centre) @ directions.T
    if places.shape[1] == 1:
        places = np.column_stack([places, np.zeros(len(places))])
    alert = np.isin(drawn.rows, alert_rows)
    return Map(places[: len(drawn)], drawn.percentile, alert, places[len(drawn) :])


def _embedded(model: TableModel, rows: Floats) -> NDArray[np.float64]:
    detector, scaled = model.detector, np.empty(rows.shape, dtype=np.float32)
    scale_rows(np.ascontiguousarray(rows), detector.column_low_, detector.column_inverse_, scaled)
    return detector._embed(scaled).astype(np.float64)
