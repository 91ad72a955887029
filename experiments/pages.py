"""The whole report, as a self-contained HTML page and as Markdown."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from dplan._html.blocks import (
    Block,
    Code,
    Entry,
    Figure,
    Figures,
    Grid,
    Heading,
    Items,
    Paragraph,
    Prose,
    as_html,
    markdown,
)
from dplan.datasets.registry import CATALOG
from dplan.persistence.atomic import atomic_write
from experiments.adgym.page import adgym_chapter
from experiments.after_review.page import after_review_chapter
from experiments.data import adgym
from experiments.discovery.page import discovery_chapter
from experiments.estimates.page import estimates_chapter
from experiments.paper import published
from experiments.paper.findings import partial_data, summary
from experiments.paper.reproduction import reproduction
from experiments.paper.tables import chapter
from experiments.results import Results
from experiments.suites import PAPER_SUITES, SUITES
from experiments.unknown.page import unknown_chapter

__all__ = ["as_markdown", "markdown_table", "report_blocks", "write_report"]

_TITLE = "DPLAN: the paper's results and ours"
_OTHER_TITLE = "Benchmark results"
_NOTES = "notes.md"
_MOST_TRACEBACKS = 5


def write_report(
    place: str | Path,
    output: str | Path | None = None,
    name: str = "report",
    data_home: str | Path | None = None,
) -> tuple[Path, Path]:
    """Write an HTML page and a Markdown page for a journal.

    Notes in a file ``notes.md`` next to the journal are included after the summary.

    Parameters
    ----------
    place : path
        The folder of the journal, or the journal itself.
    output : path, optional
        The folder for the pages; default: that of the journal.
    name : str, default="report"
        File name of the pages without the extension.
    data_home : path, optional
        The folder of the data sets, where published results of the suite ``adgym`` are looked for.

    Returns
    -------
    tuple of pathlib.Path
        The HTML page and the Markdown page.
    """
    place = Path(place)
    home = place if place.is_dir() else place.parent
    notes = (home / _NOTES).read_text(encoding="utf-8") if (home / _NOTES).exists() else ""
    results = Results.read(place)
    blocks = list(report_blocks(results, notes, data_home))
    title = _TITLE if any(cell["suite"] in PAPER_SUITES for cell in results.cells) else _OTHER_TITLE
    folder = Path(output) if output is not None else home
    folder.mkdir(parents=True, exist_ok=True)
    pages = folder / f"{name}.html", folder / f"{name}.md"
    for path, text in zip(
        pages, (as_html(title, blocks, contents=True), as_markdown(title, blocks)), strict=True
    ):
        with atomic_write(path) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return pages


def report_blocks(results: Results, notes: str = "", data_home: str | Path | None = None) -> Iterator[Block]:
    """Return the whole report: a summary, the notes, a chapter per suite, and how it was made.

    Examples
    --------
    >>> [block.text for block in report_blocks(Results([]), "## Why?") if isinstance(block, Heading)]
    ['Why?', 'How this report was made']
    """
    yield from summary(results)
    yield from _note_blocks(notes)
    for suite, about in SUITES.items():
        protocols = (
            results.protocols(suite) if suite != "subsample" else []
        )  # in the chapter about the sampler
        if protocols:
            yield Heading(about.title)
        for protocol in protocols:
            if len(protocols) > 1:
                yield Heading(f"Protocol {protocol}", 3)
            if suite == "adgym":
                yield from adgym_chapter(results, adgym.published(data_home))
            elif suite == "unknown":
                yield from unknown_chapter(results)
            elif suite == "discovery":
                yield from discovery_chapter(results)
            elif suite == "after-review":
                yield from after_review_chapter(results)
            elif suite == "estimates":
                yield from estimates_chapter(results)
            else:
                yield from chapter(results, suite, protocol)
    yield from reproduction(results)
    yield from _making(results)


def _note_blocks(text: str) -> Iterator[Block]:
    """Split notes at their headings, which the table of contents lists."""
    lines = text.splitlines()
    tokens = markdown().parse(text)
    start = 0
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open" and heading.level == 0 and heading.map:
            yield from _prose(lines[start : heading.map[0]])
            yield Heading(content.content, int(heading.tag[1]))
            start = heading.map[1]
    yield from _prose(lines[start:])


def _prose(lines: list[str]) -> Iterator[Prose]:
    if any(line.strip() for line in lines):
        yield Prose("\n".join(lines).strip())


def _making(results: Results) -> Iterator[Block]:
    yield Heading("How this report was made")
    if results.runs:
        commands = dict.fromkeys(run["command"] or "(from Python)" for run in results.runs)
        yield Code("\n".join(commands), "Commands")
    seeds = sorted({cell["seed"] for cell in results.cells})
    if seeds:
        yield Paragraph(
            f"{len(results.cells):,} cells, seeds {seeds[0]} to {seeds[-1]}. The seed of a run is the detector's and, "
            "with the protocol resampled, also that of the split, the labels and the contaminants."
        )
    rows = [
        [Entry(name), Entry("; ".join(lacks) or "complete")]
        for name, lacks in partial_data(results).items()
        if name in CATALOG  # the paper has no other tables
    ]
    if rows:
        yield Grid(
            ["data set", "compared with the paper's Table 1"],
            rows,
            "Incomplete data.",
            text_columns=(0, 1),
        )
    noted = Counter((cell["scenario"], note) for cell in results.cells for note in cell.get("notes", ()))
    if noted:
        yield Grid(
            ["scenario", "note", "cells"],
            [[Entry(id), Entry(note), Entry(str(count))] for (id, note), count in sorted(noted.items())],
            "Scenarios with too few rows.",
            text_columns=(0, 1),
        )
    if results.runs:
        last = results.runs[-1]
        facts = {
            **last["versions"],
            **last["machine"],
            "workers": last["workers"],
            "last start": last["time"],
        }
        rows = [[Entry(name), Entry(str(value))] for name, value in facts.items()]
        yield Grid(["what", "value"], rows, text_columns=(0, 1))
    for cell in results.failed[:_MOST_TRACEBACKS]:
        title = f"Failed: {cell['suite']}, {cell['method']} on {cell['scenario']}, seed {cell['seed']}"
        yield Code(cell["traceback"], title)
    if len(results.failed) > _MOST_TRACEBACKS:
        yield Paragraph(f"{len(results.failed) - _MOST_TRACEBACKS:,} more cells failed; see the journal.")
    if any(cell["suite"] in PAPER_SUITES for cell in results.cells):
        yield Paragraph(f"The paper: {published.contents()['source']}.")


def as_markdown(title: str, blocks: Iterable[Block]) -> str:
    r"""Convert blocks to Markdown; charts become tables of their values.

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
    return "\n\n".join([f"# {title}", *(part for block in blocks for part in _markdown(block))]) + "\n"


