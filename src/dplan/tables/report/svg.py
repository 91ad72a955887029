"""Small drawings as SVG text. Every text that comes from data goes through `escape`."""

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from dplan.tables.formatting import number

__all__ = ["bars", "curve", "histogram", "scatter"]

Floats = NDArray[np.float64]

_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 12, 10, 34


def histogram(
    series: Sequence[tuple[str, Floats]], edges: Floats, *, title: str, width: int = 640, height: int = 220,
    mark: float | None = None, mark_text: str = "", x_title: str = "", percent: bool = True,
) -> str:  # fmt: skip
    """Draw shares per bin as steps, one outline per series; `mark` is a vertical line.

    Examples
    --------
    >>> picture = histogram([("usual", np.array([0.2, 0.8]))], np.array([0.0, 1.0, 2.0]), title="a <b>")
    >>> picture.startswith("<svg"), "a &lt;b&gt;" in picture
    (True, True)
    """
    top = max((float(values.max()) for _, values in series), default=1.0) or 1.0
    x, y = _axis(edges[0], edges[-1], _LEFT, width - _RIGHT), _axis(0, top, height - _BOTTOM, _TOP)
    parts = [_y_ticks(0, top, y, width, percent), _x_ticks(edges[0], edges[-1], x, height)]
    for name, values in series:
        points = [f"M{x(edges[0]):.1f},{y(0):.1f}"]
        for i, value in enumerate(values):
            points.append(f"V{y(float(value)):.1f}H{x(edges[i + 1]):.1f}")
        parts.append(f'<path class="{escape(name)}" d="{"".join(points)}V{y(0):.1f}Z"/>')
    if mark is not None and edges[0] <= mark <= edges[-1]:
        at = x(mark)
        side, anchor = (at - 5, "end") if at > width / 2 else (at + 5, "start")
        parts.append(f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{height - _BOTTOM}"/>')
        parts.append(
            f'<text x="{side:.1f}" y="{_TOP + 10}" text-anchor="{anchor}">{escape(mark_text)}</text>'
        )
    parts.append(_x_title(x_title, width, height))
    return _svg(title, width, height, parts)


def bars(series: Sequence[tuple[str, Floats]], labels: Sequence[str], *, title: str, width: int = 640) -> str:
    """Draw shares per label as horizontal bars, the series of a label one below the other."""
    left, step = 150, 9 * len(series) + 7
    height = _TOP + step * len(labels) + 4
    x = _axis(0, max(float(max(values.max() for _, values in series)), 1e-9), left, width - 50)
    parts = []
    for i, label in enumerate(labels):
        y = _TOP + i * step
        shown = label if len(label) <= 20 else label[:19] + "…"
        parts.append(f'<text x="{left - 6}" y="{y + step / 2:.1f}" text-anchor="end">{escape(shown)}</text>')
        for j, (name, values) in enumerate(series):
            length = max(x(float(values[i])) - left, 0.5)
            parts.append(
                f'<rect class="{escape(name)}" x="{left}" y="{y + 9 * j}" width="{length:.1f}" height="8"/>'
                f'<text class="small" x="{left + length + 4:.1f}" y="{y + 9 * j + 7}">{values[i]:.0%}</text>'
            )
    return _svg(title, width, height, parts)


def curve(
    points: Sequence[tuple[float, float]], *, title: str, x_title: str, y_title: str, width: int = 640,
    height: int = 220, y_range: tuple[float, float] | None = None, whole: bool = False,
) -> str:  # fmt: skip
    """Draw a line through points."""
    xs, ys = np.array(points, dtype=np.float64).T
    low, high = y_range or (float(ys.min()), float(ys.max()))
    high = high if high > low else low + 1
    first, last = float(xs.min()), float(xs.max())
    x = _axis(first, last if last > first else first + 1, _LEFT, width - _RIGHT)
    y = _axis(low, high, height - _BOTTOM, _TOP)
    path = "M" + "L".join(f"{x(a):.1f},{y(b):.1f}" for a, b in zip(xs, ys, strict=True))
    dots = "".join(
        f'<circle class="dot" cx="{x(a):.1f}" cy="{y(b):.1f}" r="3"/>' for a, b in zip(xs, ys, strict=True)
    )
    parts = [
        _y_ticks(low, high, y, width, percent=False),
        _x_ticks(first, last, x, height, whole=whole),
        f'<path class="line" d="{path}"/>',
        dots if len(points) <= 40 else "",
        _x_title(x_title, width, height),
        f'<text class="small" x="{_LEFT}" y="{_TOP - 2}">{escape(y_title)}</text>',
    ]
    return _svg(title, width, height, parts)


def scatter(
    places: Floats, shades: Floats, rings: Floats, *, title: str, width: int = 640, height: int = 420
) -> str:
    """Draw points, the darker the higher their shade in [0, 1], and rings around others."""
    every = np.concatenate([places, rings])
    low, high = np.quantile(every, [0.002, 0.998], axis=0)
    high = np.where(high > low, high, low + 1)
    x, y = _axis(low[0], high[0], 12, width - 12), _axis(low[1], high[1], height - 12, 12)

    def at(place: Floats) -> str:
        return f'cx="{np.clip(x(place[0]), 6, width - 6):.1f}" cy="{np.clip(y(place[1]), 6, height - 6):.1f}"'

    order = np.argsort(shades, kind="stable")  # the highest on top
    parts = [
        f'<circle {at(places[i])} r="{2.2 + 1.8 * shades[i]:.1f}" fill="{_shade(float(shades[i]))}"/>'
        for i in order
    ]
    parts += [f'<circle class="ring" {at(ring)} r="6"/>' for ring in rings]
    return _svg(title, width, height, parts)


def _shade(share: float) -> str:
    """Return a colour from light blue-grey over orange to dark red."""
    stops = np.array([[176, 190, 204], [233, 150, 80], [165, 20, 40]], dtype=float)
    share = min(max(share, 0.0), 1.0) * 2
    i = min(int(share), 1)
    red, green, blue = stops[i] + (share - i) * (stops[i + 1] - stops[i])
    return f"#{int(red):02x}{int(green):02x}{int(blue):02x}"


class _axis:
    """Maps a value to a place on the drawing."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.start = float(low), start
        self.factor = (end - start) / (float(high) - float(low) or 1.0)

    def __call__(self, value: float) -> float:
        return self.start + (float(value) - self.low) * self.factor


def _ticks(low: float, high: float, n: int) -> Floats:
    """Return round numbers between two ends."""
    span = high - low
    if not span > 0:
        return np.array([low])
    step = 10.0 ** np.floor(np.log10(span / n))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= n)
    found: Floats = np.arange(np.ceil(low / step), np.floor(high / step) + 1) * step
    return found


def _x_ticks(low: float, high: float, x: _axis, height: int, *, whole: bool = False) -> str:
    y = height - _BOTTOM
    ticks = [tick for tick in _ticks(low, high, 6) if not whole or tick == int(tick)]
    return "".join(
        f'<line class="axis" x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{y}" y2="{y + 4}"/>'
        f'<text class="small" x="{x(tick):.1f}" y="{y + 15}" text-anchor="middle">{number(float(tick))}</text>'
        for tick in ticks
    )


def _y_ticks(low: float, high: float, y: _axis, width: int, percent: bool) -> str:
    texts = [
        (tick, number(float(tick)) if not percent else f"{100 * tick:.3g} %") for tick in _ticks(low, high, 4)
    ]
    return "".join(
        f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>'
        f'<text class="small" x="{_LEFT - 6}" y="{y(tick) + 3:.1f}" text-anchor="end">{text}</text>'
        for tick, text in texts
    )


def _x_title(text: str, width: int, height: int) -> str:
    return (
        f'<text class="small" x="{width / 2:.0f}" y="{height - 4}" text-anchor="middle">{escape(text)}</text>'
    )


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    name = escape(title)
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{name}">'
        f"<title>{name}</title>{''.join(parts)}</svg>"
    )
