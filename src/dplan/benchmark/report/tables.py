"""The report's tables: ours beside the paper's, known and unknown anomalies apart, class by class, at the top."""

from collections.abc import Iterator

import numpy as np

from dplan.benchmark import published
from dplan.benchmark.metrics import TOPS
from dplan.benchmark.report.blocks import Block, Entry, Figure, Grid, Heading, Paragraph, figures_text
from dplan.benchmark.report.drawing import critical_difference
from dplan.benchmark.results import Results, Spread, spread
from dplan.benchmark.statistics import rank_methods, wilcoxon_p_value, wins_ties_losses

__all__ = [
    "MEASURES",
    "REFERENCE",
    "comparison",
    "methods_of",
    "over_datasets",
    "seeds_text",
    "speed",
    "title_of",
]

MEASURES = {"auc_pr": "AUC-PR", "auc_roc": "AUC-ROC"}
REFERENCE = "DPLAN"


def title_of(dataset: str) -> str:
    """Write a data set's name as the paper does.

    Examples
    --------
    >>> title_of("dos"), title_of("douglas-fir")
    ('DoS', 'Douglas-fir')
    """
    return {"dos": "DoS"}.get(dataset, dataset.capitalize())


def methods_of(results: Results, suite: str, protocol: str | None = None) -> list[str]:
    """List the methods of a suite, under one protocol or any: the paper's first."""
    order = [*published.methods("table2"), *published.methods("table3")]
    return results.names(suite, "method", order, protocol)


def seeds_text(results: Results, suite: str, protocol: str) -> str:
    """Say how many runs stand behind each figure."""
    runs: dict[tuple[str, float | None, str], int] = {}
    for cell in results.select(suite, protocol):
        place = (cell["dataset"], cell["x"], cell["method"])
        runs[place] = runs.get(place, 0) + 1
    fewest, most = min(runs.values()), max(runs.values())
    number = str(most) if fewest == most else f"{fewest} to {most}"
    plural = "s" if most > 1 else ""
    return f"Protocol {protocol}, {number} run{plural} each, mean ± standard deviation."


def comparison(
    results: Results, suite: str, protocol: str, table: published.Table, details: bool
) -> Iterator[Block]:
    """Give the chapter of `table2` or `ablation` under one protocol."""
    datasets = results.names(suite, "dataset", published.data_sets(), protocol)
    methods = methods_of(results, suite, protocol)
    yield Paragraph(
        f"{seeds_text(results, suite, protocol)} Beneath each figure stand the paper's and ours minus the paper's."
    )
    for measure, title in MEASURES.items():
        yield _beside_the_paper(results, suite, protocol, table, measure, title, datasets, methods)
        yield from _ranks(results, suite, protocol, measure, title, datasets, methods)
    yield _known_and_unknown(results, suite, protocol, methods)
    if details:
        yield from _class_by_class(results, suite, protocol, methods)
        yield _at_the_top(results, suite, protocol, methods)


def _beside_the_paper(
    results: Results,
    suite: str,
    protocol: str,
    table: published.Table,
    measure: str,
    title: str,
    datasets: list[str],
    methods: list[str],
) -> Grid:
    groups = results.groups(suite, protocol, lambda cell: cell[measure])
    rows = []
    for dataset in datasets:
        ours = {method: groups.get((dataset, None, method)) for method in methods}
        best = max((figure.mean for figure in ours.values() if figure), default=None)
        rows.append(
            [
                Entry(title_of(dataset)),
                *(
                    _entry(ours[method], published.figure(table, measure, dataset, method), best)
                    for method in methods
                ),
            ]
        )
    matrix = results.matrix(suite, protocol, measure, datasets, methods)
    complete = np.asarray(~np.isnan(matrix).any(axis=1))
    averages: list[Spread | None] = [None] * len(methods)
    if complete.any():
        averages = []
        for column, method in zip(matrix.T, methods, strict=True):
            deviations = [
                groups[dataset, None, method].deviation
                for dataset, whole in zip(datasets, complete, strict=True)
                if whole
            ]
            averages.append(Spread(float(column[complete].mean()), float(np.mean(deviations))))
    best = max((figure.mean for figure in averages if figure), default=None)
    # The paper's average is over its 13 data sets and says nothing about fewer.
    whole_table = complete.all() and datasets == published.data_sets()
    rows.append(
        [
            Entry(f"Average of {int(complete.sum())}"),
            *(
                _entry(figure, published.average(table, measure, method) if whole_table else None, best)
                for figure, method in zip(averages, methods, strict=True)
            ),
        ]
    )
    if REFERENCE in methods:
        reference = matrix[:, methods.index(REFERENCE)]
        p_values, counts = [Entry("Wilcoxon p-value")], [Entry(f"{REFERENCE} wins / ties / losses")]
        for column, method in zip(matrix.T, methods, strict=True):
            if method == REFERENCE:
                p_values.append(Entry("–"))
                counts.append(Entry("–"))
                continue
            theirs = published.p_value(table, measure, method)
            note = f"paper {theirs:.4f}" if theirs is not None else ""
            p_values.append(Entry(figures_text(wilcoxon_p_value(reference, column), 4), note))
            counts.append(Entry(" / ".join(map(str, wins_ties_losses(reference, column)))))
        rows += [p_values, counts]
    return Grid([title, *methods], rows)


def _entry(ours: Spread | None, theirs: published.Published | None, best: float | None) -> Entry:
    note = ""
    if theirs is not None:
        note = f"paper {theirs.mean:.3f}"
        if ours is not None:
            note += f", {figures_text(ours.mean - theirs.mean, sign=True)}"
    if ours is None:
        return Entry("–", note)
    return Entry(f"{ours.mean:.3f} ± {ours.deviation:.3f}", note, strong=ours.mean == best)


