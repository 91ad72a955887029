"""Learn the features of a date column, and write them.

Cycles are described in `dplan.columns.cycles`; the time since another date column is scaled like a number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.column import LIMIT, Column, as_fitted, scaling
from dplan.columns.conversion import as_numbers, check_values
from dplan.columns.cycles import CYCLES, WEEKDAYS, cycle_features, cycles_of, feature_positions
from dplan.columns.meaning import Meaning

__all__ = ["fit_date", "is_date", "microseconds", "moments_met", "typical_moments", "write_date"]


def is_date(series: pl.Series) -> bool:
    """Return whether a column has dates, and not only times of day."""
    return series.dtype in (pl.Date, pl.Datetime)


def fit_date(series: pl.Series, earlier: pl.Series | None, meaning: Meaning | None = None) -> Column:
    """Learn the cycles and ranges of a date or time column, and of the time since another date column.

    Examples
    --------
    >>> days = pl.Series("day", ["2024-01-31", "2024-02-02"]).str.to_date()
    >>> fit_date(days, None).output_names()
    ['day weekday sin', 'day weekday cos', 'day day sin', 'day day cos']
    """
    check_values(series)
    moments = microseconds(Column(series.name, "date"), series)
    if np.isnan(moments).all():
        return Column(series.name, "dropped", reason="no value at all")
    parts = cycles_of(moments, dates=is_date(series), times=series.dtype != pl.Date)
    ranges = [(float(np.nanmin(moments)), float(np.nanmax(moments))), (0.0, 0.0)]
    if meaning is not None and meaning.calendar:
        parts += ("calendar",)
    if earlier is not None:
        times = moments - microseconds(Column(earlier.name, "date"), earlier)
        if not np.isnan(times).all():
            parts += ("since",)
            ranges[1] = float(np.nanmin(times)), float(np.nanmax(times))
    since = earlier.name if earlier is not None and "since" in parts else ""
    width = sum(2 if part in CYCLES else 1 for part in parts)
    column = Column(series.name, "date", *ranges[0], (0.0,) * width, (), "", parts, since, ranges[1], meaning)
    features = np.empty((width, len(series)), dtype=np.float32)
    write_date(
        column, moments, None if earlier is None else microseconds(Column("", "date"), earlier), features
    )
    # A row without the other date has a weekday, but no time since then, so each feature has its own rows.
    known = [np.isfinite(row) & ~np.isnan(moments) for row in features]
    if since:
        known[-1] &= ~np.isnan(times)
    fill = [float(row[rows].mean(dtype=np.float64)) for row, rows in zip(features, known, strict=True)]
    return replace(column, fill=tuple(min(max(mean, 0.0), 1.0) for mean in fill))


def microseconds(column: Column, series: pl.Series) -> NDArray[np.float64]:
    """Return dates as microseconds since 1970, times as microseconds since midnight, missing values as NaN."""
    series = as_fitted(column, series)
    check_values(series)
    return as_numbers(series).cast(pl.Float64).to_numpy()


def write_date(
    column: Column,
    moments: NDArray[np.float64],
    earlier: NDArray[np.float64] | None,
    out: NDArray[np.float32],
) -> int:
    """Write the features of a date column to `out`; return the number of missing values."""
    missing = np.isnan(moments)
    at = 0
    for part in column.parts:
        if part in CYCLES:
            out[at : at + 2] = cycle_features(part, moments)
            gaps, n = missing, 2
        else:
            values, (low, high) = moments, (column.minimum, column.maximum)
            if part == "since" and earlier is not None:
                values, (low, high) = moments - earlier, column.since_range
            factor, shift, span = scaling(low, high)
            out[at] = np.clip((values * factor - shift) / span, -LIMIT, LIMIT)
            gaps, n = np.isnan(values), 1
        out[at : at + n, gaps] = np.array(column.fill[at : at + n], dtype=np.float32)[:, None]
        at += n
    return int(missing.sum())


def typical_moments(column: Column, features: NDArray[np.floating]) -> str:
    """Return the typical times of day, weekdays or days of the month of rows, and the time since the other date.

    Examples
    --------
    >>> days = pl.Series("day", ["2024-01-05", "2024-01-12", "2024-01-12"]).str.to_date()
    >>> features = np.empty((2, 3), dtype=np.float32)
    >>> column = replace(fit_date(days, None), parts=("weekday",), fill=(0.5, 0.5))
    >>> _ = write_date(column, microseconds(column, days), None, features)
    >>> typical_moments(column, features.T)
    'Fri'
    """
    said = []
    part = column.parts[0]
    if part in CYCLES:
        places = feature_positions(part, features)
        counts = np.bincount(places, minlength=CYCLES[part])
        if part == "hour":
            # The day is cut open where it is quietest, so that a night shift is one range.
            per_hour = counts.reshape(24, 60).sum(axis=1)
            start = 60 * int(np.argmin(per_hour))
            low, high = np.quantile((places - start) % 1440, [0.05, 0.95]) + start
            said.append("–".join(f"{int(at) // 60 % 24:02}:{int(at) % 60:02}" for at in (low, high)))
        else:
            often = np.argsort(-counts, kind="stable")
            n_shown = int(np.searchsorted(np.cumsum(counts[often]) / max(1, len(places)), 0.85)) + 1
            names = [
                WEEKDAYS[i] if part == "weekday" else f"{i + 1}." for i in sorted(often[:n_shown].tolist())
            ]
            said.append(", ".join(names) if len(names) < CYCLES[part] and n_shown <= 7 else f"any {part}")
    if "since" in column.parts:
        factor, shift, span = scaling(*column.since_range)
        ends = np.quantile(
            features[:, column.parts.index("since") - len(column.parts)].astype(np.float64), [0.05, 0.95]
        )
        days = [(float(end) * span + shift) / factor / 86_400e6 for end in ends]
        said.append(f"{days[0]:,.0f}–{days[1]:,.0f} days since {column.since}")
    return "; ".join(said)


_NEAR_MINUTES = 90


def moments_met(
    column: Column, moment: NDArray[np.floating], *parts: NDArray[np.floating]
) -> Iterator[tuple[Any, ...]]:
    """Yield what a moment meets, such as "on Sun", and which moments of each part meet it too.

    Examples
    --------
    >>> days = pl.Series("day", ["2024-01-05", "2024-01-06", "2024-01-12"]).str.to_date()
    >>> column = replace(fit_date(days, None), parts=("weekday",), fill=(0.5, 0.5))
    >>> features = np.empty((2, 3), dtype=np.float32)
    >>> _ = write_date(column, microseconds(column, days), None, features)
    >>> [(text, met.tolist()) for text, met in moments_met(column, features[:, 0], features.T)]
    [('on Fri', [True, False, True])]
    """
    at = 0
    for part in column.parts:
        if part in CYCLES:
            own, n = slice(at, at + 2), CYCLES[part]
            place = int(feature_positions(part, moment[None, own])[0])
            away = [
                np.abs((feature_positions(part, rows[:, own]) - place + n // 2) % n - n // 2)
                for rows in parts
            ]
            if part == "hour":
                ends = [(place + shift) % n for shift in (-_NEAR_MINUTES, _NEAR_MINUTES)]
                text = "between " + " and ".join(f"{end // 60:02}:{end % 60:02}" for end in ends)
            else:
                text = f"on {WEEKDAYS[place]}" if part == "weekday" else f"on day {place + 1} of the month"
            yield text, *(rows <= (_NEAR_MINUTES if part == "hour" else 0) for rows in away)
            at += 2
            continue
        low, high = column.since_range if part == "since" else (column.minimum, column.maximum)
        factor, shift, span = scaling(low, high)
        value = (float(moment[at]) * span + shift) / factor
        bounds = (
            [rows[:, at] >= moment[at] - 1e-6 for rows in parts],
            [rows[:, at] <= moment[at] + 1e-6 for rows in parts],
        )
        if part == "calendar":
            day = (datetime(1970, 1, 1) + timedelta(microseconds=value)).date().isoformat()
            texts = [f"≥ {day}", f"≤ {day}"]
        else:
            days = f"{abs(value) / 86_400e6:.0f} days {'after' if value >= 0 else 'before'} {column.since}"
            texts = [f"at least {days}", f"at most {days}"]
            if value < 0:
                texts.reverse()
        for text, met in zip(texts, bounds, strict=True):
            yield text, *met
        at += 1
