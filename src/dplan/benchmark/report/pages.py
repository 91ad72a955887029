"""The report as one HTML page that needs no network, and as Markdown."""

import os
from collections.abc import Iterable
from html import escape
from pathlib import Path

from dplan.benchmark.report.blocks import Block, Code, Entry, Figure, Grid, Heading, Items, Paragraph, Prose
from dplan.benchmark.report.chapters import report_blocks
from dplan.benchmark.report.notes import prose_as_html, read_notes
from dplan.benchmark.results import Results

__all__ = ["as_html", "as_markdown", "write_report"]

_TITLE = "DPLAN: the paper and ours"
_STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5b6b7b; --line: #d8dee5; --page: #ffffff; --zone: #f4f6f8; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ee; --soft: #9aa8b6; --line: #39434e; --page: #14191f; --zone: #1d242c; }
}
body { margin: 0 auto; padding: 1.5rem; max-width: 90rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Helvetica, Arial, sans-serif; }
h1 { font-size: 1.7rem; } h2 { margin-top: 3rem; border-bottom: 2px solid var(--line); padding-bottom: .3rem; }
p, ul, caption, figcaption { max-width: 60rem; } li { margin: .3rem 0; }
nav a { margin-right: 1rem; white-space: nowrap; } a { color: inherit; }
.scroll { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .45rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: var(--page); }
table.text td { text-align: left; white-space: normal; } thead th, thead th:first-child { background: var(--zone); }
td small { display: block; color: var(--soft); font-size: .75rem; }
caption, figcaption { caption-side: bottom; text-align: left; color: var(--soft); font-size: .85rem; padding: .4rem 0; }
figure { margin: 1.5rem 0; } svg { width: 100%; height: auto; } svg.narrow { max-width: 40rem; }
svg text { font-size: 9px; fill: currentColor; } svg .title { font-size: 11px; font-weight: 600; }
svg .legend { font-size: 11px; } svg.narrow text { font-size: 12px; }
svg path { fill: none; } svg .axis { stroke: var(--soft); } svg .grid { stroke: var(--line); stroke-width: .6; }
svg .cross { stroke: var(--ink); stroke-width: 1.6; } svg .bar { stroke: var(--ink); stroke-width: 5; }
svg .stem { stroke: var(--soft); } svg .scale { stroke: var(--ink); stroke-width: 2; }
pre { background: var(--zone); padding: .8rem; overflow-x: auto; font-size: .8rem; }
"""


def write_report(
    place: str | Path, output: str | Path | None = None, name: str = "report"
) -> tuple[Path, Path]:
    """Write an HTML page and a Markdown page for a journal.

    Notes that somebody wrote into ``notes.md`` beside the journal become a part of both, after the summary.

    Parameters
    ----------
    place : path
        The folder of the journal, or the journal itself.
    output : path, optional
        The folder for the pages; default: that of the journal.
    name : str, default="report"
        The pages' name without its ending.

    Returns
    -------
    tuple of pathlib.Path
        The HTML page and the Markdown page.
    """
    place = Path(place)
    home = place if place.is_dir() else place.parent
    blocks = list(report_blocks(Results.read(place), read_notes(home)))
    folder = Path(output) if output is not None else home
    folder.mkdir(parents=True, exist_ok=True)
    html, markdown = folder / f"{name}.html", folder / f"{name}.md"
    _write(html, as_html(_TITLE, blocks))
    _write(markdown, as_markdown(_TITLE, blocks))
    return html, markdown


def as_html(title: str, blocks: Iterable[Block]) -> str:
    """Write blocks as one page; every text is escaped.

    Examples
    --------
    >>> "a &lt; b" in as_html("Report", [Paragraph("a < b")])
    True
    """
    body, links = [], []
    for number, block in enumerate(blocks):
        if isinstance(block, Heading):
            body.append(f'<h{block.level} id="part{number}">{escape(block.text)}</h{block.level}>')
            if block.level == 2:
                links.append(f'<a href="#part{number}">{escape(block.text)}</a>')
        else:
            body.append(_html(block))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
        f"<nav>{' '.join(links)}</nav>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def as_markdown(title: str, blocks: Iterable[Block]) -> str:
    r"""Write blocks as Markdown; figures become tables of their numbers.

    Examples
    --------
    >>> print(as_markdown("Report", [Grid(["a", "b"], [[Entry("x|y"), Entry("1", note="paper 2", strong=True)]])]))
    # Report
    <BLANKLINE>
    | a | b |
    |---|---|
    | x\|y | **1** (paper 2) |
    <BLANKLINE>
    """
    parts = [f"# {title}"]
    for block in blocks:
        if isinstance(block, Heading):
            parts.append(f"{'#' * block.level} {_plain(block.text)}")
        elif isinstance(block, Paragraph):
            parts.append(_plain(block.text))
        elif isinstance(block, Items):
            parts.append("\n".join(f"- {_plain(text)}" for text in block.texts))
        elif isinstance(block, Prose):
            parts.append(block.markdown)
        elif isinstance(block, Code):
            fence = "```"
            while fence in block.text:
                fence += "`"
            parts.append(
                (f"{_plain(block.title)}:\n\n" if block.title else "")
                + f"{fence}\n{block.text.rstrip()}\n{fence}"
            )
        else:
            grid = block.table if isinstance(block, Figure) else block
            lines = ["| " + " | ".join(map(_plain, grid.head)) + " |", "|" + "---|" * len(grid.head)]
            lines += ["| " + " | ".join(map(_markdown_entry, row)) + " |" for row in grid.rows]
            parts.append("\n".join(lines))
            if block.caption:
                parts.append(_plain(block.caption))
    return "\n\n".join(parts) + "\n"


def _html(block: Paragraph | Items | Prose | Grid | Figure | Code) -> str:
    if isinstance(block, Paragraph):
        return f"<p>{escape(block.text)}</p>"
    if isinstance(block, Items):
        return f"<ul>{''.join(f'<li>{escape(text)}</li>' for text in block.texts)}</ul>"
    if isinstance(block, Prose):
        return prose_as_html(block.markdown)
    if isinstance(block, Code):
        title = f"<p>{escape(block.title)}:</p>" if block.title else ""
        return f"{title}<pre>{escape(block.text)}</pre>"
    if isinstance(block, Figure):
        return f"<figure>{block.svg}<figcaption>{escape(block.caption)}</figcaption></figure>"
    caption = f"<caption>{escape(block.caption)}</caption>" if block.caption else ""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in block.head)
    rows = "\n".join(f"<tr>{''.join(map(_html_entry, row))}</tr>" for row in block.rows)
    kind = ' class="text"' if len(block.head) == 2 else ""
    return (
        f'<div class="scroll"><table{kind}>{caption}<thead><tr>{head}</tr></thead>\n'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _html_entry(entry: Entry) -> str:
    text = escape(entry.text)
    if entry.strong:
        text = f"<strong>{text}</strong>"
    if entry.note:
        text += f"<small>{escape(entry.note)}</small>"
    shade = ""
    if entry.shade is not None:
        shade = f' style="background: rgb(0 114 178 / {0.55 * min(max(entry.shade, 0.0), 1.0):.2f})"'
    return f"<td{shade}>{text}</td>"


def _markdown_entry(entry: Entry) -> str:
    text = _plain(entry.text)
    if entry.strong:
        text = f"**{text}**"
    return f"{text} ({_plain(entry.note)})" if entry.note else text


def _plain(text: str) -> str:
    """Keep text from being read as Markdown or HTML."""
    text = " ".join(text.split())
    for mark in "\\|*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("<", "&lt;")


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(path.suffix + ".part")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
