"""Measurements of studies: a function of a place, such as a table and a seed, that gives metrics of some arms."""

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.cells import metrics
from experiments.data.sources import AnyTask
from experiments.journal import Journal, read_journal
from experiments.runner import in_any_order

RESULTS = Path(__file__).parents[1] / "results"

Place = Mapping[str, Any]
Arms = Mapping[str, Mapping[str, float]]  # by name, what was measured


def measure(output: Path, places: Sequence[Place], function: Callable[[Place], Arms], jobs: int) -> None:
    """Measure at each place that the journal in a folder does not have yet; a place is recorded whole or not at all."""
    with Journal(output) as journal:
        there = [
            {name: record.get(name) for name in place} for record in journal.records for place in places[:1]
        ]
        left = [place for place in places if place not in there]
        for number, arms in in_any_order(function, left, jobs):
            journal.append({"kind": "measured", **left[number], "arms": arms})


def measured(folder: Path) -> list[dict[str, Any]]:
    """Return what was measured, one record for each arm at each place."""
    return [
        {
            **{name: value for name, value in record.items() if name not in ("kind", "arms")},
            "arm": arm,
            **metrics,
        }
        for record in read_journal(folder)
        for arm, metrics in record["arms"].items()
    ]


def areas(task: AnyTask, scores: NDArray[np.floating]) -> dict[str, float]:
    """Return the areas over all anomalies, and over those of known and of unknown classes, if there are any."""
    found = metrics(task, scores)
    return {
        name: round(value, 4)
        for name, value in found.items()
        if name.startswith("auc_") and value is not None
    }


def main(
    about: str,
    places: Callable[[], Sequence[Place]],
    function: Callable[[Place], Arms],
    lines: Callable[[Path], Iterator[str]],
) -> None:
    """Measure what is not there yet, and print a table of it."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder of the journal")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="worker processes (default: 1)")
    parser.add_argument("--print", action="store_true", help="only print the means of what is recorded")
    chosen = parser.parse_args()
    if not chosen.print:
        measure(chosen.folder, places(), function, chosen.jobs)
    print("\n".join(lines(chosen.folder)))
