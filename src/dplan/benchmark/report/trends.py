"""Figures 2 to 5 and the timings in a sentence each; the paper's own figures beside them where it prints any."""

from collections.abc import Iterator

import numpy as np

from dplan.benchmark import published
from dplan.benchmark.report.agreement import listing
from dplan.benchmark.report.tables import REFERENCE, title_of
from dplan.benchmark.results import Results, Spread

__all__ = ["trends"]

Groups = dict[tuple[str, float | None, str], Spread]


def trends(results: Results) -> Iterator[str]:
    """Give the sentences, one per suite and protocol.

    Examples
    --------
    >>> list(trends(Results([])))
    []
    """
    for suite, tell in (
        ("known-classes", _known_classes),
        ("pollution", _pollution),
        ("steps", _steps),
        ("dimensions", _dimensions),
        ("speed", _speed),
    ):
        for protocol in results.protocols(suite):
            yield from tell(results, protocol)


def _known_classes(results: Results, protocol: str) -> Iterator[str]:
    groups = _areas(results, "known-classes", protocol)
    said = published.contents()["text"]["known_classes"]
    parts = []
    for x, number, key in ((1.0, "one", "one_class"), (6.0, "six", "six_classes")):
        ours = [figure.mean for (_, at, method), figure in groups.items() if (at, method) == (x, REFERENCE)]
        if ours:
            low, high = said[f"auc_pr_of_dplan_with_{key}"]
            parts.append(
                f"with {number} known {'class' if x == 1 else 'classes'} {min(ours):.3f} to {max(ours):.3f} "
                f"(paper {low:.3f} to {high:.3f})"
            )
    if parts:
        yield (
            f"Figure 2, {REFERENCE}'s AUC-PR over the data sets (protocol {protocol}): {', '.join(parts)}. "
            f"{_how_often_best(groups, 'known class', 'known classes')}"
        )


def _pollution(results: Results, protocol: str) -> Iterator[str]:
    groups = _areas(results, "pollution", protocol)
    averages = _averages(groups)
    if len(averages) > 1:
        (first, before), *_, (last, after) = averages.items()
        yield (
            f"Figure 3, {REFERENCE}'s average AUC-PR (protocol {protocol}): {before:.3f} with {first:g} % anomalies "
            f"among the unlabelled rows, {after:.3f} with {last:g} %. {_how_often_best(groups, '%', '%')} The paper "
            "prints no figures and says that DPLAN stays ahead as in its Table 2."
        )


def _steps(results: Results, protocol: str) -> Iterator[str]:
    curves: dict[str, dict[int, list[float]]] = {}
    for cell in results.select("steps", protocol):
        for point in cell["curve"]:
            curves.setdefault(cell["dataset"], {}).setdefault(point["steps"], []).append(point["auc_pr"])
    means = {
        name: {steps: float(np.mean(areas)) for steps, areas in sorted(curve.items())}
        for name, curve in curves.items()
    }
    usual, most = 20_000, max((steps for curve in means.values() for steps in curve), default=0)
    both = {name: curve for name, curve in means.items() if usual in curve and most in curve}
    if not both or most <= usual:
        return
    before, after = (float(np.mean([curve[steps] for curve in both.values()])) for steps in (usual, most))
    said = published.contents()["text"]["steps"]["auc_pr_after_100000_steps"]
    named = []
    for name, theirs in said.items():
        start = published.figure("table2", "auc_pr", name, REFERENCE)
        if name in both and most == 100_000 and start:
            named.append(
                f"on {title_of(name)} from {both[name][usual]:.3f} to {both[name][most]:.3f} "
                f"(paper {start.mean:.3f} to {theirs:.3f})"
            )
    yield (
        f"Figure 4, from {usual:,} to {most:,} steps (protocol {protocol}): {REFERENCE}'s average AUC-PR goes from "
        f"{before:.3f} to {after:.3f}" + (f", {listing(named)}" if named else "") + "."
    )


def _dimensions(results: Results, protocol: str) -> Iterator[str]:
    averages = _averages(_areas(results, "dimensions", protocol))
    if averages:
        listed = listing([f"{mean:.3f} with {x:g}" for x, mean in averages.items()])
        yield (
            f"Figure 5, {REFERENCE}'s average AUC-PR by hidden units (protocol {protocol}): {listed}. The paper prints "
            "no figures and says that 10 are too few and that from 20 on little changes."
        )


def _speed(results: Results, protocol: str) -> Iterator[str]:
    cells = [cell for cell in results.select("speed", protocol) if cell["method"] == REFERENCE]
    if cells:
        fits = results.groups("speed", protocol, lambda cell: cell["fit_seconds"])
        ours = [figure.mean for (_, _, method), figure in fits.items() if method == REFERENCE]
        low, high = published.contents()["text"]["speed"]["seconds_to_fit_dplan"]
        yield (
            f"Speed (protocol {protocol}): a fit of {REFERENCE} takes {min(ours):.1f} to {max(ours):.1f} seconds, by "
            f"data set, on one thread (paper: {low} to {high} on most data sets, on another computer)."
        )


def _areas(results: Results, suite: str, protocol: str) -> Groups:
    return results.groups(suite, protocol, lambda cell: cell["auc_pr"])


def _averages(groups: Groups) -> dict[float, float]:
    """Average DPLAN over the data sets that have every point of the sweep."""
    xs = sorted({x for _, x, method in groups if method == REFERENCE and x is not None})
    names = {name for name, _, _ in groups}
    whole = [name for name in sorted(names) if all((name, x, REFERENCE) in groups for x in xs)]
    return {x: float(np.mean([groups[name, x, REFERENCE].mean for name in whole])) for x in xs if whole}


def _how_often_best(groups: Groups, one: str, more: str) -> str:
    """Say on how many data sets DPLAN is ahead where the sweep begins and where it ends."""
    methods = sorted({method for _, _, method in groups})
    xs = sorted({x for _, x, _ in groups if x is not None})
    parts = []
    for x in dict.fromkeys((xs[0], xs[-1])):
        whole = [
            name
            for name in {name for name, _, _ in groups}
            if all((name, x, method) in groups for method in methods)
        ]
        best = sum(
            max(methods, key=lambda method: groups[name, x, method].mean) == REFERENCE for name in whole
        )
        parts.append(f"{best} of {len(whole)} data sets with {x:g} {one if x == 1 else more}")
    return f"It is the best of {len(methods)} methods on {listing(parts)}." if len(methods) > 1 else ""
