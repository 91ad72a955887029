"""Simulated reviews: how many anomalies a reviewer finds whose verdicts the detector learns from.

There are no labels at the start, an oracle says of each row whether it is an anomaly, and a detector learns from all
verdicts so far after every `per_refit` of them.

`DPLANEnsemble`, which the review page uses, is measured on the page's own session: the same first model, order of rows,
near duplicates, exploration and updates as in ``dplan review``, with a log in memory. For other methods, the reviewer
looks at the rows with the highest scores that were not judged yet. The forests of coniferest are forests without
verdicts, so they are used from the start; an isolation forest chooses the first rows for other detectors of this
package, and goes on until an anomaly is found, since they learn from known anomalies.
"""

import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.exceptions import NoLabelsWarning
from dplan.review.engine import Engine
from dplan.review.log import VerdictLog
from dplan.review.progress import threshold_view
from dplan.review.rounds import Progress, Round
from dplan.review.session import Session
from dplan.review.simulation import simulate
from dplan.review.table import as_file
from experiments.data.reviews import ReviewTable
from experiments.methods import RIVALS, create

__all__ = ["CHECKPOINTS", "VERDICTS", "review", "review_version"]

CHECKPOINTS = (20, 50, 100, 300)
VERDICTS = CHECKPOINTS[-1]
OTHERS = (10, 25, 50, 100, 200)  # alerts that nobody has reviewed, of thresholds that are looked at

_ON_THE_PAGE = "DPLANEnsemble"  # what the review page learns with
_FROM_FALSE_ALARMS = tuple(RIVALS)  # learn before the first anomaly is found


def review_version(method: str) -> int:
    """Return the version of how rows are chosen: 1 for the highest scores, 2 for the session of the review page.

    Results of DPLANEnsemble with version 1 are those of a loop apart from the page.
    """
    return 2 if method == _ON_THE_PAGE else 1


def review(
    method: str, table: ReviewTable, per_refit: int, seed: int, n_verdicts: int = VERDICTS, **parameters: Any
) -> dict[str, Any]:
    """Simulate a review.

    Parameters
    ----------
    method : str
        A name of `experiments.methods.method_names`.
    table : ReviewTable
        The rows, and the truth.
    per_refit : int
        Verdicts between two refits.
    seed : int
        Seed of the detector.
    n_verdicts : int, default=300
        Verdicts in all; fewer if the table has fewer rows or all its anomalies are found.
    **parameters
        Parameters of the detector.

    Returns
    -------
    dict
        finds (the numbers of the verdicts, from 1, that found an anomaly), found (how many of them after 20, 50, 100
        and 300 verdicts), verdicts, rows, anomalies, refits, and the seconds to fit and to score. On the page, also
        thresholds: what the page says about alerts whenever the detector has learned, as verdicts, alerts that nobody
        has reviewed, the lower and upper limit of the anomalies among them, and how many there are.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> anomalous = np.arange(400) < 12
    >>> table = ReviewTable(rng.normal(size=(400, 3)) + 4 * anomalous[:, None], anomalous)
    >>> review("LogisticBaseline", table, per_refit=10, seed=0)["found"]["20"] >= 10
    True
    """
    clock = {"fit_seconds": 0.0, "score_seconds": 0.0}
    most = min(n_verdicts, len(table.X))
    detector = create(method, **parameters, random_state=seed)
    said: dict[str, Any] = {}
    if method == _ON_THE_PAGE:
        judged, refits, said["thresholds"] = _on_the_page(detector, table, per_refit, seed, most, clock)
    else:
        judged, refits = _by_score(method, detector, table, per_refit, seed, most, clock)
    finds = (1 + np.flatnonzero(table.anomalous[judged])).tolist()
    return {
        "finds": finds,
        "found": {str(n): sum(find <= n for find in finds) for n in CHECKPOINTS if n <= n_verdicts},
        "verdicts": len(judged),
        "rows": len(table.X),
        "anomalies": int(table.anomalous.sum()),
        "refits": refits,
        **said,
        **clock,
    }


