"""All detectors on six of the paper's data sets, beside the paper's Table 2.

    DPLAN_DATA_HOME=path/to/data python -m studies.competitors [--seeds 5] [--detectors DevNet,DUA]

Every seed draws its own split, labels and contaminants (protocol `resampled`). The last table holds the averages over
the six data sets and, for the paper's five competitors, how far their AUC-ROC is from the published one.
"""

import argparse
from functools import partial

import numpy as np
from rich.console import Console
from rich.table import Table

from dplan import list_detectors
from dplan.benchmark.compare import Outcome, as_table, averages, compare
from dplan.datasets import Task, scenario
from studies.paper import COMPETITORS

DATA_SETS = {
    "hypothyroid": "annthyroid/hypothyroid-v1",
    "subnormal": "annthyroid/subnormal-v1",
    "downstairs": "har/downstairs-v1",
    "upstairs": "har/upstairs-v1",
    "cottonwood": "covertype/cottonwood-v1",
    "douglas-fir": "covertype/douglas-fir-v1",
}
NEAR = 0.10  # AUC-ROC, on average over the data sets


def main() -> None:
    """Measure and print a table per data set as soon as it is there, and the averages at the end."""
    every = {entry.name: entry.create() for entry in list_detectors()}
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("--seeds", type=int, default=5)
    arguments.add_argument("--detectors", default=",".join(every))
    given = arguments.parse_args()
    detectors = {name: every[name] for name in given.detectors.split(",")}
    console = Console(width=150)
    outcomes = {}
    for name, task_id in DATA_SETS.items():
        outcomes[name] = compare(partial(_task, task_id), detectors, range(given.seeds))
        title = f"{name}: mean ± std over {given.seeds} seeds"
        console.print(as_table(outcomes[name], title, COMPETITORS[name]))
    console.print(summary(outcomes))


def _task(task_id: str, seed: int) -> Task:
    return scenario(task_id, seed=seed, protocol="resampled")


def summary(outcomes: dict[str, list[Outcome]]) -> Table:
    """Return the averages over all data sets, ours beside the paper's."""
    table = Table(title=f"average over {len(outcomes)} data sets", title_justify="left")
    table.add_column("detector")
    for heading in ("AUC-PR", "paper", "AUC-ROC", "paper", "difference", "fit s", "score s"):
        table.add_column(heading, justify="right")
    means = {name: averages(runs) for name, runs in outcomes.items()}
    for detector in next(iter(means.values())):
        ours = [means[name][detector][0] for name in outcomes]
        cells = [float(np.mean([f.auc_pr for f in ours])), float(np.mean([f.auc_roc for f in ours]))]
        published = [COMPETITORS[name].get(detector) for name in outcomes]
        theirs = np.mean([pair for pair in published if pair is not None], axis=0) if all(published) else None
        difference = "–"
        if theirs is not None:
            gap = cells[1] - theirs[1]
            difference = f"{gap:+.3f}" + ("" if abs(gap) <= NEAR else " beyond 0.10")
        table.add_row(
            detector,
            f"{cells[0]:.3f}",
            "–" if theirs is None else f"{theirs[0]:.3f}",
            f"{cells[1]:.3f}",
            "–" if theirs is None else f"{theirs[1]:.3f}",
            difference,
            f"{np.mean([f.fit_seconds for f in ours]):.2f}",
            f"{np.mean([f.score_seconds for f in ours]):.3f}",
        )
    return table


if __name__ == "__main__":
    main()
