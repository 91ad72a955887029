"""The report's tables and charts, all computed from the journal."""

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from dplan._html.blocks import Block, Entry, Figure, Grid, Heading, Paragraph
from experiments.cells import TOPS
from experiments.charts import METRICS, Line, number_text, panels, ranks
from experiments.paper import published
from experiments.results import Groups, Results, Spread
from experiments.statistics import wilcoxon_p_value, wins_ties_losses

__all__ = ["REFERENCE", "averages", "chapter", "methods_of", "over_datasets", "title_of"]

Matrix = NDArray[np.float64]  # one row per data set, one column per method

REFERENCE = "DPLAN"
_SWEEPS = {
    "known-classes": "known classes",
    "pollution": "percent of anomalies",
    "dimensions": "hidden units",
}


def title_of(dataset: str) -> str:
    """Write a data set's name as the paper does.

    Examples
    --------
    >>> title_of("dos"), title_of("douglas-fir")
    ('DoS', 'Douglas-fir')
    """
    return {"dos": "DoS"}.get(dataset, dataset.capitalize())


def methods_of(results: Results, suite: str, protocol: str | None = None) -> list[str]:
    """List the methods of a suite, with one protocol or any: the paper's first."""
    order = [*published.methods("table2"), *published.methods("table3")]
    return results.names(suite, "method", order, protocol)


def over_datasets(groups: Groups, method: str) -> float:
    """Average a method over the data sets; NaN if it has no result."""
    means = [spread.mean for (_, _, name), spread in groups.items() if name == method]
    return float(np.mean(means)) if means else float("nan")


def chapter(results: Results, suite: str, protocol: str) -> Iterator[Block]:
    """Return the chapter of a suite with one protocol."""
    if suite in ("table2", "ablation"):
        yield from _comparison(results, suite, protocol)
    elif suite in _SWEEPS:
        yield from _sweep(results, suite, protocol)
    elif suite == "steps":
        yield from _steps(results, protocol)
    elif suite == "speed":
        yield from _speed(results, protocol)


def _runs(results: Results, suite: str, protocol: str) -> str:
    """Return the number of runs behind each value as text."""
    counts = [group.runs for group in results.groups(suite, protocol, "fit_seconds").values()]
    fewest, most = min(counts), max(counts)
    return f"{most} run{'s' * (most > 1)}" if fewest == most else f"{fewest} to {most} runs"


def _comparison(results: Results, suite: str, protocol: str) -> Iterator[Block]:
    datasets = results.names(suite, "dataset", published.data_sets(), protocol)
    methods = methods_of(results, suite, protocol)
    yield Paragraph(
        f"Protocol {protocol}, {_runs(results, suite, protocol)} each, mean ± standard deviation. Below each value: "
        "the paper's, and the difference (ours minus the paper's)."
    )
    for metric, title in METRICS.items():
        matrix = results.matrix(suite, protocol, metric, datasets, methods)
        groups = results.groups(suite, protocol, metric)
        yield _compared_with_the_paper(groups, matrix, suite, metric, datasets, methods)
        yield from ranks(matrix, methods, title, "data sets", difference=True)
    columns = {
        f"{title} {group}": results.groups(suite, protocol, metric + suffix)
        for metric, title in METRICS.items()
        for suffix, group in (("", "all"), ("_known", "known"), ("_unknown", "unknown"))
    }
    yield averages(
        methods,
        columns,
        "Known: anomalies of classes with labelled rows; unknown: of classes without any; each group against the "
        "normal rows alone.",
    )
    if suite == "table2":
        yield from _class_by_class(results, suite, protocol, methods)
        columns = {f"precision at {top}": results.groups(suite, protocol, str(top)) for top in TOPS}
        yield averages(
            methods, columns, "Share of anomalies among the highest scores, averaged over the data sets."
        )


def averages(methods: list[str], columns: Mapping[str, Groups], caption: str) -> Grid:
    """Average metrics over the data sets, one row per method, the best in bold."""
    means = [{method: over_datasets(groups, method) for method in methods} for groups in columns.values()]
    best = [max((value for value in column.values() if value == value), default=None) for column in means]
    rows = [
        [
            Entry(method),
            *(
                Entry(number_text(column[method]), strong=column[method] == top)
                for column, top in zip(means, best, strict=True)
            ),
        ]
        for method in methods
    ]
    return Grid(["method", *columns], rows, caption)


