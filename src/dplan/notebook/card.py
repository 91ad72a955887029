"""One row as a notebook shows it: its score, the reasons for it, and its values."""

from __future__ import annotations

from dataclasses import dataclass, field

from markupsafe import Markup, escape

from dplan.notebook import markup
from dplan.tables.reasons import Reason
from dplan.text import visible

__all__ = ["Card", "reason_row"]

_IDS = 4  # columns in the title of a card
_NAME, _VALUE, _NOTE = 40, 60, 160  # characters
_LARGEST = 4_600  # bytes of a card, before what is said about columns that are not shown


@dataclass(frozen=True, eq=False)
class Card:
    """One row of a table: its score, the reasons for it, and its values.

    Attributes
    ----------
    row : int
        The number of the row in the table, from 1.
    ids : dict of str to str
        What identifies it.
    score, percentile : float
        Its score, and the percentage of unlabelled training rows with a lower score.
    alert : bool
        Whether it is an alert.
    reasons : list of Reason
        The columns that raise its score most, the strongest first.
    nearest : list of str
        The known anomalies that are most like it.
    values : dict of str to str
        All other columns.

    Examples
    --------
    >>> reasons = [Reason("amount", "920", "unusual", "5–94", effect=2.0, share=0.9)]
    >>> card = Card(2, {"payment": "p7"}, 2.5, 99.2, True, reasons, ["p1 (fraud)"], {"day": "3"})
    >>> print(card.text)
    row 2 · payment p7 · score 2.5 · percentile 99.20 · alert
      90 %  amount = 920; typical 5–94
    most like: p1 (fraud)
    other columns: day = 3
    """

    row: int
    ids: dict[str, str]
    score: float
    percentile: float
    alert: bool
    reasons: list[Reason] = field(default_factory=list)
    nearest: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The card for a terminal."""
        lines = [" · ".join([f"row {self.row:,}", *self._titles(), *self._numbers()])]
        lines += [f"{100 * one.share:>4.0f} %  {_without_quotes(one.text())}" for one in self.reasons]
        if self.nearest:
            lines.append(f"most like: {', '.join(self.nearest)}")
        if self.values:
            lines.append(
                "other columns: " + ", ".join(f"{name} = {own}" for name, own in self.values.items())
            )
        return "\n".join(visible(line, 1_000) for line in lines)

    def _titles(self) -> list[str]:
        return [f"{name} {own}" for name, own in list(self.ids.items())[:_IDS]]

    def _numbers(self) -> list[str]:
        verdict = "alert" if self.alert else "not an alert"
        return [f"score {self.score:.4g}", f"percentile {self.percentile:.2f}", verdict]

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        title = [markup.bold(markup.safe(one, _NAME + _VALUE)) for one in self._titles()]
        title = title or [markup.bold(escape(f"row {self.row:,}"))]
        rest = [escape(one) for one in ([f"row {self.row:,}"] if self.ids else []) + self._numbers()]
        html = Markup("<div>{}</div>").format(Markup(" · ").join([*title, *rest]))
        if self.reasons:
            html += markup.table(map(reason_row, self.reasons))
        if self.nearest:
            near = Markup(", ").join(markup.safe(name, _NAME) for name in self.nearest)
            html += Markup("<div>{} {}</div>").format(markup.faint(escape("most like known")), near)
        rows: list[Markup] = []
        left = _LARGEST - len(str(html).encode())
        for name, own in self.values.items():
            line = markup.row(map(markup.cell, (markup.safe(name, _NAME), markup.safe(own, _VALUE))))
            left -= len(str(line).encode())
            if left < 0:
                rest_of = escape(f"… and {len(self.values) - len(rows):,} more columns")
                rows.append(markup.row([markup.cell(markup.faint(rest_of))]))
                break
            rows.append(line)
        if rows:
            html += markup.folded("other columns", markup.table(rows))
        return str(Markup('<div style="margin:0 0 1em 0">{}</div>').format(html))


def reason_row(reason: Reason) -> Markup:
    """Return a line: how much of the score it explains, the value, and what is remarkable about it."""
    name, value = markup.safe(reason.column, _NAME), markup.safe(reason.value, _VALUE)
    what = Markup("{} = {}").format(name, value) if reason.why != "missing" else name
    note = markup.safe(_without_quotes(reason.note()), _NOTE)
    said = Markup("{}&ensp;{}").format(what, markup.faint(note))
    return markup.row([markup.cell(markup.bar(reason.share)), markup.cell(said)])


def _without_quotes(text: str) -> str:
    return text.replace("`", "")
