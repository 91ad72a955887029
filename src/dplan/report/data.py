"""The data of the report, computed in one pass over the table with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import Float32s
from dplan.columns.column import Column
from dplan.columns.differences import TransformReport
from dplan.columns.records import Histogram
from dplan.report.known import TableLabels, TrainingRows
from dplan.rules.file import Kind
from dplan.scoring.scorer import Batch, Best, Scored, Scorer, together
from dplan.tables.chunks import Chunk
from dplan.tables.model import TableModel
from dplan.tables.reasons import Reason

__all__ = ["MIN_ROWS", "MOST_SHOWN", "Feature", "Map", "ReportData", "projected", "report_data"]

MOST_SHOWN = 1_000  # rows with reasons, which take time and room
MIN_ROWS = 30  # fewer rows have no distribution to speak of
_SAMPLE, _HIGHEST, _MAP_ROWS, _EXPLAINED, _SHOWN, _SHOWN_WITH_KINDS = 5_000, 300, 1_500, 200, 20, 200


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


class Novelty(NamedTuple):
    """Score and novelty of some rows, and which of them are alerts."""

    score: NDArray[np.float64]
    novelty: NDArray[np.float64]
    alert: NDArray[np.bool_]


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
    novelty : Novelty or None
        Score and novelty; None if there are too few rows, or if the detector has no explorers, or nothing else.
    truth : ndarray or None
        Which rows are labelled as anomalies.
    skipped : int
        Labelled rows that were left out.
    training_share : float
        The fraction of the training rows that the table contains.
    useless : dict
        Columns that differ clearly from the training table, with the reasons.
    kinds : tuple of Kind
        The kinds that alerts can be of; empty without a file of kinds.
    n_of_kind : list of int
        How many alerts are of each kind.
    kind : list of str
        For each shown row, the name of its kind, or "".
    muted : int
        Rows that would be alerts if their kinds were not muted.
    surprise : str
        A sentence if far more rows are alerts than in training.
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
    novelty: Novelty | None = None
    truth: NDArray[np.bool_] | None = None
    skipped: int = 0
    training_share: float = 0.0
    useless: dict[str, str] = field(default_factory=dict)
    kinds: tuple[Kind, ...] = ()
    n_of_kind: list[int] = field(default_factory=list)
    kind: list[str] = field(default_factory=list)
    muted: int = 0
    surprise: str = ""
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
    n_shown: int | None = None,
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
    n_shown : int, optional
        Number of rows shown with reasons; by default the budget or, without one, 20.
    skip_labelled : bool
        Whether to leave out rows with a verdict by these labels: known anomalies and checked normal rows.
    """
    rng, model = np.random.default_rng(0), scorer.model
    given_n, kinds = n_shown, scorer.kinds
    n_shown = min(n_shown or scorer.alerts.budget or _SHOWN, MOST_SHOWN)
    labels, training = TableLabels(model, label, anomaly), TrainingRows(model)
    rows, scores, kind = [np.empty(0, dtype=np.int64)], [np.empty(0)], [np.empty(0, dtype=np.int64)]
    verdicts, bad, met = [np.empty(0, dtype=np.int64)], [pl.DataFrame()], TransformReport(0, {}, {})
    n_read, sample, highest = 0, Best(_SAMPLE), Best(max(_HIGHEST, n_shown))
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
        kind += [] if scored.kind is None else [scored.kind]
        bad += [scored.bad] if scored.bad.height else []
        met += scored.differences
        training.add(scored.prepared)
        sample.add(scored, -rng.random(len(scored)))
        ranked = scored.score
        if kinds is not None and scored.kind is not None:
            ranked = kinds.ranked(ranked, scored.kind)
        highest.add(scored, ranked)
    labels.check(skipped=skip_labelled)
    if skip_labelled and not labels.found:
        raise ValueError("the table has no label column, so labelled rows cannot be skipped")
    every, numbers, verdict = np.concatenate(scores), np.concatenate(rows), np.concatenate(verdicts)
    kind_of_all = np.concatenate(kind) if kinds is not None else None
    alert = scorer.is_alert(every, kind_of_all)
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
    if kinds is not None and kind_of_all is not None:
        if given_n is None:  # so that every kind can be looked at
            n_shown = min(max(n_shown, data.n_alerts), _SHOWN_WITH_KINDS)
        data = replace(
            data,
            kinds=kinds.rules.kinds,
            n_of_kind=np.bincount(kind_of_all[alert] + 1, minlength=len(kinds.rules.kinds) + 1)[1:].tolist(),
            muted=int((scorer.is_alert(every) & kinds.is_muted(kind_of_all)).sum()),
        )
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
        kind=[] if kinds is None or shown.kind is None else kinds.names(shown.kind, data.n_alerts),
        marked=(verdict[shown.rows] > 0).tolist() if with_truth else list(map(bool, same_as)),
        reasons=scorer.explain(shown),
        features=_features(model, sample.scored, alerts),
        map=_map(model, sample.scored, alerts, numbers[alert]) if len(every) >= MIN_ROWS else None,
        novelty=_novelty(model, sample.scored, alerts, numbers[alert]) if len(every) >= MIN_ROWS else None,
        truth=verdict[numbers] > 0 if with_truth else None,
        training_share=training.share,
        useless=met.differences(),
        surprise=scorer.surprise(data.n_alerts, len(data.scores)),
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
    rows = np.concatenate([drawn.prepared, model.known_anomalies[:_HIGHEST]])
    places = projected(model, rows, len(others))
    alert = np.isin(drawn.rows, alert_rows)
    return Map(places[: len(drawn)], drawn.percentile, alert, places[len(drawn) :])


def projected(model: TableModel, rows: Float32s, n_centre: int) -> NDArray[np.float64]:
    """Return prepared rows on a plane: the two main directions of the embedding of the first `n_centre` of them."""
    embedded = _embedded(model, rows)
    centre = embedded[:n_centre].mean(axis=0)
    directions = np.linalg.svd(embedded[:n_centre] - centre, full_matrices=False)[2][:2]
    # The sign of a direction is arbitrary; fix it, so that the same table gives the same map.
    directions *= np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(axis=1)])[:, None]
    places: NDArray[np.float64] = (embedded - centre) @ directions.T
    return places if places.shape[1] > 1 else np.column_stack([places, np.zeros(len(places))])


def _novelty(
    model: TableModel, sample: Scored, alerts: Scored, alert_rows: NDArray[np.int64]
) -> Novelty | None:
    """Return score and novelty of a sample of the rows and the alerts."""
    if not model.detector._explorer_terms():
        return None
    drawn = together([sample[~np.isin(sample.rows, alerts.rows)][:_MAP_ROWS], alerts])
    novelty = model.novelty_percentile(model.novelty_scores_of(drawn.prepared))
    if (
        novelty == drawn.percentile
    ).all():  # such as those of an isolation forest: there is nothing to compare
        return None
    return Novelty(drawn.score, novelty, np.isin(drawn.rows, alert_rows))


def _embedded(model: TableModel, rows: Float32s) -> NDArray[np.float64]:
    return model.detector._embed(model.detector._arrange(rows)).astype(np.float64)
