"""Ours against the paper's: averages side by side, where they agree, and which method is better than which."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan.benchmark import published
from dplan.benchmark.report.blocks import Entry, Grid, figures_text
from dplan.benchmark.report.tables import MEASURES, REFERENCE, methods_of, title_of
from dplan.benchmark.results import Results
from dplan.benchmark.statistics import wilcoxon_p_value, wins_ties_losses

__all__ = ["Side", "deviations", "duel", "headline", "listing", "matches", "sides", "verdicts"]

# What the report calls near, and what it calls lower or higher.
_NEAR, _FAR = 0.02, 0.05
_LEVEL = 0.05


class Side(NamedTuple):
    """The figures of one table from one side: the paper's, or ours under one protocol.

    Attributes
    ----------
    name : str
        ``"paper"``, or the protocol.
    datasets, methods : list of str
        The same for all sides.
    table : ndarray of shape (n_data_sets, n_methods)
        Means over the runs, NaN where there is none.
    """

    name: str
    datasets: list[str]
    methods: list[str]
    table: NDArray[np.float64]

    def column(self, method: str) -> NDArray[np.float64]:
        """Give a method's figures, one per data set."""
        return self.table[:, self.methods.index(method)]

    @property
    def there(self) -> list[str]:
        """The methods that this side has figures of."""
        return [method for method in self.methods if not np.isnan(self.column(method)).all()]


def sides(results: Results, suite: str, table: published.Table, measure: str) -> list[Side]:
    """Give the paper's side and ours, on the data sets that ours has."""
    datasets = results.names(suite, "dataset", published.data_sets())
    methods = methods_of(results, suite)
    theirs = [[published.figure(table, measure, name, method) for method in methods] for name in datasets]
    paper = np.array([[figure.mean if figure else np.nan for figure in row] for row in theirs])
    ours = [
        Side(protocol, datasets, methods, results.matrix(suite, protocol, measure, datasets, methods))
        for protocol in results.protocols(suite)
    ]
    return [Side("paper", datasets, methods, paper.reshape(len(datasets), len(methods))), *ours]


def headline(results: Results, suite: str, table: published.Table, title: str) -> Grid:
    """Set the averages of all methods side by side, with how often ours is near the paper's."""
    head, columns = [title], []
    for measure, name in MEASURES.items():
        paper, *ours = sides(results, suite, table, measure)
        theirs = _averages(paper)
        if paper.datasets == published.data_sets():  # then as printed: the paper averaged before it rounded
            printed = {method: published.average(table, measure, method) for method in paper.there}
            theirs.update({method: average.mean for method, average in printed.items() if average})
        for side in (paper, *ours):
            head.append(f"{name}, {side.name}")
            averages = theirs if side is paper else _averages(side)
            best = max(
                (averages[method] for method in averages if not np.isnan(side.column(method)).any()),
                default=None,
            )
            columns.append(
                [
                    Entry(
                        figures_text(averages.get(method)),
                        "" if side is paper else _beneath(side, paper, method, averages, theirs),
                        strong=method in averages and averages[method] == best,
                    )
                    for method in side.methods
                ]
            )
    rows = [[Entry(method), *row] for method, *row in zip(methods_of(results, suite), *columns, strict=True)]
    return Grid(
        head,
        rows,
        f"Averages over the data sets. Beneath ours stand the difference, and on how many data sets ours is within "
        f"{_NEAR} of the paper's (≈), more than {_FAR} below it (↓), and more than {_FAR} above it (↑).",
    )


def _averages(side: Side) -> dict[str, float]:
    return {method: float(np.nanmean(side.column(method))) for method in side.there}


def _beneath(
    side: Side, paper: Side, method: str, averages: dict[str, float], theirs: dict[str, float]
) -> str:
    """Say how far ours is from the paper's, and whether data sets are still missing."""
    if method not in averages:
        return ""
    parts = []
    finished = ~np.isnan(side.column(method))
    if method in theirs:
        difference = side.column(method) - paper.column(method)
        mean = averages[method] - theirs[method] if finished.all() else float(np.nanmean(difference))
        near, lower, higher = (int(which.sum()) for which in _where(difference))
        parts.append(f"{figures_text(mean, sign=True)}: {near} ≈, {lower} ↓, {higher} ↑")
    if not finished.all():
        parts.append(f"{finished.sum()} of {len(finished)} data sets")
    return "; ".join(parts)


