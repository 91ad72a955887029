"""What a report is made of, before it becomes Markdown or HTML."""

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "Block",
    "Code",
    "Entry",
    "Figure",
    "Grid",
    "Heading",
    "Items",
    "Paragraph",
    "Prose",
    "figures_text",
]


@dataclass(frozen=True)
class Heading:
    """A heading; level 2 starts a chapter."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    texts: Sequence[str]


@dataclass(frozen=True)
class Prose:
    """Text that somebody wrote in Markdown; see `dplan.benchmark.report.notes`."""

    markdown: str


@dataclass(frozen=True)
class Entry:
    """One entry of a table.

    Attributes
    ----------
    text : str
        What stands there.
    note : str
        Smaller, beneath it.
    strong : bool
        Whether it is the best of its row.
    shade : float or None
        From 0 (pale) to 1 (dark), to see a pattern at a glance.
    """

    text: str
    note: str = ""
    strong: bool = False
    shade: float | None = None


@dataclass(frozen=True)
class Grid:
    """A table; the first column names the row."""

    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str = ""


@dataclass(frozen=True)
class Figure:
    """A drawing as SVG, and the same figures as a table for Markdown."""

    svg: str
    caption: str
    table: Grid


@dataclass(frozen=True)
class Code:
    """Text as it is: commands, tracebacks."""

    text: str
    title: str = ""


Block = Heading | Paragraph | Items | Prose | Grid | Figure | Code


def figures_text(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """Write a number, or a dash where there is none.

    Examples
    --------
    >>> figures_text(0.5), figures_text(-0.0254, sign=True), figures_text(-0.0001, sign=True), figures_text(None)
    ('0.500', '−0.025', '+0.000', '–')
    """
    if value is None or value != value:  # NaN
        return "–"
    value = round(value, digits) + 0.0  # no minus before a zero
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")
