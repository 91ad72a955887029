"""Cycles of dates: the hour of the day, the weekday and the day of the month, two features each.

The position in the calendar is a feature only on request: every row of a later month would be new to the detector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import highest_first
from dplan.columns.moments import DAY
from dplan.columns.records import N_BINS, Features, Graph, Histogram

__all__ = ["CYCLES", "Cycle"]

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MINUTE = 60 * 10**6  # microseconds
_NEAR_MINUTES = 90
_MOST_NAMED = 7
_TIMES = 3  # that training covers a cycle to learn from it
_OF_AVERAGE = 0.1  # of the rows of an average day, week or month that count as one

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Cycle:
    """A cycle in which a moment has a place.

    Attributes
    ----------
    name : {"hour", "weekday", "day"}
        Its name; an hour is exact to the minute.
    n : int
        The number of places.
    """

    name: str
    n: int
    # Two features for each place, in [0, 1]: a circle, on which Sunday is next to Monday.
    circle: NDArray[np.float32] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Rounded, because the last digits of a sine differ between processors.
        angles = [2 * math.pi * place / self.n for place in range(self.n)]
        points = [(round(0.5 + math.sin(a) / 2, 6), round(0.5 + math.cos(a) / 2, 6)) for a in angles]
        object.__setattr__(self, "circle", np.array(points, dtype=np.float32))

    def positions(self, microseconds: NDArray[np.float64]) -> Places:
        """Return the places of moments; 0 for a missing one.

        Examples
        --------
        >>> moment = np.array([1_706_691_600e6])  # Wednesday, 2024-01-31 09:00
        >>> [cycle.positions(moment).item() for cycle in CYCLES.values()]
        [540, 2, 30]
        """
        known = np.nan_to_num(microseconds)
        days: NDArray[np.float64] = np.floor(known / DAY)
        found: NDArray[Any]
        if self.name == "hour":
            found = np.clip((known - days * DAY) // _MINUTE, 0, 1439)
        elif self.name == "weekday":
            found = (days + 3) % 7  # 1970 began on a Thursday
        else:
            found = pl.Series(days.astype(np.int32)).cast(pl.Date).dt.day().to_numpy() - 1
        return found.astype(np.int64)

    def differ(self, microseconds: NDArray[np.float64]) -> bool:
        """Return whether moments have different places."""
        return len(np.unique(self.positions(microseconds))) > 1

    def covered(self, microseconds: NDArray[np.float64]) -> bool:
        """Return whether moments cover the cycle several times, so that another one is not just another morning.

        Examples
        --------
        >>> minutes = np.arange(300) * 60e6
        >>> CYCLES["hour"].covered(minutes), CYCLES["hour"].covered(minutes * 60)
        (False, True)
        """
        days = np.floor(microseconds / DAY)
        if self.name == "weekday":
            days = np.floor((days + 3) / 7)
        elif self.name == "day":
            dates = pl.Series(days.astype(np.int32)).cast(pl.Date)
            days = (dates.dt.year().cast(pl.Int32) * 12 + dates.dt.month()).to_numpy()
        _, counts = np.unique(days, return_counts=True)
        # A few rows of another day are not a day.
        return int((counts >= _OF_AVERAGE * counts.mean()).sum()) >= _TIMES

    def features(self, microseconds: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return the two features of each moment."""
        return self.circle[self.positions(microseconds)]

    def places(self, features: Features) -> Places:
        """Return the places from their two features.

        Examples
        --------
        >>> weekday = CYCLES["weekday"]
        >>> weekday.places(weekday.features(np.array([0.0, 86_400e6]))).tolist()
        [3, 4]
        """
        angles = np.arctan2(features[:, 0] - 0.5, features[:, 1] - 0.5) / (2 * np.pi)
        nearest: Places = np.rint(angles * self.n).astype(np.int64) % self.n
        return nearest

    def name_of(self, place: int) -> str:
        """Return a place in words.

        Examples
        --------
        >>> CYCLES["hour"].name_of(545), CYCLES["weekday"].name_of(6), CYCLES["day"].name_of(0)
        ('09:05', 'Sun', 'day 1')
        """
        if self.name == "hour":
            return f"{place // 60:02}:{place % 60:02}"
        return _WEEKDAYS[place] if self.name == "weekday" else f"day {place + 1}"

    def typical(self, places: Places) -> str:
        """Return the middle 90 % of the times of day, or the most frequent days.

        Examples
        --------
        >>> CYCLES["weekday"].typical(np.array([4, 4, 4])), CYCLES["hour"].typical(np.array([540, 545, 550]))
        ('Fri', '09:00–09:09')
        """
        counts = np.bincount(places, minlength=self.n)
        if self.name == "hour":
            # The day is cut open where it is quietest, so that a night shift is one range.
            start = 60 * int(np.argmin(counts.reshape(24, 60).sum(axis=1)))
            low, high = np.quantile((places - start) % 1440, [0.05, 0.95]) + start
            return "–".join(f"{int(at) // 60 % 24:02}:{int(at) % 60:02}" for at in (low, high))
        often = highest_first(counts)
        n_named = int(np.searchsorted(np.cumsum(counts[often]) / max(1, len(places)), 0.85)) + 1
        if n_named >= self.n or n_named > _MOST_NAMED:
            return f"any {self.name}"
        days = sorted(often[:n_named].tolist())
        return ", ".join(_WEEKDAYS[day] if self.name == "weekday" else f"{day + 1}." for day in days)

    def is_near(self, places: Places, place: int) -> NDArray[np.bool_]:
        """Return which places are the same or, for times of day, near."""
        away = np.abs((places - place + self.n // 2) % self.n - self.n // 2)
        near: NDArray[np.bool_] = away <= (_NEAR_MINUTES if self.name == "hour" else 0)
        return near

    def condition(self, place: int) -> tuple[str, str]:
        """Return in words what `is_near` means: an operator and a value."""
        if self.name == "hour":
            ends = [self.name_of((place + shift) % self.n) for shift in (-_NEAR_MINUTES, _NEAR_MINUTES)]
            return "between", " and ".join(ends)
        return "on", _WEEKDAYS[place] if self.name == "weekday" else f"day {place + 1} of the month"

    def histogram(self, parts: Sequence[Features]) -> Histogram:
        """Return the distribution in groups of rows, in bins of three hours or of a day."""
        labels = {
            "hour": [f"{hour}–{hour + 3} h" for hour in range(0, 24, 3)],
            "weekday": list(_WEEKDAYS),
            "day": [f"{day}." for day in range(1, 32)],
        }[self.name]
        bins = [self.places(part) * len(labels) // self.n for part in parts]
        shares = [np.bincount(own, minlength=len(labels)) / max(1, len(own)) for own in bins]
        return Histogram(labels, None, shares)

    def picture(self, background: Features, own: Features) -> dict[str, Any]:
        """Return a histogram of background rows and the place of a row in it, as JSON values."""
        n_bins = N_BINS if self.name == "hour" else self.n
        places, (mine,) = (self.places(rows) * n_bins // self.n for rows in (background, own[None]))
        counts = np.bincount(places, minlength=n_bins)
        return {
            "bins": (counts / max(counts.max(), 1)).round(3).tolist(),
            "at": round((float(mine) + 0.5) / n_bins, 4),
            "typical": None,
            "ends": [self.name_of(0), self.name_of(self.n - 1)],
        }

    def onnx(self, graph: Graph, moments: str) -> str:
        """Add the features of moments to an ONNX graph."""
        zero, second = graph.constant(np.array(0.0)), graph.constant(np.array([1], dtype=np.int64))
        known = graph.add("Where", graph.add("IsNaN", moments), zero, moments)
        place = graph.add("Cast", graph.add("Squeeze", self._position(graph, known), second), to=7)
        return graph.add("Gather", graph.constant(self.circle), place, axis=0)

    def _position(self, graph: Graph, microseconds: str) -> str:
        """Add the place of moments, as `positions` computes it."""

        def number(value: float) -> str:
            return graph.constant(np.array(float(value)))

        def floored(values: str, by: float) -> str:
            return graph.add("Floor", graph.add("Div", values, number(by)))

        def less(values: str, by: float, times: str) -> str:
            return graph.add("Sub", values, graph.add("Mul", number(by), times))

        days = floored(microseconds, 86_400e6)
        if self.name == "hour":
            return floored(less(microseconds, 86_400e6, days), 60e6)
        if self.name == "weekday":
            from_monday = graph.add("Add", days, number(3))
            return less(from_monday, 7, floored(from_monday, 7))
        # The day of the month in the Gregorian calendar, with years that begin in March: eras have 400 years.
        shifted = graph.add("Add", days, number(719_468))
        day_of_era = less(shifted, 146_097, floored(shifted, 146_097))
        leap_free = less(day_of_era, 1, floored(day_of_era, 1_460))
        leap_free = graph.add("Add", leap_free, floored(day_of_era, 36_524))
        year = floored(less(leap_free, 1, floored(day_of_era, 146_096)), 365)
        day_of_year = less(less(day_of_era, 365, year), 1, floored(year, 4))
        day_of_year = graph.add("Add", day_of_year, floored(year, 100))
        month = floored(graph.add("Add", graph.add("Mul", day_of_year, number(5)), number(2)), 153)
        month_start = floored(graph.add("Add", graph.add("Mul", month, number(153)), number(2)), 5)
        return less(day_of_year, 1, month_start)


# The minutes of a day, the days of a week and of a month.
CYCLES = {name: Cycle(name, n) for name, n in (("hour", 1440), ("weekday", 7), ("day", 31))}
