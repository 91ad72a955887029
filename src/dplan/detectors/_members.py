"""The members of an ensemble: what each learned, the unit of its scores, and its weight."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from dplan._kernels.perceptron import Floats
from dplan._kernels.trees import Trees, join_trees
from dplan.detectors.baselines import boosted_tree

# The kinds of agents, and the share that each has in the score if held-out anomalies speak for none.
KINDS = {"slow": 0.25, "fast": 0.25, "trees": 0.5}
# Added to the error of each kind, so that ranking one more known anomaly right does not decide everything.
_ERROR_FLOOR = 0.01


class Member(NamedTuple):
    """One agent, or an explorer: what it learned, and what its scores are standardised by."""

    kind: str
    theta: Floats | None  # of a network agent
    trees: Trees | None  # of a tree agent
    middle: float
    spread: float
    error: float  # the mean share of unlabelled rows above its held-out anomalies; NaN if it held none out


def boosted_trees(rows: Floats, known: NDArray[np.bool_], n_rounds: int, rng: np.random.Generator) -> Trees:
    """Learn the log odds of being a known anomaly, by boosted trees that each see a part of the columns."""
    from dplan.detectors._boosting import BoostedClassifier  # here, because scoring goes without it

    model = BoostedClassifier(
        max_iter=n_rounds,
        l2_regularization=1.0,  # as in BoostedBaseline, and for the same reason
        max_features=0.3,
        early_stopping=False,  # it would hold out labelled anomalies, of which there are few
        random_state=int(rng.integers(2**31)),
    )
    with threadpool_limits(1, user_api="openmp"):
        model.fit(rows, known)
    return join_trees([boosted_tree(tree.nodes) for (tree,) in model._predictors])


def standardised(
    kind: str,
    theta: Floats | None,
    trees: Trees | None,
    usual: NDArray[np.floating],
    held_out: NDArray[np.floating],
) -> Member:
    """Return a member, given its scores of unlabelled rows and of anomalies that it did not learn from.

    The unit is the distance from the median to the 0.9 quantile: what an agent sets apart, up to a tenth of the rows,
    does not make its unit larger, so it is heard the better the farther apart it sets it.

    Examples
    --------
    >>> member = standardised("trees", None, None, np.arange(101.0), np.array([90.5, 200.0]))
    >>> member.middle, member.spread, round(member.error, 3)
    (50.0, 40.0, 0.05)
    """
    usual = usual.astype(np.float64)
    middle, high = np.quantile(usual, [0.5, 0.9])
    spread = max(high - middle, 0.1 * usual.std())  # most rows may be equal, for trees especially
    ordered = np.sort(usual)
    below = 0.5 * (np.searchsorted(ordered, held_out) + np.searchsorted(ordered, held_out, side="right"))
    error = 1.0 - float(below.mean()) / len(usual) if len(held_out) else np.nan
    spread = float(spread) or 1.0
    return Member(kind, theta, trees, float(middle), spread, error)


def agent_weights(agents: Sequence[Member]) -> NDArray[np.float64]:
    """Return the weights of agents, 1 in all: kinds that rank held-out anomalies lower than the best kind have less.

    Examples
    --------
    >>> agents = [standardised(kind, None, None, np.arange(100.0), np.array([held_out]))
    ...           for kind, held_out in (("slow", 90.5), ("trees", 99.5))]
    >>> agent_weights(agents).round(3)
    array([0.048, 0.952])
    """
    kinds = np.array([agent.kind for agent in agents])
    errors = np.array([agent.error for agent in agents])
    weights = np.zeros(len(agents))
    mean_errors = {kind: errors[kinds == kind].mean() for kind in KINDS if (kinds == kind).any()}
    lowest = min(mean_errors.values())
    for kind, error in mean_errors.items():
        worth = 1.0 if np.isnan(error) else (lowest + _ERROR_FLOOR) / (error + _ERROR_FLOOR)
        weights[kinds == kind] = KINDS[kind] * worth / (kinds == kind).sum()
    normal: NDArray[np.float64] = weights / weights.sum()
    return normal


def weighted_sum(scores: Iterable[NDArray[np.float64]], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up the scores of members, one after the other: the same to the last bit for a row in any company.

    Examples
    --------
    >>> weighted_sum([np.array([1.0, 2.0]), np.array([10.0, 20.0])], np.array([1.0, 0.5]))
    array([ 6., 12.])
    """
    total: NDArray[np.float64] = np.zeros(())
    for own, weight in zip(scores, weights, strict=True):
        total = total + weight * own
    return total
