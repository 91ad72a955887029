"""Notes on a benchmark that somebody wrote: ``notes.md`` beside its journal becomes a part of the report.

The Markdown page takes them as they are. The HTML page knows headings, paragraphs, lists with hyphens, bold text,
code and links, of which it keeps the text, as it refers to nothing outside of itself.
"""

import re
from collections.abc import Iterator
from html import escape
from pathlib import Path

from dplan.benchmark.report.blocks import Block, Heading, Prose

__all__ = ["note_blocks", "prose_as_html", "read_notes"]

NAME = "notes.md"
_MARKS = (
    (r"\*\*(.+?)\*\*", r"<strong>\1</strong>"),
    (r"`(.+?)`", r"<code>\1</code>"),
    (r"\[(.+?)\]\(.+?\)", r"\1"),
)


def read_notes(folder: Path) -> str:
    """Read the notes of a folder; empty if there are none."""
    path = folder / NAME
    return path.read_text(encoding="utf-8") if path.exists() else ""


def note_blocks(text: str) -> Iterator[Block]:
    r"""Divide notes into headings, which the HTML page's contents list, and what stands between them.

    Examples
    --------
    >>> list(note_blocks("## Why?\n\nBecause."))
    [Heading(text='Why?', level=2), Prose(markdown='Because.')]
    """
    for part in re.split(r"^(#{2,4} .+)$", text, flags=re.MULTILINE):
        marks, _, title = part.partition(" ")
        if re.fullmatch("#{2,4}", marks):
            yield Heading(title.strip(), len(marks))
        elif part.strip():
            yield Prose(part.strip())


def prose_as_html(markdown: str) -> str:
    r"""Write paragraphs and lists as HTML; whatever is not known stays text.

    Examples
    --------
    >>> prose_as_html("A **bold** <word>.\n\n- one\n  line\n- two")
    '<p>A <strong>bold</strong> &lt;word&gt;.</p>\n<ul><li>one line</li><li>two</li></ul>'
    """
    return "\n".join(map(_chunk, re.split(r"\n\s*\n", markdown.strip())))


def _chunk(text: str) -> str:
    if not text.startswith("- "):
        return f"<p>{_inline(text)}</p>"
    items = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
    return f"<ul>{''.join(f'<li>{_inline(item)}</li>' for item in items)}</ul>"


def _inline(text: str) -> str:
    html = escape(" ".join(text.split()), quote=False)
    for pattern, replacement in _MARKS:
        html = re.sub(pattern, replacement, html)
    return html
