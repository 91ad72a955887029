"""The tables of the suite ``discovery``: those of a folder, the paper's data sets that are there, the embedded data."""

from collections.abc import Iterator
from pathlib import Path

from dplan.datasets import loading
from dplan.datasets.registry import CATALOG, scenarios
from experiments.data import reviews
from experiments.suites import EMBEDDED, PAPER_DATASETS, Plan, Point, check_names


def points(suite: str, plan: Plan, home: Path | None) -> Iterator[Point]:
    """Yield tables to review and numbers of verdicts per refit."""
    there = [] if plan.quick else reviews.tables(home)
    check_names("table or data set", plan.datasets, (*there, *CATALOG))
    available = [name for name in PAPER_DATASETS if not plan.quick and loading.find(name, home) is not None]
    verdicts = plan.verdicts or (50 if plan.quick else None)
    changed = {"n_verdicts": verdicts} if verdicts else {}
    for name in plan.datasets or (*there, *available, *EMBEDDED):
        if name in there:
            ids = [f"discovery/{name}-v1"]
        else:
            ids = scenarios("one-class", name)[: 1 if plan.quick else None]
        for id in ids:
            for count in plan.per_refit or ((10,) if plan.quick else (10, 1)):
                yield Point(id, count, changed=changed)