def _on_the_page(
    detector: Any, table: ReviewTable, per_refit: int, seed: int, most: int, clock: dict[str, float]
) -> tuple[list[int], int, list[list[int]]]:
    """Review a table in a session of the review page.

    Returns the rows in the order of their verdicts, the fits, and what the page said about alerts.
    """
    X, anomalous = table
    judged: list[int] = []
    thresholds: list[list[int]] = []
    with TemporaryDirectory() as folder, VerdictLog(None) as log:
        file = as_file(pl.DataFrame(X, schema=[f"c{j}" for j in range(X.shape[1])]), None, None, Path(folder))
        session = Session(
            _Timed(Engine(file, None, seed=seed, learner=detector), clock), log, refit_every=per_refit
        )
        session.open()

        def answer(row: int) -> str:
            if len(judged) % per_refit == 0:
                thresholds.extend(_about_alerts(session, anomalous))
            return "anomaly" if anomalous[row] else ""

        for row in simulate(session, answer, most):
            judged.append(row)
            if anomalous[judged].sum() == anomalous.sum():
                break
        return judged, 1 + session.round.number, thresholds


def _about_alerts(session: Session, anomalous: NDArray[np.bool_]) -> Iterator[list[int]]:
    """Yield what the page says about alerts that nobody has reviewed, and how many of them are anomalies.

    Thresholds are where the slider is at first, and where it leaves some alerts to review.
    """
    view, judged, scores = threshold_view(session), list(session.judged()), session.round.scores
    steps = [step for step in view["volume"] if step["others"] is not None]
    first = [step for step in steps if step["score"] <= view["threshold"]][:1]
    for wanted in OTHERS:
        first += [step for step in steps if step["alerts"] - step["reviewed"] >= wanted][:1]
    for step in first:
        alerts = session.round.model.is_alert(scores, step["score"])
        alerts[judged] = False
        yield [len(judged), int(alerts.sum()), *step["others"], int((alerts & anomalous).sum())]


class _Timed:
    """Makes rounds with an engine, and measures how long it learns and how long it scores and chooses rows."""

    def __init__(self, engine: Engine, clock: dict[str, float]) -> None:
        self.engine, self.table, self.clock = engine, engine.table, clock
        self._part, self._since = "fit_seconds", 0.0

    def open(self, wanted: Sequence[tuple[str, ...]], progress: Progress) -> Round:
        self._part, self._since = "fit_seconds", time.perf_counter()
        return self._done(self.engine.open(wanted, self._progress))

    def refit(self, classes: Mapping[int, str], number: int, progress: Progress) -> Round:
        self._part, self._since = "fit_seconds", time.perf_counter()
        return self._done(self.engine.refit(classes, number, self._progress))

    def _progress(self, stage: str, done: int, total: int | None) -> None:
        if stage == "Scoring rows" and self._part == "fit_seconds":
            self._count()
            self._part = "score_seconds"

    def _done(self, made: Round) -> Round:
        self._count()
        return made

    def _count(self) -> None:
        now = time.perf_counter()
        self.clock[self._part] += now - self._since
        self._since = now


def _by_score(
    method: str,
    detector: Any,
    table: ReviewTable,
    per_refit: int,
    seed: int,
    most: int,
    clock: dict[str, float],
) -> tuple[list[int], int]:
    """Review the highest scores of a table; return the rows in the order of their verdicts, and the fits."""
    X, anomalous = table
    verdicts = np.zeros(len(X), dtype=np.int64)
    judged: list[int] = []
    learns = getattr(detector, "uses_labels", True)
    start = detector if method in RIVALS or not learns else create("IForest", random_state=seed)
    scores = _fit_and_score(start, X, verdicts, clock)
    refits = 1
    while True:
        order = np.argsort(np.where(verdicts == 0, -scores, np.inf), kind="stable")
        batch = order[: min(per_refit, most - len(judged))]
        judged.extend(batch.tolist())
        verdicts[batch] = np.where(anomalous[batch], 1, -1)
        if len(judged) == most or (verdicts > 0).sum() == anomalous.sum():
            return judged, refits
        if learns and ((verdicts > 0).any() or method in _FROM_FALSE_ALARMS):
            scores = _fit_and_score(detector, X, verdicts, clock)
            refits += 1


def _fit_and_score(
    detector: Any, X: NDArray[np.floating], verdicts: NDArray[np.int64], clock: dict[str, float]
) -> NDArray[np.float64]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoLabelsWarning)
        detector.fit(X, verdicts)
    fitted = time.perf_counter()
    # What to ask is not what to believe: DPLANEnsemble says both.
    scores: NDArray[np.float64] = getattr(detector, "suspicion", detector.anomaly_score)(X)
    clock["fit_seconds"] += fitted - started
    clock["score_seconds"] += time.perf_counter() - fitted
    return scores
