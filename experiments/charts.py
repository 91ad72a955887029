"""Charts of the pages: small line charts side by side, and critical-difference diagrams."""

from collections.abc import Mapping, Sequence

from markupsafe import Markup

from dplan._html.charts import N_COLOURS, Axis, Line, key, line_chart, svg, text_at

__all__ = ["Line", "critical_difference", "panels"]


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