def _ranks(
    results: Results,
    suite: str,
    protocol: str,
    measure: str,
    title: str,
    datasets: list[str],
    methods: list[str],
) -> Iterator[Block]:
    ranking = rank_methods(results.matrix(suite, protocol, measure, datasets, methods))
    if ranking is None:
        return
    ranks = ranking.ranks.tolist()
    caption = (
        f"Average ranks by {title} over {ranking.n} data sets, 1 being best. Friedman's p-value is "
        f"{ranking.p_value:.2g}. A bar joins methods that Nemenyi's test at 5 % does not tell apart."
    )
    order = np.argsort(ranking.ranks)
    rows = [[Entry(methods[i]), Entry(figures_text(ranks[i], 2))] for i in order]
    rows.append([Entry("critical difference"), Entry(figures_text(ranking.critical_difference, 2))])
    svg = critical_difference(methods, ranks, ranking.critical_difference)
    yield Figure(svg, caption, Grid(["method", f"average rank by {title}"], rows))


def _known_and_unknown(results: Results, suite: str, protocol: str, methods: list[str]) -> Grid:
    head, columns = ["method"], []
    for measure, title in MEASURES.items():
        for suffix, group in (("", "all"), ("_known", "known"), ("_unknown", "unknown")):
            head.append(f"{title} {group}")
            groups = results.groups(suite, protocol, lambda cell, name=measure + suffix: cell[name])  # type: ignore[misc]
            columns.append({method: over_datasets(groups, method) for method in methods})
    rows = []
    for method in methods:
        entries = [
            Entry(figures_text(column[method]), strong=column[method] == _best(column)) for column in columns
        ]
        rows.append([Entry(method), *entries])
    caption = "Anomalies of classes with labelled rows and of classes without any, each against the normal rows alone."
    return Grid(head, rows, caption)


def over_datasets(groups: dict[tuple[str, float | None, str], Spread], method: str) -> float:
    """Average a method over the data sets; NaN if it has no figure."""
    means = [figure.mean for (_, _, name), figure in groups.items() if name == method]
    return float(np.mean(means)) if means else float("nan")


def _best(column: dict[str, float]) -> float | None:
    return max((value for value in column.values() if value == value), default=None)  # not NaN


def _class_by_class(results: Results, suite: str, protocol: str, methods: list[str]) -> Iterator[Block]:
    values: dict[tuple[str, str], dict[tuple[str, bool], list[float]]] = {}
    for cell in results.select(suite, protocol):
        source = cell["scenario"].split("/")[0]
        for name, (auc_pr, _) in cell["classes"].items():
            by_method = values.setdefault((source, name), {})
            by_method.setdefault((cell["method"], name in cell["known"]), []).append(auc_pr)
    order = published.data_sets()  # a data set has the name of its known class
    rows = []
    for (source, name), by_method in sorted(
        values.items(),
        key=lambda item: (order.index(item[0][1]) if item[0][1] in order else len(order), item[0]),
    ):
        entries = [Entry(f"{title_of(name)} ({source})")]
        for method in methods:
            unknown, known = by_method.get((method, False)), by_method.get((method, True))
            missed = spread(unknown).mean if unknown else None
            note = f"known {spread(known).mean:.3f}" if known else ""
            entries.append(Entry(figures_text(missed), note, shade=missed))
        rows.append(entries)
    yield Heading("Which anomaly classes does each method miss?", 4)
    yield Grid(
        ["AUC-PR while unknown", *methods],
        rows,
        "Each class against the normal rows alone: while no label shows it, and beneath it where it is the known one. "
        "Pale means missed.",
    )


def _at_the_top(results: Results, suite: str, protocol: str, methods: list[str]) -> Grid:
    columns = []
    for top in TOPS:
        groups = results.groups(suite, protocol, lambda cell, key=str(top): cell["precision_at"][key])  # type: ignore[misc]
        columns.append({method: over_datasets(groups, method) for method in methods})
    rows = [
        [
            Entry(method),
            *(
                Entry(figures_text(column[method]), strong=column[method] == _best(column))
                for column in columns
            ),
        ]
        for method in methods
    ]
    return Grid(
        ["method", *(f"precision at {top}" for top in TOPS)],
        rows,
        "Share of anomalies among the highest scores, averaged over the data sets.",
    )


def speed(results: Results, protocol: str) -> Iterator[Block]:
    """Give the chapter of `speed` under one protocol."""
    datasets = results.names("speed", "dataset", published.data_sets(), protocol)
    fit = results.groups("speed", protocol, lambda cell: cell["fit_seconds"])
    score = results.groups("speed", protocol, lambda cell: cell["score_seconds"])
    said = published.contents()["text"]["speed"]
    rows = []
    for method in methods_of(results, "speed", protocol):
        fits = [fit[name, None, method].mean for name in datasets if (name, None, method) in fit]
        scores = [score[name, None, method].mean for name in datasets if (name, None, method) in score]
        low, high = said["seconds_to_fit_dplan"]
        total = said["seconds_to_score_all_13_test_sets"].get(method)
        rows.append(
            [
                Entry(method),
                Entry(
                    f"{np.mean(fits):.2f}",
                    f"paper {low} to {high} on most data sets" if method == REFERENCE else "",
                ),
                Entry(f"{min(fits):.2f} to {max(fits):.2f}"),
                Entry(
                    f"{sum(scores):.2f}",
                    f"paper {'below ' if total == 3 else 'about '}{total}" if total else "",
                ),
            ]
        )
    yield Paragraph(
        seeds_text(results, "speed", protocol).replace(", mean ± standard deviation", "")
        + " One cell at a time on one thread; the paper's computer was another one."
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
