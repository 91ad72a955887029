"""The scenarios of the paper's suites: one per entry of its tables and per point of its figures."""

from collections.abc import Iterator
from pathlib import Path

from dplan.datasets.registry import CATALOG, scenario_id, scenarios
from experiments.suites import EMBEDDED, PAPER_DATASETS, Plan, Point, check_names


def points(suite: str, plan: Plan, home: Path | None) -> Iterator[Point]:
    """Yield scenarios with the parameters of a suite."""
    check_names("data set", plan.datasets, CATALOG)
    for dataset in plan.datasets or (EMBEDDED if plan.quick else PAPER_DATASETS):
        if suite == "known-classes":
            yield from _known_class_points(dataset)
            continue
        ids = scenarios("one-class", dataset)
        if plan.quick and suite not in ("table2", "speed"):
            ids = ids[:1]
        for id in ids:
            stem = id.removesuffix("-v1")
            if suite == "pollution":
                for percent in (2, 6, 12) if plan.quick else (2, 4, 6, 8, 10, 12):
                    yield Point(f"{stem}-pollution{percent}-v1", percent)
            elif suite == "steps":
                if plan.quick:
                    yield Point(id, changed={"n_steps": 40_000})
                else:
                    yield Point(id, parameters={"n_steps": 100_000})
            elif suite == "subsample":
                for size in (1, 1_000) if plan.quick else (1, 10, 100, 1_000):
                    yield Point(id, size, {"subsample_size": size})
            elif suite == "dimensions":
                for units in (10, 40, 160) if plan.quick else (10, 20, 40, 80, 160, 320):
                    yield Point(id, units, {"hidden_units": (units,)})
            else:
                yield Point(id)


def _known_class_points(dataset: str) -> Iterator[Point]:
    # Only UNSW-NB15 has more than two anomaly classes.
    more = scenarios("more-classes", dataset)
    for id in scenarios("one-class", dataset) if more else []:
        yield Point(id, 1)
        first = scenario_id(id).known[0]
        for wider in more:
            known = scenario_id(wider).known
            if known[0] == first:
                yield Point(wider, len(known))
