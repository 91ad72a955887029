"""The experiments as lists of cells: the paper's, and benchmarks of others.

==================  ==============================================================================
suite               what it repeats
==================  ==============================================================================
``table2``          Table 2: 13 data sets, one known anomaly class each, six methods
``known-classes``   Figure 2: one to six known classes of UNSW-NB15 (7 + 35 data sets)
``pollution``       Figure 3: 2 to 12 % anomalies among the unlabelled rows of the 13 data sets
``ablation``        Table 3: DPLAN's variants, and our control variants ``Uniform`` and ``UniformERew``
``steps``           Figure 4: 100,000 steps of DPLAN and our controls, evaluated every 10,000 steps
``subsample``       from a uniform sampler to the published one: |S| = 1, 10, 100 and 1,000
``dimensions``      Figure 5: 10 to 320 hidden units
``speed``           seconds to fit and to score; these cells run one after another
``adgym``           ADGym's published splits of the ADBench tables: 5, 10 and 20 labels
``unknown``         anomalies of unknown classes: 13 data sets and 15 KEEL tables, 5, 15 and 30 labels
``discovery``       simulated reviews from a cold start: anomalies found after 20 to 300 verdicts
``after-review``    held-out rows after 1 to 100 verdicts, from 0, 5 and 20 known anomalies: what they teach
``estimates``       the interval of right alerts that ``dplan fit`` prints, and the truth: 20 and 40 known anomalies
==================  ==============================================================================
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

from dplan.datasets.registry import CATALOG, scenario_id

if TYPE_CHECKING:
    from pathlib import Path

    from experiments.cells import Cell

__all__ = ["SUITES", "Plan", "Point", "Suite", "cells_of", "check_names"]

PAPER_DATASETS = tuple(name for name, source in CATALOG.items() if source.page)
EMBEDDED = tuple(name for name in CATALOG if name not in PAPER_DATASETS)  # what comes with the package
# The methods in Figures 2 and 3 of the paper.
_LEARNING = ("DPLAN", "DevNet", "DeepSAD", "DUA")


class Point(NamedTuple):
    """A scenario with parameters on which a suite evaluates every method.

    `parameters` follow from the suite and `x`; `changed` differ from those of the suite. `seeds` are those that the
    scenario exists for, if not all.
    """

    scenario: str
    x: float | None = None
    parameters: Mapping[str, Any] = {}
    changed: Mapping[str, Any] = {}
    labels: int | None = None
    seeds: tuple[int, ...] | None = None


class Suite(NamedTuple):
    """Defaults of a suite; the module ``points`` of its folder lists its scenarios."""

    title: str
    methods: tuple[str, ...]
    folder: str = "paper"
    accepts_methods: bool = True  # whether other methods can be chosen
    alone: bool = False  # whether its cells run one after another, for timing
    labels: tuple[int, ...] = ()  # numbers of labelled rows; empty if the scenario determines it
    seeds: range = range(10)

    @property
    def of_the_paper(self) -> bool:
        """Whether the paper has it; the others are resampled for every seed."""
        return self.folder == "paper"


_TABLE_2 = ("DPLAN", "DevNet", "DeepSAD", "REPEN", "IForest", "DUA")
_DETECTORS = (
    "DPLANEnsemble",
    "DPLAN",
    "DevNet",
    "DeepSAD",
    "REPEN",
    "IForest",
    "PReNet",
    "LogisticBaseline",
    "BoostedBaseline",
)
# With ranks in front, beside themselves as published.
_RESCALED = (
    "Uniform",
    "Uniform (both)",
    "DevNet (both)",
    "PReNet (both)",
    "DeepSAD (both)",
    "LogisticBaseline (both)",
)
_ABLATION = ("DPLAN", "ERew", "REnv", "DQN+", "Uniform", "UniformERew")
SUITES = {
    "table2": Suite("Table 2: one known anomaly class", _TABLE_2),
    "known-classes": Suite("Figure 2: more known anomaly classes", _LEARNING),
    "pollution": Suite("Figure 3: more anomalies among the unlabelled rows", _LEARNING),
    "ablation": Suite("Table 3: DPLAN and its variants", _ABLATION, accepts_methods=False),
    "steps": Suite(
        "Figure 4: more training steps", ("DPLAN", "Uniform", "UniformERew"), accepts_methods=False
    ),
    "subsample": Suite("Which sampler reproduces the paper?", ("DPLAN",), accepts_methods=False),
    "dimensions": Suite("Figure 5: size of the representation", ("DPLAN",), accepts_methods=False),
    "speed": Suite("Speed", _TABLE_2, alone=True),
    "adgym": Suite(
        "ADGym's published splits",
        (*_DETECTORS, "CatBoost", "GaussianNB", *_RESCALED),
        folder="adgym",
        labels=(5, 10, 20),
        seeds=range(1, 4),
    ),
    "unknown": Suite(
        "Anomalies of unknown classes",
        (*_DETECTORS, "Explorers", "CatBoost"),
        folder="unknown",
        labels=(5, 15, 30),
    ),
    "discovery": Suite(
        "Discovery: anomalies found in a simulated review",
        (
            "DPLANEnsemble",
            "Updated",
            "DPLAN",
            "LogisticBaseline",
            "BoostedBaseline",
            "IForest",
            "AADForest",
            "PineForest",
        ),
        folder="discovery",
    ),
    "after-review": Suite(
        "After the review: what verdicts teach a detector",
        ("DPLANEnsemble", "BoostedBaseline", "CatBoost"),
        folder="after_review",
        labels=(0, 5, 20),
        seeds=range(1, 4),
    ),
    "estimates": Suite(
        "Estimates: are as many alerts right as expected?",
        ("DPLANEnsemble",),
        folder="estimates",
        labels=(20, 40),
        seeds=range(1, 4),
    ),
}
PAPER_SUITES = tuple(name for name, suite in SUITES.items() if suite.of_the_paper)


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
    runs : int or None
        Number of seeds; None for as many as the suite has by default.
    first_seed : int or None
        The first of them; None for that of the suite.
    protocols : tuple of str
        ``"fixed"``, ``"resampled"``, or both, for the paper's suites.
    datasets : tuple of str
        Data sets or tables to run; empty for all of them.
    labels : tuple of int
        Numbers of labelled rows, for suites that set them; empty for those of the suite.
    per_refit : tuple of int
        Verdicts between two refits, for the suite ``discovery``; empty for ten and one.
    verdicts : int or None
        Verdicts of a review, for the suite ``discovery``; None for 300, or 50 if `quick`.
    parameters : mapping
        Parameters that differ from a method's defaults, by method.
    quick : bool
        Use three points per sweep, fewer steps and, except for Table 2, one scenario per data set.
    """

    suites: tuple[str, ...]
    methods: tuple[str, ...] = ()
    runs: int | None = None
    first_seed: int | None = None
    protocols: tuple[str, ...] = ("resampled",)
    datasets: tuple[str, ...] = ()
    labels: tuple[int, ...] = ()
    per_refit: tuple[int, ...] = ()
    verdicts: int | None = None
    parameters: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    quick: bool = False

    def __post_init__(self) -> None:
        # This takes a while, and `--help` needs the names of suites alone.
        from experiments.methods import method_names

        check_names("suite", self.suites, SUITES)
        check_names("method", (*self.methods, *self.parameters), method_names())
        check_names("protocol", self.protocols, ("fixed", "resampled"))
        if self.runs is not None and self.runs < 1:
            raise ValueError(f"runs must be at least 1, not {self.runs}")
        fewest = 0 if all(0 in SUITES[name].labels for name in self.suites) else 1
        if any(count < fewest for count in self.labels):
            raise ValueError(f"labels must be at least {fewest}, not {min(self.labels)}")
        if any(count < 1 for count in self.per_refit):
            raise ValueError(f"per_refit must be at least 1, not {min(self.per_refit)}")

    def labels_of(self, suite: str) -> tuple[int, ...]:
        """Return the numbers of labelled rows of a suite."""
        return self.labels or SUITES[suite].labels[: 1 if self.quick else None]

    def seeds(self, suite: str) -> range:
        """Return the seeds of a suite."""
        default = SUITES[suite].seeds
        start = default.start if self.first_seed is None else self.first_seed
        return range(start, start + (len(default) if self.runs is None else self.runs))


