"""The chapter about the sampler: which reading of it gives the paper's results, data set by data set."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._html.blocks import Block, Entry, Grid, Heading, Paragraph
from experiments.charts import METRICS, number_text
from experiments.paper import published
from experiments.paper.tables import title_of
from experiments.results import Groups, Results
from experiments.statistics import correlations
from experiments.suites import SUITES

__all__ = ["reproduction"]

# Ours → the method of the paper's Table 3 that it should reproduce.
_ARMS = {"DPLAN": "DPLAN", "Uniform": "DPLAN", "ERew": "ERew", "UniformERew": "ERew"}
_STEPS = (20_000.0, 40_000.0, 60_000.0, 80_000.0, 100_000.0)


class Arm(NamedTuple):
    """One reading: our means by data set, and the published ones."""

    title: str
    ours: NDArray[np.float64]
    paper: NDArray[np.float64]
    paper_method: str


def reproduction(results: Results) -> Iterator[Block]:
    """Return the chapter; nothing without the uniform sampler or subsample sizes.

    Examples
    --------
    >>> list(reproduction(Results([])))
    []
    """
    protocols = sorted(
        {
            cell["protocol"]
            for cell in results.cells
            if cell["suite"] == "subsample" or cell["method"] == "UniformERew"
        }
    )
    if not protocols:
        return
    yield Heading(SUITES["subsample"].title)
    yield Paragraph(
        "With probability 1/2, the paper's agent sees the one row of a random subsample S of unlabelled rows that is "
        "nearest to or farthest from the current row; the paper gives |S| = 1,000. With |S| = 1, rows are drawn "
        "uniformly. The tables below compare our agents with the paper's results on the same data sets: the closer an "
        "arm's average, and the higher its correlation over the data sets, the better it reproduces them. This shows "
        "which sampler behaves like the published results; it does not show what the authors' program did."
    )
    for protocol in protocols:
        if len(protocols) > 1:
            yield Heading(f"Protocol {protocol}", 3)
        for metric, title in METRICS.items():
            arms = list(_arms(results, protocol, metric))
            yield _summary(arms, title)
            last = f" {_STEPS[-1]:,.0f} steps"
            yield _by_dataset(
                [arm for arm in arms if "steps" not in arm.title or arm.title.endswith(last)], title
            )


def _arms(results: Results, protocol: str, metric: str) -> Iterator[Arm]:
    groups = results.groups("ablation", protocol, metric)
    for method, theirs in _ARMS.items():
        yield from _arm(method, groups, method, None, theirs, metric)
    groups = results.groups("subsample", protocol, metric)
    for size in sorted({x for _, x, _ in groups if x is not None}):
        yield from _arm(f"DPLAN, |S| = {size:,g}", groups, "DPLAN", size, "DPLAN", metric)
    groups = results.curve(protocol, metric)
    for method in ("DPLAN", "Uniform", "UniformERew"):
        for steps in _STEPS:
            yield from _arm(f"{method}, {steps:,.0f} steps", groups, method, steps, _ARMS[method], metric)


def _arm(
    title: str, groups: Groups, method: str, x: float | None, paper_method: str, metric: str
) -> Iterator[Arm]:
    missing = float("nan")
    ours = [
        groups[key].mean if (key := (name, x, method)) in groups else missing
        for name in published.data_sets()
    ]
    printed = [published.result("table3", metric, name, paper_method) for name in published.data_sets()]
    if not np.isnan(ours).all():
        paper = np.array([entry.mean if entry else missing for entry in printed])
        yield Arm(title, np.array(ours), paper, paper_method)


def _summary(arms: list[Arm], title: str) -> Grid:
    rows = []
    for arm in arms:
        shared = ~np.isnan(arm.ours)
        difference = arm.ours[shared] - arm.paper[shared]
        pearson, spearman = correlations(arm.ours, arm.paper)
        rows.append(
            [
                Entry(arm.title),
                Entry(number_text(float(arm.ours[shared].mean()))),
                Entry(number_text(float(arm.paper[shared].mean())), arm.paper_method),
                Entry(number_text(float(difference.mean()), sign=True)),
                Entry(number_text(float(abs(difference).mean()))),
                Entry(number_text(pearson, 2)),
                Entry(number_text(spearman, 2)),
                Entry(str(int(shared.sum()))),
            ]
        )
    head = [title, "ours", "paper", "difference", "mean |difference|", "Pearson", "Spearman", "data sets"]
    return Grid(
        head, rows, "Averages and correlations over the data sets. The paper trained for 20,000 steps."
    )


def _by_dataset(arms: list[Arm], title: str) -> Grid:
    theirs = {arm.paper_method: arm.paper for arm in arms}
    columns = {f"{method}, paper": values for method, values in theirs.items()} | {
        a.title: a.ours for a in arms
    }
    rows = [
        [Entry(title_of(name)), *(Entry(number_text(float(values[i]))) for values in columns.values())]
        for i, name in enumerate(published.data_sets())
    ]
    return Grid([title, *columns], rows, "Means over the runs.")
