"""Run and evaluate one cell: one method, fitted once on one data set with one seed."""

import hashlib
import json
import time
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

from dplan.metrics import RankedScores, precision_at
from experiments.after_review.verdicts import learn
from experiments.data.arrays import ArrayTask
from experiments.data.sources import AnyTask, data_version, load_review, load_task, load_thinned
from experiments.discovery.review import review, review_version
from experiments.estimates.coverage import halves, measure
from experiments.methods import create, detector_class, method_names

__all__ = ["TOPS", "Cell", "evaluate", "identity", "metrics", "row_counts", "run_cell"]

TOPS = (50, 100, 500)
PLACE = ("suite", "dataset", "x", "scenario", "method", "seed", "protocol")
_CHECKPOINT_STEPS = 10_000


@dataclass(frozen=True)
class Cell:
    """The definition of a cell.

    Attributes
    ----------
    suite : str
        Its suite.
    dataset : str
        The paper's name of the data set: its first known anomaly class.
    x : float or None
        Its position in a sweep: known classes, percent of pollution, hidden units, labels, or verdicts per refit.
    scenario, seed, protocol : str, int, str
        Arguments of `dplan.datasets.scenario`; the seed is also the detector's.
    method : str
        A name of `experiments.methods.method_names`.
    parameters : mapping
        Parameters set by the suite; they follow from `suite` and `x`.
    changed : mapping
        Other parameters that differ from the method's defaults. They are recorded; the defaults belong to the version
        of the detector.
    labels : int or None
        Labelled rows, if the suite sets their number; it follows from `suite` and `x`.
    """

    suite: str
    dataset: str
    x: float | None
    scenario: str
    method: str
    seed: int
    protocol: str
    parameters: Mapping[str, Any] = field(default_factory=dict, repr=False)
    changed: Mapping[str, Any] = field(default_factory=dict, repr=False)
    labels: int | None = None

    @property
    def rows(self) -> tuple[str, int, str, int | None]:
        """Identifies the rows of the cell; with the protocol `fixed`, they are the same for all seeds."""
        return self.scenario, self.seed if self.protocol == "resampled" else 0, self.protocol, self.labels

    def record(self) -> dict[str, Any]:
        """Return the record of the cell in the journal, without results."""
        place = {name: getattr(self, name) for name in PLACE}
        changed = {"changed": dict(self.changed)} if self.changed else {}
        versions = {
            "version": detector_class(self.method).version,
            "data_version": data_version(self.scenario),
        }
        if self.suite == "discovery":
            versions["review_version"] = review_version(self.method)
        return {**place, **versions, **changed}


def identity(record: Mapping[str, Any]) -> tuple[str, str]:
    """Return the identity of a recorded cell: its place in the report, and its changed parameters.

    It contains neither file names nor versions, so that records stay valid when code moves or parameters are renamed.

    Examples
    --------
    >>> cell = Cell("table2", "dos", None, "unsw_nb15/dos-v1", "IForest", 0, "fixed", changed={"bootstrap": True})
    >>> identity(cell.record())
    ('["table2", "dos", null, "unsw_nb15/dos-v1", "IForest", 0, "fixed"]', '{"bootstrap": true}')
    """
    changed = dict(record.get("changed", {}))
    if changed and record["method"] in method_names():  # not a detector that was removed
        renamed = detector_class(record["method"])._renamed
        changed = {renamed.get(name, name): value for name, value in changed.items()}
    return json.dumps([record[name] for name in PLACE]), json.dumps(changed, sort_keys=True)


def run_cell(cell: Cell, home: Path | None) -> dict[str, Any]:
    """Run a cell and return its results, or the traceback of the failure; never raises."""
    started = time.perf_counter()
    try:
        if cell.suite == "discovery":
            outcome = {"status": "done", **_review(cell, home)}
            return {**outcome, "seconds": time.perf_counter() - started}
        if cell.suite in _THINNED:
            outcome = {"status": "done", **_THINNED[cell.suite](cell, home)}
            return {**outcome, "seconds": time.perf_counter() - started}
        task = _task(*cell.rows, home)
        watch = _Checkpoints(task) if cell.suite == "steps" else None
        parameters = {**cell.changed, **cell.parameters}
        detector = create(cell.method, **parameters, random_state=cell.seed, callback=watch)
        outcome = {"status": "done", **evaluate(detector, task)}
        if watch:
            outcome["fit_seconds"] -= watch.seconds
            outcome["curve"] = watch.curve
        synthetic = [f"{task.n_synthetic} synthetic anomalies"] if task.n_synthetic else []
        if task.notes or synthetic:
            outcome["notes"] = [*task.notes, *synthetic]
    except Exception as error:
        outcome = {"status": "failed", "error": repr(error), "traceback": traceback.format_exc()}
    return {**outcome, "seconds": time.perf_counter() - started}


def _review(cell: Cell, home: Path | None) -> dict[str, Any]:
    table = _review_table(cell.scenario, cell.seed, home)
    assert cell.x is not None
    with _thread_pools().limit(limits=1):
        return review(cell.method, table, int(cell.x), cell.seed, **cell.changed)


def _verdicts(cell: Cell, home: Path | None) -> dict[str, Any]:
    task = _thinned(*cell.rows, home)
    with _thread_pools().limit(limits=1):
        scores, found = learn(cell.method, task, cell.seed, **cell.changed)
    notes = {"notes": list(task.notes)} if task.notes else {}
    return {**metrics(task, scores), **found, **notes}


