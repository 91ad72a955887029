"""Figures as inline SVG: small charts with bands side by side, and the critical-difference diagram."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

__all__ = ["Line", "Panel", "critical_difference", "line_charts"]

# Okabe and Ito's colours, which people with any colour vision can tell apart.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f", "#000000")
_WIDTH, _HEIGHT, _COLUMNS = 210, 150, 4
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 8, 24, 30


class Line(NamedTuple):
    """One curve: means with their deviations."""

    x: Sequence[float]
    mean: Sequence[float]
    deviation: Sequence[float]


class Panel(NamedTuple):
    """One small chart."""

    title: str
    lines: Mapping[str, Line]


def line_charts(
    panels: Sequence[Panel],
    x_label: str,
    y_label: str,
    low: float | None = None,
    published: Mapping[str, Mapping[float, float]] | None = None,
) -> str:
    """Draw panels side by side with one legend; bands are ± one standard deviation.

    Parameters
    ----------
    panels : sequence of Panel
        The charts. All share the x axis; the y axis is each panel's own.
    x_label, y_label : str
        Stand beneath and beside the charts.
    low : float, optional
        Where the y axes begin at the latest.
    published : mapping, optional
        By title of panel, points of the paper, drawn as crosses.

    Returns
    -------
    str
        An ``<svg>`` element.

    Examples
    --------
    >>> svg = line_charts([Panel("dos", {"DPLAN": Line([1, 2], [.5, .6], [.1, .1])})], "classes", "AUC-PR")
    >>> svg.startswith("<svg"), svg.count("<polyline"), svg.count("<polygon")
    (True, 1, 1)
    """
    names = list(dict.fromkeys(name for panel in panels for name in panel.lines))
    colours = {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(names)}
    columns = min(_COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    legend_width = _LEFT + sum(40 + 7 * len(name) for name in names) + 70
    width, height = max(columns * _WIDTH, legend_width), rows * _HEIGHT + 26
    parts = [_legend(colours, published is not None)]
    for i, panel in enumerate(panels):
        crosses = (published or {}).get(panel.title, {})
        body = _panel(panel, colours, crosses, low, x_label, y_label)
        parts.append(
            f'<g transform="translate({i % columns * _WIDTH},{i // columns * _HEIGHT + 26})">{body}</g>'
        )
    label = escape(f"{y_label} by {x_label}", quote=True)
    size = f'viewBox="0 0 {width} {height}" style="max-width: {1.25 * width:.0f}px"'
    return f'<svg {size} role="img" aria-label="{label}">{"".join(parts)}</svg>'


def critical_difference(names: Sequence[str], ranks: Sequence[float], difference: float) -> str:
    """Draw average ranks on a line; a bar joins methods that Nemenyi's test does not tell apart.

    Examples
    --------
    >>> svg = critical_difference(["DPLAN", "DUA", "REPEN"], [1.2, 1.5, 3.0], 1.0)
    >>> svg.count('class="bar"'), svg.count('class="stem"')
    (1, 3)
    """
    order = sorted(range(len(names)), key=ranks.__getitem__)
    ordered = [ranks[i] for i in order]
    half = (len(order) + 1) // 2
    left, right, axis = 150.0, 490.0, 56.0
    top_rank = max(len(names), 2)

    def place(rank: float) -> float:
        return left + (rank - 1) / (top_rank - 1) * (right - left)

    bars = _cliques(ordered, difference)
    first_label = axis + 14 + 9 * len(bars)
    height = first_label + 20 * half + 12
    parts = [f'<path class="axis" d="M{left} {axis}H{right}"/>']
    for rank in range(1, top_rank + 1):
        parts.append(f'<path class="axis" d="M{place(rank):.1f} {axis - 5}v5"/>')
        parts.append(_text(place(rank), axis - 9, str(rank), "middle"))
    end = place(1) + difference / (top_rank - 1) * (right - left)
    parts.append(f'<path class="scale" d="M{left} 18H{min(end, 630):.1f}"/>')
    parts.append(_text(left, 12, f"critical difference {difference:.2f}", "start"))
    for level, (begin, stop) in enumerate(bars):
        y = axis + 9 + 9 * level
        parts.append(
            f'<path class="bar" d="M{place(ordered[begin]) - 3:.1f} {y}H{place(ordered[stop]) + 3:.1f}"/>'
        )
    for i, number in enumerate(order):
        x, on_left = place(ranks[number]), i < half
        y = first_label + 20 * (i if on_left else len(order) - 1 - i) + 6
        edge = left - 8 if on_left else right + 8
        parts.append(f'<path class="stem" d="M{x:.1f} {axis}V{y}H{edge}"/>')
        label = f"{names[number]} {ranks[number]:.2f}"
        parts.append(_text(edge + (-4 if on_left else 4), y + 4, label, "end" if on_left else "start"))
    return (
        f'<svg viewBox="0 0 640 {height:.0f}" class="narrow" role="img" aria-label="Critical-difference diagram">'
        f"{''.join(parts)}</svg>"
    )


def _cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Give the longest stretches of sorted ranks that lie within the critical difference."""
    found: list[tuple[int, int]] = []
    for begin in range(len(ranks)):
        stop = max(i for i in range(begin, len(ranks)) if ranks[i] - ranks[begin] <= difference)
        if stop > begin and (not found or stop > found[-1][1]):
            found.append((begin, stop))
    return found


