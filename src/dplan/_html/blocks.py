"""The blocks of a page, and their conversion to HTML.

All text is escaped, except `markupsafe.Markup`, which the charts return.
"""

import base64
import hashlib
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import jinja2
from markdown_it import MarkdownIt
from markupsafe import Markup

from dplan._version import __version__

__all__ = [
    "Block",
    "Code",
    "Entry",
    "Figure",
    "Figures",
    "Grid",
    "Heading",
    "Items",
    "Paragraph",
    "Prose",
    "Threshold",
    "Tiles",
    "as_html",
]

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 starts a chapter."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Running text; a notice is set apart."""

    text: str
    notice: bool = False


@dataclass(frozen=True)
class Items:
    """A bulleted list."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Prose:
    r"""Markdown text; HTML in it is escaped, and only the text of links is kept.

    Examples
    --------
    >>> Prose("A **bold** <word> and [a page](x.md).\n\n- one\n- two").html
    Markup('<p>A <strong>bold</strong> &lt;word&gt; and a page.</p>\n<ul>\n<li>one</li>\n<li>two</li>\n</ul>\n')
    """

    markdown: str

    @property
    def html(self) -> Markup:
        """The text as HTML."""
        return Markup(markdown().render(self.markdown))


@dataclass(frozen=True)
class Tiles:
    """A few large numbers with captions."""

    tiles: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Entry:
    """One entry of a table.

    Attributes
    ----------
    text : str
        Its contents.
    note : str
        Smaller, below it.
    strong : bool
        Whether to emphasise it.
    shade : float or None
        From 0 (pale) to 1 (dark), to see a pattern at a glance.
    meter : float or None
        A bar of this length, from 0 to 1, instead of the text.
    value : float or None
        What to sort by, if it is not the text.
    """

    text: str
    note: str = ""
    strong: bool = False
    shade: float | None = None
    meter: float | None = None
    value: float | None = None


@dataclass(frozen=True)
class Grid:
    """A table; columns outside `text_columns` contain numbers.

    Attributes
    ----------
    head : sequence of str
        The names of its columns.
    rows : sequence of sequence of Entry
        Its entries.
    caption : str
        Above it.
    text_columns : collection of int
        The columns that contain text.
    interactive : bool
        Whether it can be searched and sorted; on a narrow screen, the entries of a row are below each other.
    data : sequence of mapping
        For each row, values for scripts: the attributes ``data-…`` of the row.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str = ""
    text_columns: Collection[int] = (0,)
    interactive: bool = False
    data: Sequence[Mapping[str, str]] = ()


@dataclass(frozen=True)
class Threshold:
    """A slider to try thresholds.

    Attributes
    ----------
    steps : sequence of tuple
        For each threshold, ascending: the threshold, the number of alerts and the number of anomalies among them.
    start : int
        The step to begin with.
    n_rows, n_anomalies : int
        The numbers of rows and of anomalies; 0 anomalies if there are no labels.
    """

    steps: Sequence[tuple[float, int, int]]
    start: int
    n_rows: int
    n_anomalies: int = 0

    @property
    def json(self) -> str:
        """The steps, for the script."""
        return json.dumps(self.steps, separators=(",", ":"))


@dataclass(frozen=True)
class Figure:
    """A chart, and the same values as a table."""

    svg: Markup
    caption: str = ""
    table: Grid | None = None
    title: str = ""


@dataclass(frozen=True)
class Figures:
    """Figures side by side if there is room."""

    figures: Sequence[Figure]


@dataclass(frozen=True)
class Code:
    """Preformatted text: commands, tracebacks; if it is folded, only the title is shown until it is clicked."""

    text: str
    title: str = ""
    folded: bool = False


Block = Heading | Paragraph | Items | Prose | Tiles | Grid | Threshold | Figure | Figures | Code


def as_html(title: str, blocks: Iterable[Block], *, heading: str = "", contents: bool = False) -> str:
    """Return a self-contained page.

    Parameters
    ----------
    title : str
        Title of the browser tab, and the heading unless `heading` is given.
    blocks : iterable of Block
        The page from top to bottom.
    heading : str, optional
        The heading.
    contents : bool, default=False
        Whether to add a table of contents.

    Examples
    --------
    >>> "a &lt; b" in as_html("Report", [Paragraph("a < b")])
    True
    """
    blocks = list(blocks)
    interactive = any(isinstance(b, Threshold) or (isinstance(b, Grid) and b.interactive) for b in blocks)
    return _template().render(
        title=title,
        heading=heading or title,
        blocks=blocks,
        interactive=interactive,
        contents=contents,
        kind=lambda b: type(b).__name__,
    )


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    style, script = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("style.css", "page.js"))
    # The policy of the page names this one script, so that no other can run.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    names = {
        "style": Markup(style),
        "script": Markup(script),
        "script_digest": digest,
        "footer": f"Written by dplan {__version__}. This page is self-contained.",
    }
    return environment.get_template("page.html", globals=names)


@cache
def markdown() -> MarkdownIt:
    """Return a CommonMark parser without HTML, images and links."""
    reader = MarkdownIt("commonmark", {"html": False}).disable("image")
    for name in ("link_open", "link_close"):
        reader.add_render_rule(name, lambda *_: "")
    return reader
