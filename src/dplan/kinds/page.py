"""Kinds as blocks of a page, and as a page of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from dplan._html import charts
from dplan._html.blocks import Block, Code, Entry, Figure, Figures, Grid, Heading, Paragraph, Tiles, as_html
from dplan.columns.formatting import format_share
from dplan.kinds.finding import MOST_ALERTS, Group, Kinds
from dplan.kinds.words import evidence, is_weak, resemblance, without_rule
from dplan.rules.file import Kind
from dplan.rules.sql import DIALECTS, script
from dplan.text import shortened

__all__ = ["kinds_page", "overview", "rule_in_words"]

_TITLES = {"postgresql": "PostgreSQL", "sqlite": "SQLite", "duckdb": "DuckDB"}


def kinds_page(found: Kinds, *, model_name: str, table_name: str) -> str:
    """Return a self-contained HTML page about kinds."""
    blocks = list(_introduction(found, model_name))
    for group in found.groups:
        blocks += _about(group, found)
    return as_html(f"Kinds of alerts in {table_name}", blocks, heading=f"Kinds of alerts in {table_name}")


def _introduction(found: Kinds, model_name: str) -> Iterator[Block]:
    n_rows, n_alerts, n_kinds = len(found.table.scores), found.n_alerts, len(found.groups)
    with_rule = sum(
        about["alerts"]
        for about in (group.kind.about for group in found.groups)
        if about["measured"] and not is_weak(about["measured"])
    )
    yield Paragraph(f"Scored by {model_name}.")
    yield Tiles(
        [
            (f"{n_rows:,}", "rows scored"),
            (f"{n_alerts:,}", "alerts"),
            (f"{n_kinds:,}", "kinds of alerts"),
            (
                format_share(with_rule / max(1, n_alerts)),
                "of the alerts are of a kind with a rule to rely on",
            ),
        ]
    )
    if not found.groups:
        yield Paragraph(found.heading)
        return
    yield from overview(found.rules.kinds)
    if found.is_sampled:
        yield Paragraph(
            f"Kinds were made from {MOST_ALERTS:,} of the {n_alerts:,} alerts, so their numbers of alerts are "
            "estimates; precision was counted on all rows that are kept to measure it."
        )


def overview(kinds: Sequence[Kind], counts: Sequence[int] | None = None) -> Iterator[Block]:
    """Yield a table of kinds and what its columns mean; `counts` are the alerts of another table than theirs."""
    rows = []
    for place, kind in enumerate(kinds):
        measured = kind.about.get("measured") or {}
        cells = [Entry("–"), Entry("–")]
        if kind.rule is not None and measured:
            precision = f"{int(measured['alerts']):,} of {int(measured['matched']):,} rows"
            coverage = f"{int(measured['kind_matched']):,} of {int(measured['kind']):,} alerts"
            cells = [
                Entry(f"≥ {format_share(measured['precision_at_least'])}", note=precision),
                Entry(f"≥ {format_share(measured['coverage_at_least'])}", note=coverage),
            ]
        alerts = kind.about.get("alerts") if counts is None else counts[place]
        rows.append(
            [
                Entry(kind.name),
                Entry("" if alerts is None else f"{alerts:,}"),
                Entry(
                    rule_in_words(kind), note="too weak to rely on" if measured and is_weak(measured) else ""
                ),
                *cells,
            ]
        )
    yield Grid(["kind", "alerts", "rule", "precision", "coverage"], rows, "The kinds", (0, 2))
    yield Paragraph(
        "Alerts are of one kind if the same columns raise their scores by similar amounts. “Like” a class means that "
        "most of them resemble its known anomalies, not that they belong to it. Precision is the share of the rows "
        "matching the rule that are alerts, whether or not they turn out to be anomalies; coverage is the share of the "
        "kind that matches. Both were counted on rows that the rule was not made from, and the bounds hold with a "
        "confidence of 95 %."
    )


def rule_in_words(kind: Kind) -> Markup:
    """Return the rule of a kind with the names of columns as code."""
    if kind.rule is None:
        return Markup("{}").format(without_rule(kind.about.get("columns") or ()))
    code = Markup("<code>{}</code> {}")
    parts = [code.format(shortened(c.column, 100), c.words) for c in kind.rule.conditions]
    return Markup(" and ").join(parts)


def _about(group: Group, found: Kinds) -> Iterator[Block]:
    kind = group.kind
    n_alerts = kind.about["alerts"]
    also = resemblance(kind.name, n_alerts, group.resembling, about=found.is_sampled)
    yield Heading(f"{n_alerts:,} {'alerts' if n_alerts != 1 else 'alert'} {kind.name}")
    if kind.rule is None:
        words = without_rule(kind.about["columns"])
        yield Paragraph(f"{words[0].upper()}{words[1:]}.{also}")
    else:
        found_out = f"{evidence(kind.about['measured'])}{also}"
        yield Paragraph(Markup("{}. {}").format(rule_in_words(kind), found_out))
    yield from _pictures(group, found)
    rows = kind.about["typical_rows"]
    head = ["row", *(shortened(name, 60) for name in rows[0]["values"])]
    entries = [[Entry(f"{row['row']:,}"), *(Entry(text) for text in row["values"].values())] for row in rows]
    yield Grid(head, entries, "The most typical alerts of this kind", range(1, len(head)))
    if kind.rule is not None:
        for dialect in DIALECTS:
            query = script([(kind.name, kind.rule)], dialect, meanings=found.rules.meanings)
            yield Code(query, f"SQL for {_TITLES[dialect]}", folded=True)


def _pictures(group: Group, found: Kinds) -> Iterator[Block]:
    """Draw the columns of the rule or, without one, those with the largest effects."""
    model = found.table.scorer.model
    columns = model.preparation.columns_
    names = [] if group.kind.rule is None else [c.column for c in group.kind.rule.conditions]
    chosen = [j for j, column in enumerate(columns) if column.name in names] or group.columns[:3]
    features, figures = model.preparation.feature_groups(), []
    for j in chosen:
        parts = [rows[:, features == j] for rows in (model.background, group.alerts.prepared)]
        labels, edges, shares = columns[j].histogram(parts)
        series = {"background": shares[0], "alert": shares[1]}
        title = f"{columns[j].name}: unlabelled training rows and alerts {group.kind.name}"
        chart = (
            charts.bars(series, labels, title=title)
            if edges is None
            else charts.histogram(series, edges, title=title)
        )
        figures.append(Figure(chart, title=columns[j].name))
    yield Figure(charts.key({"background": "unlabelled training rows", "alert": "alerts of this kind"}))
    yield Figures(figures)
