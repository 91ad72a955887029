"""The summary of the report: our results compared with the paper's, in one table and in sentences."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._html.blocks import Block, Entry, Grid, Heading, Items, Paragraph
from experiments.charts import METRICS, number_text
from experiments.paper import published
from experiments.paper.tables import REFERENCE, methods_of, over_datasets, title_of
from experiments.paper.trends import listing, trends
from experiments.results import Results
from experiments.statistics import wilcoxon_p_value, wins_ties_losses
from experiments.suites import PAPER_SUITES

__all__ = ["partial_data", "summary"]

_NEAR, _FAR = 0.02, 0.05  # differences that the report calls close, and lower or higher
_LEVEL = 0.05
_TABLES: dict[str, tuple[published.Table, str]] = {
    "table2": ("table2", "Table 2"),
    "ablation": ("table3", "Table 3"),
}


class Source(NamedTuple):
    """The results of one table from one source: the paper, or ours with one protocol.

    Attributes
    ----------
    name : str
        ``"paper"``, or the protocol.
    datasets, methods : list of str
        The same for all sources.
    table : ndarray of shape (n_data_sets, n_methods)
        Means over the runs, NaN for missing results.
    """

    name: str
    datasets: list[str]
    methods: list[str]
    table: NDArray[np.float64]

    def column(self, method: str) -> NDArray[np.float64]:
        """Return a method's results, one per data set."""
        return self.table[:, self.methods.index(method)]

    @property
    def available(self) -> list[str]:
        """The methods with results from this source."""
        return [method for method in self.methods if not np.isnan(self.column(method)).all()]

    def averages(self) -> dict[str, float]:
        """Return the average over the data sets, by method."""
        return {method: float(np.nanmean(self.column(method))) for method in self.available}


def sources(results: Results, suite: str, table: published.Table, metric: str) -> list[Source]:
    """Return the paper's results and ours, on the data sets that we have results for."""
    datasets = results.names(suite, "dataset", published.data_sets())
    methods = methods_of(results, suite)
    theirs = [[published.result(table, metric, name, method) for method in methods] for name in datasets]
    paper = np.array([[value.mean if value else np.nan for value in row] for row in theirs])
    ours = [
        Source(protocol, datasets, methods, results.matrix(suite, protocol, metric, datasets, methods))
        for protocol in results.protocols(suite)
    ]
    return [Source("paper", datasets, methods, paper.reshape(len(datasets), len(methods))), *ours]


def summary(results: Results) -> Iterator[Block]:
    """Return the summary; nothing if there are no cells.

    Examples
    --------
    >>> list(summary(Results([])))
    []
    """
    if not results.cells:
        return
    yield Heading("Summary")
    yield Paragraph(_introduction(results))
    answers = list(_answers(results))
    if answers:
        yield Items(answers)
    for suite, (table, title) in _TABLES.items():
        if results.protocols(suite):
            yield _headline(results, suite, table, title)
    for title, sentences in (
        ("Where our results match the paper, and where they do not", list(_against_the_paper(results))),
        ("Other findings", list(_findings(results))),
    ):
        if sentences:
            yield Heading(title, 3)
            yield Items(sentences)


def partial_data(results: Results) -> dict[str, list[str]]:
    """Return what each data set lacks compared with the paper's Table 1."""
    return {name: lacks for run in results.runs for name, lacks in run["partial"].items()}


def _introduction(results: Results) -> str:
    meaning = {
        "fixed": "With the protocol fixed, only the detector's seed varies between runs, as the paper's small standard "
        "deviations suggest it did there.",
        "resampled": "With the protocol resampled, the split, the labels and the contaminants vary as well.",
    }
    parts = [
        f"Written by python -m experiments report from {len(results.cells):,} records; each is one method, fitted once "
        "on one data set with one seed.",
        *(
            meaning[protocol]
            for protocol in sorted({p for suite in PAPER_SUITES for p in results.protocols(suite)})
        ),
    ]
    partial = [
        f"{name} ({'; '.join(lacks)})" for name, lacks in sorted(partial_data(results).items()) if lacks
    ]
    if partial:
        parts.append(
            f"Some of the data is incomplete, so not all results are comparable: {', '.join(partial)}."
        )
    if results.failed:
        parts.append(
            f"Failed cells, which are missing here: {len(results.failed):,}; see the end of the page."
        )
    return " ".join(parts)


