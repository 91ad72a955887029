"""Bounds as people write them: the shortest number that selects the same rows, or nearly the same."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

import numpy as np

from dplan.kinds.conditions import Bounds, Candidate
from dplan.kinds.search import Found, Rows

__all__ = ["readable", "shortest"]

_MAY_LOSE = 0.99  # of the objective
_DIGITS = 17  # of any float
_DAY = 86_400_000_000
# Moments are rounded to days, hours, minutes and seconds, in microseconds.
_SPANS = (_DAY, 3_600_000_000, 60_000_000, 1_000_000)


def readable(found: Found, rows: Rows) -> Found:
    """Return a rule with shorter numbers, which the rows that it was made from hardly notice."""
    conditions = list(found.conditions)
    for place, condition in enumerate(conditions):
        if not isinstance(condition, Bounds):
            continue
        conditions[place] = condition = _in_the_gap(condition)
        if condition.of.type in ("date", "timestamp"):
            continue
        for bound in _rounded(condition.bound):
            tried = replace(condition, bound=bound)
            others = [*conditions[:place], tried, *conditions[place + 1 :]]
            if _crossed(others, tried):
                continue
            if _objective(others, rows) >= _MAY_LOSE * found.objective:
                conditions[place] = tried
                break
    return Found(tuple(conditions), _objective(conditions, rows))


def _objective(conditions: Sequence[Candidate], rows: Rows) -> float:
    met = np.logical_and.reduce([condition.mask() for condition in conditions])
    return float(rows.objective(met[None])[0])


def _crossed(conditions: Sequence[Candidate], own: Bounds) -> bool:
    """Return whether the bounds of a column leave no value between them."""
    bounds = {c.upper: c.bound for c in conditions if isinstance(c, Bounds) and c.column == own.column}
    return len(bounds) == 2 and bounds[False] > bounds[True]


def _in_the_gap(condition: Bounds) -> Bounds:
    """Return the condition with the shortest bound between the last value without and the first one within."""
    numbers, upper = condition.of.numbers[np.isfinite(condition.of.numbers)], condition.upper
    within = condition.mask()[np.isfinite(condition.of.numbers)]
    if within.all() or not within.any():
        return condition
    inside, outside = numbers[within], numbers[~within]
    last, first = (
        (float(inside.max()), float(outside.min())) if upper else (float(inside.min()), float(outside.max()))
    )
    if condition.of.type in ("date", "timestamp"):
        units = _moments(last, upper=upper, is_date=condition.of.type == "date")
        bound = next((b for b in units if (last <= b < first if upper else first < b <= last)), last)
    else:
        bound = shortest(last, first)
    return replace(condition, bound=bound)


def shortest(inside: float, outside: float) -> float:
    """Return the number with the fewest digits from one number, included, towards another one, which is not.

    Examples
    --------
    >>> shortest(2396.0, 2412.0), shortest(0.1 + 1e-9, 0.09), shortest(5.0, -3.0), shortest(1234.5678, 1234.5679)
    (2400.0, 0.1, 0.0, 1234.5678)
    """
    upwards = outside > inside

    def fits(bound: float) -> bool:
        return inside <= bound < outside if upwards else outside < bound <= inside

    if fits(0.0):
        return 0.0
    exact = Decimal(repr(inside))
    for digits in range(1, _DIGITS + 1):
        step = Decimal((0, (1,), exact.adjusted() - digits + 1)) if exact else Decimal(1)
        bound = float((exact / step).to_integral_value(ROUND_CEILING if upwards else ROUND_FLOOR) * step)
        if fits(bound):
            return bound
    return inside


def _rounded(bound: float) -> Iterator[float]:
    """Yield a number with one, two, three … digits, until nothing is lost."""
    exact = Decimal(repr(bound))
    for digits in range(1, _DIGITS):
        if not exact or not math.isfinite(bound):
            return
        step = Decimal((0, (1,), exact.adjusted() - digits + 1))
        rounded = (exact / step).to_integral_value(ROUND_HALF_EVEN) * step
        if rounded == exact:
            return
        yield float(rounded)


def _moments(number: float, *, upper: bool, is_date: bool) -> Iterator[float]:
    """Yield the beginning or, for an upper bound, the end of the year, the month and, for moments, smaller spans."""
    epoch = datetime.datetime(1970, 1, 1)
    unit = datetime.timedelta(days=1) if is_date else datetime.timedelta(microseconds=1)
    moment = epoch + int(number) * unit
    year, month = moment.year, moment.month
    for start in (year, 1), (year, month):
        after = (year, month + 1) if start[1] == month < 12 and start[1] > 1 else (year + 1, 1)
        if upper and after[0] <= datetime.MAXYEAR:
            yield float((datetime.datetime(*after, 1) - unit - epoch) // unit)
        elif not upper:
            yield float((datetime.datetime(*start, 1) - epoch) // unit)
    for span in () if is_date else _SPANS:
        yield math.ceil((number + 1) / span) * span - 1.0 if upper else math.floor(number / span) * span * 1.0
