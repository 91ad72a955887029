"""Compare the rankings before and after an update, on verdicts that neither of them has learned from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dplan.arrays import Float32s, highest_first
from dplan.detectors._base import Detector

__all__ = ["Comparison", "Verdicts", "compare"]

_HOLD_OUTS = 2  # each verdict is held out once; two trainings each
_FEWEST_ANOMALIES = 4  # so that at least two are learned, and two are ranked
# By how much a ranking must be worse to be rejected: chance alone does that once in ten updates at most.
_STANDARD_ERRORS, _SMALLEST_LOSS = 1.3, 0.01


@dataclass(frozen=True, eq=False)
class Verdicts:
    """Rows to train on, with verdicts or unlabelled: the columns of a table.

    Attributes
    ----------
    rows : ndarray of float32
        Prepared features.
    y : ndarray of int
        As in a detector's `fit`.
    keys : list of str
        What identifies the rows with verdicts.
    """

    rows: Float32s
    y: NDArray[np.int64]
    keys: list[str]


@dataclass(frozen=True)
class Comparison:
    """How two rankings order the same verdicts among unlabelled rows; neither has learned from these verdicts.

    Attributes
    ----------
    anomalies, false_alarms, unlabelled : int
        The rows that were ranked.
    before, after : float
        Average precision of the old and the new ranking.
    error : float
        Standard error of their difference.
    found_before, found_after : int
        Of as many rows as there are anomalies, the highest: how many are anomalies.
    """

    anomalies: int
    false_alarms: int
    unlabelled: int
    before: float
    after: float
    error: float
    found_before: int
    found_after: int

    @property
    def is_worse(self) -> bool:
        """Whether the new ranking is worse than the old one, beyond what chance explains."""
        return self.before - self.after > max(_STANDARD_ERRORS * self.error, _SMALLEST_LOSS)


def compare(old: Verdicts, new: Verdicts, detector: Detector, *, seed: int = 0) -> Comparison | None:
    """Fit copies of a detector without some of the verdicts, and see where they rank these.

    Half of the verdicts are held out, then the other half. Each time, one copy learns from the old rows and another
    one from the new rows, both without the verdicts that are held out. If there are enough of them, anomalies that were
    known before are ranked, not new ones: these were found by looking at the top of the old ranking, so that no other
    ranking can place them higher.

    Parameters
    ----------
    old, new : Verdicts
        What the models before and after the update learn from.
    detector : Detector
        The detector; it is not changed.
    seed : int, default=0
        Seed of the choice of verdicts and of the training.

    Returns
    -------
    Comparison or None
        None if there are too few anomalies to hold some out.
    """
    anomalies, earlier = _anomalies(new), _anomalies(old)
    if len(anomalies & earlier) >= _FEWEST_ANOMALIES:
        anomalies &= earlier
    elif len(anomalies) < _FEWEST_ANOMALIES:
        return None
    part_of = _parts(new, np.random.default_rng(seed))
    ranked = (new.y < 0) | np.array([key in anomalies for key in new.keys])
    unlabelled = old.rows[old.y == 0]
    pairs, found, n_false = [], np.zeros(2, dtype=np.int64), 0
    for part in range(_HOLD_OUTS):
        tested = ranked & np.array([part_of.get(key) == part for key in new.keys])
        n_false += int((new.y[tested] < 0).sum())
        truth = np.concatenate([new.y[tested] > 0, np.zeros(len(unlabelled), dtype=bool)])
        rows = np.concatenate([new.rows[tested], unlabelled])
        precisions = []
        for side, learned in enumerate((old, new)):
            seen = np.array([part_of.get(key) != part for key in learned.keys])
            from sklearn.base import clone

            copy = clone(detector).set_params(random_state=seed)
            scores = copy.fit(learned.rows[seen], learned.y[seen]).anomaly_score(rows)
            precisions.append(_precisions(truth, scores))
            found[side] += truth[highest_first(scores)[: truth.sum()]].sum()
        pairs.append(np.stack(precisions))
    before, after = np.concatenate(pairs, axis=1)
    return Comparison(
        len(before),
        n_false,
        len(unlabelled),
        round(float(before.mean()), 4),
        round(float(after.mean()), 4),
        round(float((after - before).std(ddof=1) / np.sqrt(len(before))), 4),
        *found.tolist(),
    )


def _anomalies(verdicts: Verdicts) -> set[str]:
    """Return the keys of the anomalies."""
    return {key for key, label in zip(verdicts.keys, verdicts.y.tolist(), strict=True) if label > 0}


def _parts(new: Verdicts, rng: np.random.Generator) -> dict[str, int]:
    """Divide the verdicts into parts with equal shares of each label; verdicts on the same row stay together."""
    last = {key: label for key, label in zip(new.keys, new.y.tolist(), strict=True) if label}
    keys: list[str] = rng.permutation(list(last)).tolist()
    keys.sort(key=last.__getitem__)
    return {key: place % _HOLD_OUTS for place, key in enumerate(keys)}


def _precisions(truth: NDArray[np.bool_], scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the precision at the rank of each anomaly; their mean is the average precision."""
    own = scores[truth]
    n_above = (scores[:, None] >= own).sum(axis=0)
    return np.asarray((own[:, None] >= own).sum(axis=0) / n_above)
