"""The scenarios of the suite ``adgym``: all tables of the folder, with a few numbers of labels."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path

from experiments.data import adgym
from experiments.suites import Plan, Point, check_names


def points(suite: str, plan: Plan, home: Path | None) -> Iterator[Point]:
    """Yield tables and numbers of labels, with the seeds that give enough anomalies; ADGym leaves out the others."""
    there = adgym.tables(home)
    check_names("table", plan.datasets, there)
    for name, count in product(plan.datasets or there, plan.labels_of(suite)):
        seeds = [seed for seed in plan.seeds(suite) if adgym.n_labelled_at_most(name, seed, home) >= count]
        yield Point(f"adgym/{name}-v1", count, labels=count, seeds=tuple(seeds))
