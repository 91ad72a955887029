"""DPLAN on the embedded data over ten seeds, each with its own split, labels and contaminants.

python -m studies.embedded
"""

from dplan import DPLAN
from dplan.benchmark.compare import Figures, averages, compare
from dplan.cli._demo import TASK
from dplan.datasets import scenario


def measure(seeds: int = 10) -> tuple[Figures, Figures]:
    """Return mean and standard deviation of all figures over the seeds."""
    outcomes = compare(lambda seed: scenario(TASK, seed=seed), {"DPLAN": DPLAN()}, range(seeds))
    return averages(outcomes)["DPLAN"]


def main() -> None:
    """Print mean ± std over the seeds."""
    mean, spread = measure()
    for group in ("", "_known", "_unknown"):
        curves = [
            f"{name} {getattr(mean, curve + group):.3f} ± {getattr(spread, curve + group):.3f}"
            for name, curve in (("AUC-PR", "auc_pr"), ("AUC-ROC", "auc_roc"))
        ]
        print(f"{group.removeprefix('_') or 'all':8}", "   ".join(curves))


if __name__ == "__main__":
    main()
