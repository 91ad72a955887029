"""What all pages show in the same way: numbers, small line charts side by side, and ranks of methods."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from dplan._html.blocks import Entry, Figure, Grid
from dplan._html.charts import N_COLOURS, Axis, Line, key, line_chart, svg, text_at
from experiments.statistics import rank_methods

__all__ = ["METRICS", "Line", "critical_difference", "number_text", "panels", "ranks"]

METRICS = {"auc_pr": "AUC-PR", "auc_roc": "AUC-ROC"}


def number_text(value: float | None, digits: int = 3, sign: bool = False) -> str:
    """Format a number; None becomes a dash.

    Examples
    --------
    >>> number_text(0.5), number_text(-0.0254, sign=True), number_text(-0.0001, sign=True), number_text(None)
    ('0.500', '−0.025', '+0.000', '–')
    """
    if value is None or value != value:  # NaN
        return "–"
    value = round(value, digits) + 0.0  # no minus before a zero
    return f"{value:{'+' if sign else ''}.{digits}f}".replace("-", "−")


def panels(
    charts: Mapping[str, Mapping[str, Line]],
    x_label: str,
    y_label: str,
    crosses: Mapping[str, Mapping[float, float]] | None = None,
) -> Markup:
    """Draw small line charts side by side, with one legend.

    Parameters
    ----------
    charts : mapping of str to mapping of str to Line
        By title, the lines of each chart by name.
    x_label, y_label : str
        Titles of the axes.
    crosses : mapping, optional
        By title, published points to compare with.

    Examples
    --------
    >>> svg = panels({"dos": {"DPLAN": Line([1, 2], [.5, .6], [.1, .1])}}, "classes", "AUC-PR")
    >>> svg.count("<svg"), svg.count('class="line c0"'), svg.count('class="band c0"')
    (1, 1, 1)
    """
    names = list(dict.fromkeys(name for lines in charts.values() for name in lines))
    styles = {name: f"c{i % N_COLOURS}" for i, name in enumerate(names)}
    legend = key({style: name for name, style in styles.items()}, cross="paper" if crosses else "")
    drawn = [
        line_chart(
            {styles[name]: line for name, line in lines.items()},
            title=title,
            x_label=x_label,
            y_label=y_label,
            crosses=(crosses or {}).get(title, {}),
            size=(260, 175),
            show_title=True,
        )
        for title, lines in charts.items()
    ]
    return Markup('{}<div class="panels">{}</div>').format(legend, Markup("").join(drawn))


def ranks(
    matrix: NDArray[np.float64], names: Sequence[str], title: str, places: str, *, difference: bool = False
) -> Iterator[Figure]:
    """Draw the average ranks of methods over tables or data sets, if there are enough of both.

    `matrix` has one row per table and one column per method; `places` is what the rows are called. The values
    of the diagram stand in a table below it, with the critical difference if wanted.
    """
    ranking = rank_methods(matrix)
    if ranking is None:
        return
    average = ranking.ranks.tolist()
    rows = [[Entry(names[i]), Entry(number_text(average[i], 2))] for i in np.argsort(ranking.ranks)]
    if difference:
        rows.append([Entry("critical difference"), Entry(number_text(ranking.critical_difference, 2))])
    short = [name.removesuffix(" (published)") for name in names]
    yield Figure(
        critical_difference(short, average, ranking.critical_difference),
        f"Average ranks by {title} over {ranking.n} {places}; 1 is best. Friedman test: p = {ranking.p_value:.2g}. "
        "Bars join methods that the Nemenyi test does not separate at the 5 % level.",
        Grid(["method", f"average rank by {title}"], rows),
    )


def critical_difference(names: Sequence[str], ranks: Sequence[float], difference: float) -> Markup:
    """Draw average ranks on a line; a bar joins methods whose difference is not significant (Nemenyi's test).

    Examples
    --------
    >>> svg = critical_difference(["DPLAN", "DUA", "REPEN"], [1.2, 1.5, 3.0], 1.0)
    >>> svg.count('class="joined"'), svg.count('class="stem"')
    (1, 3)
    """
    order = sorted(range(len(names)), key=ranks.__getitem__)
    ordered = [ranks[i] for i in order]
    half = (len(order) + 1) // 2
    left, right, axis = 150.0, 490.0, 56.0
    place = Axis(1, max(len(names), 2), left, right)
    joined = _cliques(ordered, difference)
    first_label = axis + 14 + 9 * len(joined)
    parts = [f'<path class="axis" d="M{left} {axis}H{right}"/>']
    for rank in range(1, max(len(names), 2) + 1):
        parts.append(f'<path class="axis" d="M{place(rank):.1f} {axis - 5}v5"/>')
        parts.append(text_at(place(rank), axis - 9, str(rank), "middle"))
    parts.append(f'<path class="scale" d="M{left} 18H{min(place(1 + difference), 630):.1f}"/>')
    parts.append(text_at(left, 12, f"critical difference {difference:.2f}", "start"))
    for level, (begin, stop) in enumerate(joined):
        ends = f"M{place(ordered[begin]) - 3:.1f} {axis + 9 + 9 * level}H{place(ordered[stop]) + 3:.1f}"
        parts.append(f'<path class="joined" d="{ends}"/>')
    for i, number in enumerate(order):
        on_left = i < half
        y = first_label + 20 * (i if on_left else len(order) - 1 - i) + 6
        edge = left - 8 if on_left else right + 8
        parts.append(f'<path class="stem" d="M{place(ranks[number]):.1f} {axis}V{y}H{edge}"/>')
        name = f"{names[number]} {ranks[number]:.2f}"
        parts.append(text_at(edge + (-4 if on_left else 4), y + 4, name, "end" if on_left else "start"))
    drawn = svg("Critical-difference diagram", 640, round(first_label + 20 * half + 12), parts, "ranks")
    return Markup('<div class="scroll">{}</div>').format(drawn)


def _cliques(ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Return the longest runs of sorted ranks within the critical difference."""
    found: list[tuple[int, int]] = []
    for begin in range(len(ranks)):
        stop = max(i for i in range(begin, len(ranks)) if ranks[i] - ranks[begin] <= difference)
        if stop > begin and (not found or stop > found[-1][1]):
            found.append((begin, stop))
    return found
