"""Features of a date: hour of day, weekday and day of the month as cycles, and the time since another date.

The position in the calendar is a feature only on request: every row of a later month would be new to the detector.
"""

import math
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

__all__ = [
    "CYCLES",
    "POSITIONS",
    "WEEKDAYS",
    "cycle_features",
    "cycles_of",
    "feature_positions",
    "position_name",
    "positions",
]

# Cycle → its number of positions: the minutes of a day, the days of a week and of a month.
CYCLES = {"hour": 1440, "weekday": 7, "day": 31}

WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_MINUTE, _DAY = 60 * 10**6, 86_400 * 10**6  # microseconds


def _circle(n: int) -> NDArray[np.float32]:
    # Rounded, because the last digits of a sine differ between processors.
    angles = [2 * math.pi * position / n for position in range(n)]
    points = [(round(0.5 + math.sin(a) / 2, 6), round(0.5 + math.cos(a) / 2, 6)) for a in angles]
    return np.array(points, dtype=np.float32).T.copy()


# Cycle → two features for each position, in [0, 1]: a circle, on which Sunday is next to Monday.
POSITIONS = {cycle: _circle(n) for cycle, n in CYCLES.items()}


def positions(cycle: str, microseconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the position of moments in a cycle; 0 for a missing one.

    Examples
    --------
    >>> moment = np.array([1_706_691_600e6])  # Wednesday, 2024-01-31 09:00
    >>> [positions(cycle, moment).item() for cycle in CYCLES]
    [540, 2, 30]
    """
    known = np.nan_to_num(microseconds)
    days: NDArray[np.float64] = np.floor(known / _DAY)
    found: NDArray[Any]
    if cycle == "hour":
        found = np.clip((known - days * _DAY) // _MINUTE, 0, 1439)
    elif cycle == "weekday":
        found = (days + 3) % 7  # 1970 began on a Thursday
    else:
        found = pl.Series(days.astype(np.int32)).cast(pl.Date).dt.day().to_numpy() - 1
    return found.astype(np.int64)


def feature_positions(cycle: str, features: NDArray[np.floating]) -> NDArray[np.int64]:
    """Return the positions in a cycle from its two features, of shape (n, 2).

    Examples
    --------
    >>> feature_positions("weekday", cycle_features("weekday", np.array([0.0, 86_400e6])).T).tolist()
    [3, 4]
    """
    angles = np.arctan2(features[:, 0] - 0.5, features[:, 1] - 0.5) / (2 * np.pi)
    nearest: NDArray[np.int64] = np.rint(angles * CYCLES[cycle]).astype(np.int64) % CYCLES[cycle]
    return nearest


def position_name(cycle: str, position: int) -> str:
    """Return a position in a cycle in words.

    Examples
    --------
    >>> position_name("hour", 545), position_name("weekday", 6), position_name("day", 0)
    ('09:05', 'Sun', 'day 1')
    """
    if cycle == "hour":
        return f"{position // 60:02}:{position % 60:02}"
    return WEEKDAYS[position] if cycle == "weekday" else f"day {position + 1}"


def cycles_of(microseconds: NDArray[np.float64], *, dates: bool, times: bool) -> tuple[str, ...]:
    """Return the cycles in which moments differ; at least one.

    Parameters
    ----------
    microseconds : ndarray
        The moments, since 1970; at least one is not NaN.
    dates, times : bool
        Whether they have a date, and a time of day.
    """
    known = microseconds[~np.isnan(microseconds)]
    possible = ("hour",) * times + ("weekday", "day") * dates
    return tuple(c for c in possible if len(np.unique(positions(c, known))) > 1) or possible[-1:]


def cycle_features(cycle: str, microseconds: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the two features of a cycle, of shape (2, n)."""
    return POSITIONS[cycle][:, positions(cycle, microseconds)]
