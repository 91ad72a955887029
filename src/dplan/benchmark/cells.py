"""One cell: one method, fitted once on one data set with one seed, and measured."""

import hashlib
import json
import time
import traceback
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from dplan import variants
from dplan.benchmark.metrics import SortedScores, measure
from dplan.datasets import Task, load, scenario
from dplan.detectors._registry import list_detectors

__all__ = ["Cell", "create", "full_parameters", "method_names", "run_cell"]

_CHECKPOINT_STEPS = 10_000
_NOT_PARAMETERS = {"random_state", "callback", "verbose"}


@dataclass(frozen=True)
class Cell:
    """What is run: everything that its figures depend on, but for versions and the data's contents.

    Attributes
    ----------
    suite : str
        The suite that it belongs to.
    dataset : str
        The paper's name of the data set: its first known anomaly class.
    x : float or None
        Where it stands in a sweep: known classes, per cent of pollution, or hidden units.
    scenario, seed, protocol : str, int, str
        As `dplan.datasets.scenario` takes them; the seed is the detector's, too.
    method : str
        A detector of `dplan.list_detectors` or a variant of `dplan.variants`.
    parameters : mapping
        All parameters of the method.
    """

    suite: str
    dataset: str
    x: float | None
    scenario: str
    method: str
    seed: int
    protocol: str
    parameters: Mapping[str, Any] = field(repr=False)

    @property
    def place(self) -> tuple[str, str, float | None, str, int, str]:
        """Where its figures stand in the report; no two cells of one journal may have the same."""
        return self.suite, self.dataset, self.x, self.method, self.seed, self.protocol

    @property
    def rows(self) -> tuple[str, int, str]:
        """What decides which rows it learns from: with the protocol `fixed`, all seeds have the same."""
        return self.scenario, self.seed if self.protocol == "resampled" else 0, self.protocol

    def key(self, configuration: str) -> str:
        """Name the cell by everything that its figures depend on."""
        text = json.dumps([asdict(self), configuration], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def method_names() -> list[str]:
    """List everything that can stand in a cell: all detectors, then the variants of DPLAN.

    Examples
    --------
    >>> method_names()[0], method_names()[-1]
    ('DPLAN', 'Uniform')
    """
    return list(dict.fromkeys([*(entry.name for entry in list_detectors()), *variants.names()]))


def create(method: str, **parameters: Any) -> Any:
    """Return the unfitted detector of a method.

    Examples
    --------
    >>> create("ERew"), create("IForest")
    (DPLAN(intrinsic_reward=False), IForest())
    """
    if method in variants.PARAMETERS:
        return variants.variant(method, **parameters)
    return next(entry for entry in list_detectors() if entry.name == method).create(**parameters)


def full_parameters(method: str, changed: Mapping[str, Any]) -> dict[str, Any]:
    """Give all parameters of a method, so that a record says what ran even if a default changes later.

    Examples
    --------
    >>> full_parameters("DPLAN", {"n_steps": 500})["n_steps"]
    500
    """
    every = create(method, **changed).get_params()
    return {name: value for name, value in every.items() if name not in _NOT_PARAMETERS}


def run_cell(cell: Cell, home: Path | None) -> dict[str, Any]:
    """Run a cell and return its figures, or the traceback of what went wrong; it raises nothing."""
    started = time.perf_counter()
    try:
        outcome = {"status": "done", **_figures(cell, home)}
    except Exception as error:
        outcome = {"status": "failed", "error": repr(error), "traceback": traceback.format_exc()}
    return {**outcome, "seconds": time.perf_counter() - started}


def _figures(cell: Cell, home: Path | None) -> dict[str, Any]:
    task = _task(*cell.rows, home)
    X, X_test = task.X, task.X_test
    watch = _Checkpoints(task, X_test) if cell.suite == "steps" else None
    detector = create(cell.method, **cell.parameters, random_state=cell.seed, callback=watch)
    with _thread_pools().limit(limits=1):
        started = time.perf_counter()
        detector.fit(X, task.y)
        fitted = time.perf_counter()
        scores = detector.anomaly_score(X_test)
        scored = time.perf_counter()
    figures = measure(task, scores)
    figures["fit_seconds"] = fitted - started - (watch.seconds if watch else 0.0)
    figures["score_seconds"] = scored - fitted
    if watch:
        figures["curve"] = watch.curve
    if task.notes or task.n_synthetic:
        figures["notes"] = [
            *task.notes,
            *([f"{task.n_synthetic} synthetic anomalies"] if task.n_synthetic else []),
        ]
    return figures


@cache
def _thread_pools() -> Any:
    return ThreadpoolController()  # looking for all loaded libraries takes a while


@lru_cache(maxsize=1)
def _task(id: str, seed: int, protocol: str, home: Path | None) -> Task:
    # A worker runs the methods of one task one after another, so the last task is enough to keep.
    return scenario(id, seed=seed, protocol=protocol, dataset=load(id.split("/")[0], home))  # type: ignore[arg-type]


class _Checkpoints:
    """A callback that judges the agent on the way, so that one training gives the whole curve."""

    def __init__(self, task: Task, X_test: NDArray[np.float32]) -> None:
        self._truth, self._X_test = task.y_test > 0, X_test
        self._rewards: list[float] = []
        self._episodes = 0
        self.curve: list[dict[str, float]] = []
        self.seconds = 0.0

    def __call__(self, detector: Any, figures: Mapping[str, float]) -> None:
        started = time.perf_counter()
        self._episodes += 1
        self._rewards.append(figures["reward"])
        steps = min(self._episodes * detector.episode_steps, detector.n_steps)
        if steps % _CHECKPOINT_STEPS == 0 or steps == detector.n_steps:
            ranked = SortedScores(detector.anomaly_score(self._X_test))
            auc_pr, auc_roc = ranked.areas(self._truth, ~self._truth) or (0.0, 0.0)
            reward = float(np.mean(self._rewards))
            self.curve.append({"steps": steps, "auc_pr": auc_pr, "auc_roc": auc_roc, "reward": reward})
            self._rewards.clear()
        self.seconds += time.perf_counter() - started
