"""DPLAN and its variants on Annthyroid and Covertype, beside the paper's Table 3.

    DPLAN_DATA_HOME=path/to/data python -m studies.ablation [--seeds 5]

Every seed draws its own split, labels and contaminants (protocol `resampled`).
"""

import argparse
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics import average_precision_score, roc_auc_score

from dplan import variants
from dplan.data import scenario
from studies.paper import ABLATION

DATA_SETS = {
    "hypothyroid": "annthyroid/hypothyroid-v1",
    "subnormal": "annthyroid/subnormal-v1",
    "cottonwood": "covertype/cottonwood-v1",
    "douglas-fir": "covertype/douglas-fir-v1",
}


def figures(task_id: str, variant: str, seeds: int) -> Iterator[tuple[float, float]]:
    """Yield AUC-PR and AUC-ROC over all test anomalies, one pair per seed."""
    for seed in range(seeds):
        task = scenario(task_id, seed=seed, protocol="resampled")
        detector = variants.variant(variant, random_state=seed).fit(task.X, task.y)
        scores, truth = detector.anomaly_score(task.X_test), task.y_test > 0
        yield float(average_precision_score(truth, scores)), float(roc_auc_score(truth, scores))


def main() -> None:
    """Measure and print the table, a row per data set and variant as soon as it is there."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=5)
    seeds = arguments.parse_args().seeds
    console = Console(width=120)
    table = Table(title=f"Ours: mean ± std over {seeds} seeds, resampled")
    for heading in ("data set", "variant", "AUC-PR", "paper", "AUC-ROC", "paper"):
        table.add_column(heading, justify="left" if heading in ("data set", "variant") else "right")
    for name, task_id in DATA_SETS.items():
        for variant in variants.names():
            measured = np.array(list(figures(task_id, variant, seeds)))
            published = ABLATION[name].get(variant)
            cells = [name, variant]
            for i in range(2):
                mean, spread = measured[:, i].mean(), measured[:, i].std()
                cells += [f"{mean:.3f} ± {spread:.3f}", f"{published[i]:.3f}" if published else "–"]
            console.print("  ".join(cells), highlight=False)
            table.add_row(*cells)
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
