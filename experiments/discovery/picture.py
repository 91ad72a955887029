"""Draw the curves of README.md and docs/verdicts.md: anomalies found by the number of verdicts.

    python -m experiments.discovery.picture experiments/results/discovery docs/images/discovery.png

Bands are one standard deviation over the seeds.
"""

import sys
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from experiments.results import Results

TITLES = {
    "DPLANEnsemble": "DPLANEnsemble",
    "AADForest": "AADForest",
    "PineForest": "PineForest",
    "IForest": "isolation forest, no feedback",
}
TABLES = ("abalone", "ann_thyroid_1v3", "mammography")
STEPS = np.arange(101)


def draw(results: Results, path: str) -> None:
    """Draw a panel for each table, and one for the mean over the paper's data sets."""
    cells = [cell for cell in results.select("discovery") if cell["x"] == 10]
    paper = [cell for cell in cells if cell["scenario"].split("/")[0] not in ("discovery", "covertype-mini")]
    panels = {name: [cell for cell in cells if cell["dataset"] == name] for name in TABLES}
    if paper:
        panels[f"mean of the paper's {len({cell['dataset'] for cell in paper})}"] = paper
    figure = Figure(figsize=(3.7 * len(panels), 3.4), layout="constrained")
    for ax, (title, own) in zip(figure.subplots(1, len(panels)), panels.items(), strict=True):
        for number, (method, name) in enumerate(TITLES.items()):
            mean, spread = curve([cell for cell in own if cell["method"] == method])
            ax.plot(
                STEPS, mean, color=f"C{number}", lw=3 if number == 0 else 1.5, label=name, zorder=9 - number
            )
            if title in TABLES:  # over data sets, the spread says nothing
                ax.fill_between(STEPS, mean - spread, mean + spread, color=f"C{number}", alpha=0.15, lw=0)
        best = np.mean([np.minimum(STEPS, cell["anomalies"]) for cell in own], axis=0)
        ax.plot(STEPS, best, ":", color="grey", label="best possible")
        ax.set(title=title, xlabel="verdicts")
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("anomalies found")
    figure.axes[2].legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=100)


def curve(cells: list[dict[str, Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the anomalies found after 0, 1, … verdicts: the mean over data sets, and the spread over seeds."""
    found: dict[str, list[NDArray[np.intp]]] = {}
    for cell in cells:
        found.setdefault(cell["dataset"], []).append(np.searchsorted(cell["finds"], STEPS, side="right"))
    means, spreads = ([how(own, axis=0) for own in found.values()] for how in (np.mean, np.std))
    return np.mean(means, axis=0), np.mean(spreads, axis=0)


if __name__ == "__main__":
    place, picture = sys.argv[1:]
    draw(Results.read(place), picture)