def _panel(
    panel: Panel,
    colours: Mapping[str, str],
    crosses: Mapping[float, float],
    low: float | None,
    x_label: str,
    y_label: str,
) -> str:
    xs = [x for line in panel.lines.values() for x in line.x]
    edges = [
        m + s * d
        for line in panel.lines.values()
        for m, d in zip(line.mean, line.deviation, strict=True)
        for s in (-1, 1)
    ]
    edges += crosses.values()
    bottom, top = min(edges), max(edges)
    if low is not None:
        bottom = min(low, bottom)
    if top - bottom < 1e-9:
        top = bottom + 1.0
    first, last = min(xs), max(xs)

    def at(x: float, y: float) -> str:
        share = (x - first) / (last - first) if last > first else 0.5
        across = _LEFT + share * (_WIDTH - _LEFT - _RIGHT)
        down = _HEIGHT - _BOTTOM - (y - bottom) / (top - bottom) * (_HEIGHT - _TOP - _BOTTOM)
        return f"{across:.1f},{down:.1f}"

    parts = [
        _text(_WIDTH / 2 + 14, 14, panel.title, "middle", "title"),
        f'<path class="axis" d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{_WIDTH - _RIGHT}"/>',
    ]
    for value in (bottom, (bottom + top) / 2, top):
        y = float(at(first, value).split(",")[1])
        parts.append(f'<path class="grid" d="M{_LEFT} {y}H{_WIDTH - _RIGHT}"/>')
        parts.append(_text(_LEFT - 4, y + 3, _short(value), "end"))
    for value in sorted({first, last}):
        parts.append(
            _text(float(at(value, bottom).split(",")[0]), _HEIGHT - _BOTTOM + 11, _short(value), "middle")
        )
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 8, x_label, "middle"))
    parts.append(
        f'<text x="0" y="0" text-anchor="middle" transform="translate(9,{(_TOP + _HEIGHT - _BOTTOM) / 2:.0f}) '
        f'rotate(-90)">{escape(y_label)}</text>'
    )
    for name, line in panel.lines.items():
        upper = [at(x, m + d) for x, m, d in zip(line.x, line.mean, line.deviation, strict=True)]
        lower = [at(x, m - d) for x, m, d in zip(line.x, line.mean, line.deviation, strict=True)]
        points = [at(x, m) for x, m in zip(line.x, line.mean, strict=True)]
        colour = colours[name]
        parts.append(f'<polygon points="{" ".join([*upper, *lower[::-1]])}" fill="{colour}" opacity=".18"/>')
        parts.append(
            f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}" stroke-width="1.6">'
            f"<title>{escape(name)}</title></polyline>"
        )
        parts += [
            f'<circle cx="{x}" cy="{y}" r="1.8" fill="{colour}"/>' for x, y in (p.split(",") for p in points)
        ]
    for x, y in crosses.items():
        across, down = at(x, y).split(",")
        parts.append(f'<path class="cross" d="M{across} {down}m-4 -4l8 8m0 -8l-8 8"/>')
    return "".join(parts)


def _legend(colours: Mapping[str, str], with_cross: bool) -> str:
    parts, x = [], _LEFT
    for name, colour in colours.items():
        parts.append(f'<path d="M{x} 10h16" stroke="{colour}" stroke-width="3"/>')
        parts.append(_text(x + 21, 14, name, "start", "legend"))
        x += 40 + 7 * len(name)
    if with_cross:
        parts.append(f'<path class="cross" d="M{x} 10m2 -4l8 8m0 -8l-8 8"/>')
        parts.append(_text(x + 16, 14, "paper", "start", "legend"))
    return "".join(parts)


def _text(x: float, y: float, text: str, anchor: str, style: str = "label") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" class="{style}">{escape(text)}</text>'


def _short(value: float) -> str:
    if abs(value) >= 10_000:
        return f"{value / 1000:.0f}k"
    return f"{value:.0f}" if abs(value) >= 10 or value == round(value) else f"{value:.2f}"
