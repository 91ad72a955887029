"""The tables of the suite ``after-review``: ADGym's and the paper's of a folder, KEEL's, and the embedded data."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from dplan.datasets import loading
from dplan.datasets.registry import CATALOG, scenarios
from experiments.data import adgym, keel
from experiments.suites import EMBEDDED, PAPER_DATASETS, Plan, Point, check_names


def points(suite: str, plan: Plan, home: Path | None) -> Iterator[Point]:
    """Yield tables and numbers of known anomalies, with the seeds that leave an anomaly to find."""
    here = [] if plan.quick else _adgym_tables(home)
    check_names("table or data set", plan.datasets, (*here, *keel.NAMES, *CATALOG))
    available = [name for name in PAPER_DATASETS if loading.find(name, home) is not None]
    names = plan.datasets or (EMBEDDED if plan.quick else (*here, *available, *keel.NAMES, *EMBEDDED))
    for name, n_known in product(names, plan.labels_of(suite)):
        if name in here:
            left = {seed: adgym.n_labelled_at_most(name, seed, home) - n_known for seed in plan.seeds(suite)}
            seeds = tuple(seed for seed, count in left.items() if count > 0)
            yield Point(f"adgym/{name}-v1", n_known, labels=n_known, seeds=seeds)
        else:
            ids = [f"keel/{name}-v1"] if name in keel.NAMES else scenarios("one-class", name)
            yield from (Point(id, n_known, labels=n_known) for id in ids[: 1 if plan.quick else None])


def _adgym_tables(home: Path | None) -> list[str]:
    try:
        return adgym.tables(home)
    except FileNotFoundError:
        return []
