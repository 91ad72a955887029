"""How the review is going: what was found, what is likely to come, when to stop, and what each threshold gives."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan.review.log import Refused
from dplan.review.session import Session

__all__ = [
    "FEWEST",
    "Estimate",
    "Rate",
    "alert_volume",
    "choose_threshold",
    "found_so_far",
    "likely_rate",
    "next_rows",
    "threshold_view",
]


_RECENT = 15  # verdicts that show the share of anomalies now
_WEIGHT = 0.2  # of such a verdict, because the share will change
_SURE = 200  # verdicts without a find, after which each counts in full
FEWEST = 50  # verdicts that an estimate needs: in a review's first batches, what comes next changes fastest
_NEXT = 50  # rows that an estimate is about
_LOW, _HIGH = 0.05, 0.95


class Rate(NamedTuple):
    """The share of anomalies among rows: expected, and the limits of an interval that covers 90 %."""

    expected: float
    low: float
    high: float


class Estimate(NamedTuple):
    """How many of some rows are anomalies: the expected number, and an interval that covers 90 %."""

    rows: int
    expected: float
    low: int
    high: int


def found_so_far(found: Sequence[bool]) -> list[int]:
    """Return the anomalies found after each verdict.

    Examples
    --------
    >>> found_so_far([True, False, True])
    [1, 1, 2]
    """
    return list(accumulate(map(int, found)))


def likely_rate(found: Sequence[bool]) -> Rate | None:
    """Return the share of anomalies to expect among the next rows, given the verdicts so far, the oldest first.

    The last 15 verdicts say what the share is now or, if none of them found an anomaly, all since the last find. It
    will change, so each counts as a fraction of a verdict; the longer nothing was found, the larger that is. These
    numbers were chosen on simulated reviews of version 4 of the ensemble.

    Returns
    -------
    Rate or None
        None with fewer than 50 verdicts.

    Examples
    --------
    >>> likely_rate([True, False] * 25)
    Rate(expected=0.475, low=0.1186, high=0.8469)
    """
    if len(found) < FEWEST:
        return None
    from scipy.special import betaincinv  # here, because opening the page does not need it

    quiet = next((n for n, hit in enumerate(reversed(found)) if hit), len(found))
    recent = found[-max(_RECENT, quiet) :]
    weight = min(max(_WEIGHT, quiet / _SURE), 1.0)
    hits = weight * sum(recent)
    # One half of each is Jeffreys' prior.
    a, b = hits + 0.5, weight * len(recent) - hits + 0.5
    return Rate(*(round(float(value), 4) for value in (a / (a + b), *betaincinv(a, b, [_LOW, _HIGH]))))


def next_rows(rate: Rate, n: int = _NEXT) -> Estimate:
    """Estimate how many of n rows at the top of the queue are anomalies.

    Finds become rarer further down, so of more than 50 rows, those beyond may be none.

    Examples
    --------
    >>> next_rows(likely_rate([True, False] * 25))
    Estimate(rows=50, expected=23.8, low=5, high=43)
    >>> next_rows(likely_rate([True] * 5 + [False] * 200))
    Estimate(rows=50, expected=0.1, low=0, high=1)
    """
    return Estimate(n, round(n * rate.expected, 1), int(min(n, _NEXT) * rate.low), math.ceil(n * rate.high))


def alert_volume(ascending: NDArray[np.float64], points: int = 200) -> list[tuple[float, int]]:
    """Return thresholds and how many rows reach each, from the highest score to the median, closer at the top.

    Parameters
    ----------
    ascending : ndarray of float64
        The scores of all rows, sorted.

    Examples
    --------
    >>> alert_volume(np.arange(5.0), points=3)
    [(4.0, 1), (3.0, 2), (2.0, 3)]
    """
    n = len(ascending)
    last = max(n // 2 + 1, 1)
    ranks = np.unique(np.geomspace(1, last, points).round().astype(np.int64))
    thresholds = ascending[n - ranks]
    volumes = n - np.searchsorted(ascending, thresholds)
    return [(float(t), int(v)) for t, v in zip(thresholds, volumes, strict=True)]


def threshold_view(session: Session) -> dict[str, Any]:
    """Return how many alerts each threshold gives, and how many of these are anomalies, as far as that is known.

    The detector has learned from the reviewed rows, so how well it ranks them says nothing about the others. These are
    estimated from how many rows were anomalies when they were shown.
    """
    with session.lock:
        current, judged, chosen = session.round, session.judged(), session.threshold(session.round)
    decided = {row: r["verdict"] == "anomaly" for row, r in judged.items() if r["verdict"] != "unsure"}
    rate = likely_rate(list(decided.values()))
    scores = current.scores[list(decided)] if decided else np.empty(0)
    anomalous = np.array(list(decided.values()), dtype=np.bool_)
    volume = []
    for score, alerts in alert_volume(current.ascending):
        among = current.model.is_alert(scores, score)
        reviewed, found = int(among.sum()), int((among & anomalous).sum())
        others = None if rate is None else next_rows(rate, alerts - reviewed)
        volume.append(
            {
                "score": score,
                "alerts": alerts,
                "reviewed": reviewed,
                "found": found,
                "missed": int(anomalous.sum()) - found,
                "others": None if others is None else [others.low, others.high],
            }
        )
    return {
        "round": current.number,
        "rows": len(current.scores),
        "threshold": current.model.threshold if chosen is None else chosen,
        "chosen": chosen is not None,
        "fewest": FEWEST,
        "volume": volume,
    }


def choose_threshold(session: Session, score: float, shown: int, *, who: str = "", window: str = "") -> int:
    """Write a threshold into the model file, now and after each refit; return the alerts that it gives.

    Parameters
    ----------
    session : Session
        The session.
    score : float
        Rows with at least this score are alerts.
    shown : int
        The round in which the reviewer saw the scores.
    who, window
        Recorded in the log.
    """
    with session.lock:
        current = session.round
        if current.number != shown:
            raise Refused("the detector has learned in the meantime, so scores have changed; choose again")
        alerts = int(np.sum(current.model.is_alert(current.scores, score)))
        if not alerts:
            raise Refused("no row reaches this threshold; choose a lower one")
        line = {"round": shown, "score": score, "alerts": alerts, "rows": len(current.scores)}
        session.log.append({"kind": "threshold", **line, "who": who or session.who, "window": window})
        session.save(current)
        session.version += 1
        return alerts