def _markdown(block: Block) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f"{'#' * block.level} {_plain(block.text)}"
    elif isinstance(block, Paragraph):
        yield _plain(block.text)
    elif isinstance(block, Items):
        yield "\n".join(f"- {_plain(text)}" for text in block.texts)
    elif isinstance(block, Prose):
        yield block.markdown
    elif isinstance(block, Code):
        fence = "```"
        while fence in block.text:
            fence += "`"
        if block.title:
            yield f"{_plain(block.title)}:"
        yield f"{fence}\n{block.text.rstrip()}\n{fence}"
    elif isinstance(block, Figures):
        for figure in block.figures:
            yield from _markdown(figure)
    elif isinstance(block, Figure | Grid):
        grid = block.table if isinstance(block, Figure) else block
        if grid is not None:
            rows = [[_entry(entry) for entry in row] for row in grid.rows]
            yield "\n".join(markdown_table([_plain(name) for name in grid.head], rows))
        if block.caption:
            yield _plain(block.caption)


def markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], *, right: bool = False
) -> Iterator[str]:
    """Yield the lines of a table, with all columns but the first on the right if wanted.

    Examples
    --------
    >>> list(markdown_table(["method", "AUC-PR"], [["DPLAN", "0.7"]]))
    ['| method | AUC-PR |', '|---|---|', '| DPLAN | 0.7 |']
    """
    yield f"| {' | '.join(head)} |"
    yield "| --- |" + " ---: |" * (len(head) - 1) if right else "|" + "---|" * len(head)
    yield from (f"| {' | '.join(row)} |" for row in rows)


def _entry(entry: Entry) -> str:
    text = f"**{_plain(entry.text)}**" if entry.strong else _plain(entry.text)
    return f"{text} ({_plain(entry.note)})" if entry.note else text


def _plain(text: str) -> str:
    """Escape Markdown and HTML."""
    text = " ".join(text.split())
    for mark in "\\|*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("<", "&lt;")
