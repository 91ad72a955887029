"""The page about kinds: methods side by side, and intervals of the differences from ours.

python -m experiments.kinds.page
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.ensemble.measuring import RESULTS, measured
from experiments.pages import markdown_table

__all__ = ["page", "table_of_methods"]

RECORDS, DOCS = RESULTS / "kinds", Path(__file__).parents[2] / "docs"
OURS = "kinds: positive effects, Ward"
MEASURES = {
    "ami": "AMI, classes and normal",
    "ami_anomalies": "AMI, anomalies only",
    "ami_unlabelled": "AMI, unlabelled classes only",
    "classes": "classes",
    "alerts": "alerts",
    "kinds": "kinds",
}
_DRAWS = 10_000


def by_method(folder: Path) -> dict[str, dict[tuple[str, int], dict[str, Any]]]:
    """Return what was measured, by method and by table and seed."""
    found: dict[str, dict[tuple[str, int], dict[str, Any]]] = {}
    for record in measured(folder):
        found.setdefault(record["arm"], {})[record["table"], record["seed"]] = record
    return found


def table_of_methods(folder: Path = RECORDS) -> Iterator[str]:
    """Yield the means of all measures, a line for each method."""
    rows = []
    for method, own in by_method(folder).items():
        cells = [method if method != OURS else f"**{method}**"]
        for name in MEASURES:
            values = [record[name] for record in own.values() if name in record]
            digits = 1 if name == "kinds" else 3
            cells.append(f"{np.mean(values):.{digits}f}" if values else "–")
        rows.append(cells)
    yield from markdown_table(["method", *MEASURES.values()], rows)


def interval(ours: dict[Any, dict[str, Any]], other: dict[Any, dict[str, Any]], name: str) -> str:
    """Return the mean difference of a measure and its 90 % bootstrap interval over tables."""
    both = [place for place in ours if place in other and name in ours[place] and name in other[place]]
    tables = sorted({table for table, _ in both})
    gaps = np.array(
        [np.mean([ours[p][name] - other[p][name] for p in both if p[0] == table]) for table in tables]
    )
    draws = np.random.default_rng(0).choice(len(gaps), (_DRAWS, len(gaps)))
    low, high = np.quantile(gaps[draws].mean(axis=1), [0.05, 0.95])
    return f"{gaps.mean():+.3f} [{low:+.3f}, {high:+.3f}]"


def table_of_differences(folder: Path = RECORDS) -> Iterator[str]:
    """Yield how much higher ours is than each other method, with intervals."""
    found = by_method(folder)
    names = ["ami", "ami_anomalies", "ami_unlabelled", "classes", "alerts"]
    rows = [
        [method, *(interval(found[OURS], own, name) for name in names)]
        for method, own in found.items()
        if method != OURS
    ]
    yield from markdown_table(["compared with", *(MEASURES[name] for name in names)], rows)


def table_of_tables(folder: Path = RECORDS) -> Iterator[str]:
    """Yield ours and three other methods by table."""
    found = by_method(folder)
    shown = [OURS, "score alone, Ward", "values, HDBSCAN", "rules first (covering)"]
    rows = []
    for table in sorted({table for table, _ in found[OURS]}):
        cells = [table.removesuffix("-v1")]
        for name in ("ami", "classes"):
            for method in shown:
                values = [r[name] for (t, _), r in found[method].items() if t == table and name in r]
                cells.append(f"{np.mean(values):.2f}" if values else "–")
        rows.append(cells)
    short = ["ours", "score", "values", "covering"]
    head = ["table", *(f"AMI: {name}" for name in short), *(f"classes: {name}" for name in short)]
    yield from markdown_table(head, rows)


def page(folder: Path = RECORDS) -> str:
    """Return the page as Markdown."""
    found = by_method(folder)[OURS]
    n_tables = len({table for table, _ in found})
    seeds = " and ".join(str(seed) for seed in sorted({seed for _, seed in found}))
    text = (Path(__file__).parent / "page.md").read_text(encoding="utf-8")
    filled = {
        "n_tables": str(n_tables),
        "n_tasks": str(len(found)),
        "seeds": seeds,
        "unlabelled_ours": _mean(folder, OURS, "ami_unlabelled"),
        "unlabelled_values": _mean(folder, "values, HDBSCAN", "ami_unlabelled"),
        "ahead_kmeans": _ahead(folder, "values, k-means", "ami"),
        "ahead_hdbscan": _ahead(folder, "values, HDBSCAN", "ami"),
        "ahead_unlabelled": _ahead(folder, "values, HDBSCAN", "ami_unlabelled"),
        "methods": "\n".join(table_of_methods(folder)),
        "differences": "\n".join(table_of_differences(folder)),
        "tables": "\n".join(table_of_tables(folder)),
    }
    for name, own in filled.items():
        text = text.replace("{" + name + "}", own)
    return text


def _mean(folder: Path, method: str, name: str) -> str:
    found = [record[name] for record in by_method(folder)[method].values() if name in record]
    return f"{np.mean(found):.3f}"


def _ahead(folder: Path, other: str, name: str) -> str:
    """Return on how many tables ours is higher, of those where it was measured."""
    found = by_method(folder)
    gaps: dict[str, list[float]] = {}
    for (table, seed), record in found[OURS].items():
        if name in record:
            gaps.setdefault(table, []).append(record[name] - found[other][table, seed][name])
    return f"{sum(np.mean(own) > 0 for own in gaps.values())} of {len(gaps)}"


def main() -> None:
    """Write docs/kinds-results.md."""
    (DOCS / "kinds-results.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
