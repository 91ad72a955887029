"""Figures 2 to 5 and the timings as one sentence each, with the values from the paper's text."""

from collections.abc import Iterator, Sequence

import numpy as np

from experiments.paper import published
from experiments.paper.tables import REFERENCE, title_of
from experiments.results import Groups, Results

__all__ = ["listing", "trends"]


def trends(results: Results) -> Iterator[str]:
    """Return the sentences, one per suite and protocol.

    Examples
    --------
    >>> list(trends(Results([])))
    []
    """
    text = published.contents()["text"]
    for protocol in results.protocols("known-classes"):
        groups = results.groups("known-classes", protocol, "auc_pr")
        parts = []
        for x, number, name in (
            (1.0, "one known class", "one_class"),
            (6.0, "six known classes", "six_classes"),
        ):
            ours = [
                spread.mean for (_, at, method), spread in groups.items() if (at, method) == (x, REFERENCE)
            ]
            if ours:
                low, high = text["known_classes"][f"auc_pr_of_dplan_with_{name}"]
                parts.append(
                    f"with {number} {min(ours):.3f} to {max(ours):.3f} (paper {low:.3f} to {high:.3f})"
                )
        if parts:
            yield (
                f"Figure 2, {REFERENCE}'s AUC-PR across data sets (protocol {protocol}): {', '.join(parts)}. "
                f"{_how_often_best(groups, 'known class', 'known classes')}"
            )
    for protocol in results.protocols("pollution"):
        groups = results.groups("pollution", protocol, "auc_pr")
        averages = _averages(groups)
        if len(averages) > 1:
            (first, before), *_, (last, after) = averages.items()
            yield (
                f"Figure 3, {REFERENCE}'s average AUC-PR (protocol {protocol}): {before:.3f} with {first:g} % "
                f"anomalies among the unlabelled rows, {after:.3f} with {last:g} %. "
                f"{_how_often_best(groups, '%', '%')} The paper gives no numbers; it says that {REFERENCE} "
                "stays ahead as in its Table 2."
            )
    for protocol in results.protocols("steps"):
        yield from _steps(
            results.curve(protocol, "auc_pr"), protocol, text["steps"]["auc_pr_after_100000_steps"]
        )
    for protocol in results.protocols("dimensions"):
        averages = _averages(results.groups("dimensions", protocol, "auc_pr"))
        if averages:
            listed = listing([f"{mean:.3f} with {x:g}" for x, mean in averages.items()])
            yield (
                f"Figure 5, {REFERENCE}'s average AUC-PR by hidden units (protocol {protocol}): {listed}. The paper "
                "gives no numbers; it says that 10 units are too few and that little changes from 20 on."
            )
    for protocol in results.protocols("speed"):
        fits = results.groups("speed", protocol, "fit_seconds")
        ours = [spread.mean for (_, _, method), spread in fits.items() if method == REFERENCE]
        if ours:
            low, high = text["speed"]["seconds_to_fit_dplan"]
            yield (
                f"Speed (protocol {protocol}): fitting {REFERENCE} takes {min(ours):.1f} to {max(ours):.1f} seconds, "
                f"depending on the data set, on one thread (paper: {low} to {high} on most data sets, on a different "
                "computer)."
            )


def _steps(groups: Groups, protocol: str, text: dict[str, float]) -> Iterator[str]:
    default, most = 20_000.0, max((x for _, x, _ in groups if x is not None), default=0.0)
    names = [
        name
        for name, x, method in groups
        if (x, method) == (most, REFERENCE) and (name, default, REFERENCE) in groups
    ]
    if not names or most <= default:
        return

    def value(name: str, steps: float) -> float:
        return groups[name, steps, REFERENCE].mean

    before, after = (float(np.mean([value(name, steps) for name in names])) for steps in (default, most))
    named = []
    for name, theirs in text.items():
        start = published.result("table2", "auc_pr", name, REFERENCE)
        if name in names and most == 100_000 and start:
            named.append(
                f"on {title_of(name)} from {value(name, default):.3f} to {value(name, most):.3f} "
                f"(paper {start.mean:.3f} to {theirs:.3f})"
            )
    yield (
        f"Figure 4, from {default:,.0f} to {most:,.0f} steps (protocol {protocol}): {REFERENCE}'s average AUC-PR goes "
        f"from {before:.3f} to {after:.3f}" + (f", {listing(named)}" if named else "") + "."
    )


def _averages(groups: Groups) -> dict[float, float]:
    """Average DPLAN over the data sets that have every point of the sweep."""
    xs = sorted({x for _, x, method in groups if method == REFERENCE and x is not None})
    names = sorted({name for name, _, _ in groups})
    whole = [name for name in names if all((name, x, REFERENCE) in groups for x in xs)]
    return {x: float(np.mean([groups[name, x, REFERENCE].mean for name in whole])) for x in xs if whole}


def _how_often_best(groups: Groups, one: str, more: str) -> str:
    """Count the data sets on which DPLAN is best at the start and at the end of the sweep."""
    methods = sorted({method for _, _, method in groups})
    names = {name for name, _, _ in groups}
    xs = sorted({x for _, x, _ in groups if x is not None})
    parts = []
    for x in dict.fromkeys((xs[0], xs[-1])):
        whole = [name for name in names if all((name, x, method) in groups for method in methods)]
        winners = [max(methods, key=lambda method: groups[name, x, method].mean) for name in whole]
        parts.append(
            f"{winners.count(REFERENCE)} of {len(whole)} data sets with {x:g} {one if x == 1 else more}"
        )
    return f"It is the best of {len(methods)} methods on {listing(parts)}." if len(methods) > 1 else ""


def listing(names: Sequence[str]) -> str:
    """Join names with commas and "and".

    Examples
    --------
    >>> listing(["a", "b", "c"]), listing(["a"]), listing([])
    ('a, b and c', 'a', 'none')
    """
    if len(names) < 2:
        return names[0] if names else "none"
    return ", ".join(names[:-1]) + " and " + names[-1]
