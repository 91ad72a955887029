"""A review without a person: a column of the table answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import polars as pl

from dplan.query import BATCH
from dplan.review.session import Session

__all__ = ["answers_of", "simulate"]

_NOT_ANOMALIES = ("", "0", "0.0", "false", "normal", "unlabelled")

Answer = Callable[[int], str]


def answers_of(labels: pl.Series, anomaly: Collection[str] = ()) -> list[str]:
    """Return the class of each row according to a column, or "" for a normal row.

    Without `anomaly`, everything but 0, false, normal, unlabelled, empty and missing values is an anomaly.

    Examples
    --------
    >>> answers_of(pl.Series(["fraud", "normal", None, "0"]))
    ['fraud', '', '', '']
    >>> answers_of(pl.Series(["a", "b"]), anomaly=["b"])
    ['', 'b']
    """
    texts = labels.cast(pl.String).str.strip_chars().fill_null("").to_list()
    if anomaly:
        return [text if text in anomaly else "" for text in texts]
    return ["" if text.lower() in _NOT_ANOMALIES else text for text in texts]


def simulate(session: Session, answer: Answer, verdicts: int, window: str = "simulation") -> Iterator[int]:
    """Review rows until there are so many verdicts, learning whenever it is time; yield each row that was judged.

    When a row is yielded, its verdict is on disk. A simulation that continues an earlier log gives the same labels as
    one that was not interrupted.
    """
    every = session.refit_every or BATCH
    session.refit_every = 0  # here, so that nothing happens while a refit is under way
    while len(session.judged()) < verdicts:
        if session.since_refit >= every:
            session.refit(wait=True)
        waiting = session.queue()
        if not waiting:
            return
        name = answer(waiting[0])
        session.judge([waiting[0]], "anomaly" if name else "normal", name, window=window)
        yield waiting[0]
