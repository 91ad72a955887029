"""Charts as inline SVG. Colours come from the style sheet by class; all text from data is escaped."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape

from dplan.arrays import Float64s
from dplan.text import shortened

__all__ = [
    "N_COLOURS",
    "Axis",
    "Line",
    "bars",
    "histogram",
    "key",
    "line_chart",
    "points",
    "scatter",
    "svg",
    "text_at",
]


_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 14, 22, 34
_WIDTH, _HEIGHT = 420, 210
N_COLOURS, _N_SHADES = 9, 6  # as many as the style sheet has
_CHARACTER = 5.8  # width of a small character, at most


class Line(NamedTuple):
    """A curve, with a band of ± one deviation unless that is empty."""

    x: Sequence[float]
    mean: Sequence[float]
    deviation: Sequence[float] = ()


def key(names: Mapping[str, str], *, cross: str = "") -> Markup:
    """Return a legend: a coloured square for each class and its name; `cross` is the meaning of crosses.

    Examples
    --------
    >>> key({"alert": "alerts"})
    Markup('<p class="key"><span><i class="alert"></i>alerts</span></p>')
    """
    parts = [Markup('<span><i class="{}"></i>{}</span>').format(style, name) for style, name in names.items()]
    if cross:
        parts.append(Markup('<span><i class="cross">×</i>{}</span>').format(cross))
    return Markup('<p class="key">{}</p>').format(Markup("").join(parts))


def line_chart(
    lines: Mapping[str, Line],
    *,
    title: str,
    x_label: str,
    y_label: str,
    crosses: Mapping[float, float] | None = None,
    y_range: tuple[float, float] | None = None,
    whole: bool = False,
    size: tuple[int, int] = (_WIDTH, _HEIGHT),
    show_title: bool = False,
) -> Markup:
    """Draw lines, each under the class that colours it; `whole` limits the x axis to integers."""
    width, height = size
    crosses = crosses or {}
    xs = [x for line in lines.values() for x in line.x]
    ends = [*crosses.values()]
    for line in lines.values():
        deviation = line.deviation or [0.0] * len(line.mean)
        ends += [m + sign * d for m, d in zip(line.mean, deviation, strict=True) for sign in (-1, 1)]
    low, high = y_range or (min(ends), max(ends))
    x = Axis(min(xs), max(xs), _LEFT, width - _RIGHT)
    y = Axis(low, high, height - _BOTTOM, _TOP)
    parts = [_y_ticks(y, width), _x_ticks(x, height, whole=whole, most=6 if width > 300 else 4)]
    for style, line in lines.items():
        if line.deviation:
            triples = list(zip(line.x, line.mean, line.deviation, strict=True))
            edge = [(a, m + d) for a, m, d in triples] + [(a, m - d) for a, m, d in reversed(triples)]
            points = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in edge)
            parts.append(f'<polygon class="band {style}" points="{points}"/>')
        places = [(x(a), y(b)) for a, b in zip(line.x, line.mean, strict=True)]
        parts.append(f'<path class="line {style}" d="M{"L".join(f"{a:.1f},{b:.1f}" for a, b in places)}"/>')
        if len(places) <= 40:
            parts += [f'<circle class="dot {style}" cx="{a:.1f}" cy="{b:.1f}" r="2.2"/>' for a, b in places]
    for a, b in crosses.items():
        parts.append(f'<path class="cross" d="M{x(a):.1f} {y(b):.1f}m-4 -4l8 8m0 -8l-8 8"/>')
    if show_title:
        parts.append(text_at((_LEFT + width - _RIGHT) / 2, 13, title, "middle", "title"))
    else:
        parts.append(text_at(_LEFT, 12, y_label, "start", "small"))
    parts.append(text_at((_LEFT + width - _RIGHT) / 2, height - 4, x_label, "middle", "small"))
    return svg(f"{title}: {y_label} by {x_label}", width, height, parts)


def histogram(
    series: Mapping[str, Float64s], edges: Float64s, *, title: str, mark: float | None = None, mark_text: str = "",
    x_label: str = "", percent: bool = True,
) -> Markup:  # fmt: skip
    """Draw shares per bin as steps, one outline per series under the class that colours it; `mark` is a vertical line.

    Examples
    --------
    >>> picture = histogram({"table": np.array([0.2, 0.8])}, np.array([0.0, 1.0, 2.0]), title="a <b>")
    >>> picture.startswith("<svg"), "a &lt;b&gt;" in picture
    (True, True)
    """
    top = max((float(values.max()) for values in series.values()), default=1.0) or 1.0
    x = Axis(edges[0], edges[-1], _LEFT, _WIDTH - _RIGHT)
    y = Axis(0, top, _HEIGHT - _BOTTOM, _TOP)
    parts = [_y_ticks(y, _WIDTH, percent=percent), _x_ticks(x, _HEIGHT)]
    for style, values in series.items():
        steps = [f"V{y(value):.1f}H{x(edges[i + 1]):.1f}" for i, value in enumerate(values)]
        start = f"M{x(edges[0]):.1f},{y(0):.1f}"
        parts.append(f'<path class="area {style}" d="{start}{"".join(steps)}V{y(0):.1f}Z"/>')
    if mark is not None and edges[0] <= mark <= edges[-1]:
        at = x(mark)
        side, anchor = (at - 5, "end") if at > _WIDTH / 2 else (at + 5, "start")
        parts.append(f'<path class="mark" d="M{at:.1f} {_TOP}V{_HEIGHT - _BOTTOM}"/>')
        parts.append(text_at(side, _TOP + 10, mark_text, anchor))
    parts.append(text_at(_WIDTH / 2, _HEIGHT - 4, x_label, "middle", "small"))
    return svg(title, _WIDTH, _HEIGHT, parts)


def bars(series: Mapping[str, Float64s], labels: Sequence[str], *, title: str) -> Markup:
    """Draw shares per label as horizontal bars, the series of a label one below the other, below the label.

    Examples
    --------
    >>> picture = bars({"table": np.array([0.2, 0.8])}, ["a", "b"], title="colour")
    >>> picture.count("<rect"), "80 %" in picture
    (2, True)
    """
    left, step, top = 4, 11 * len(series) + 22, 4
    x = Axis(0, max(float(max(values.max() for values in series.values())), 1e-9), left, _WIDTH - 44)
    most = int((_WIDTH - left) / 6.2)
    parts = []
    for i, label in enumerate(labels):
        y = top + i * step
        parts.append(text_at(left, y + 10, shortened(label, most), "start"))
        for j, (style, values) in enumerate(series.items()):
            length = max(x(float(values[i])) - left, 0.5)
            place = f'x="{left}" y="{y + 14 + 11 * j}" width="{length:.1f}" height="9"'
            parts.append(f'<rect class="block {style}" {place}/>')
            parts.append(text_at(left + length + 4, y + 22 + 11 * j, _percent(values[i]), "start", "small"))
    return svg(title, _WIDTH, top + step * len(labels) + 4, parts)


def scatter(places: Float64s, shades: Float64s, rings: Float64s, *, title: str) -> Markup:
    """Draw points, in the colours m0 to m5 and larger the higher their shade in [0, 1], and rings at other places."""
    width, height = _WIDTH, 280
    low, high = np.quantile(np.concatenate([places, rings]), [0.002, 0.998], axis=0)
    x, y = Axis(low[0], high[0], 12, width - 12), Axis(low[1], high[1], height - 12, 12)

    def at(place: Float64s) -> str:
        return f'cx="{np.clip(x(place[0]), 6, width - 6):.1f}" cy="{np.clip(y(place[1]), 6, height - 6):.1f}"'

    levels = np.minimum(np.clip(shades, 0, 1) * _N_SHADES, _N_SHADES - 1).astype(int)
    parts = [
        f'<circle class="point m{levels[i]}" {at(places[i])} r="{1.2 + shades[i]:.1f}"/>'
        for i in np.argsort(shades, kind="stable")  # the highest on top
    ]
    parts += [f'<circle class="ring" {at(ring)} r="4"/>' for ring in rings]
    return svg(title, width, height, parts, "map")


def points(groups: Mapping[str, Float64s], *, title: str, x_label: str, y_label: str) -> Markup:
    """Draw the points of each group, as (points, 2), under the class that colours them; later groups lie on top.

    Examples
    --------
    >>> picture = points({"alert": np.array([[0.0, 99.0]])}, title="a <b>", x_label="score", y_label="novelty")
    >>> picture.count("<circle"), "a &lt;b&gt;" in picture
    (1, True)
    """
    height = 280
    every = np.concatenate(list(groups.values()))
    low, high = every.min(axis=0), every.max(axis=0)
    x, y = Axis(low[0], high[0], _LEFT, _WIDTH - _RIGHT), Axis(low[1], high[1], height - _BOTTOM - 6, _TOP)
    parts = [_y_ticks(y, _WIDTH), _x_ticks(x, height), text_at(4, 12, y_label, "start", "small")]
    for style, places in groups.items():
        parts += [
            f'<circle class="point {style}" cx="{x(a):.1f}" cy="{y(b):.1f}" r="2.2"/>'
            for a, b in places.tolist()
        ]
    parts.append(text_at(_WIDTH / 2, height - 4, x_label, "middle", "small"))
    return svg(title, _WIDTH, height, parts, "map")


class Axis:
    """Maps values to positions; handles equal ends and differences that overflow."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high = float(low), float(high) if high > low else float(low) + (abs(low) or 1.0)
        self.start, self.end = start, end

    def __call__(self, value: float) -> float:
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.start + float(share) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Return about `most` round numbers within the ends."""
        span = self.high - self.low
        if not np.isfinite(span):
            return [self.low, 0.0, self.high]
        step = 10.0 ** np.floor(np.log10(span / most))
        step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= most)
        return [float(n * step) for n in np.arange(np.ceil(self.low / step), np.floor(self.high / step) + 1)]


def _x_ticks(x: Axis, height: int, *, whole: bool = False, most: int = 6) -> str:
    y, edge = height - _BOTTOM, x.end + _RIGHT
    ticks = [tick for tick in x.ticks(most) if not whole or tick == int(tick)]
    widest = _CHARACTER * max((len(_short(tick)) for tick in ticks), default=0)
    if len(ticks) > 1 and x(ticks[1]) - x(ticks[0]) < widest + 4:
        ticks = ticks[::2]
    parts = [f'<path class="axis" d="M{x.start} {y}H{x.end}"/>']
    for tick in ticks:
        text, at = _short(tick), x(tick)
        half = _CHARACTER * len(text) / 2
        parts.append(f'<path class="axis" d="M{at:.1f} {y}v4"/>')
        parts.append(text_at(min(max(at, half), edge - half), y + 15, text, "middle", "small"))
    return "".join(parts)


def _y_ticks(y: Axis, width: int, *, percent: bool = False) -> str:
    return "".join(
        f'<path class="grid" d="M{_LEFT} {y(tick):.1f}H{width - _RIGHT}"/>'
        + text_at(_LEFT - 5, y(tick) + 3, f"{100 * tick:.3g} %" if percent else _short(tick), "end", "small")
        for tick in y.ticks(4)
    )


def _percent(share: float) -> str:
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def _short(value: float) -> str:
    if 10_000 <= abs(value) < 1e6:
        return f"{value / 1000:g}k"
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value + 0.0:.4g}"
    return text if len(text) <= 8 else f"{value:.2g}"


def text_at(x: float, y: float, text: str, anchor: str, style: str = "label") -> str:
    """Return a text at a place."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}">{escape(text)}</text>'


def svg(title: str, width: int, height: int, parts: Sequence[str], style: str = "chart") -> Markup:
    """Return a drawing of some parts, with its title for screen readers."""
    name = escape(title)
    return Markup(
        f'<svg viewBox="0 0 {width} {height}" class="{style}" role="img" aria-label="{name}"><title>{name}</title>'
        f"{''.join(parts)}</svg>"
    )
