"""How many alerts will be right: an estimate from known anomalies that were held out, each of them once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from dplan.arrays import highest_first
from dplan.columns.preparer import TablePreparer
from dplan.detectors._base import Detector
from dplan.tables.labelled import LabelledTable

__all__ = ["FEWEST_KNOWN", "Estimate", "estimate", "right_alerts"]

FEWEST_KNOWN = 10  # with fewer known anomalies, an interval would say nothing
_HOLD_OUTS = 3  # each known anomaly is held out once, and two thirds of the others are learned
_BUDGET = 50

_DRAWS = 2_000
_INTERVAL = (0.05, 0.95)
# The top of a ranking: it has this share of the known anomalies, and at least so many rows.
_TOP_SHARE, _FEWEST_AT_TOP = 0.4, 5
# The share of anomalies at the top, as log odds: a constant, the weight of how much more frequent known anomalies are
# there, that of how far they are apart, and a standard deviation. Chosen on tables of ADBench and KEEL, with seeds that
# no reported coverage uses.
_LOG_ODDS, _DEVIATION = (2.0, 0.6, -1.0), 2.0
_MOST_HIDDEN, _LARGEST_SHARE = 50, 0.4  # hidden anomalies for each known one, and among the unlabelled rows


@dataclass(frozen=True)
class Estimate:
    """How many of the highest scores of new rows are anomalies, as far as the labels tell.

    Attributes
    ----------
    budget, rows : int
        The number of alerts, and of new rows that they are chosen from.
    expected : float
        How many of these alerts are expected to be anomalies.
    low, high : int
        An interval that covers 90 %.
    perfect : float
        How many a perfect detector is expected to find.
    known, unlabelled, checked : int
        Known anomalies, unlabelled rows and checked normal rows that were held out.
    median_percentile : float
        Half of the known anomalies rank above this percentage of the unlabelled rows.
    alerts_found, false_alarms : int
        Known anomalies and checked normal rows above the threshold.

    Examples
    --------
    >>> found = Estimate(50, 1_000, 31.5, 20, 41, 48.0, 30, 970, 0, 99.1, 27, 0)
    >>> found.to_json()["expected"]
    31.5
    """

    budget: int
    rows: int
    expected: float
    low: int
    high: int
    perfect: float
    known: int
    unlabelled: int
    checked: int
    median_percentile: float
    alerts_found: int
    false_alarms: int

    def to_json(self) -> dict[str, Any]:
        """Return the estimate as JSON values."""
        return asdict(self)


class RightAlerts(NamedTuple):
    """How many alerts are right: the expectation, an interval that covers 90 %, and that of a perfect detector."""

    expected: float
    low: int
    high: int
    perfect: float


def estimate(
    table: LabelledTable,
    detector: Detector,
    *,
    budget: int | None = None,
    max_levels: int = 255,
    seed: int = 0,
) -> Estimate | None:
    """Estimate how many of the highest scores of new rows would be anomalies, without fitting on the rows it tests.

    A copy of the detector is fitted three times, each time without a third of the rows, and ranks the known anomalies
    among these. If the values of an id column repeat, rows with the same value are held out together.

    Parameters
    ----------
    table : LabelledTable
        From `dplan.tables.from_table`. New rows are taken to be like its rows, labelled ones included, and as many.
    detector : Detector
        The detector, not necessarily fitted; it is not changed.
    budget : int, optional
        Number of alerts; by default 50, or the share `contamination` of the rows if that is less.
    max_levels : int, default=255
        As in `TablePreparer`.
    seed : int, default=0
        Seed for the choice of held-out rows and of the interval.

    Returns
    -------
    Estimate or None
        None with fewer than ten known anomalies, or without unlabelled rows.

    Examples
    --------
    >>> import polars as pl
    >>> from dplan import LogisticBaseline
    >>> from dplan.tables import from_table
    >>> rows = pl.DataFrame({"amount": [*range(1_000), *range(5_000, 5_040)], "fraud": [0] * 1_010 + [1] * 30})
    >>> found = estimate(from_table(rows, label="fraud"), LogisticBaseline(), budget=20)
    >>> found.high, found.perfect
    (20, 20.0)
    """
    n_known, n_unlabelled = int((table.y > 0).sum()), int((table.y == 0).sum())
    if n_known < FEWEST_KNOWN or n_unlabelled < _HOLD_OUTS:
        return None
    rng = np.random.default_rng(seed)
    known, checked, n_found, n_false = [], [], 0, 0
    for copy, preparation, held_out in _hold_outs(table, detector, max_levels, rng):
        y = table.y[held_out]
        scores = copy.anomaly_score(preparation.transform_with_report(table.features[held_out])[0])
        alerts, ascending = scores >= -copy.offset_, np.sort(scores[y == 0])
        # Rows with equal scores count as above, because nothing puts a known anomaly before them.
        above = (len(ascending) - np.searchsorted(ascending, scores) + 0.5) / (len(ascending) + 1)
        known.append(above[y > 0])
        checked.append(above[y < 0])
        n_found += int(alerts[y > 0].sum())
        n_false += int(alerts[y < 0].sum())
    tails, n_rows = np.concatenate(known), table.n_rows or len(table.y)
    if budget is None:
        budget = max(1, min(_BUDGET, round(float(detector.contamination) * n_rows)))
    right = right_alerts(
        tails, n_rows - n_known - table.n_checked, budget, checked=np.concatenate(checked), n_checked=table.n_checked,
        seed=seed,
    )  # fmt: skip
    return Estimate(
        budget,
        n_rows,
        *right,
        known=n_known,
        unlabelled=n_unlabelled,
        checked=int((table.y < 0).sum()),
        median_percentile=round(100 * (1 - float(np.median(tails))), 2),
        alerts_found=n_found,
        false_alarms=n_false,
    )


def right_alerts(
    tails: ArrayLike,
    n_unlabelled: int,
    budget: int,
    *,
    checked: ArrayLike = (),
    n_checked: int = 0,
    seed: int = 0,
) -> RightAlerts:
    """Estimate how many of the highest scores are anomalies, from where held-out known anomalies rank.

    The labels tell which share of all anomalies ranks how high, if hidden anomalies rank like known ones. They do not
    tell how many hidden anomalies there are, only that there cannot be more of them above a rank than rows. So the
    share of anomalies at the top of the ranking is drawn from a distribution that was chosen on many tables; further
    down, it falls as known anomalies become rarer. At most 50 anomalies are taken to be hidden
    for each known one, and at most 40 % of the rows.

    Parameters
    ----------
    tails : array-like
        Share of unlabelled rows that rank above each known anomaly.
    n_unlabelled : int
        Number of unlabelled rows.
    budget : int
        Number of alerts, in as many new rows as there are labelled, unlabelled and checked ones.
    checked : array-like
        Share of unlabelled rows that rank above each checked normal row.
    n_checked : int
        Number of checked normal rows, if `checked` is a sample.
    seed : int, default=0
        Seed of the draws.

    Examples
    --------
    >>> right_alerts(np.full(30, 0.001), 2_000, 20)  # all are among the highest of 2,000 rows
    RightAlerts(expected=19.9, low=20, high=20, perfect=20.0)
    >>> right_alerts(np.linspace(0, 1, 30), 2_000, 20).low  # they could be anywhere
    0
    """
    tails, checked, rng = np.asarray(tails), np.asarray(checked), np.random.default_rng(seed)
    n_known = len(tails)
    top = max(_FEWEST_AT_TOP / n_unlabelled, float(np.quantile(tails, _TOP_SHARE, method="higher")))
    shares = np.geomspace(min(top, 1.0), 1.0, 30)  # of the unlabelled rows: where the ranking is cut
    reached = tails <= shares[:, None] * (1 + 1e-9)
    # The Bayesian bootstrap: known anomalies with random weights, and one more that could be anywhere.
    weights = rng.dirichlet(np.ones(n_known + 1), _DRAWS)
    recall = weights[:, :-1] @ reached.T + weights[:, -1:] * shares
    from scipy.special import expit

    purity = expit(_log_odds(tails, shares[0], n_unlabelled) + _DEVIATION * rng.normal(size=_DRAWS))
    n_hidden = np.minimum(purity * shares[0] / recall[:, 0], _LARGEST_SHARE) * n_unlabelled
    n_hidden = np.minimum(n_hidden, _MOST_HIDDEN * n_known)
    if tails.mean() > 0.5 - 2 / np.sqrt(
        12 * n_known
    ):  # a ranking that may be chance does not tell how many there are
        n_hidden *= rng.random(_DRAWS)
    n_normal = n_checked * (checked <= shares[:, None]).mean(axis=1) if len(checked) else 0.0
    n_above = shares * n_unlabelled + n_known * recall + n_normal
    # Above the top, the share of anomalies is taken to be that of the top.
    found = np.array(
        [np.interp(budget, [0.0, *cut], [0.0, *share]) for cut, share in zip(n_above, recall, strict=True)]
    )
    n_anomalies = n_hidden + n_known
    right = rng.binomial(budget, np.clip(found * n_anomalies / budget, 0.0, 1.0))
    low, high = np.quantile(right, _INTERVAL, method="nearest")
    perfect = np.minimum(n_anomalies, budget).mean()
    return RightAlerts(round(float(right.mean()), 1), int(low), int(high), round(float(perfect), 1))


def _log_odds(tails: NDArray[np.float64], top: float, n_unlabelled: int) -> float:
    """Return the expected log odds of an anomaly at the top of a ranking.

    If the top has anomalies alone, known ones are as far apart as hidden ones, and far more frequent than elsewhere.
    """
    constant, frequent, apart = _LOG_ODDS
    low, high = np.quantile(tails, [0.25, 0.75]) + 1 / n_unlabelled
    return float(
        constant + frequent * np.log((tails <= top * (1 + 1e-9)).mean() / top) + apart * np.log(high / low)
    )


def _hold_outs(
    table: LabelledTable, detector: Detector, max_levels: int, rng: np.random.Generator
) -> Iterator[tuple[Detector, TablePreparer, NDArray[np.int64]]]:
    """Yield copies of a detector with their preparations, and the rows that each has not seen."""
    parts = _parts(table, rng)
    for part in range(_HOLD_OUTS):
        seen = np.flatnonzero(parts != part)
        # A new preparation, because ranges and means must not come from held-out rows either.
        preparation = TablePreparer(max_levels=max_levels, meanings=table.meanings).fit(table.features[seen])
        from sklearn.base import clone

        copy = clone(detector)
        copy.fit(preparation.transform_with_report(table.features[seen])[0], table.y[seen])
        yield copy, preparation, np.flatnonzero(parts == part)


def _parts(table: LabelledTable, rng: np.random.Generator) -> NDArray[np.int64]:
    """Divide the rows into parts with equal shares of each label; rows of one entity stay together."""
    entities = _entities(table)
    # What an entity counts as: the highest class among its rows, or else a row that was checked, or unlabelled.
    kinds = np.zeros(entities.max() + 1, dtype=np.int64)
    np.minimum.at(kinds, entities, np.minimum(table.y, 0))
    np.maximum.at(kinds, entities, table.y)
    order = rng.permutation(len(kinds))
    order = order[highest_first(kinds[order])]
    parts = np.empty(len(kinds), dtype=np.int64)
    parts[order] = np.arange(len(kinds)) % _HOLD_OUTS
    return parts[entities]


def _entities(table: LabelledTable) -> NDArray[np.int64]:
    """Return numbers for what rows are about: values of an id column that repeat, such as customers, or the rows."""
    known = table.y > 0
    found = np.arange(len(known), dtype=np.int64)
    n_fewest = len(known)
    for ids in table.ids:
        # A row without an id is an entity of its own.
        ranks = ids.rank("dense").cast(pl.Int64).fill_null(pl.Series(len(known) + found)).to_numpy()
        values, codes = np.unique(ranks, return_inverse=True)
        if len(values) < n_fewest and len(np.unique(codes[known])) >= _HOLD_OUTS:
            found, n_fewest = codes.astype(np.int64), len(values)
    return found
