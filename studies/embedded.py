"""DPLAN on the embedded data over ten seeds, each with its own split, labels and contaminants.

python -m studies.embedded
"""

import numpy as np
from numpy.typing import NDArray

from dplan import DPLAN
from dplan.data import scenario
from dplan.demo import TASK, areas, groups


def measure(seeds: int = 10) -> dict[str, NDArray[np.float64]]:
    """Return, per group of test anomalies, AUC-PR and AUC-ROC of each seed."""
    measured: dict[str, list[tuple[float, float]]] = {}
    for seed in range(seeds):
        task = scenario(TASK, seed=seed)
        scores = DPLAN(random_state=seed).fit(task.X, task.y).anomaly_score(task.X_test)
        for name, counted in groups(task).items():
            measured.setdefault(name, []).append(areas(task, counted, scores))
    return {name: np.array(pairs) for name, pairs in measured.items()}


def main() -> None:
    """Print mean ± std over the seeds."""
    for name, pairs in measure().items():
        (precision_recall, roc), (pr_spread, roc_spread) = pairs.mean(axis=0), pairs.std(axis=0)
        print(
            f"{name:22} AUC-PR {precision_recall:.3f} ± {pr_spread:.3f}   AUC-ROC {roc:.3f} ± {roc_spread:.3f}"
        )


if __name__ == "__main__":
    main()
