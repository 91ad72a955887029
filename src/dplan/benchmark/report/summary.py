"""The report's first chapter: what a reader wants to know within a minute, every figure computed from the records."""

from collections import Counter
from collections.abc import Iterator

import numpy as np

from dplan.benchmark import published
from dplan.benchmark.report.agreement import deviations, duel, headline, matches, sides, verdicts
from dplan.benchmark.report.blocks import Block, Heading, Items, Paragraph
from dplan.benchmark.report.tables import MEASURES, REFERENCE, methods_of, over_datasets
from dplan.benchmark.report.trends import trends
from dplan.benchmark.results import Results

__all__ = ["summary"]

_TABLES: dict[str, tuple[published.Table, str]] = {
    "table2": ("table2", "Table 2"),
    "ablation": ("table3", "Table 3"),
}


def summary(results: Results) -> Iterator[Block]:
    """Give the chapter; nothing if there are no cells.

    Examples
    --------
    >>> list(summary(Results([])))
    []
    """
    if not results.cells:
        return
    yield Heading("In a minute")
    yield Paragraph(_introduction(results))
    answers = list(_answers(results))
    if answers:
        yield Items(answers)
    for suite, (table, title) in _TABLES.items():
        if results.protocols(suite):
            yield headline(results, suite, table, title)
    for title, sentences in (
        ("Where ours matches the paper, and where it does not", list(_against_the_paper(results))),
        ("What else the records show", list(_findings(results))),
    ):
        if sentences:
            yield Heading(title, 3)
            yield Items(sentences)


def _introduction(results: Results) -> str:
    protocols = sorted({cell["protocol"] for cell in results.cells})
    meaning = {
        "fixed": "under the protocol fixed only the detector's seed varies over the runs, as the paper's small "
        "deviations suggest that it was there",
        "resampled": "under the protocol resampled split, labels and contaminants vary, too",
    }
    parts = [
        f"dplan benchmark report wrote this page from {len(results.cells):,} records, each of one method that was "
        "fitted once on one data set with one seed.",
        "; ".join(meaning[protocol] for protocol in protocols).capitalize() + ".",
    ]
    partial = [
        f"{name} ({'; '.join(lacks)})"
        for name, lacks in sorted(
            {name: s for run in results.runs for name, s in run["partial"].items()}.items()
        )
        if lacks
    ]
    if partial:
        parts.append(
            f"Not all of the paper's data were there, so these figures are not fully comparable: {', '.join(partial)}."
        )
    if results.failed:
        parts.append(f"Cells that failed and are missing here: {len(results.failed):,}; see the end.")
    return " ".join(parts)


def _answers(results: Results) -> Iterator[str]:
    """Say first what everyone asks: how DPLAN does, against the paper and against the others."""
    by_measure = {title: sides(results, "table2", "table2", measure) for measure, title in MEASURES.items()}
    for number, protocol in enumerate(results.protocols("table2"), start=1):
        texts = []
        for title, every in by_measure.items():
            whole = [name for name in every[number].there if not np.isnan(every[number].column(name)).any()]
            means = {name: float(every[number].column(name).mean()) for name in whole}
            if REFERENCE not in means:
                continue
            best = max(means, key=means.__getitem__)
            place = 1 + sum(mean > means[REFERENCE] for mean in means.values())
            beside = (
                f" (paper: {every[0].column(REFERENCE).mean():.3f})" if REFERENCE in every[0].there else ""
            )
            ahead = (
                f"the best of {len(means)}"
                if place == 1
                else f"place {place} of {len(means)}; the best is {best} with {means[best]:.3f}"
            )
            texts.append(
                f"{REFERENCE} reaches an average {title} of {means[REFERENCE]:.3f}{beside}, {ahead}."
            )
        if texts:
            yield f"Table 2, protocol {protocol}: {' '.join(texts)}"


def _against_the_paper(results: Results) -> Iterator[str]:
    for suite, (table, name) in _TABLES.items():
        for measure, title in MEASURES.items():
            every = sides(results, suite, table, measure)
            if REFERENCE not in every[0].there:
                continue
            if suite == "table2":
                for sentence in matches(every, title):
                    yield f"{name}: {sentence}"
            if len(every[0].there) > 1:
                yield f"{name}, {title}, pair by pair by Wilcoxon's test at 5 %: {verdicts(every, table, measure)}."
    if REFERENCE in methods_of(results, "table2"):
        yield f"Table 2: {deviations(results, 'auc_pr', MEASURES['auc_pr'])}."
    yield from trends(results)


def _findings(results: Results) -> Iterator[str]:
    """Compare DPLAN with what the paper did not compare it with."""
    for suite, (table, _) in _TABLES.items():
        by_measure = {title: sides(results, suite, table, measure) for measure, title in MEASURES.items()}
        first = next(iter(by_measure.values()))
        new = [method for method in first[0].methods if method not in published.methods(table)]
        for method in new:
            for number, side in enumerate(first):
                if {method, REFERENCE} <= set(side.there):
                    texts = [duel(every[number], method, title) for title, every in by_measure.items()]
                    yield f"{method} against {REFERENCE} (protocol {side.name}): {'; '.join(texts)}."
    for protocol in results.protocols("table2"):
        yield from _known_and_unknown(results, protocol)


def _known_and_unknown(results: Results, protocol: str) -> Iterator[str]:
    parts = []
    for suffix, which in (("_known", "a class with labelled rows"), ("_unknown", "classes without any")):
        groups = results.groups("table2", protocol, lambda cell, name="auc_pr" + suffix: cell[name])  # type: ignore[misc]
        counts = Counter(method for _, _, method in groups)
        means = {
            method: over_datasets(groups, method)
            for method in sorted(counts)
            if counts[method] == max(counts.values())  # a method that is not through cannot be compared yet
        }
        if REFERENCE in means and len(means) > 1:
            best = max(means, key=means.__getitem__)
            ahead = "the best" if best == REFERENCE else f"the best is {best} with {means[best]:.3f}"
            parts.append(f"of {which} {means[REFERENCE]:.3f} ({ahead})")
    if parts:
        yield f"Table 2, {REFERENCE}'s average AUC-PR on anomalies (protocol {protocol}): {', '.join(parts)}."
