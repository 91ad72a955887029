"""DPLANEnsemble against every other detector, and why it is built as it is.

    python -m experiments.ensemble.page [--page docs/ensemble-results.md]

Results are over seeds 0 to 9 (Table 2) or 0 to 2 (few labels, of the suite `unknown`); choices were made on seeds from
100 on.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.ensemble import agents, members
from experiments.ensemble.measuring import RESULTS, measured
from experiments.pages import markdown_table
from experiments.results import Results
from experiments.statistics import wilcoxon_p_value

OURS = "DPLANEnsemble"
FAMILIES = {
    "unsw_nb15": "UNSW",
    "har": "HAR",
    "annthyroid": "Annthyroid",
    "covertype": "Covertype",
}
LABELS = (5, 15, 30, 60)
AREAS = ("auc_pr", "auc_roc")
Means = NDArray[np.float64]
Pair = tuple[float, float]


class Runs:
    """The runs of Table 2: mean and deviation of each method on each data set, over the seeds."""

    def __init__(self, results: Results) -> None:
        cells = results.select("table2", "resampled")
        self.family = {cell["dataset"]: cell["scenario"].split("/")[0] for cell in cells}
        self.datasets = sorted(self.family, key=lambda name: (list(FAMILIES).index(self.family[name]), name))
        self.methods = sorted({cell["method"] for cell in cells}, key=lambda name: (name != OURS, name))
        self.seeds = sorted({cell["seed"] for cell in cells})
        self._results = results

    def means(self, method: str, metric: str) -> Means:
        """Return the means of a metric, one per data set."""
        return self._results.matrix("table2", "resampled", metric, self.datasets, [method])[:, 0]

    def of_family(self, method: str, metric: str, family: str) -> float:
        """Return the mean of a metric over the data sets of a family."""
        chosen = [self.family[dataset] == family for dataset in self.datasets]
        return float(self.means(method, metric)[chosen].mean())

    def deviation(self, method: str, metric: str) -> float:
        """Return the deviation of a metric over the seeds, averaged over the data sets."""
        groups = self._results.groups("table2", "resampled", metric)
        return float(np.mean([groups[dataset, None, method].deviation for dataset in self.datasets]))


def results_section(runs: Runs) -> Iterator[str]:
    """Yield the table of all detectors."""
    yield f"## All detectors, {len(runs.datasets)} data sets, seeds {runs.seeds[0]} to {runs.seeds[-1]}, resampled"
    yield "AUC-PR / AUC-ROC. *p*: Wilcoxon signed-rank test over the data sets against DPLANEnsemble, for both."
    rows = []
    for method in runs.methods:
        row = [f"**{method}**" if method == OURS else method]
        for family in FAMILIES:
            row.append(pair(*(runs.of_family(method, area, family) for area in AREAS)))
        for suffix in ("", "_unknown"):
            row.append(pair(*(runs.means(method, f"{area}{suffix}").mean() for area in AREAS)))
        row.append(pair(*(runs.deviation(method, area) for area in AREAS)))
        row.append(" / ".join(p_value(runs, method, area) for area in AREAS) if method != OURS else "")
        rows.append(row)
    yield table(["", *FAMILIES.values(), "all", "unknown classes alone", "std over runs", "*p*"], rows)


def p_value(runs: Runs, method: str, metric: str) -> str:
    """Return the p-value as text."""
    first, second = (runs.means(name, metric) for name in (OURS, method))
    p = wilcoxon_p_value(first, second)
    return "–" if p is None else f"{p:.4f}" + ("" if first.mean() > second.mean() else " (behind)")


def parts_section(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield what the parts are worth, and what leaving one family out would have chosen."""
    titles = {"agent": "One agent, with one change"}
    for group in dict.fromkeys(record["group"] for record in records):
        chosen = [record for record in records if record["group"] == group]
        seeds = sorted({record["seed"] for record in chosen})
        yield f"## {titles.get(group, group.capitalize())}"
        earlier = " Measured with an earlier version of the ensemble." if "wrong" in group else ""
        yield f"Seeds {', '.join(map(str, seeds))}; AUC-PR / AUC-ROC.{earlier}"
        arms = list(dict.fromkeys(record["arm"] for record in chosen))
        rows = [[arm, *(pair(*cell) for cell in row(chosen, arm))] for arm in arms]
        yield table(["", *FAMILIES.values(), "all", "unknown classes alone"], rows)
        if group in titles:
            yield left_out(chosen, arms)


def row(records: Sequence[dict[str, Any]], arm: str) -> list[Pair]:
    """Return an arm's figures by family, over all data sets, and for unknown classes."""
    own = [record for record in records if record["arm"] == arm]
    cells = [mean([record for record in own if in_family(record, family)]) for family in FAMILIES]
    return [*cells, mean(own), mean(own, "_unknown")]


def in_family(record: dict[str, Any], family: str) -> bool:
    """Tell whether a record is of a data set of a family."""
    return str(record["scenario"]).startswith(family)


def mean(records: Sequence[dict[str, Any]], suffix: str = "") -> Pair:
    """Return the means of AUC-PR and AUC-ROC over data sets, each of them a mean over seeds."""
    by_scenario: dict[str, list[Pair]] = defaultdict(list)
    for record in records:
        by_scenario[record["scenario"]].append((record[f"auc_pr{suffix}"], record[f"auc_roc{suffix}"]))
    means = np.array([np.mean(values, axis=0) for values in by_scenario.values()]).reshape(-1, 2)
    return (float(means[:, 0].mean()), float(means[:, 1].mean())) if len(means) else (np.nan, np.nan)