def cells_of(plan: Plan, home: Path | None = None) -> list[Cell]:
    """List the cells of a plan; those that share data are next to each other.

    `home` is the folder of the data sets; suites that run whatever tables a folder has look for them there.

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
    from experiments.cells import Cell

    cells: list[Cell] = []
    for name in plan.suites:
        suite = SUITES[name]
        methods = plan.methods if plan.methods and suite.accepts_methods else suite.methods
        protocols = plan.protocols if suite.of_the_paper else ("resampled",)
        for point in import_module(f"experiments.{suite.folder}.points").points(name, plan, home):
            dataset = _dataset_name(name, point.scenario)
            seeds = plan.seeds(name) if point.seeds is None else point.seeds
            for protocol, seed, method in product(protocols, seeds, methods):
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
                        labels=point.labels,
                    )
                )
    return cells


def _dataset_name(suite: str, id: str) -> str:
    """Return the name of a scenario in the report: the first known class, or the table."""
    source, table = id.split("/")
    if source not in CATALOG:
        return table.removesuffix("-v1")
    known = scenario_id(id).known[0]
    return known if SUITES[suite].of_the_paper or source not in EMBEDDED else f"{known} (mini)"


def check_names(kind: str, names: Sequence[str], choices: Sequence[str] | Mapping[str, Any]) -> None:
    """Raise an error if a name is not among the choices."""
    for name in names:
        if name not in choices:
            raise ValueError(f"unknown {kind} {name!r}; choose from {', '.join(choices)}")
