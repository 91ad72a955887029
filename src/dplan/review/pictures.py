"""Small pictures: the distribution of a column over the background rows, and where a row is in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from dplan._kernels.perceptron import Floats
from dplan.columns.column import Column, scaling
from dplan.columns.cycles import CYCLES, feature_positions, position_name
from dplan.columns.formatting import format_date, format_end
from dplan.text import visible

__all__ = ["picture", "restored"]

_BINS = 24
_DAY = 86_400e6  # microseconds


def picture(column: Column, background: Floats, own: Floats, *, missing: bool) -> dict[str, Any]:
    """Return the distribution of a column and the place of a row in it, as JSON values.

    Parameters
    ----------
    column : Column
        The column.
    background, own : ndarray of float32
        Its features of the background rows and of the row.
    missing : bool
        Whether the row has no value.
    """
    if column.kind == "text":
        return _levels(column, own)
    if column.kind == "flag":
        share = column.fill[0]
        mine = None if missing else bool(own[0])
        return {
            "bars": [["false", round(1 - share, 4), mine is False], ["true", round(share, 4), mine is True]]
        }
    if column.parts:
        # Of a date, the part in which the row is most unusual.
        found = min(_parts(column, background, own), key=_height_at)
    else:
        found = _histogram(background[:, 0], float(own[0]), lambda x: format_end(column, x))
    return {**found, "at": None} if missing else found


def restored(column: Column, own: Floats) -> str:
    """Return the value of a prepared row of which the original is not known."""
    if column.kind == "text":
        return visible(column.levels[int(own.argmax())], 80) if own.max() == 1 else "missing or rare"
    if column.kind == "flag":
        return {0.0: "false", 1.0: "true"}.get(float(own[0]), "missing")
    if column.parts:
        return ", ".join(
            position_name(part, int(feature_positions(part, own[None, 2 * i : 2 * i + 2])[0]))
            for i, part in enumerate(column.parts)  # cycles come first
            if part in CYCLES
        )
    return format_end(column, float(own[0]))


def _levels(column: Column, own: Floats) -> dict[str, Any]:
    mine = int(own.argmax()) if own.max() == 1 else None
    order = np.argsort(-np.asarray(column.fill), kind="stable")[:4].tolist()
    if mine is not None and mine not in order:
        order.append(mine)
    return {"bars": [[visible(column.levels[k], 40), round(column.fill[k], 4), k == mine] for k in order]}


def _parts(column: Column, background: Floats, own: Floats) -> Iterator[dict[str, Any]]:
    """Yield a picture for each part of a date: its cycles, then the calendar and the time since another date."""
    at = 0
    for part in column.parts:
        if part in CYCLES:
            n = CYCLES[part]
            bins = min(n, 31) if part != "hour" else _BINS
            places, (mine,) = (
                feature_positions(part, rows[:, at : at + 2]) * bins // n for rows in (background, own[None])
            )
            counts = np.bincount(places, minlength=bins)
            yield {
                "bins": (counts / max(counts.max(), 1)).round(3).tolist(),
                "at": round((float(mine) + 0.5) / bins, 4),
                "typical": None,
                "ends": [position_name(part, 0), position_name(part, n - 1)],
            }
            at += 2
            continue
        factor, shift, span = scaling(
            *(column.since_range if part == "since" else (column.minimum, column.maximum))
        )

        def end(x: float, since: bool = part == "since") -> str:
            value = (x * span + shift) / factor  # noqa: B023 - called before the next part
            return f"{value / _DAY:,.0f} days" if since else format_date(value)

        yield _histogram(background[:, at], float(own[at]), end)
        at += 1


def _height_at(found: dict[str, Any]) -> float:
    """Return the height of the distribution where the row is, relative to an even one."""
    bins: list[float] = found["bins"]
    place = min(int(found["at"] * len(bins)), len(bins) - 1)
    return bins[place] * len(bins) / max(sum(bins), 1e-9)


def _histogram(background: Floats, own: float, end: Callable[[float], str]) -> dict[str, Any]:
    usual = background.astype(np.float64)
    # The ends are those of most background rows, or the row itself.
    low, high = np.quantile(usual, [0.005, 0.995])
    low, high = min(low, own), max(high, own)
    if high <= low:
        low, high = low - 0.5, low + 0.5
    counts = np.histogram(np.clip(usual, low, high), np.linspace(low, high, _BINS + 1))[0]
    typical = np.quantile(usual, [0.05, 0.95])
    return {
        "bins": (counts / max(counts.max(), 1)).round(3).tolist(),
        "at": round((own - low) / (high - low), 4),
        "typical": [round(float(x), 4) for x in np.clip((typical - low) / (high - low), 0, 1)],
        "ends": [end(float(x)) for x in (low, high)],
    }
