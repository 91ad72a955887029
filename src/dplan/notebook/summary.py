"""A model as a notebook shows it: what it was trained on, and what to expect of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from markupsafe import Markup, escape

from dplan.columns.formatting import format_share
from dplan.notebook import markup

__all__ = ["model_html"]

_LISTED = 20  # columns that were left out
_CLASSES = 20


def model_html(model: Any) -> str:
    """Return a `TableModel` as HTML of less than 10 kB."""
    rows = (
        markup.row([markup.cell(markup.faint(escape(name))), markup.cell(content)])
        for name, content in _facts(model)
    )
    return str(Markup("<div>{}</div>").format(markup.table(rows)))


def _facts(model: Any) -> Iterator[tuple[str, Markup]]:
    summary = model.summary
    yield "model", markup.bold(markup.safe(type(model.detector).__name__))
    sampled = "" if summary.sampled is None else f", trained on a sample of {summary.sampled:,}"
    yield "rows", escape(f"{summary.rows:,}{sampled}")
    labels = [Markup("{} {}").format(f"{n:,}", markup.safe(name, 40)) for name, n in summary.labels.items()]
    if summary.checked_normal:
        labels.append(escape(f"{summary.checked_normal:,} checked normal"))
    yield "labels", _listed(labels, _CLASSES)
    types = [Markup("{} {}").format(n, markup.safe(name, 40)) for name, n in summary.columns.items()]
    yield "columns", _listed(types, _LISTED)
    if summary.ids:
        yield "ids", _listed([markup.safe(name, 40) for name in summary.ids], _LISTED)
    if summary.dropped:
        left_out = [
            Markup("{} ({})").format(markup.safe(name, 40), markup.safe(why, 60))
            for name, why in summary.dropped.items()
        ]
        yield "left out", _listed(left_out, _LISTED)
    share = format_share(float(model.detector.contamination))
    yield (
        "threshold",
        escape(f"alerts have a score of at least {model.threshold:.4g} (contamination {share})"),
    )
    expected = summary.expectations()
    if expected:
        yield "expect", Markup("<br>").join(markup.safe(sentence, 300) for sentence in expected)


def _listed(parts: list[Markup], most: int) -> Markup:
    more = [escape(f"… and {len(parts) - most:,} more")] if len(parts) > most else []
    return Markup(", ").join([*parts[:most], *more])