def _compared_with_the_paper(
    groups: Groups, matrix: Matrix, suite: str, metric: str, datasets: list[str], methods: list[str]
) -> Grid:
    table: published.Table = "table2" if suite == "table2" else "table3"
    rows = []
    for dataset in datasets:
        ours = [groups.get((dataset, None, method)) for method in methods]
        theirs = [published.result(table, metric, dataset, method) for method in methods]
        rows.append([Entry(title_of(dataset)), *_entries(ours, theirs)])
    complete = ~np.asarray(np.isnan(matrix).any(axis=1))
    averages: list[Spread | None] = [None] * len(methods)
    if complete.any():
        for i, method in enumerate(methods):
            whole = [
                groups[name, None, method] for name, all_ in zip(datasets, complete, strict=True) if all_
            ]
            deviation = float(np.mean([group.deviation for group in whole]))
            averages[i] = Spread(float(matrix[complete, i].mean()), deviation, 0)
    # The paper's average is over its 13 data sets and says nothing about fewer.
    whole_table = complete.all() and datasets == published.data_sets()
    printed = [published.average(table, metric, method) if whole_table else None for method in methods]
    rows.append([Entry(f"Average of {int(complete.sum())}"), *_entries(averages, printed)])
    if REFERENCE in methods:
        reference = matrix[:, methods.index(REFERENCE)]
        p_values, counts = [Entry("Wilcoxon p-value")], [Entry(f"{REFERENCE} wins / ties / losses")]
        for column, method in zip(matrix.T, methods, strict=True):
            if method == REFERENCE:
                p_values.append(Entry("–"))
                counts.append(Entry("–"))
                continue
            p_value = published.p_value(table, metric, method)
            note = f"paper {p_value:.4f}" if p_value is not None else ""
            p_values.append(Entry(number_text(wilcoxon_p_value(reference, column), 4), note))
            counts.append(Entry(" / ".join(map(str, wins_ties_losses(reference, column)))))
        rows += [p_values, counts]
    return Grid([METRICS[metric], *methods], rows)


def _entries(ours: list[Spread | None], theirs: list[published.Published | None]) -> Iterator[Entry]:
    """Return one row: our values, the best in bold, with the paper's below."""
    best = max((spread.mean for spread in ours if spread), default=None)
    for spread, paper in zip(ours, theirs, strict=True):
        note = f"paper {paper.mean:.3f}" if paper else ""
        if paper and spread:
            note += f", {number_text(spread.mean - paper.mean, sign=True)}"
        text = f"{spread.mean:.3f} ± {spread.deviation:.3f}" if spread else "–"
        yield Entry(text, note, strong=spread is not None and spread.mean == best)


def _class_by_class(results: Results, suite: str, protocol: str, methods: list[str]) -> Iterator[Block]:
    values: dict[tuple[str, str], dict[tuple[str, bool], list[float]]] = {}
    for cell in results.select(suite, protocol):
        source = cell["scenario"].split("/")[0]
        for name, (auc_pr, _) in cell["classes"].items():
            by_method = values.setdefault((source, name), {})
            by_method.setdefault((cell["method"], name in cell["known"]), []).append(auc_pr)
    order = {
        name: i for i, name in enumerate(published.data_sets())
    }  # data sets are named after their known class
    rows = []
    for source, name in sorted(values, key=lambda place: (order.get(place[1], len(order)), place)):
        entries = [Entry(f"{title_of(name)} ({source})")]
        for method in methods:
            unknown, known = (values[source, name].get((method, is_known)) for is_known in (False, True))
            mean = float(np.mean(unknown)) if unknown else None
            entries.append(
                Entry(number_text(mean), f"known {np.mean(known):.3f}" if known else "", shade=mean)
            )
        rows.append(entries)
    yield Heading("Which anomaly classes does each method miss?", 4)
    yield Grid(
        ["AUC-PR when unknown", *methods],
        rows,
        "Each class against the normal rows alone, when none of its rows is labelled; below, when it is the known "
        "class. Pale cells are missed classes.",
    )


def _sweep(results: Results, suite: str, protocol: str) -> Iterator[Block]:
    datasets = results.names(suite, "dataset", published.data_sets(), protocol)
    crosses: dict[str, dict[float, float]] = {}
    if suite != "dimensions":  # the first point of the sweep is an entry of the paper's Table 2
        start = 1.0 if suite == "known-classes" else 2.0
        entries = {name: published.result("table2", "auc_pr", name, REFERENCE) for name in datasets}
        crosses = {title_of(name): {start: entry.mean} for name, entry in entries.items() if entry}
    yield Paragraph(
        f"Protocol {protocol}, {_runs(results, suite, protocol)} each, mean ± standard deviation."
    )
    groups = results.groups(suite, protocol, "auc_pr")
    yield _charts(groups, datasets, methods_of(results, suite, protocol), _SWEEPS[suite], "AUC-PR", crosses)


