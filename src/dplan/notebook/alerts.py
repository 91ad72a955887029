"""Alerts as a notebook shows them: a sequence of cards, and a frame with the columns of ``dplan score``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import polars as pl
from markupsafe import Markup, escape
from numpy.typing import NDArray

from dplan.columns.formatting import cell as cell_of
from dplan.columns.formatting import format_value
from dplan.columns.frames import in_library_of
from dplan.likeness import Likeness
from dplan.notebook import markup
from dplan.notebook.card import Card, reason_row
from dplan.scoring.alerts import AlertPolicy
from dplan.scoring.scorer import Batch, Scored, Scorer
from dplan.tables.model import TableModel
from dplan.tables.reasons import Reason, joined
from dplan.tables.writing import output_names

__all__ = ["Alerts", "alerts_of"]

_SHOWN = 10  # alerts in a notebook's cell
_NEAREST = 2  # known anomalies on a card
_VALUE, _IDS = 60, 4  # characters, and columns that identify a row


class Alerts(Sequence[Card]):
    """The alerts of a table, the highest score first; a notebook shows the first ten.

    Parameters
    ----------
    scorer : Scorer
        Scores rows with the model.
    scored : Scored
        The rows to show, in their order.
    alert : ndarray of bool
        Which of them are alerts.
    n_rows, n_alerts : int
        Rows of the table, and how many of them are alerts.
    given : frame, path or array
        The table as it was given.
    explain : bool
        Whether to tell the reasons.

    Attributes
    ----------
    frame : frame
        The rows with the columns of ``dplan score``, in the library of the table: pandas with the table's index, Arrow,
        or polars for everything else.

    Examples
    --------
    >>> from dplan import LogisticBaseline, TableDetector
    >>> table = pl.DataFrame({"amount": [*range(100), 900, 950]})
    >>> detector = TableDetector(LogisticBaseline()).fit(table, [0] * 100 + [1, 1])
    >>> alerts = detector.alerts(table, top=3)
    >>> len(alerts), alerts[0].row, alerts.frame.columns
    (3, 102, ['row', 'score', 'percentile', 'alert', 'reasons'])
    >>> [card.alert for card in alerts[:2]]
    [True, True]
    """

    def __init__(
        self,
        scorer: Scorer,
        scored: Scored,
        alert: NDArray[np.bool_],
        *,
        n_rows: int,
        n_alerts: int,
        given: Any,
        explain: bool,
    ) -> None:
        self._scorer, self._scored, self._alert = scorer, scored, alert
        self._n_rows, self._n_alerts, self._given, self._explains = n_rows, n_alerts, given, explain
        self._found: dict[int, list[Reason]] = {}  # reasons so far, by position

    def __len__(self) -> int:
        return len(self._scored)

    @overload
    def __getitem__(self, which: int) -> Card: ...
    @overload
    def __getitem__(self, which: slice) -> list[Card]: ...
    def __getitem__(self, which: int | slice) -> Card | list[Card]:
        places = range(len(self))[which]
        if isinstance(places, range):
            self._explain(places)
            return [self._card(i) for i in places]
        self._explain([places])
        return self._card(places)

    @cached_property
    def frame(self) -> Any:
        """The rows with the columns of ``dplan score``."""
        rows, scored = self._table, self._scored
        kept = [name for name in self._scorer.kept if name in rows.columns]
        ours: dict[str, Any] = {
            "row": scored.rows + 1,
            "score": scored.score,
            "percentile": scored.percentile,
            "alert": self._alert,
        }
        if self._explains:
            self._explain(range(len(self)))
            texts = [joined(self._found[i]) for i in range(len(self))]
            ours["reasons"] = pl.Series(texts, dtype=pl.String)
        names = output_names(kept, ours)
        columns = {names[name]: values for name, values in ours.items()}
        first = names["row"]
        frame = pl.DataFrame({first: columns.pop(first), **{name: rows[name] for name in kept}, **columns})
        found = in_library_of(self._given, frame)
        if hasattr(self._given, "iloc") and hasattr(found, "iloc"):
            found.index = self._given.index[scored.rows]  # so that the table's own rows are found with .loc
        return found

    def _explain(self, places: Sequence[int]) -> None:
        """Find the reasons of some rows, unless they are known."""
        missing = [i for i in places if i not in self._found]
        if missing and self._explains:
            self._found.update(zip(missing, self._scorer.explain(self._scored, missing), strict=True))

    def _card(self, i: int) -> Card:
        scored, reasons, model = self._scored, self._found.get(i, []), self._scorer.model
        ids = [name for name in model.summary.ids if name in self._table.columns]
        apart = {*ids, *(reason.column for reason in reasons)}
        return Card(
            int(scored.rows[i]) + 1,
            {name: self._value(name, i) for name in ids},
            float(scored.score[i]),
            float(scored.percentile[i]),
            bool(self._alert[i]),
            reasons,
            self._nearest(i),
            {name: self._value(name, i) for name in self._table.columns if name not in apart},
        )

    @property
    def _table(self) -> pl.DataFrame:
        assert self._scored.table is not None  # rows that came as a table keep it
        return self._scored.table

    def _value(self, name: str, i: int) -> str:
        found = cell_of(self._table, name, i)
        return found if isinstance(found, str) else format_value(found)

    @cached_property
    def _likeness(self) -> Likeness:
        model = self._scorer.model
        return Likeness(model.background, model.preparation.feature_groups())

    def _nearest(self, i: int) -> list[str]:
        model = self._scorer.model
        near = self._likeness.nearest(self._scored.prepared[i], model.known_anomalies, _NEAREST)
        classes, names = list(model.summary.labels), model.summary.known_names
        return [f"{names[j]} ({classes[model.known_classes[j]]})" for j in near.tolist()]

    def _heading(self) -> str:
        rule = self._scorer.alerts
        found = f"{self._n_alerts:,} alert{'s' if self._n_alerts != 1 else ''} in {self._n_rows:,} rows"
        how = (
            f"the {rule.budget:,} highest scores" if rule.budget else f"score ≥ {self._scorer.threshold:.4g}"
        )
        return f"{found} ({how})"

    def __repr__(self) -> str:
        lines = [self._heading()]
        for card in self[:_SHOWN]:
            lines.append("\n".join(card.text.splitlines()[: 1 + len(card.reasons)]))
        if len(self) > _SHOWN:
            lines.append(f"… and {len(self) - _SHOWN:,} more rows, in .frame")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        cards = self[:_SHOWN]
        ids = ", ".join(cards[0].ids) if cards else ""
        names = [markup.safe(ids or "row", _VALUE), escape("score"), escape("percentile")]
        rows = [markup.header([escape(""), *names, *([escape("reasons")] if self._explains else [])])]
        for i, card in enumerate(cards):
            title = Markup("<br>").join(markup.safe(own, _VALUE) for own in list(card.ids.values())[:_IDS])
            cells = [
                escape(f"{i + 1}"),
                title or escape(f"{card.row:,}"),
                escape(f"{card.score:.4g}"),
                escape(f"{card.percentile:.2f}"),
            ]
            if self._explains:
                cells.append(markup.table(map(reason_row, card.reasons)))
            rows.append(markup.row(map(markup.cell, cells), line=True))
        more = f" {len(self) - _SHOWN:,} more rows are in .frame." if len(self) > _SHOWN else ""
        note = escape(f"alerts[0] shows a row in full.{more}") if len(self) else escape("")
        surprise = self._scorer.surprise(self._n_alerts, self._n_rows)
        html = Markup("<div>{}{}{}{}</div>").format(
            markup.bold(escape(self._heading())),
            Markup("<div>{}</div>").format(surprise + "." if surprise else ""),
            markup.table(rows) if len(self) else "",
            markup.faint(note),
        )
        return str(html)


def alerts_of(
    model: TableModel,
    table: Any,
    *,
    given: Any = None,
    top: int | None = None,
    budget: int | None = None,
    threshold: float | None = None,
    explain: bool = True,
    keep: Sequence[str] = (),
) -> Alerts:
    """Return the alerts of a table, as `TableModel.alerts` describes; `given` is the table as the user has it."""
    if budget is not None and threshold is not None:
        raise ValueError("budget and threshold cannot be combined, because both define the alerts")
    for name, number in (("top", top), ("budget", budget)):
        if number is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, got {number}")
    columns = [keep] if isinstance(keep, str) else keep
    scorer = Scorer(model, keep=columns, alerts=AlertPolicy(threshold, budget, top))
    with model.opened(table) as rows:
        scorer.check(rows.columns)
        scored = scorer.score(Batch(rows))
    alert = scorer.is_alert(scored.score)
    if top is not None:
        shown = scored.highest(top)
    else:
        shown = scored[alert].highest(int(alert.sum()))
    is_alert = np.isin(shown.rows, scored.rows[alert])
    return Alerts(
        scorer,
        shown,
        is_alert,
        n_rows=len(scored),
        n_alerts=int(alert.sum()),
        given=table if given is None else given,
        explain=explain,
    )
