"""The report as one self-contained HTML page; all text from data is escaped."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from markupsafe import Markup

from dplan._html import charts
from dplan._html.blocks import (
    Block,
    Entry,
    Figure,
    Figures,
    Grid,
    Heading,
    Paragraph,
    Threshold,
    Tiles,
    as_html,
)
from dplan.arrays import highest_first
from dplan.columns.formatting import cell, format_number, format_share, format_value
from dplan.kinds.page import overview
from dplan.metrics import RankedScores
from dplan.report.data import MIN_ROWS, Feature, ReportData
from dplan.report.pictures import map_picture, novelty_picture
from dplan.tables.model import TableModel
from dplan.tables.reasons import ColumnName, Reason, short

__all__ = ["page"]

_SHOWN_FEATURES, _CURVE_POINTS, _NAMED = 6, 400, 5
_STRONG_DRIFT, _SOME_DRIFT = 0.25, 0.1
# Thresholds to try: one for each of the first alerts, then ever more alerts apart.
_FIRST_STEPS, _STEPS = 50, 150


def page(data: ReportData, model: TableModel, *, model_name: str, table_name: str) -> str:
    """Return the report as HTML text."""
    blocks = list(_introduction(data, model, model_name))
    if len(data.scores):
        blocks += [
            *_kinds(data),
            *([] if data.muted else _thresholds(data)),  # which would count muted rows
            *_highest_rows(data),
            *_distribution(data),
            *_main_features(data),
            *novelty_picture(data),
            *map_picture(data),
            *_members(model),
            *_columns(data),
            *_precision_and_recall(data),
        ]
    return as_html(f"{table_name}, scored by {model_name}", blocks, heading=table_name)


def _introduction(data: ReportData, model: TableModel, model_name: str) -> Iterator[Block]:
    classes = model.summary.labels
    labels = ", ".join(f"{n:,} {'of class ' * name.isdigit()}{name}" for name, n in classes.items())
    n_rows, n_alerts = len(data.scores), data.n_alerts
    trained_on = model.summary.rows
    yield Paragraph(
        f"Scored by {model_name}, a {type(model.detector).__name__} trained on {trained_on:,} rows ({labels})."
    )
    share = f" ({n_alerts / n_rows:.1%} of the rows)".replace("%", " %") if n_rows else ""
    asked = f"; budget {data.budget:,}" if data.budget is not None else ""
    yield Tiles(
        [
            (f"{n_rows:,}", "rows scored" if n_rows != 1 else "row scored"),
            (f"{n_alerts:,}", f"{'alerts' if n_alerts != 1 else 'alert'}{share}{asked}"),
            (format_number(data.threshold), "alert threshold (minimum score of an alert)"),
            (f"{trained_on:,}", "training rows"),
        ]
    )
    if data.skipped:
        yield Paragraph(f"{data.skipped:,} rows that are already labelled were left out.")
    if n_rows == 0:
        yield Paragraph("The table has no rows to score.", notice=True)
        return
    if n_alerts == 0:
        best = data.scores.max()
        percentile = model.percentile(np.array([best]))[0]
        yield Paragraph(
            f"No alerts: no row reaches the threshold of {format_number(data.threshold)}. The highest score is "
            f"{format_number(float(best))}, above that of {percentile:.2f} % of the unlabelled training rows.",
            notice=True,
        )
    if data.training_share >= 0.1:
        yield Paragraph(
            f"This table contains {format_share(data.training_share)} of the rows that the model was trained on, so "
            "scores, precision and recall are better here than on new rows. To judge the model, use rows that it has "
            "not seen.",
            notice=True,
        )
    strong = [f for f in data.features if f.drift is not None and f.drift >= _STRONG_DRIFT]
    if strong:
        names = _listed([feature.column.name for feature in sorted(strong, key=_drift)])
        yield Paragraph(
            f"{len(strong):,} {'columns have' if len(strong) > 1 else 'column has'} drifted strongly since training: "
            f"{names}. Scores may mean something else than in training.",
            notice=True,
        )
    if data.surprise:
        yield Paragraph(f"{data.surprise}.", notice=True)
    if data.useless:
        names = _listed([f"{name} ({why})" for name, why in data.useless.items()])
        yield Paragraph(f"Columns without information for the model: {names}.", notice=True)


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _kinds(data: ReportData) -> Iterator[Block]:
    """Yield the kinds of the alerts, if they are known."""
    if not data.kinds:
        return
    yield Heading("Kinds of alerts")
    if data.muted:
        muted = (
            "rows would be alerts, but their kinds are"
            if data.muted > 1
            else "row would be an alert, but its kind is"
        )
        yield Paragraph(f"{data.muted:,} {muted} muted.", notice=True)
    yield from overview(data.kinds, data.n_of_kind)
    others = data.n_alerts - sum(data.n_of_kind)
    yield Paragraph(f"Each alert counts for the most precise rule that it meets; {others:,} meet none.")


def _thresholds(data: ReportData) -> Iterator[Block]:
    """Yield a slider over thresholds that make 1, 2, 3, … and ever more rows alerts."""
    n_rows = len(data.scores)
    if n_rows < 2:
        return
    order = highest_first(data.scores)
    ranked = data.scores[order]
    wanted = np.unique(
        np.concatenate([np.arange(1, _FIRST_STEPS), np.geomspace(1, n_rows, _STEPS)]).round().astype(np.int64)
    )
    thresholds = np.unique(np.append(ranked[wanted[wanted <= n_rows] - 1], data.threshold))
    counts = np.searchsorted(-ranked, -thresholds, "right")
    start = int(np.searchsorted(thresholds, data.threshold))
    counts[start] = data.n_alerts  # a budget leaves out rows with the same score
    truth = np.zeros(n_rows, dtype=bool) if data.truth is None else data.truth
    hits = np.append(0, np.cumsum(truth[order]))[counts]
    yield Threshold(
        list(zip(thresholds.tolist(), counts.tolist(), hits.tolist(), strict=True)),
        start,
        n_rows,
        int(truth.sum()),
    )


def _highest_rows(data: ReportData) -> Iterator[Block]:
    """Yield the rows with the highest scores and their reasons."""
    assert data.shown is not None
    assert data.shown.table is not None
    same = [f"same values as {name}" if name else "" for name in data.same_as]
    labels = [label or other for label, other in zip(data.labels or [""] * len(same), same, strict=True)]
    about = {"label": labels} if any(labels) else {}
    about |= {"kind": data.kind} if data.kind else {}
    head = ["rank", "row", *data.columns, "score", "percentile", "alert", *about, "reasons"]
    rows, attributes = [], []
    for i, reasons in enumerate(data.reasons):
        score = float(data.shown.score[i])
        entries = [Entry(str(i + 1)), Entry(f"{data.shown.rows[i] + 1:,}", value=float(data.shown.rows[i]))]
        for name in data.columns:
            value = cell(data.shown.table, name, i)
            entries.append(Entry(value if isinstance(value, str) else format_value(value)))
        entries += [Entry(f"{score:.3f}", value=score), Entry(f"{data.shown.percentile[i]:.2f}")]
        entries.append(Entry("alert" if i < data.n_alerts else "no"))
        entries += [Entry(texts[i]) for texts in about.values()]
        rows.append([*entries, Entry(Markup("<br>").join(map(_marked_up, reasons)))])
        # A label such as "normal" is shown, but marks nothing.
        marks = {"labelled": "1"} if data.marked[i] else {}
        marks |= {"kind": data.kind[i] or "other"} if data.kind and i < data.n_alerts else {}
        attributes.append({"score": repr(score), **marks})
    yield Heading("The most anomalous rows" if len(rows) > 1 else "The row")
    n_known, n_shown = sum(data.marked), len(rows)
    labelled = f" {n_known:,} of these {n_shown:,} rows {'are' if n_known != 1 else 'is'} known already."
    yield Paragraph(
        "With the columns that raise the score most and what makes their values count: the typical values of the "
        "unlabelled training rows (“the rest”), or what known anomalies have in common with the row."
        + (labelled if n_known and n_shown > 1 else " It is known already." if n_known else "")
    )
    text_columns = (*range(2, 2 + len(data.columns)), *range(4 + len(data.columns), len(head)))
    caption = (
        f"The {n_shown:,} highest of {len(data.scores):,} scores" if n_shown > 1 else "The row and its score"
    )
    yield Grid(head, rows, caption, text_columns, interactive=True, data=attributes)


def _marked_up(reason: Reason) -> Markup:
    """Return a reason with the names of columns as code."""
    pieces = reason.pieces()
    code = Markup("<code>{}</code>")
    return Markup().join(code.format(short(p)) if isinstance(p, ColumnName) else p for p in pieces)


def _distribution(data: ReportData) -> Iterator[Block]:
    scores = data.scores
    yield Heading("Scores")
    if len(scores) < MIN_ROWS:
        listed = ", ".join(format_number(score) for score in np.sort(scores)[::-1].tolist())
        yield Paragraph(
            f"The scores, highest first: {listed}." if len(scores) > 1 else f"The score is {listed}."
        )
        return
    highest = scores[scores >= np.quantile(scores, 0.95)]
    figures = []
    for title, part in (("All rows", scores), ("Highest 5 %", highest)):
        low, high = float(part.min()), float(part.max())
        if part is scores:  # show where the threshold is
            low, high = min(low, data.threshold), max(high, data.threshold)
        edges = np.linspace(low, high if high > low else low + 1, 51)
        shares = np.histogram(part, edges)[0] / len(scores)
        quartiles = [format_number(x) for x in np.quantile(part, [0, 0.25, 0.5, 0.75, 1]).tolist()]
        caption = (
            f"{len(part):,} rows: lowest {quartiles[0]}, quartiles {', '.join(quartiles[1:4])}, highest "
            f"{quartiles[4]}; {data.n_alerts:,} reach the threshold {format_number(data.threshold)}."
        )
        chart = charts.histogram(
            {"table": shares}, edges, title=f"Scores: {title}. {caption}", mark=data.threshold,
            mark_text="alert threshold", x_label="anomaly score",
        )  # fmt: skip
        figures.append(Figure(chart, caption, title=title))
    yield Paragraph("Distribution of the scores.")
    yield Figures(figures)


def _main_features(data: ReportData) -> Iterator[Block]:
    if data.n_alerts == 0 and len(data.scores) < MIN_ROWS:
        return
    name = "alerts" if data.n_alerts else "this table"
    many = (
        f"{data.n_alerts:,} alerts" if data.n_alerts > 1 else "the alert" if data.n_alerts else "this table"
    )
    figures = []
    for feature in data.features[:_SHOWN_FEATURES]:
        labels, edges, shares = feature.histogram
        background, ours = shares[0], shares[-1]  # the last are the alerts or, without any, the table
        series = {"background": background, "alert" if data.n_alerts else "table": ours}
        title = f"{feature.column.name}: unlabelled training rows (typical {feature.typical}) and {many}"
        if edges is not None:
            chart = charts.histogram(series, edges, title=title)
            ends = [format_number(edge) for edge in edges.tolist()]
            labels = [f"{low} to {high}" for low, high in pairwise(ends)]
        else:
            chart = charts.bars(series, labels, title=title)
        rows = [
            [Entry(label), Entry(format_share(rest)), Entry(format_share(own))]
            for label, rest, own in zip(labels, background.tolist(), ours.tolist(), strict=True)
        ]
        numbers = Grid(["value", "training rows", name], rows, title)
        figures.append(Figure(chart, f"typical: {feature.typical}", numbers, feature.column.name))
    yield Heading(f"Typical values and {name}")
    yield Paragraph(
        "The columns with the largest effects on the scores, largest first."
        + ("" if data.n_alerts else " There are no alerts, so all rows of the table are shown.")
    )
    legend = {"background": "unlabelled training rows", "alert" if data.n_alerts else "table": many}
    yield Figure(charts.key(legend))
    yield Figures(figures)


def _members(model: TableModel) -> Iterator[Block]:
    kinds = [kind for kind in model.detector._member_kinds() if kind.weight]
    if not kinds:
        return
    total = sum(kind.weight for kind in kinds)
    rows = [
        [Entry(kind.name), Entry("", meter=kind.weight / total), Entry(f"{kind.weight:.2f}")]
        for kind in kinds
    ]
    yield Heading("What the score is made of")
    yield Paragraph(
        "The score adds up what several detectors say. Those that learn from labels have a total weight of 1; the "
        "others look for rare rows without using labels, and count less if known anomalies are not rare."
    )
    yield Grid(["detectors", "", "weight"], rows, "The weight of each kind of detector")


def _drift(feature: Feature) -> float:
    return -(feature.drift or 0.0)


def _columns(data: ReportData) -> Iterator[Block]:
    drifts = len(data.scores) >= MIN_ROWS
    total = sum(feature.importance for feature in data.features) or 1.0
    rows = []
    for feature in sorted(data.features, key=_drift):
        entries = [
            Entry(feature.column.name),
            Entry(feature.typical),
            Entry(f"{100 * feature.importance / total:.1f} %"),
        ]
        if feature.drift is not None:
            strong = feature.drift >= _STRONG_DRIFT
            verdict = "strong" if strong else "some" if feature.drift >= _SOME_DRIFT else "little"
            meter = Entry("", meter=min(feature.drift, 1.0), strong=strong)
            entries += [meter, Entry(f"{feature.drift:.2f}"), Entry(verdict)]
        rows.append(entries)
    yield Heading("Columns and drift since training")
    yield Paragraph(
        "Importance is a column's share of the effects on the scores of this table. "
        + (
            "Drift is how much its values differ from training: 0 means that they are distributed in the same way, 1 "
            "that they have nothing in common. If important columns drift strongly, fit a new model."
            if drifts
            else f"Drift needs at least {MIN_ROWS} rows."
        )
    )
    head = ["column", "typical in training", "importance", *(["", "drift", "verdict"] if drifts else [])]
    yield Grid(head, rows, f"The {len(rows):,} columns of the model", (0, 1, 5), interactive=True)


def _precision_and_recall(data: ReportData) -> Iterator[Block]:
    if data.truth is None:
        return
    yield Heading("Precision and recall")
    areas = RankedScores(data.scores).areas(data.truth, ~data.truth)
    if areas is None:
        yield Paragraph("The label column marks no row, or every row, as an anomaly.")
        return
    precision, recall = RankedScores(data.scores).precision_recall(data.truth, ~data.truth)
    n_known = int(data.truth.sum())
    hits = int(data.truth[data.alert].sum())
    precise = ("none", "no alerts")
    if n_alerts := data.n_alerts:
        precise = (
            format_share(hits / n_alerts),
            f"of the alerts are anomalies ({hits:,} of {n_alerts:,}): precision",
        )
    found = (format_share(hits / n_known), f"of the anomalies are alerts ({hits:,} of {n_known:,}): recall")
    tiles = [(f"{areas[0]:.3f}", "AUC-PR (1 is best)"), (f"{areas[1]:.3f}", "AUC-ROC (1 is best)")]
    yield Tiles([*tiles, precise, found])
    some = np.unique(np.linspace(0, len(recall) - 1, min(len(recall), _CURVE_POINTS)).astype(np.int64))
    line = charts.Line([0.0, *recall[some].tolist()], [float(precision[0]), *precision[some].tolist()])
    at = [float(precision[np.searchsorted(recall, level)]) for level in (0.5, 0.8, 0.95)]
    caption = "Precision {} at recall 50 %, {} at 80 %, {} at 95 %.".format(*map(format_share, at))
    chart = charts.line_chart(
        {"table": line}, title=f"Precision and recall. {caption}", x_label="recall", y_label="precision",
        y_range=(0.0, 1.0),
    )  # fmt: skip
    yield Figure(chart, f"{caption} Unlabelled rows count as normal.")
