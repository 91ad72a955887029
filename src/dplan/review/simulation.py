"""A review without a person: a column of the table answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl

from dplan.exceptions import VerdictLogError
from dplan.query import BATCH
from dplan.review.log import VerdictLog
from dplan.review.session import Session
from dplan.tables.labels import LabelReader
from dplan.tables.words import Words

__all__ = ["answers_of", "check_simulated", "simulate"]

_WINDOW = "simulation"  # in the log, instead of a window of a browser

Answer = Callable[[int], str]


def answers_of(labels: pl.Series, words: Words) -> list[str]:
    """Return the class of each row according to a column of true labels, or "" for a row that is no anomaly.

    A word that nobody knows is a class: the column has the answers.

    Examples
    --------
    >>> from dplan.tables.words import words_of
    >>> answers_of(pl.Series(["fraud", "normal", None, "0"]), words_of(None))
    ['fraud', '', '', '']
    >>> answers_of(pl.Series(["a", "b"]), Words(anomaly=("b",)))
    ['', 'b']
    """
    reader = LabelReader(labels.name, words)
    codes = reader.read(labels).tolist()
    return [reader.classes[code] if code > 0 else "" for code in codes]


def check_simulated(log: VerdictLog) -> None:
    """Refuse a log that has lines of a person: what a simulation adds could not be separated from them."""
    if any(record.get("window", _WINDOW) != _WINDOW for record in log.records):
        raise VerdictLogError(
            f"{log.path} has verdicts of a person, and those of a simulation would mix with them; choose another --log"
        )


def simulate(session: Session, answer: Answer, verdicts: int, window: str = _WINDOW) -> Iterator[int]:
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