def _charts(
    groups: Groups,
    datasets: list[str],
    methods: list[str],
    x_label: str,
    y_label: str,
    crosses: Mapping[str, Mapping[float, float]],
) -> Figure:
    """Draw a panel per data set, with the same values as a table."""
    xs = sorted({x for _, x, _ in groups if x is not None})
    charts: dict[str, dict[str, Line]] = {}
    rows = []
    for dataset in datasets:
        lines = charts.setdefault(title_of(dataset), {})
        for method in methods:
            spreads = {x: groups[dataset, x, method] for x in xs if (dataset, x, method) in groups}
            if not spreads:
                continue
            means = {x: spread.mean for x, spread in spreads.items()}
            lines[method] = Line(
                [*means], [*means.values()], [spread.deviation for spread in spreads.values()]
            )
            digits = 3 if max(map(abs, means.values())) < 10 else 0
            texts = [number_text(means.get(x), digits) for x in xs]
            rows.append([Entry(title_of(dataset)), Entry(method), *map(Entry, texts)])
    caption = f"{y_label} by {x_label}; bands are ± one standard deviation."
    if crosses:
        caption += f" The cross is {REFERENCE} in the paper's Table 2."
    table = Grid([f"{y_label} by {x_label}", "method", *(f"{x:,g}" for x in xs)], rows, text_columns=(0, 1))
    return Figure(panels(charts, x_label, y_label, crosses), caption, table)


def _steps(results: Results, protocol: str) -> Iterator[Block]:
    datasets = results.names("steps", "dataset", published.data_sets(), protocol)
    yield Paragraph(
        f"Protocol {protocol}, {_runs(results, 'steps', protocol)} each, mean ± standard deviation. One training per "
        "run, evaluated every 10,000 steps; the reward is per episode, averaged since the previous evaluation."
    )
    theirs = published.contents()["text"]["steps"]["auc_pr_after_100000_steps"]
    for metric, title in (("auc_pr", "AUC-PR"), ("reward", "episode reward")):
        groups = results.curve(protocol, metric)
        last = max(x for _, x, _ in groups if x is not None)
        crosses: dict[str, dict[float, float]] = {}
        for dataset in datasets if metric == "auc_pr" else ():
            entry = published.result("table2", metric, dataset, REFERENCE)
            points = {20_000.0: entry.mean} if entry else {}
            points |= {100_000.0: theirs[dataset]} if dataset in theirs else {}
            crosses[title_of(dataset)] = {x: y for x, y in points.items() if x <= last}
        yield _charts(groups, datasets, methods_of(results, "steps", protocol), "steps", title, crosses)


def _speed(results: Results, protocol: str) -> Iterator[Block]:
    datasets = results.names("speed", "dataset", published.data_sets(), protocol)
    fit, score = (results.groups("speed", protocol, f"{what}_seconds") for what in ("fit", "score"))
    said = published.contents()["text"]["speed"]
    low, high = said["seconds_to_fit_dplan"]
    rows = []
    for method in methods_of(results, "speed", protocol):
        fits, scores = (
            [group.mean for (_, _, m), group in groups.items() if m == method] for groups in (fit, score)
        )
        total = said["seconds_to_score_all_13_test_sets"].get(method)
        theirs = f"paper {'below ' if total == 3 else 'about '}{total}" if total else ""
        paper = f"paper {low} to {high} on most data sets" if method == REFERENCE else ""
        range_ = Entry(f"{min(fits):.2f} to {max(fits):.2f}")
        rows.append(
            [Entry(method), Entry(f"{np.mean(fits):.2f}", paper), range_, Entry(f"{sum(scores):.2f}", theirs)]
        )
    yield Paragraph(
        f"Protocol {protocol}, {_runs(results, 'speed', protocol)} each. One cell at a time on one thread; the paper "
        "used a different computer."
    )
    yield Grid(
        [
            "method",
            "seconds to fit, mean",
            "fastest to slowest data set",
            f"seconds to score all {len(datasets)} test sets",
        ],
        rows,
    )