def _answers(results: Results) -> Iterator[str]:
    """Compare DPLAN with the paper and with the other methods."""
    by_metric = {title: sources(results, "table2", "table2", metric) for metric, title in METRICS.items()}
    for number, protocol in enumerate(results.protocols("table2"), start=1):
        texts = []
        for title, every in by_metric.items():
            ours, paper = every[number], every[0]
            means = {m: mean for m, mean in ours.averages().items() if not np.isnan(ours.column(m)).any()}
            if REFERENCE not in means:
                continue
            best = max(means, key=means.__getitem__)
            place = 1 + sum(mean > means[REFERENCE] for mean in means.values())
            beside = f" (paper: {paper.column(REFERENCE).mean():.3f})" if REFERENCE in paper.available else ""
            rank = f"rank {place} of {len(means)}" + (
                f"; {best} is best with {means[best]:.3f}" if place > 1 else ""
            )
            texts.append(f"{REFERENCE} reaches an average {title} of {means[REFERENCE]:.3f}{beside}, {rank}.")
        if texts:
            yield f"Table 2, protocol {protocol}: {' '.join(texts)}"


def _headline(results: Results, suite: str, table: published.Table, title: str) -> Grid:
    """Tabulate the averages of all methods, with how often ours is close to the paper's."""
    head, columns = [title], []
    for metric, name in METRICS.items():
        paper, *ours = sources(results, suite, table, metric)
        theirs = paper.averages()
        if paper.datasets == published.data_sets():  # as printed, because the paper averaged before rounding
            printed = {method: published.average(table, metric, method) for method in paper.available}
            theirs.update({method: average.mean for method, average in printed.items() if average})
        for source in (paper, *ours):
            head.append(f"{name}, {source.name}")
            averages = theirs if source is paper else source.averages()
            complete = [averages[m] for m in averages if not np.isnan(source.column(m)).any()]
            best = max(complete, default=None)
            columns.append(
                [
                    Entry(
                        number_text(averages.get(method)),
                        "" if source is paper else _difference(source, paper, method, averages, theirs),
                        strong=method in averages and averages[method] == best,
                    )
                    for method in source.methods
                ]
            )
    rows = [[Entry(method), *row] for method, *row in zip(methods_of(results, suite), *columns, strict=True)]
    return Grid(
        head,
        rows,
        f"Averages over the data sets. Below ours: the difference from the paper, and the number of data sets on which "
        f"ours is within {_NEAR} of the paper (≈), more than {_FAR} lower (↓), and more than {_FAR} higher (↑).",
    )


def _difference(
    source: Source, paper: Source, method: str, averages: dict[str, float], theirs: dict[str, float]
) -> str:
    """Describe the difference from the paper, and which data sets are missing."""
    if method not in averages:
        return ""
    parts = []
    finished = ~np.isnan(source.column(method))
    if method in theirs:
        difference = source.column(method) - paper.column(method)
        mean = averages[method] - theirs[method] if finished.all() else float(np.nanmean(difference))
        near, lower, higher = (int(which.sum()) for which in _compared(difference))
        parts.append(f"{number_text(mean, sign=True)}: {near} ≈, {lower} ↓, {higher} ↑")
    if not finished.all():
        parts.append(f"{finished.sum()} of {len(finished)} data sets")
    return "; ".join(parts)


def _compared(difference: NDArray[np.float64]) -> tuple[NDArray[np.bool_], ...]:
    """Return where ours is close to the paper's, lower, and higher; rounded as the paper is."""
    rounded = np.round(difference, 3)
    return abs(rounded) <= _NEAR, rounded < -_FAR, rounded > _FAR


def _against_the_paper(results: Results) -> Iterator[str]:
    for suite, (table, name) in _TABLES.items():
        for metric, title in METRICS.items():
            every = sources(results, suite, table, metric)
            if REFERENCE not in every[0].available:
                continue
            if suite == "table2":
                yield from _matches(every, title)
            if len(every[0].available) > 1:
                yield f"{name}, {title}, pairwise Wilcoxon tests at the 5 % level: {_verdicts(every, table, metric)}."
    if REFERENCE in methods_of(results, "table2"):
        yield _deviations(results)
    yield from trends(results)


def _matches(every: Sequence[Source], title: str) -> Iterator[str]:
    """List the data sets on which DPLAN's results match the paper's, by protocol."""
    paper, *ours = every
    for source in ours:
        difference = source.column(REFERENCE) - paper.column(REFERENCE)
        shared = ~np.isnan(difference)
        if not shared.any():
            continue
        near, lower, higher = _compared(difference)
        names = np.array([title_of(name) for name in source.datasets])
        yield (
            f"Table 2: {REFERENCE}'s {title} (protocol {source.name}) averages "
            f"{source.column(REFERENCE)[shared].mean():.3f}, compared with "
            f"{paper.column(REFERENCE)[shared].mean():.3f} in the paper. It is within {_NEAR} of the published "
            f"value on {near.sum()} of {shared.sum()} data sets, lower by more than {_FAR} on "
            f"{listing(names[lower].tolist())}, and higher by more than {_FAR} on {listing(names[higher].tolist())}."
        )


