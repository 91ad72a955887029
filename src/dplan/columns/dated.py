"""The features of dates and times of day: cycles, and on request the calendar and the time since another date.

Cycles are described in `dplan.columns.cycles`; the calendar and the time since another date are scaled like numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time
from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.columns.column import Column
from dplan.columns.cycles import CYCLES, Cycle
from dplan.columns.formatting import format_date
from dplan.columns.frames import as_numbers, check_values
from dplan.columns.moments import DAY
from dplan.columns.records import (
    SAME,
    Condition,
    Counts,
    Features,
    Graph,
    Histogram,
    Scaling,
    Training,
    Typical,
    range_picture,
    scaled_in_onnx,
)
from dplan.columns.unused import MIN_ROWS, Unused
from dplan.text import shown

__all__ = ["Dated"]

Moments = NDArray[np.float64]

_DATES = (pl.Date, pl.Datetime)
_BINS = 8  # of the calendar, or of the time since another date


class _Length(NamedTuple):
    """A feature of a date that is scaled like a number: the calendar, or the time since another date."""

    scaling: Scaling
    since: str  # the other date; empty for the calendar

    def format(self, microseconds: float) -> str:
        return f"{microseconds / DAY:,.0f} days" if self.since else format_date(microseconds)

    def histogram(self, parts: Sequence[Features]) -> Histogram:
        """Return the distribution in groups of rows, in days or dates."""
        ends = np.quantile(np.concatenate([parts[0], parts[-1]]).astype(np.float64), [0.005, 0.995])
        low, high = float(ends[0]), float(ends[1]) if ends[1] > ends[0] else float(ends[0]) + 1
        edges = np.linspace(low, high, _BINS + 1)
        shares = [
            np.histogram(np.clip(part[:, 0], low, high), edges)[0] / max(1, len(part)) for part in parts
        ]
        return Histogram(
            [f"from {self.format(self.scaling.inverse(edge))}" for edge in edges[:-1]], None, shares
        )

    def bounds(self, microseconds: float) -> tuple[tuple[str, str], tuple[str, str]]:
        """Return the words for "at least" and "at most" a moment."""
        if not self.since:
            return ("≥", format_date(microseconds)), ("≤", format_date(microseconds))
        side = "after" if microseconds >= 0 else "before"
        days = f"{abs(microseconds) / DAY:.0f} days {side} {self.since}"
        least, most = ("at least", days), ("at most", days)
        return (least, most) if microseconds >= 0 else (most, least)


@dataclass(frozen=True, kw_only=True)
class Dated(Column):
    """A column of moments, however they are written.

    Attributes
    ----------
    calendar : bool
        Whether the position in the calendar is asked for.
    asked : str
        Another date column, if the time since then is asked for.
    minimum, maximum : float
        The range over the training rows, in microseconds since 1970.
    parts : tuple of str
        The features: cycles with two features each, ``"calendar"`` and ``"since"``.
    since, since_range : str, tuple of float
        The other date column, and the range of the time since then, in microseconds.
    """

    kind = "date"
    is_as_shown = True
    _settings: ClassVar[Mapping[str, str]] = {"since": "asked"}

    calendar: bool = False
    asked: str = ""
    minimum: float = 0.0
    maximum: float = 0.0
    parts: tuple[str, ...] = ()
    since: str = ""
    since_range: tuple[float, float] = (0.0, 0.0)

    def accepts(self, dtype: pl.DataType) -> bool:
        return self.takes(dtype) or super().accepts(dtype)

    def takes(self, dtype: pl.DataType) -> bool:
        return dtype.is_temporal() and dtype != pl.Duration

    def learn(self, series: pl.Series, training: Training) -> Column:
        """Learn the cycles and ranges, and the range of the time since another date column.

        Examples
        --------
        >>> days = pl.Series("day", ["2024-01-31", "2024-02-02"]).str.to_date()
        >>> Dated().learn(days, Training(days.to_frame(), [], 255)).output_names()
        ['day weekday sin', 'day weekday cos', 'day day sin', 'day day cos']
        """
        moments = self.values(series)
        if np.isnan(moments).all():
            return Unused.without_values(series.name)
        has_date, has_time = series.dtype in _DATES, series.dtype != pl.Date
        possible = ("hour",) * has_time + ("weekday", "day") * has_date
        known = moments[~np.isnan(moments)]
        parts = tuple(c for c in possible if CYCLES[c].differ(known)) or possible[-1:]
        if has_date and len(known) >= MIN_ROWS:
            constant = tuple(c for c in possible if c not in parts) or possible[-1:]
            parts = tuple(c for c in parts if CYCLES[c].covered(known))
            if not parts and any(s.name != series.name and s.dtype in _DATES for s in training.frame):
                parts = constant[
                    :1
                ]  # says nothing, but the time since then may be a feature of the other date
        parts += ("calendar",) * self.calendar
        earlier = self._earlier(series, training) if has_date or self.asked else None
        times = np.full(1, np.nan) if earlier is None else moments - self.values(earlier)
        if earlier is not None and not np.isnan(times).all():
            parts += ("since",)
            since, since_range = earlier.name, (float(np.nanmin(times)), float(np.nanmax(times)))
        else:
            since, since_range = "", (0.0, 0.0)
        if not parts:
            why = f"covers less than three {'days' if has_time else 'weeks'}, so that no time of its own is typical"
            return Unused(name=series.name, why=why, decided=False)
        column = replace(
            self,
            name=series.name,
            minimum=float(np.nanmin(moments)),
            maximum=float(np.nanmax(moments)),
            parts=parts,
            since=since,
            since_range=since_range,
        )
        features = np.empty((len(series), column._n_features()), dtype=np.float32)
        column = replace(column, fill=(0.0,) * features.shape[1])
        column.write({series.name: moments} | ({since: self.values(earlier)} if since else {}), features)  # type: ignore[arg-type]
        # A row without the other date has a weekday, but no time since then, so each feature has its own rows.
        rows = [~np.isnan(moments)] * features.shape[1]
        if since:
            rows[-1] = rows[-1] & ~np.isnan(times)
        by_feature = np.ascontiguousarray(features.T)
        means = [float(own[used].mean(dtype=np.float64)) for own, used in zip(by_feature, rows, strict=True)]
        return replace(column, fill=tuple(min(max(mean, 0.0), 1.0) for mean in means))

    def _earlier(self, series: pl.Series, training: Training) -> pl.Series | None:
        """Return the date column that the time since then is taken of: the one asked for, or the one before."""
        dates = [s for c, s in training.before if isinstance(c, Dated) and s.dtype in _DATES]
        if not self.asked:
            return dates[-1] if dates else None
        found = training.frame[self.asked] if self.asked in training.frame.columns else None
        if found is None or found.dtype not in _DATES or found.null_count() == len(found):
            raise ValueError(
                f"column {shown(series.name)}: {shown(self.asked)} is not a date column, so there is no time since it"
            )
        return found

    def _n_features(self) -> int:
        return sum(2 if part in CYCLES else 1 for part in self.parts)

    def output_names(self) -> list[str]:
        names = []
        for part in self.parts:
            if part in CYCLES:
                names += [f"{self.name} {part} sin", f"{self.name} {part} cos"]
            else:
                names.append(self.name if part == "calendar" else f"{self.name} since {self.since}")
        return names

    def format(self, found: Any) -> str:
        if isinstance(found, datetime) and found.time() == time.min and "hour" not in self.parts:
            found = found.date()  # pandas has no dates without times
        return super().format(found)

    def values(self, series: pl.Series) -> Moments:
        """Return microseconds since 1970, or since midnight for times of day; NaN for missing values."""
        check_values(series)
        return as_numbers(series).cast(pl.Float64).to_numpy()

    def write(self, values: Mapping[str, Any], out: NDArray[np.float32]) -> Counts:
        moments = values[self.name]
        missing = np.isnan(moments)
        for part, own in self._features():
            if isinstance(part, Cycle):
                out[:, own] = part.features(moments)
                gaps = missing
            else:
                lengths = moments - values[part.since] if part.since else moments
                out[:, own] = part.scaling.apply(lengths)[:, None]
                gaps = np.isnan(lengths)
            out[gaps, own] = np.array(self.fill[own], dtype=np.float32)
        outside = ((out > 2) | (out < -1)).any(axis=1)
        return Counts(int(missing.sum()), outside=int(outside.sum()))

    def _features(self) -> Iterator[tuple[Cycle | _Length, slice]]:
        """Yield each part with its features."""
        at = 0
        for name in self.parts:
            if name in CYCLES:
                yield CYCLES[name], slice(at, at + 2)
                at += 2
                continue
            since = self.since if name == "since" else ""
            ends = self.since_range if since else (self.minimum, self.maximum)
            yield _Length(Scaling.between(*ends), since), slice(at, at + 1)
            at += 1

    def restored(self, own: Features) -> str:
        named = [
            part.name_of(int(part.places(own[None, place])[0]))
            for part, place in self._features()
            if isinstance(part, Cycle)
        ]
        return ", ".join(named)

    def typical(self, background: Features) -> Typical:
        """Return the typical times of day, weekdays or days of the month, and the time since the other date."""
        said = []
        for i, (part, own) in enumerate(self._features()):
            # A mean of points on a circle, or of times since then, stands for a missing value.
            rows = background[:, own]
            known = rows[(rows != np.array(self.fill[own], dtype=np.float32)).any(axis=1)]
            rows = known if len(known) else rows
            if isinstance(part, Cycle):
                said += [part.typical(part.places(rows))] if i == 0 else []
            elif part.since:
                ends = np.quantile(rows.astype(np.float64), [0.05, 0.95])
                days = [float(end) / DAY for end in part.scaling.invert(ends)]
                said.append(f"{days[0]:,.0f}–{days[1]:,.0f} days since {part.since}")
        return Typical("; ".join(said))

    def conditions(self, found: Any, own: Features, background: Features, known: Features) -> list[Condition]:
        """Return what a moment meets, such as "on Sun"."""
        met = []
        for part, place in self._features():
            if isinstance(part, Cycle):
                mine = int(part.places(own[None, place])[0])
                near = [part.is_near(part.places(rows[:, place]), mine) for rows in (background, known)]
                met.append(Condition(*part.condition(mine), *near))
                continue
            x, columns = own[place][0], [rows[:, place.start] for rows in (background, known)]
            least, most = part.bounds(part.scaling.inverse(float(x)))
            met.append(Condition(*least, *(column >= x - SAME for column in columns)))
            met.append(Condition(*most, *(column <= x + SAME for column in columns)))
        return met

    def histogram(self, parts: Sequence[Features]) -> Histogram:
        first, own = next(self._features())
        columns = [part[:, own] for part in parts]
        return first.histogram(columns)

    def picture(self, background: Features, own: Features, *, missing: bool) -> dict[str, Any]:
        # The part in which the row is most unusual.
        found = min((self._picture(*part, background, own) for part in self._features()), key=_height_at)
        return {**found, "at": None} if missing else found

    @staticmethod
    def _picture(part: Cycle | _Length, place: slice, background: Features, own: Features) -> dict[str, Any]:
        if isinstance(part, Cycle):
            return part.picture(background[:, place], own[place])
        invert, format_ = part.scaling.inverse, part.format
        return range_picture(background[:, place.start], float(own[place][0]), lambda x: format_(invert(x)))

    def summary(self) -> str:
        return f"{self.kind}: {', '.join(self.parts)}"

    def schema(self) -> dict[str, Any]:
        return {
            **super().schema(),
            "description": "a date or time, such as 2024-01-31 or 2024-01-31T12:00:00Z",
        }

    def onnx(self, graph: Graph, cell_of: Callable[[str], str]) -> str:
        moments, features = cell_of(self.name), []
        for part, own in self._features():
            values = moments
            if isinstance(part, Cycle):
                made = part.onnx(graph, moments)
            else:
                if part.since:
                    values = graph.add("Sub", moments, cell_of(part.since))
                made = graph.add("Cast", scaled_in_onnx(graph, values, [part.scaling]), to=1)  # to float32
            fill = graph.constant(np.array([self.fill[own]], dtype=np.float32))
            features.append(graph.add("Where", graph.add("IsNaN", values), fill, made))
        return graph.add("Concat", *features, axis=1)

    def check_others(self, columns: Sequence[Column]) -> None:
        dates = {column.name for column in columns if isinstance(column, Dated)}
        if self.since and self.since not in dates:
            raise ValueError("the time since a column that is not a date")

    def is_valid(self) -> bool:
        return (
            super().is_valid()
            and self.minimum <= self.maximum
            and len(self.since_range) == 2
            and self.since_range[0] <= self.since_range[1]
            and set(self.parts) <= {*CYCLES, "calendar", "since"}
            and len(self.parts) > 0
            and len(set(self.parts)) == len(self.parts)
            and ("since" in self.parts) == bool(self.since)
            and self.width == self._n_features()
        )


def _height_at(found: dict[str, Any]) -> float:
    """Return the height of the distribution where the row is, relative to an even one."""
    bins: list[float] = found["bins"]
    place = min(int(found["at"] * len(bins)), len(bins) - 1)
    return bins[place] * len(bins) / max(sum(bins), 1e-9)
