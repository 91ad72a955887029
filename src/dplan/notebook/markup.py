"""Pieces of HTML for notebooks. All text is escaped and shortened here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from dplan.text import visible

__all__ = ["bar", "bold", "cell", "faint", "folded", "header", "row", "safe", "table"]

_GREY = "rgba(128,128,128,0.25)"
_ORANGE = "rgba(217,119,6,0.85)"
_CELL = (
    "text-align:left;vertical-align:top;padding:2px 12px 2px 0;border:none;background:none;white-space:normal"
)


def safe(text: object, most: int = 80) -> Markup:
    r"""Return text of a table as HTML: escaped, short, and without characters that change the direction of text.

    Examples
    --------
    >>> safe("<script>alert(1)</script>"), safe("a\u202eb"), safe("a long text", most=7)
    (Markup('&lt;script&gt;alert(1)&lt;/script&gt;'), Markup('a\\u202eb'), Markup('a long…'))
    """
    found = str(text)
    shown = visible(found[: most - 1]).rstrip() + "…" if len(found) > most else visible(found)
    return escape(shown)


def table(rows: Iterable[Markup]) -> Markup:
    """Return a table of rows."""
    style = "border-collapse:collapse;border:none;margin:0"
    return Markup('<table style="{}"><tbody>{}</tbody></table>').format(style, Markup("").join(rows))


def row(cells: Iterable[Markup], *, line: bool = False) -> Markup:
    """Return a row of cells, with a line above it if asked for."""
    style = f"background:none;border:none;{f'border-top:1px solid {_GREY}' if line else ''}"
    return Markup('<tr style="{}">{}</tr>').format(style, Markup("").join(cells))


def cell(content: Markup, style: str = "") -> Markup:
    """Return a cell."""
    return Markup('<td style="{}{}">{}</td>').format(_CELL, f";{style}" if style else "", content)


def header(names: Sequence[Markup]) -> Markup:
    """Return the row above a table."""
    return row(cell(faint(name)) for name in names)


def bold(content: Markup) -> Markup:
    """Return bold text."""
    return Markup("<b>{}</b>").format(content)


def faint(content: Markup) -> Markup:
    """Return text that stands back."""
    return Markup('<span style="opacity:0.7">{}</span>').format(content)


def bar(share: float) -> Markup:
    """Return a bar that is filled up to a share.

    Examples
    --------
    >>> "width:62%" in bar(0.62)
    True
    """
    width = f"{100 * min(max(share, 0.0), 1.0):.0f}%"
    return Markup(
        '<div style="width:90px;height:0.7em;margin-top:0.3em;background-color:{}">'
        '<div style="width:{};height:0.7em;background-color:{}"></div></div>'
    ).format(_GREY, width, _ORANGE)


def folded(title: str, content: Markup) -> Markup:
    """Return content that is shown on a click."""
    return Markup("<details><summary>{}</summary>{}</details>").format(title, content)