def _deviations(results: Results) -> str:
    """Describe how much DPLAN's AUC-PR in Table 2 varies between runs, in the paper and here."""
    theirs = published.average("table2", "auc_pr", REFERENCE)
    texts = [f"{theirs.deviation:.3f} in the paper"] if theirs and theirs.deviation is not None else []
    for protocol in results.protocols("table2"):
        groups = results.groups("table2", protocol, "auc_pr")
        ours = [spread.deviation for (_, _, method), spread in groups.items() if method == REFERENCE]
        if ours:
            texts.append(f"{np.mean(ours):.3f} with the protocol {protocol}")
    return f"Table 2: the standard deviation of {REFERENCE}'s AUC-PR between runs averages {listing(texts)}."


def _verdicts(every: Sequence[Source], table: published.Table, metric: str) -> str:
    """List the methods that DPLAN is significantly better and worse than, in the paper and here."""
    by_text: dict[str, list[str]] = {}
    for source in every:
        if REFERENCE not in source.available:
            continue
        found: dict[str, list[str]] = {
            "better than": [],
            "worse than": [],
            "not significantly different from": [],
        }
        for method in source.available:
            if method == REFERENCE or published.average(table, metric, method) is None:
                continue
            first, second = source.column(REFERENCE), source.column(method)
            is_paper = source.name == "paper"
            p_value = (
                published.p_value(table, metric, method) if is_paper else wilcoxon_p_value(first, second)
            )
            if p_value is None or not p_value < _LEVEL:
                found["not significantly different from"].append(method)
            else:
                found["better than" if np.nanmean(first - second) > 0 else "worse than"].append(method)
        verdicts = ", ".join(f"{verdict} {listing(methods)}" for verdict, methods in found.items() if methods)
        whose = "the paper's" if source.name == "paper" else "our"
        by_text.setdefault(f"{whose} {REFERENCE} is {verdicts}", []).append(source.name)
    return "; ".join(
        text if names == ["paper"] else f"with {listing(names)}, {text}" for text, names in by_text.items()
    )


def _findings(results: Results) -> Iterator[str]:
    """Compare DPLAN with methods that are not in the paper."""
    for suite, (table, _) in _TABLES.items():
        by_metric = {title: sources(results, suite, table, metric) for metric, title in METRICS.items()}
        first = next(iter(by_metric.values()))
        for method in first[0].methods:
            for number, source in enumerate(first):
                if method not in published.methods(table) and {method, REFERENCE} <= set(source.available):
                    texts = [_duel(every[number], method, title) for title, every in by_metric.items()]
                    yield f"{method} compared with {REFERENCE} (protocol {source.name}): {'; '.join(texts)}."
    for protocol in results.protocols("table2"):
        parts = []
        for suffix, which in (("_known", "a class with labelled rows"), ("_unknown", "classes without any")):
            groups = results.groups("table2", protocol, "auc_pr" + suffix)
            counts = Counter(method for _, _, method in groups)
            whole = sorted(method for method in counts if counts[method] == max(counts.values()))
            means = {method: over_datasets(groups, method) for method in whole}  # omit unfinished methods
            if REFERENCE in means and len(means) > 1:
                best = max(means, key=means.__getitem__)
                ahead = "the best" if best == REFERENCE else f"{best} is best with {means[best]:.3f}"
                parts.append(f"of {which} {means[REFERENCE]:.3f} ({ahead})")
        if parts:
            yield f"Table 2, {REFERENCE}'s average AUC-PR on anomalies (protocol {protocol}): {', '.join(parts)}."


def _duel(source: Source, method: str, title: str) -> str:
    """Compare a method with DPLAN."""
    first, second = source.column(method), source.column(REFERENCE)
    shared = ~np.isnan(first - second)
    wins, ties, losses = wins_ties_losses(first, second)
    level = f", equal on {ties}" if ties else ""
    return (
        f"{title} {first[shared].mean():.3f} against {second[shared].mean():.3f}, higher on {wins} of {shared.sum()} "
        f"data sets{level}, lower on {losses} (p = {number_text(wilcoxon_p_value(first, second), 4)})"
    )