def _estimate(cell: Cell, home: Path | None) -> dict[str, Any]:
    task = _thinned(*cell.rows, home)
    with _thread_pools().limit(limits=1):
        return measure(cell.method, task, cell.seed, **cell.changed)


# Suites that fit many times, on fewer rows.
_THINNED = {"after-review": _verdicts, "estimates": _estimate}


def row_counts(cell: Cell, home: Path | None) -> dict[str, int]:
    """Return numbers of rows that a record of the cell must have."""
    if cell.suite == "discovery":
        anomalous = _review_table(cell.scenario, cell.seed, home).anomalous
        return {"rows": len(anomalous), "anomalies": int(anomalous.sum())}
    if cell.suite == "estimates":
        return {"rows": len(halves(_thinned(*cell.rows, home).y, cell.seed)[1])}
    task = (_thinned if cell.suite in _THINNED else _task)(*cell.rows, home)
    return {"test_rows": len(task.y_test), "anomalies": int((task.y_test > 0).sum())}


def evaluate(detector: Any, task: AnyTask) -> dict[str, Any]:
    """Fit a detector on a task and return its metrics on the test rows, with the seconds to fit and to score.

    Examples
    --------
    >>> from dplan.datasets import scenario
    >>> found = evaluate(create("LogisticBaseline"), scenario("covertype-mini/cottonwood-v1"))
    >>> found["auc_roc_known"] > 0.95, found["fit_seconds"] > 0
    (True, True)
    """
    X, X_test = task.X, task.X_test  # prepared on first access, which should not be timed
    with _thread_pools().limit(limits=1):
        started = time.perf_counter()
        detector.fit(X, task.y)
        fitted = time.perf_counter()
        scores = detector.anomaly_score(X_test)
        scored = time.perf_counter()
    return {**metrics(task, scores), "fit_seconds": fitted - started, "score_seconds": scored - fitted}


def metrics(task: AnyTask, scores: NDArray[np.floating]) -> dict[str, Any]:
    """Return every metric that the report needs; None where a group of anomalies is empty.

    Each group of anomalies is ranked against the normal rows alone.

    Examples
    --------
    >>> from dplan.datasets import scenario
    >>> task = scenario("covertype-mini/cottonwood-v1")
    >>> perfect = metrics(task, (task.y_test > 0).astype(float))
    >>> perfect["auc_pr"], perfect["auc_pr_unknown"], perfect["classes"]["douglas-fir"]
    (1.0, 1.0, [1.0, 1.0])
    >>> perfect["precision_at"]["50"], perfect["anomalies"], perfect["test_rows"]
    (1.0, 320, 4320)
    """
    normal = task.y_test == 0
    ranked = RankedScores(scores)
    found: dict[str, Any] = {}
    for suffix, group in (("", ~normal), ("_known", task.known_mask), ("_unknown", task.unknown_mask)):
        found[f"auc_pr{suffix}"], found[f"auc_roc{suffix}"] = ranked.areas(group, normal) or (None, None)
    classes = {name: ranked.areas(task.y_test == k, normal) for k, name in enumerate(task.classes) if k > 0}
    return {
        **found,
        "classes": {name: list(areas) for name, areas in classes.items() if areas},
        "known": [task.classes[number] for number in task.known],
        "precision_at": {str(top): precision_at(top, ~normal, scores) for top in TOPS},
        "test_rows": len(normal),
        "anomalies": int((~normal).sum()),
        # Shows whether two runs gave bit-identical scores.
        "scores_sha256": hashlib.sha256(np.ascontiguousarray(scores).tobytes()).hexdigest()[:16],
    }


@cache
def _thread_pools() -> Any:
    return ThreadpoolController()  # looking for all loaded libraries takes a while


_review_table = lru_cache(maxsize=1)(load_review)


@lru_cache(maxsize=1)
def _task(id: str, seed: int, protocol: str, labels: int | None, home: Path | None) -> AnyTask:
    # A worker runs all methods on a task in a row, so caching the last task is enough.
    return load_task(id, seed, protocol, labels, home)


@lru_cache(maxsize=1)
def _thinned(id: str, seed: int, protocol: str, labels: int | None, home: Path | None) -> ArrayTask:
    return load_thinned(id, seed, protocol, labels, home)


class _Checkpoints:
    """A callback that evaluates the agent during training, to get the whole curve from one fit."""

    def __init__(self, task: AnyTask) -> None:
        self._anomalous, self._X_test = task.y_test > 0, task.X_test
        self._rewards: list[float] = []
        self._episodes = 0
        self.curve: list[dict[str, float]] = []
        self.seconds = 0.0

    def __call__(self, detector: Any, progress: Mapping[str, float]) -> None:
        started = time.perf_counter()
        self._episodes += 1
        self._rewards.append(progress["reward"])
        steps = min(self._episodes * detector.episode_steps, detector.n_steps)
        if steps % _CHECKPOINT_STEPS == 0 or steps == detector.n_steps:
            ranked = RankedScores(detector.anomaly_score(self._X_test))
            auc_pr, auc_roc = ranked.areas(self._anomalous, ~self._anomalous) or (0.0, 0.0)
            reward = float(np.mean(self._rewards))
            self.curve.append({"steps": steps, "auc_pr": auc_pr, "auc_roc": auc_roc, "reward": reward})
            self._rewards.clear()
        self.seconds += time.perf_counter() - started
