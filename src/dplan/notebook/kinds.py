"""Kinds of alerts as a table in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup, escape

from dplan.columns.formatting import format_share
from dplan.kinds.words import is_weak, resemblance, without_rule
from dplan.notebook import markup

if TYPE_CHECKING:
    from dplan.kinds.finding import Group, Kinds

__all__ = ["kinds_html"]

_NAME, _WORDS = 40, 300
_NOTE = (
    "Precision is the share of the matching rows that are alerts, and coverage the share of the kind that matches, "
    "both on rows that the rule was not made from, with a confidence of 95 %."
)


def kinds_html(found: Kinds) -> str:
    """Return a table of kinds with their rules."""
    names = ("kind", "alerts", "rule", "precision", "coverage")
    rows = [markup.header([escape(name) for name in names])]
    for group in found.groups:
        cells = _cells(group, about=found.is_sampled)
        rows.append(markup.row(map(markup.cell, cells), line=True))
    title = markup.bold(escape(found.heading))
    if not found.groups:
        return str(Markup("<div>{}</div>").format(title))
    return str(Markup("<div>{}{}{}</div>").format(title, markup.table(rows), markup.faint(escape(_NOTE))))


def _cells(group: Group, *, about: bool) -> list[Markup]:
    kind, measured = group.kind, group.kind.about["measured"]
    n_alerts = int(kind.about["alerts"])
    name = _with_note(markup.safe(kind.name), resemblance(kind.name, n_alerts, group.resembling, about=about))
    shown = escape(f"{'about ' * about}{n_alerts:,}")
    if kind.rule is None:
        return [name, shown, markup.safe(without_rule(kind.about["columns"]), _WORDS), escape(""), escape("")]
    part = Markup("{} {}")
    conditions = [
        part.format(markup.bold(markup.safe(condition.column, _NAME)), markup.safe(condition.words, _WORDS))
        for condition in kind.rule.conditions
    ]
    rule = _with_note(Markup(" and ").join(conditions), "too weak to rely on" if is_weak(measured) else "")
    precision = f"{measured['alerts']:,} of {measured['matched']:,} rows"
    coverage = f"{measured['kind_matched']:,} of {measured['kind']:,} alerts"
    return [
        name,
        shown,
        rule,
        _with_note(escape(f"≥ {format_share(measured['precision_at_least'])}"), precision),
        _with_note(escape(f"≥ {format_share(measured['coverage_at_least'])}"), coverage),
    ]


def _with_note(content: Markup, note: str) -> Markup:
    return (
        Markup("{}<br>{}").format(content, markup.faint(markup.safe(note.strip(), _WORDS)))
        if note
        else content
    )
