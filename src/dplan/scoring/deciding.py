"""When all rows of a table are scored: which are alerts, and the reasons for those that are shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from dplan.arrays import highest_first
from dplan.scoring.parts import Part, Parts
from dplan.scoring.scorer import Scorer
from dplan.scoring.threads import Run
from dplan.tables.reasons import columns_of_reasons

__all__ = ["Decided", "Progress", "decide", "explain"]

_EXPLAINED_AT_A_TIME = 1_000  # rows: an interrupted run repeats at most so many per worker

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Decided:
    """Which scored rows are alerts, by their index among all of them.

    Attributes
    ----------
    columns : dict
        The columns of the output that say so.
    n_alerts, n_explored, n_muted : int
        The number of alerts, how many of them were chosen because they are novel, and how many rows are no alerts only
        because their kind is muted.
    chosen, explored : ndarray of int
        The rows to explain or list: for their score, and because they are novel.
    """

    columns: dict[str, pl.Expr]
    n_alerts: int
    n_explored: int
    n_muted: int
    chosen: NDArray[np.int64]
    explored: NDArray[np.int64]


def decide(rows: pl.LazyFrame, scorer: Scorer, *, explain: bool) -> Decided:
    """Decide which of all scored rows are alerts."""
    alerts = scorer.alerts
    needed = ["score", *(["novelty_score"] if scorer.novelty else []), *(["kind"] if scorer.kinds else [])]
    found = rows.select(needed).collect()
    scores = found["score"].to_numpy()
    kind = found["kind"].to_numpy() if scorer.kinds else None
    by_score = scorer.is_alert(scores, kind)
    is_explored = scorer.is_explored(by_score, found["novelty_score"].to_numpy() if scorer.novelty else None)
    are_alerts, explored = by_score | is_explored, np.flatnonzero(is_explored)
    alert = scorer.model.is_alert(pl.col("score"), alerts.threshold)
    if alerts.budget is not None or scorer.kinds:
        alert = _is_among(np.flatnonzero(are_alerts))
    chosen = np.flatnonzero(by_score if explain else by_score[:0])
    if alerts.top or alerts.budget:
        ranked = scores if scorer.kinds is None or kind is None else scorer.kinds.ranked(scores, kind)
        chosen = np.sort(highest_first(ranked)[: alerts.top]) if alerts.top else np.flatnonzero(by_score)
    columns = {"novelty": pl.col("novelty")} if scorer.novelty else {}
    columns["alert"] = alert
    if alerts.explore:
        columns["explore"] = _is_among(explored)
    n_muted = 0
    if scorer.kinds and kind is not None:
        unmuted = scorer.is_alert(scores)
        columns |= scorer.kinds.columns(alert, _is_among(np.flatnonzero(unmuted)))
        n_muted = int((unmuted & scorer.kinds.is_muted(kind)).sum())
    return Decided(columns, int(are_alerts.sum()), len(explored), n_muted, chosen, explored)


def _is_among(rows: NDArray[np.int64]) -> pl.Expr:
    return pl.col("index").is_in(rows.tolist())


def explain(
    run: Run, every: Sequence[Part], decided: Decided, parts: Parts, progress: Progress, *, apart: bool
) -> dict[str, pl.Expr]:
    """Explain the chosen rows and return the columns of reasons."""
    ends = np.cumsum([part.scored for part in every])
    jobs: list[tuple[str, NDArray[np.int64], bool]] = []
    for rows, novelty in ((decided.chosen, False), (decided.explored, True)):
        for part, end in zip(every, ends, strict=True):
            own = rows[np.searchsorted(rows, end - part.scored) : np.searchsorted(rows, end)]
            for start in range(0, len(own), _EXPLAINED_AT_A_TIME):
                some = own[start : start + _EXPLAINED_AT_A_TIME] - (end - part.scored)
                jobs.append((part.name, some, novelty))
    for done, _ in enumerate(run(Parts.explain, jobs), start=1):
        progress("Explaining", done, len(jobs))
    reasons = [pl.read_parquet(parts.reasons(*job), glob=False)["reasons"] for job in jobs]
    texts = pl.concat([pl.Series("reasons", [], dtype=pl.List(pl.String)), *reasons]).to_frame()
    explained = np.concatenate([decided.chosen, decided.explored])
    return {
        own.name: pl.col("index").replace_strict(
            explained, own, default=None if apart else "", return_dtype=pl.String
        )
        for own in texts.select(**columns_of_reasons(pl.col("reasons"), apart=apart))
    }
