"""DPLAN and its variants on Annthyroid and Covertype, beside the paper's Table 3.

    DPLAN_DATA_HOME=path/to/data python -m studies.ablation [--seeds 5]

Every seed draws its own split, labels and contaminants (protocol `resampled`).
"""

import argparse
from functools import partial

from rich.console import Console
from rich.table import Table

from dplan import variants
from dplan.benchmark.compare import averages, compare
from dplan.datasets import Dataset, Task, load, scenario
from studies.paper import ABLATION

DATA_SETS = {
    "hypothyroid": "annthyroid/hypothyroid-v1",
    "subnormal": "annthyroid/subnormal-v1",
    "cottonwood": "covertype/cottonwood-v1",
    "douglas-fir": "covertype/douglas-fir-v1",
}


def draw_task(task_id: str, dataset: Dataset, seed: int) -> Task:
    """Return the task of a seed, from a data set that is loaded once."""
    return scenario(task_id, seed=seed, dataset=dataset)


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
        dataset = load(task_id.split("/")[0])
        for variant in variants.names():
            draw = partial(draw_task, task_id, dataset)
            outcomes = compare(draw, {variant: variants.variant(variant)}, range(seeds))
            mean, spread = averages(outcomes)[variant]
            published = ABLATION[name].get(variant, ("–", "–"))
            cells = [name, variant]
            for curve, figure in zip(("auc_pr", "auc_roc"), published, strict=True):
                cells += [f"{getattr(mean, curve):.3f} ± {getattr(spread, curve):.3f}", str(figure)]
            console.print("  ".join(cells), highlight=False)
            table.add_row(*cells)
        table.add_section()
    console.print(table)


if __name__ == "__main__":
    main()
