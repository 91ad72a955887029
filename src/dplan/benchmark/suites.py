"""The paper's experiments as lists of cells.

==================  ==============================================================================
suite               what it repeats
==================  ==============================================================================
``table2``          Table 2: 13 data sets, one known anomaly class each, six methods
``known-classes``   Figure 2: one to six known classes of UNSW-NB15 (7 + 35 data sets)
``pollution``       Figure 3: 2 to 12 % anomalies among the unlabelled rows of the 13 data sets
``ablation``        Table 3: DPLAN's variants, and our control variant ``Uniform``
``steps``           Figure 4: 100,000 steps of DPLAN, evaluated every 10,000 steps
``dimensions``      Figure 5: 10 to 320 hidden units
``speed``           seconds to fit and to score; these cells run one after another
==================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from dplan.datasets.registry import CATALOG
from dplan.datasets.scenario_ids import scenario_id, scenarios

if TYPE_CHECKING:
    from dplan.benchmark.cells import Cell

__all__ = ["SUITES", "Plan", "Suite", "cells_of", "datasets_of"]

PAPER_DATASETS = tuple(name for name, source in CATALOG.items() if source.page)
EMBEDDED = tuple(name for name in CATALOG if name not in PAPER_DATASETS)  # what comes with the package
# The methods in Figures 2 and 3 of the paper.
_LEARNING = ("DPLAN", "DevNet", "DeepSAD", "DUA")


class Point(NamedTuple):
    """A scenario with parameters on which a suite evaluates every method.

    `parameters` follow from the suite and `x`; `changed` differ from those of the suite.
    """

    scenario: str
    x: float | None = None
    parameters: Mapping[str, Any] = {}
    changed: Mapping[str, Any] = {}


class Suite(NamedTuple):
    """Defaults of a suite."""

    title: str
    methods: tuple[str, ...]
    accepts_methods: bool = True  # whether other methods can be chosen
    alone: bool = False  # whether its cells run one after another, for timing


_TABLE_2 = ("DPLAN", "DevNet", "DeepSAD", "REPEN", "IForest", "DUA")
_ABLATION = ("DPLAN", "ERew", "REnv", "DQN+", "Uniform")
SUITES = {
    "table2": Suite("Table 2: one known anomaly class", _TABLE_2),
    "known-classes": Suite("Figure 2: more known anomaly classes", _LEARNING),
    "pollution": Suite("Figure 3: more anomalies among the unlabelled rows", _LEARNING),
    "ablation": Suite("Table 3: DPLAN and its variants", _ABLATION, accepts_methods=False),
    "steps": Suite("Figure 4: more training steps", ("DPLAN",), accepts_methods=False),
    "dimensions": Suite("Figure 5: size of the representation", ("DPLAN",), accepts_methods=False),
    "speed": Suite("Speed", _TABLE_2, alone=True),
}


@dataclass(frozen=True)
class Plan:
    """What to run.

    Attributes
    ----------
    suites : tuple of str
        Names of suites.
    methods : tuple of str
        Detectors or variants; empty for those of the paper. ``ablation``, ``steps`` and ``dimensions`` always use
        their own.
    runs : int
        Seeds 0 … runs - 1.
    protocols : tuple of str
        ``"fixed"``, ``"resampled"``, or both.
    datasets : tuple of str
        Data sets to run.
    parameters : mapping
        Parameters that differ from a method's defaults, by method.
    quick : bool
        Use three points per sweep, fewer steps and, except for Table 2, one scenario per data set.
    """

    suites: tuple[str, ...]
    methods: tuple[str, ...] = ()
    runs: int = 10
    protocols: tuple[str, ...] = ("resampled",)
    datasets: tuple[str, ...] = PAPER_DATASETS
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quick: bool = False

    def __post_init__(self) -> None:
        from dplan.benchmark.cells import (
            method_names,  # takes a while, and `--help` needs the names of suites alone
        )

        _check("suite", self.suites, SUITES)
        _check("method", (*self.methods, *self.parameters), method_names())
        _check("protocol", self.protocols, ("fixed", "resampled"))
        _check("data set", self.datasets, CATALOG)
        if self.runs < 1:
            raise ValueError(f"runs must be at least 1, not {self.runs}")


def cells_of(plan: Plan) -> list[Cell]:
    """List the cells of a plan; those that share data are next to each other.

    Examples
    --------
    >>> len(cells_of(Plan(("table2",))))  # 13 data sets × 6 methods × 10 runs
    780
    >>> points = {cell.scenario for cell in cells_of(Plan(("known-classes",), runs=1))}
    >>> len(points)
    42
    >>> cell = cells_of(Plan(("dimensions",), datasets=("covertype-mini",), quick=True))[0]
    >>> cell.dataset, cell.x, cell.method, cell.parameters["hidden_units"]
    ('cottonwood', 10, 'DPLAN', (10,))
    """
    from dplan.benchmark.cells import Cell

    cells: list[Cell] = []
    for name in plan.suites:
        suite = SUITES[name]
        methods = plan.methods if plan.methods and suite.accepts_methods else suite.methods
        for point in _points(name, plan):
            dataset = scenario_id(point.scenario).known[0]
            for protocol, seed, method in product(plan.protocols, range(plan.runs), methods):
                changed = {**plan.parameters.get(method, {}), **point.changed}
                cells.append(
                    Cell(
                        suite=name,
                        dataset=dataset,
                        x=point.x,
                        scenario=point.scenario,
                        method=method,
                        seed=seed,
                        protocol=protocol,
                        parameters=point.parameters,
                        changed={k: v for k, v in changed.items() if k not in point.parameters},
                    )
                )
    return cells


def datasets_of(cells: Sequence[Cell]) -> list[str]:
    """List the data sets that cells need, in the order of their first use.

    Examples
    --------
    >>> datasets_of(cells_of(Plan(("known-classes",), runs=1)))
    ['unsw_nb15']
    """
    return list(dict.fromkeys(cell.scenario.split("/")[0] for cell in cells))


def _points(suite: str, plan: Plan) -> Iterator[Point]:
    for dataset in plan.datasets:
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


def _check(kind: str, names: Sequence[str], choices: Sequence[str] | Mapping[str, Any]) -> None:
    for name in names:
        if name not in choices:
            raise ValueError(f"unknown {kind} {name!r}; choose from {', '.join(choices)}")