def _where(difference: NDArray[np.float64]) -> tuple[NDArray[np.bool_], ...]:
    """Tell where ours is near the paper's, lower, and higher; three digits are all that the paper shows."""
    rounded = np.round(difference, 3)
    return abs(rounded) <= _NEAR, rounded < -_FAR, rounded > _FAR


def matches(every: Sequence[Side], title: str, method: str = REFERENCE) -> Iterator[str]:
    """Say in a sentence per protocol where a method's figures match the paper's, and where they do not."""
    paper, *ours = every
    for side in ours:
        difference = side.column(method) - paper.column(method)
        shared = ~np.isnan(difference)
        if not shared.any():
            continue
        near, lower, higher = _where(difference)
        names = np.array([title_of(name) for name in side.datasets])
        yield (
            f"{method}'s {title} (protocol {side.name}) averages {side.column(method)[shared].mean():.3f} against "
            f"{paper.column(method)[shared].mean():.3f} in the paper. It is within {_NEAR} of the published figure on "
            f"{near.sum()} of {shared.sum()} data sets; it is lower by more than {_FAR} on "
            f"{listing(names[lower].tolist())}, and higher by more than {_FAR} on {listing(names[higher].tolist())}."
        )


def deviations(results: Results, measure: str, title: str, method: str = REFERENCE) -> str:
    """Say how much a method's figures of Table 2 vary over the runs, there and here."""
    theirs = published.average("table2", measure, method)
    texts = [f"{theirs.deviation:.3f} in the paper"] if theirs and theirs.deviation is not None else []
    for protocol in results.protocols("table2"):
        groups = results.groups("table2", protocol, lambda cell: cell[measure])
        ours = [figure.deviation for (_, _, name), figure in groups.items() if name == method]
        if ours:
            texts.append(f"{np.mean(ours):.3f} under {protocol}")
    return f"the standard deviation of {method}'s {title} over the runs averages {listing(texts)}"


def verdicts(every: Sequence[Side], table: published.Table, measure: str) -> str:
    """Say which methods of the paper DPLAN is better and worse than, there and here."""
    by_text: dict[str, list[str]] = {}
    for side in every:
        if REFERENCE not in side.there:
            continue
        found: dict[str, list[str]] = {"better than": [], "worse than": [], "not told apart from": []}
        for method in side.there:
            if method == REFERENCE or published.average(table, measure, method) is None:
                continue
            first, second = side.column(REFERENCE), side.column(method)
            p_value = (
                published.p_value(table, measure, method)
                if side.name == "paper"
                else wilcoxon_p_value(first, second)
            )
            if p_value is None or not p_value < _LEVEL:
                found["not told apart from"].append(method)
            else:
                found["better than" if np.nanmean(first - second) > 0 else "worse than"].append(method)
        said = ", ".join(f"{verdict} {listing(methods)}" for verdict, methods in found.items() if methods)
        whose = "the paper's" if side.name == "paper" else "our"
        by_text.setdefault(f"{whose} {REFERENCE} is {said}", []).append(side.name)
    return "; ".join(
        text if names == ["paper"] else f"under {listing(names)}, {text}" for text, names in by_text.items()
    )


def duel(side: Side, method: str, title: str) -> str:
    """Say how a method does against DPLAN on one side."""
    first, second = side.column(method), side.column(REFERENCE)
    shared = ~np.isnan(first - second)
    wins, ties, losses = wins_ties_losses(first, second)
    p_value = wilcoxon_p_value(first, second)
    level = f", level on {ties}" if ties else ""
    return (
        f"{title} {first[shared].mean():.3f} against {second[shared].mean():.3f}, higher on {wins} of {shared.sum()} "
        f"data sets{level}, lower on {losses} (p = {figures_text(p_value, 4)})"
    )


def listing(names: Sequence[str]) -> str:
    """Write names one after another.

    Examples
    --------
    >>> listing(["a", "b", "c"]), listing(["a"]), listing([])
    ('a, b and c', 'a', 'none')
    """
    if len(names) < 2:
        return names[0] if names else "none"
    return ", ".join(names[:-1]) + " and " + names[-1]