def left_out(records: Sequence[dict[str, Any]], arms: Sequence[str]) -> str:
    """Say which arm the other families would have chosen for each family, by the sum of both areas."""
    sentences = []
    for family, title in FAMILIES.items():
        elsewhere, there = (
            {arm: [r for r in records if r["arm"] == arm and in_family(r, family) == inside] for arm in arms}
            for inside in (False, True)
        )
        worth = {arm: mean(own)[0] + mean(own)[1] for arm, own in elsewhere.items()}
        best = max(arms, key=worth.__getitem__)
        sentences.append(f"for {title} *{best}*, which gives {pair(*mean(there[best]))} there")
    return "Chosen on the other three families: " + "; ".join(sentences) + "."


def few_labels(results: Results, unknown: Results) -> list[dict[str, Any]]:
    """Return records of the 13 data sets by the number of known anomalies, for methods and seeds that all have."""
    cells = [
        {**cell, "group": f"{cell['x']:.0f} labels", "arm": cell["method"]}
        for cell in unknown.select("unknown")
        if cell["scenario"].split("/")[0] in FAMILIES
    ]
    seeds = {cell["seed"] for cell in cells}
    cells += [
        {**cell, "group": "60 labels", "arm": cell["method"]}
        for cell in results.select("table2", "resampled")
        if cell["seed"] in seeds
    ]
    methods = [{cell["arm"] for cell in cells if cell["group"] == f"{count} labels"} for count in LABELS]
    order = sorted(set.intersection(*methods), key=lambda name: (name != OURS, name))
    return [
        cell
        for count in LABELS
        for method in order
        for cell in cells
        if (cell["group"], cell["arm"]) == (f"{count} labels", method)
    ]


def pair(auc_pr: float, auc_roc: float) -> str:
    """Return both areas as text, without leading zeros.

    Examples
    --------
    >>> pair(0.75, 1.0)
    '.750 / 1.000'
    """
    return " / ".join(
        "–" if np.isnan(area) else f"{area:.3f}".removeprefix("0") for area in (auc_pr, auc_roc)
    )


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table with numbers on the right."""
    return "\n".join(markdown_table(head, rows, right=True))


def members_section(lines: Sequence[str]) -> Iterator[str]:
    """Yield what each kind of member is worth."""
    if not lines:
        return
    yield "## What each part is worth"
    yield (
        "`python -m experiments.ensemble.members`, version 4. AUC-PR / AUC-ROC, then of unknown classes alone; means "
        "over ADGym's 14 tables (seeds 1 to 3), nine KEEL tables (seeds 100 to 102) and the paper's 13 data sets "
        "(seeds 100 and 101). Shares and weights were chosen with these figures in view."
    )
    yield "\n".join(lines)


def page(
    results: Results,
    records: Sequence[dict[str, Any]],
    member_lines: Sequence[str] = (),
) -> str:
    """Return everything as one Markdown page."""
    runs = Runs(results)
    paragraphs = [
        "# DPLANEnsemble: all results",
        "Written by `python -m experiments.ensemble.page --page docs/ensemble-results.md` from the journals in "
        "`experiments/results`. Another page [explains them](ensemble.md).",
        *results_section(runs),
        *members_section(member_lines),
        *parts_section(records),
    ]
    return "\n\n".join(paragraphs) + "\n"


def draw(runs: Runs, path: Path) -> None:
    """Draw both areas of every detector, by family and on average."""
    from matplotlib.figure import Figure

    methods = sorted(runs.methods, key=lambda method: runs.means(method, "auc_pr").mean())
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for axes, (measure, title) in zip(
        figure.subplots(1, 2, sharey=True), (("auc_pr", "AUC-PR"), ("auc_roc", "AUC-ROC")), strict=True
    ):
        for marker, (family, name) in zip("o^sD", FAMILIES.items(), strict=True):
            values = [runs.of_family(method, measure, family) for method in methods]
            axes.plot(values, range(len(methods)), marker, label=name, markersize=6, alpha=0.75)
        means = [float(runs.means(method, measure).mean()) for method in methods]
        axes.plot(
            means, range(len(methods)), "|", color="black", markersize=18, markeredgewidth=2.5, label="all 13"
        )
        axes.set(title=title, yticks=range(len(methods)), yticklabels=methods)
        axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="upper left", fontsize="small")
    figure.savefig(path, dpi=110)


def draw_labels(records: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw both areas of some detectors by the number of known anomalies."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2), layout="constrained")
    for axes, place, title in zip(figure.subplots(1, 2), (0, 1), ("AUC-PR", "AUC-ROC"), strict=True):
        for method in dict.fromkeys(r["arm"] for r in records):
            values = [
                mean([r for r in records if r["group"] == f"{count} labels" and r["arm"] == method])[place]
                for count in LABELS
            ]
            bold = {"linewidth": 3, "color": "black"} if method == OURS else {"linewidth": 1.5, "alpha": 0.8}
            axes.plot(LABELS, values, "o-", markersize=5, label=method, **bold)
        axes.set(title=title, xlabel="known anomalies", xscale="log", xticks=LABELS)
        axes.set_xticks(LABELS, labels=[str(count) for count in LABELS])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize="small")
    figure.savefig(path, dpi=110)


def main() -> None:
    """Print or write the page."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--page", type=Path)
    chosen = arguments.parse_args()
    results = Results.read(RESULTS / "paper")
    labels = few_labels(results, Results.read(RESULTS / "unknown"))
    text = page(results, [*measured(agents.RECORDS), *labels], list(members.lines()))
    if chosen.page:
        chosen.page.write_text(text, encoding="utf-8")
        draw(Runs(results), chosen.page.parent / "images" / "ensemble.png")
        draw_labels(labels, chosen.page.parent / "images" / "labels.png")
    else:
        print(text)


if __name__ == "__main__":
    main()
