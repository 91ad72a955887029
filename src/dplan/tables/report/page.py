"""The report as one HTML page: no script, no font, no picture from elsewhere; every text from data is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl
from markupsafe import Markup, escape

from dplan._html import charts
from dplan._html.blocks import Block, Entry, Figure, Figures, Grid, Heading, Paragraph, Tiles, as_html
from dplan.metrics import RankedScores
from dplan.tables.formatting import number, typical, value
from dplan.tables.model import TableModel
from dplan.tables.report.facts import Facts, Feature

__all__ = ["page"]

_SHOWN_FEATURES, _SHOWN_DRIFTS, _CURVE_POINTS = 6, 30, 400
_STRONG_DRIFT, _SOME_DRIFT = 0.25, 0.1
_NAME = re.compile("^`(.*?)`")  # the column's name at the beginning of a reason


def page(facts: Facts, model: TableModel, *, model_name: str, table_name: str) -> str:
    """Return the report as HTML text."""
    blocks = [
        *_introduction(facts, model, model_name),
        *_distribution(facts),
        *_highest(facts, model),
        *_main_features(facts.features[:_SHOWN_FEATURES], model),
        *_map(facts),
        *_learning(facts, model.detector.round_name),
        *_members(model),
        *_drift(facts),
        *_precision_and_recall(facts),
    ]
    return as_html(f"{table_name}, scored by {model_name}", blocks, heading=table_name)


def _introduction(facts: Facts, model: TableModel, model_name: str) -> Iterator[Block]:
    n_alerts = int((facts.scores >= facts.threshold).sum())
    labels = ", ".join(f"{n:,} {label}" for label, n in model.summary.get("labels", {}).items())
    yield Paragraph(f"Scored by {model_name}, a {type(model.detector).__name__} trained on {labels} rows.")
    yield Tiles(
        [
            (f"{len(facts.scores):,}", "rows scored"),
            (f"{n_alerts:,}", f"alerts ({n_alerts / len(facts.scores):.1%} of the rows)"),
            (number(facts.threshold), "alert threshold (lowest score of an alert)"),
            (f"{model.summary.get('rows', 0):,}", "training rows"),
        ]
    )


def _distribution(facts: Facts) -> Iterator[Block]:
    scores = facts.scores
    highest = scores[scores >= np.quantile(scores, 0.95)]
    figures = []
    for title, part in (("All rows", scores), ("The highest 5 %", highest)):
        low, high = float(part.min()), float(part.max())
        edges = np.linspace(low, high if high > low else low + 1, 51)
        shares = np.histogram(part, edges)[0] / len(scores)
        chart = charts.histogram(
            {"table": shares}, edges, title=f"Scores: {title}", mark=facts.threshold, mark_text="alert threshold",
            x_label="anomaly score",
        )  # fmt: skip
        figures.append(Figure(chart, title=title))
    yield Heading("Scores")
    yield Paragraph("Share of the rows at each score.")
    yield Figures(figures)


def _highest(facts: Facts, model: TableModel) -> Iterator[Block]:
    ids = [name for name in model.summary.get("ids", []) if name in facts.highest.columns]
    percentiles = model.percentile(facts.highest_scores)
    rows = []
    for i, reasons in enumerate(facts.reasons):
        lines = Markup("<br>").join(
            Markup(_NAME.sub(r"<code>\1</code>", str(escape(reason)))) for reason in reasons.split(" | ")
        )
        texts = [f"{facts.highest_scores[i]:.3f}", f"{percentiles[i]:.1f}", lines]
        texts = [str(i + 1), *(_cell(facts.highest, name, i) for name in ids), *texts]
        rows.append([Entry(text) for text in texts])
    head = ["rank", *ids, "score", "percentile", "because"]
    yield Heading("The most anomalous rows")
    yield Paragraph(
        "With the columns that raise the score most, their values, and what is typical of unlabelled training rows."
    )
    yield Grid(head, rows, text_columns=(*range(1, 1 + len(ids)), len(head) - 1))


def _cell(frame: pl.DataFrame, name: str, row: int) -> str:
    found = frame[name][row]
    return found if isinstance(found, str) else value(found)


def _main_features(features: list[Feature], model: TableModel) -> Iterator[Block]:
    starts = np.flatnonzero(np.diff(model.preparation.output_groups(), prepend=-1))
    place = {column.name: start for column, start in zip(model.preparation.columns_, starts, strict=True)}
    figures = []
    for feature in features:
        column = feature.column
        series = {"background": feature.background, "alert": feature.highest}
        title = f"{column.name}: unlabelled training rows and alerts"
        if feature.edges is not None:
            chart = charts.histogram(series, feature.edges, title=title)
        else:
            chart = charts.bars(series, feature.labels, title=title)
        usual = typical(column, model.usual[:, place[column.name]])
        figures.append(Figure(chart, f"typical: {usual}", title=column.name))
    yield Heading("What is typical and what is not")
    yield Paragraph("The columns with the largest effects on scores, the largest first.")
    yield Figure(charts.key({"background": "unlabelled training rows", "alert": "alerts of this table"}))
    yield Figures(figures)


def _map(facts: Facts) -> Iterator[Block]:
    low, high = np.quantile(facts.place_scores, [0.05, 0.995])
    shades = np.clip((facts.place_scores - low) / (high - low if high > low else 1.0), 0, 1)
    yield Heading("Map")
    yield Paragraph(
        "Rows that look similar to the detector are close together: a sample of the table and its alerts, projected on "
        "the two main directions of the detector's representation. Redder and larger points have higher scores; rings "
        "are known anomalies from training."
    )
    yield Figure(charts.scatter(facts.places, shades, facts.known_places, title="Map of the rows"))


def _learning(facts: Facts, round_name: str) -> Iterator[Block]:
    name = next((name for name in ("reward", "loss") if name in facts.history), None)
    points = [(i + 1.0, y) for i, y in enumerate(facts.history[name]) if np.isfinite(y)] if name else []
    if len(points) < 2:
        return
    line = charts.Line(*map(list, zip(*points, strict=True)))
    yield Heading("Learning curve")
    yield Paragraph(f"{name} per {round_name} during training.".capitalize())
    yield Figure(
        charts.line_chart(
            {"table": line},
            title="Learning curve",
            x_label=round_name,
            y_label=f"{name} per {round_name}",
            whole=True,
        )
    )


def _members(model: TableModel) -> Iterator[Block]:
    kinds = model.detector._member_kinds()
    if not kinds:
        return
    total = sum(kind.weight for kind in kinds)
    rows = [
        [Entry(kind.name), Entry("", meter=kind.weight / total), Entry(f"{kind.weight:.2f}")]
        for kind in kinds
    ]
    yield Heading("What the score is made of")
    yield Paragraph(
        "The weight of each kind of member. All agents together have a weight of 1; kinds that give low ranks to known "
        "anomalies which they did not learn from have less of it. Nearest neighbours and isolation forest find rows "
        "that are unusual in themselves."
    )
    yield Grid(["members", "", "weight"], rows)


def _drift(facts: Facts) -> Iterator[Block]:
    rows = []
    for feature in sorted(facts.features, key=lambda feature: -feature.drift)[:_SHOWN_DRIFTS]:
        strong = feature.drift >= _STRONG_DRIFT
        verdict = "strong" if strong else "some" if feature.drift >= _SOME_DRIFT else "little"
        meter = Entry("", meter=min(feature.drift, 1.0), strong=strong)
        rows.append([Entry(feature.column.name), meter, Entry(f"{feature.drift:.2f}"), Entry(verdict)])
    yield Heading("Drift since training")
    yield Paragraph(
        "How much the distribution of each column differs from training: 0 is the same, 1 has nothing in common. For "
        "numbers, the largest gap between the cumulative distributions; for text, half the sum of the differences in "
        "shares. If important columns show strong drift, fit a new model."
    )
    yield Grid(["column", "", "drift", ""], rows, text_columns=(0, 3))


def _precision_and_recall(facts: Facts) -> Iterator[Block]:
    if facts.truth is None:
        return
    yield Heading("Precision and recall")
    areas = RankedScores(facts.scores).areas(facts.truth, ~facts.truth)
    if areas is None:
        yield Paragraph("The label column marks no row, or every row, as an anomaly.")
        return
    precision, recall = RankedScores(facts.scores).precision_recall(facts.truth, ~facts.truth)
    n_anomalies, alerts = int(facts.truth.sum()), facts.scores >= facts.threshold
    hits = int((alerts & facts.truth).sum())
    yield Tiles(
        [
            (f"{areas[0]:.3f}", "AUC-PR"),
            (f"{areas[1]:.3f}", "AUC-ROC"),
            (f"{hits / max(int(alerts.sum()), 1):.0%}", "precision of the alerts"),
            (f"{hits / n_anomalies:.0%}", f"of {n_anomalies:,} anomalies are alerts"),
        ]
    )
    some = np.unique(np.linspace(0, len(recall) - 1, min(len(recall), _CURVE_POINTS)).astype(np.int64))
    line = charts.Line([0.0, *recall[some].tolist()], [float(precision[0]), *precision[some].tolist()])
    yield Figure(
        charts.line_chart(
            {"table": line},
            title="Precision and recall",
            x_label="recall",
            y_label="precision",
            y_range=(0.0, 1.0),
        )
    )
