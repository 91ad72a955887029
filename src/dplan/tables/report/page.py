"""The report as one self-contained HTML page; all text from data is escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import polars as pl
from markupsafe import Markup, escape

from dplan._html import charts
from dplan._html.blocks import Block, Entry, Figure, Figures, Grid, Heading, Paragraph, Tiles, as_html
from dplan.metrics import RankedScores
from dplan.tables.formatting import format_number, format_value, typical_values
from dplan.tables.model import TableModel
from dplan.tables.report.data import Feature, ReportData

__all__ = ["page"]

_SHOWN_FEATURES, _SHOWN_DRIFTS, _CURVE_POINTS = 6, 30, 400
_STRONG_DRIFT, _SOME_DRIFT = 0.25, 0.1
_NAME = re.compile("^`(.*?)`")  # the column's name at the beginning of a reason


def page(data: ReportData, model: TableModel, *, model_name: str, table_name: str) -> str:
    """Return the report as HTML text."""
    blocks = [
        *_introduction(data, model, model_name),
        *_distribution(data),
        *_highest(data, model),
        *_main_features(data.features[:_SHOWN_FEATURES], model),
        *_map(data),
        *_learning(data, model.detector.round_name),
        *_members(model),
        *_drift(data),
        *_precision_and_recall(data),
    ]
    return as_html(f"{table_name}, scored by {model_name}", blocks, heading=table_name)


def _introduction(data: ReportData, model: TableModel, model_name: str) -> Iterator[Block]:
    n_alerts = int((data.scores >= data.threshold).sum())
    labels = ", ".join(f"{n:,} {label}" for label, n in model.summary.get("labels", {}).items())
    n_rows = model.summary.get("rows", 0)
    yield Paragraph(
        f"Scored by {model_name}, a {type(model.detector).__name__} trained on {n_rows:,} rows ({labels})."
    )
    yield Tiles(
        [
            (f"{len(data.scores):,}", "rows scored"),
            (f"{n_alerts:,}", f"alerts ({n_alerts / len(data.scores):.1%} of the rows)"),
            (format_number(data.threshold), "alert threshold (minimum score of an alert)"),
            (f"{n_rows:,}", "training rows"),
        ]
    )


def _distribution(data: ReportData) -> Iterator[Block]:
    scores = data.scores
    highest = scores[scores >= np.quantile(scores, 0.95)]
    figures = []
    for title, part in (("All rows", scores), ("Highest 5 %", highest)):
        low, high = float(part.min()), float(part.max())
        edges = np.linspace(low, high if high > low else low + 1, 51)
        shares = np.histogram(part, edges)[0] / len(scores)
        chart = charts.histogram(
            {"table": shares}, edges, title=f"Scores: {title}", mark=data.threshold, mark_text="alert threshold",
            x_label="anomaly score",
        )  # fmt: skip
        figures.append(Figure(chart, title=title))
    yield Heading("Scores")
    yield Paragraph("Distribution of the scores.")
    yield Figures(figures)


def _highest(data: ReportData, model: TableModel) -> Iterator[Block]:
    ids = [name for name in model.summary.get("ids", []) if name in data.highest.columns]
    percentiles = model.percentile(data.highest_scores)
    rows = []
    for i, reasons in enumerate(data.reasons):
        lines = Markup("<br>").join(
            Markup(_NAME.sub(r"<code>\1</code>", str(escape(reason)))) for reason in reasons.split(" | ")
        )
        texts = [f"{data.highest_scores[i]:.3f}", f"{percentiles[i]:.1f}", lines]
        texts = [str(i + 1), *(_cell(data.highest, name, i) for name in ids), *texts]
        rows.append([Entry(text) for text in texts])
    head = ["rank", *ids, "score", "percentile", "reasons"]
    yield Heading("The most anomalous rows")
    yield Paragraph(
        "With the columns that raise the score most, their values, and the typical values of unlabelled training rows."
    )
    yield Grid(head, rows, text_columns=(*range(1, 1 + len(ids)), len(head) - 1))


def _cell(frame: pl.DataFrame, name: str, row: int) -> str:
    found = frame[name][row]
    return found if isinstance(found, str) else format_value(found)


def _main_features(features: list[Feature], model: TableModel) -> Iterator[Block]:
    starts = np.flatnonzero(np.diff(model.preparation.feature_groups(), prepend=-1))
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
        start = place[column.name]
        own = slice(start, start + column.width) if column.parts else start
        typical = typical_values(column, model.background[:, own])
        figures.append(Figure(chart, f"typical: {typical}", title=column.name))
    yield Heading("Typical values and alerts")
    yield Paragraph("The columns with the largest effects on the scores, largest first.")
    yield Figure(charts.key({"background": "unlabelled training rows", "alert": "alerts"}))
    yield Figures(figures)


def _map(data: ReportData) -> Iterator[Block]:
    low, high = np.quantile(data.place_scores, [0.05, 0.995])
    shades = np.clip((data.place_scores - low) / (high - low if high > low else 1.0), 0, 1)
    yield Heading("Map")
    yield Paragraph(
        "A sample of the rows and the alerts, projected on the two main directions of the detector's embedding: "
        "similar rows are close together. Redder and larger points have higher scores; rings are known anomalies "
        "from training."
    )
    yield Figure(charts.scatter(data.places, shades, data.known_places, title="Map of the rows"))


def _learning(data: ReportData, round_name: str) -> Iterator[Block]:
    name = next((name for name in ("reward", "loss") if name in data.history), None)
    points = [(i + 1.0, y) for i, y in enumerate(data.history[name]) if np.isfinite(y)] if name else []
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
        "The weight of each kind of member. The weights of the agents add up to 1; kinds that rank held-out known "
        "anomalies low get less. Nearest neighbours and the isolation forest find rare rows without using labels."
    )
    yield Grid(["members", "", "weight"], rows)


def _drift(data: ReportData) -> Iterator[Block]:
    rows = []
    for feature in sorted(data.features, key=lambda feature: -feature.drift)[:_SHOWN_DRIFTS]:
        strong = feature.drift >= _STRONG_DRIFT
        verdict = "strong" if strong else "some" if feature.drift >= _SOME_DRIFT else "little"
        meter = Entry("", meter=min(feature.drift, 1.0), strong=strong)
        rows.append([Entry(feature.column.name), meter, Entry(f"{feature.drift:.2f}"), Entry(verdict)])
    yield Heading("Drift since training")
    yield Paragraph(
        "How much the distribution of each column differs from training: 0 means the same distribution, 1 no overlap "
        "(Kolmogorov–Smirnov distance for numbers, total variation distance for text). If important columns drift "
        "strongly, fit a new model."
    )
    yield Grid(["column", "", "drift", ""], rows, text_columns=(0, 3))


def _precision_and_recall(data: ReportData) -> Iterator[Block]:
    if data.truth is None:
        return
    yield Heading("Precision and recall")
    areas = RankedScores(data.scores).areas(data.truth, ~data.truth)
    if areas is None:
        yield Paragraph("The label column marks no row, or every row, as an anomaly.")
        return
    precision, recall = RankedScores(data.scores).precision_recall(data.truth, ~data.truth)
    n_anomalies, alerts = int(data.truth.sum()), data.scores >= data.threshold
    hits = int((alerts & data.truth).sum())
    yield Tiles(
        [
            (f"{areas[0]:.3f}", "AUC-PR"),
            (f"{areas[1]:.3f}", "AUC-ROC"),
            (f"{hits / max(int(alerts.sum()), 1):.0%}", "precision of the alerts"),
            (f"{hits / n_anomalies:.0%}", f"recall of the alerts (of {n_anomalies:,} anomalies)"),
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
