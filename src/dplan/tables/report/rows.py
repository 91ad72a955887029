"""The rows to look at, in the report: the highest scores with their reasons, and other thresholds to try."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from markupsafe import Markup

from dplan._html.blocks import Block, Entry, Grid, Heading, Paragraph, Threshold
from dplan.columns.formatting import cell, format_value
from dplan.tables.model import TableModel
from dplan.tables.reasons import ColumnName, Reason, short
from dplan.tables.report.data import ReportData

__all__ = ["highest_rows", "thresholds"]

# Thresholds to try: one for each of the first alerts, then ever more alerts apart.
_FIRST_STEPS, _STEPS = 50, 150


def thresholds(data: ReportData) -> Iterator[Block]:
    """Yield a slider over thresholds that make 1, 2, 3, … and ever more rows alerts."""
    n_rows = len(data.scores)
    if n_rows < 2:
        return
    order = np.argsort(-data.scores, kind="stable")
    ranked = data.scores[order]
    wanted = np.unique(
        np.concatenate([np.arange(1, _FIRST_STEPS), np.geomspace(1, n_rows, _STEPS)]).round().astype(np.int64)
    )
    thresholds = np.unique(np.append(ranked[wanted[wanted <= n_rows] - 1], data.threshold))
    counts = np.searchsorted(-ranked, -thresholds, "right")
    truth = np.zeros(n_rows, dtype=bool) if data.truth is None else data.truth
    hits = np.append(0, np.cumsum(truth[order]))[counts]
    yield Threshold(
        list(zip(thresholds.tolist(), counts.tolist(), hits.tolist(), strict=True)),
        int(np.searchsorted(thresholds, data.threshold)),
        n_rows,
        int(truth.sum()),
    )


def highest_rows(data: ReportData, model: TableModel) -> Iterator[Block]:
    """Yield the rows with the highest scores and their reasons."""
    ids = [name for name in model.summary.ids if name in data.highest.columns]
    shown = list(dict.fromkeys([*ids, *data.keep]))
    percentiles = model.percentile(data.highest_scores)
    known = [label or known for label, known in _labels(data)] if any(map(any, _labels(data))) else []
    # Rows of known anomalies; a label such as "normal" is shown, but marks nothing.
    marked = (
        [bool(name) for name in data.known]
        if data.truth is None
        else data.truth[data.row_numbers - 1].tolist()
    )
    head = ["rank", "row", *shown, "score", "percentile", "alert", *(["label"] if known else []), "reasons"]
    rows, attributes = [], []
    for i, reasons in enumerate(data.reasons):
        score = float(data.highest_scores[i])
        entries = [Entry(str(i + 1)), Entry(str(data.row_numbers[i]))]
        for name in shown:
            value = cell(data.highest, name, i)
            entries.append(Entry(value if isinstance(value, str) else format_value(value)))
        entries += [Entry(f"{score:.3f}", value=score), Entry(f"{percentiles[i]:.1f}")]
        entries.append(Entry("alert" if i < data.n_alerts else "no"))
        entries += [Entry(known[i])] if known else []
        rows.append([*entries, Entry(Markup("<br>").join(map(_marked_up, reasons)))])
        attributes.append({"score": repr(score), **({"labelled": "1"} if marked[i] else {})})
    yield Heading("The most anomalous rows" if len(rows) > 1 else "The row")
    n_known, n_shown = sum(marked), len(rows)
    labelled = f" {n_known:,} of these {n_shown:,} rows {'are' if n_known != 1 else 'is'} known already."
    yield Paragraph(
        "With the columns that raise the score most and what makes their values count: the typical values of the "
        "unlabelled training rows (“the rest”), or what known anomalies have in common with the row."
        + (labelled if n_known and n_shown > 1 else " It is known already." if n_known else "")
    )
    text_columns = (*range(2, 2 + len(shown)), *range(4 + len(shown), len(head)))
    caption = (
        f"The {n_shown:,} highest of {len(data.scores):,} scores" if n_shown > 1 else "The row and its score"
    )
    yield Grid(head, rows, caption, text_columns, interactive=True, data=attributes)


def _marked_up(reason: Reason) -> Markup:
    """Return a reason with the names of columns as code."""
    pieces = reason.pieces()
    code = Markup("<code>{}</code>")
    return Markup().join(code.format(short(p)) if isinstance(p, ColumnName) else p for p in pieces)


def _labels(data: ReportData) -> list[tuple[str, str]]:
    """Return, for each shown row, its label if it says something and the known anomaly that it equals."""
    labels = data.labels or [""] * len(data.reasons)
    return [
        (label, f"same values as {known}" if known else "")
        for label, known in zip(labels, data.known, strict=True)
    ]
