"""The chapter about simulated reviews: curves of the anomalies found, and what each refit costs.

    python -m experiments.discovery.page experiments/results/discovery docs/images/discovery.png

draws the curves of README.md and docs/verdicts.md. Bands are one standard deviation over the seeds.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dplan._html.blocks import Block, Entry, Figure, Grid, Heading, Items, Paragraph
from experiments.charts import Line, number_text, panels
from experiments.discovery.review import CHECKPOINTS
from experiments.fields import OURS
from experiments.results import Cell, Results
from experiments.statistics import wilcoxon_p_value

__all__ = ["discovery_chapter", "draw"]

_BEST = "best possible"
_TITLES = {"IForest": "IForest (no feedback)", "Updated": "DPLANEnsemble (partial_fit)"}
_RIVAL = "AADForest"
# What the picture shows.
_DRAWN = {
    OURS: OURS,
    "AADForest": "AADForest",
    "PineForest": "PineForest",
    "IForest": "isolation forest, no feedback",
}
_DRAWN_TABLES = ("abalone", "ann_thyroid_1v3", "mammography")

Counts = NDArray[np.float64]


def discovery_chapter(results: Results) -> Iterator[Block]:
    """Return the chapter."""
    cells = results.select("discovery")
    yield Paragraph(
        "A reviewer judges the rows with the highest scores that were not judged yet, and the detector learns from "
        "the verdicts. There are no labels at the start: an isolation forest chooses the first rows for our detectors. "
        "DPLANEnsemble and the forests of coniferest learn from the first verdicts on; for other detectors, the "
        "isolation forest goes on until the first anomaly is found. Of the paper's data sets, at most 10,000 rows "
        "with 2 % anomalies of one class are drawn for each seed."
    )
    yield Paragraph(
        "DPLANEnsemble is measured on the session of the review page, which chooses the rows: it also spreads batches, "
        "lets near duplicates of finds come next, and explores."
    )
    lengths = {(cell["x"], _length(cell)) for cell in cells}
    for per_refit, length in sorted(lengths, reverse=True):
        own = [cell for cell in cells if (cell["x"], _length(cell)) == (per_refit, length)]
        yield Heading(f"{per_refit:g} verdict{'s' * (per_refit != 1)} per refit, {length} verdicts", 3)
        yield Paragraph(f"{_seeds(own)}; bands are ± one standard deviation.")
        ours = [cell for cell in own if cell["method"] == OURS]
        if ours:
            yield Paragraph(f"DPLANEnsemble is of version {max(cell['version'] for cell in ours)}.")
        yield from _chapter(own)


def _length(cell: Cell) -> int:
    """Return the number of verdicts that a review was meant to have."""
    return int(cell.get("changed", {}).get("n_verdicts", CHECKPOINTS[-1]))


def _seeds(cells: Sequence[Cell]) -> str:
    """Return the seeds, most of them first, with the tables if not all have the same.

    Examples
    --------
    >>> _seeds([{"dataset": name, "seed": seed} for name, n in (("a", 1), ("b", 3), ("c", 3)) for seed in range(n)])
    'Seeds 0 to 2 (b, c), 0 (a)'
    """
    tables: dict[str, set[int]] = {}
    for cell in cells:
        tables.setdefault(cell["dataset"], set()).add(cell["seed"])
    groups: dict[tuple[int, ...], list[str]] = {}
    for table in sorted(tables, key=lambda name: (-len(tables[name]), name)):
        groups.setdefault(tuple(sorted(tables[table])), []).append(table)
    parts = []
    for seeds, names in groups.items():
        span = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
        parts.append(f"{span} ({', '.join(names)})" if len(groups) > 1 else span)
    return f"Seeds {', '.join(parts)}"


def _chapter(cells: Sequence[Cell]) -> Iterator[Block]:
    found = sorted({cell["method"] for cell in cells}, key=lambda name: (name != OURS, name))
    tables = sorted({cell["dataset"] for cell in cells})
    groups = {
        (table, method): [cell for cell in cells if (cell["dataset"], cell["method"]) == (table, method)]
        for table in tables
        for method in found
    }
    horizon = max(max(map(int, cell["found"])) for cell in cells)
    checkpoints = [n for n in CHECKPOINTS if n <= horizon]
    whole = [table for table in tables if all(groups[table, method] for method in found)]
    comparisons = list(_comparisons(groups, whole, found, checkpoints))
    if comparisons:
        yield Items(comparisons)
    yield _averages(groups, whole, found, checkpoints)
    yield _charts(groups, tables, found, horizon, checkpoints)
    yield _costs(groups, found)


def _counts(cells: Sequence[Cell], n: int | NDArray[np.int64]) -> Counts:
    """Return the anomalies found after n verdicts, one number, or a row of them for several n, per cell."""
    return np.array([np.searchsorted(cell["finds"], n, side="right") for cell in cells], dtype=np.float64)


def _possible(cells: Sequence[Cell], n: int) -> float:
    return float(np.mean([min(n, cell["anomalies"]) for cell in cells]))


def _comparisons(
    groups: Mapping[tuple[str, str], Sequence[Cell]],
    tables: Sequence[str],
    found: Sequence[str],
    checkpoints: Sequence[int],
) -> Iterator[str]:
    """Compare our detector with the best forest that learns from verdicts."""
    if OURS not in found or _RIVAL not in found or not tables:
        return
    for n in checkpoints:
        ours, theirs = (np.array([_counts(groups[t, m], n).mean() for t in tables]) for m in (OURS, _RIVAL))
        ratios = (ours + 1e-9) / (theirs + 1e-9)  # 1 if neither has found any
        worst = int(np.argmin(ratios))
        p_value = number_text(wilcoxon_p_value(ours, theirs), 4)
        yield (
            f"After {n} verdicts {OURS} has found {ours.mean():.1f} anomalies on average over {len(tables)} tables, "
            f"{_RIVAL} {theirs.mean():.1f} ({ours.mean() / max(theirs.mean(), 1e-9) - 1:+.1%}; Wilcoxon p = "
            f"{p_value}); "
            f"the least favourable table is {tables[worst]} with {ours[worst]:.1f} against {theirs[worst]:.1f}."
        )


def _averages(
    groups: Mapping[tuple[str, str], Sequence[Cell]],
    tables: Sequence[str],
    found: Sequence[str],
    checkpoints: Sequence[int],
) -> Grid:
    rows = []
    for method in (*found, _BEST):
        entries = []
        for n in checkpoints:
            if method == _BEST:
                values = [_possible(groups[table, found[0]], n) for table in tables]
            else:
                values = [float(_counts(groups[table, method], n).mean()) for table in tables]
            entries.append(Entry(number_text(float(np.mean(values)) if values else None, 1)))
        rows.append([Entry(_TITLES.get(method, method), strong=method == OURS), *entries])
    head = ["anomalies found", *(f"after {n} verdicts" for n in checkpoints)]
    return Grid(head, rows, f"Means over {len(tables)} tables, each a mean over the seeds.")


def _charts(
    groups: Mapping[tuple[str, str], Sequence[Cell]],
    tables: Sequence[str],
    found: Sequence[str],
    horizon: int,
    checkpoints: Sequence[int],
) -> Figure:
    steps = sorted({0, *range(0, horizon + 1, max(1, horizon // 60)), *checkpoints})
    charts: dict[str, dict[str, Line]] = {}
    rows = []
    for table in tables:
        lines = charts.setdefault(table, {})
        for method in found:
            cells = groups[table, method]
            if not cells:
                continue
            counts = [_counts(cells, n) for n in steps]
            lines[_TITLES.get(method, method)] = Line(
                steps, [float(c.mean()) for c in counts], [float(c.std()) for c in counts]
            )
            at = [_counts(cells, n) for n in checkpoints]
            texts = [Entry(f"{c.mean():.1f} ± {c.std():.1f}") for c in at]
            rows.append([Entry(table), Entry(_TITLES.get(method, method)), *texts])
        some = next(groups[table, method] for method in found if groups[table, method])
        lines[_BEST] = Line(steps, [_possible(some, n) for n in steps])
        rows.append([Entry(table), Entry(_BEST), *(Entry(f"{_possible(some, n):.1f}") for n in checkpoints)])
    head = ["table", "method", *(f"{n} verdicts" for n in checkpoints)]
    return Figure(
        panels(charts, "verdicts", "anomalies found"),
        "Anomalies found by the number of verdicts.",
        Grid(head, rows, text_columns=(0, 1)),
    )


def _costs(groups: Mapping[tuple[str, str], Sequence[Cell]], found: Sequence[str]) -> Grid:
    rows = []
    for method in found:
        cells = [cell for (_, name), own in groups.items() if name == method for cell in own]
        per_refit = [(cell["fit_seconds"] + cell["score_seconds"]) / cell["refits"] for cell in cells]
        rows.append(
            [
                Entry(_TITLES.get(method, method)),
                Entry(number_text(float(np.mean(per_refit)), 2)),
                Entry(number_text(float(np.max(per_refit)), 2)),
                Entry(number_text(float(np.mean([cell["refits"] for cell in cells])), 0)),
            ]
        )
    head = ["method", "seconds per refit, mean", "largest", "refits per review"]
    return Grid(head, rows, "Fitting and scoring the whole table once, on one thread.")


def draw(results: Results, path: str) -> None:
    """Draw a panel for each of some tables, and one for the mean over the paper's data sets."""
    from matplotlib.figure import Figure as Picture

    steps = np.arange(101)
    cells = [
        cell for cell in results.select("discovery") if cell["x"] == 10 and _length(cell) == CHECKPOINTS[-1]
    ]
    paper = [cell for cell in cells if cell["scenario"].split("/")[0] not in ("discovery", "covertype-mini")]
    charts = {name: [cell for cell in cells if cell["dataset"] == name] for name in _DRAWN_TABLES}
    if paper:
        charts[f"mean of the paper's {len({cell['dataset'] for cell in paper})}"] = paper
    figure = Picture(figsize=(3.7 * len(charts), 3.4), layout="constrained")
    for ax, (title, own) in zip(figure.subplots(1, len(charts)), charts.items(), strict=True):
        for number, (method, name) in enumerate(_DRAWN.items()):
            mine = [cell for cell in own if cell["method"] == method]
            tables = sorted({cell["dataset"] for cell in mine})
            counts = [_counts([cell for cell in mine if cell["dataset"] == table], steps) for table in tables]
            mean = np.mean([found.mean(axis=0) for found in counts], axis=0)
            width = 3 if number == 0 else 1.5
            ax.plot(steps, mean, color=f"C{number}", lw=width, label=name, zorder=9 - number)
            if title in _DRAWN_TABLES:  # over data sets, the spread says nothing
                low, high = mean - counts[0].std(axis=0), mean + counts[0].std(axis=0)
                ax.fill_between(steps, low, high, color=f"C{number}", alpha=0.15, lw=0)
        best = np.mean([np.minimum(steps, cell["anomalies"]) for cell in own], axis=0)
        ax.plot(steps, best, ":", color="grey", label=_BEST)
        ax.set(title=title, xlabel="verdicts")
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("anomalies found")
    figure.axes[2].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    place, picture = sys.argv[1:]
    draw(Results.read(place), picture)
