"""The scenarios of the suite ``unknown``: the paper's with one known class, then the KEEL tables, with few labels."""

from collections.abc import Iterator
from pathlib import Path

from dplan.datasets.registry import CATALOG, scenarios
from experiments.data import keel
from experiments.suites import EMBEDDED, PAPER_DATASETS, Plan, Point, check_names


def points(suite: str, plan: Plan, home: Path | None) -> Iterator[Point]:
    """Yield scenarios and numbers of labels."""
    check_names("data set", plan.datasets, (*CATALOG, *keel.NAMES))
    for name in plan.datasets or (EMBEDDED if plan.quick else (*PAPER_DATASETS, *keel.NAMES)):
        for id in [f"keel/{name}-v1"] if name in keel.NAMES else scenarios("one-class", name):
            yield from (Point(id, count, labels=count) for count in plan.labels_of(suite))
