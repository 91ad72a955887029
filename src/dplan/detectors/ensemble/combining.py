"""How the members of an ensemble are combined: their weights, and where a score counts less.

What to believe is not what to ask. Forests that learn from verdicts find most in a review that has just begun, but are
rough: once some anomalies are known, they mislead a detector more than they teach it. So there are two sets of weights,
one for the score, and one for the order in which a review asks about rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan.detectors._rows import Weights

# Shares of the kinds of agents in the score: that of networks is fixed, that of boosted trees grows with the number of
# known anomalies (so many give half of the largest), and randomised trees, which learn most from few, have the rest.
_NETWORKS, _BOOSTED, _SOME_LABELS = 0.12, 0.3, 10

# Shares of the explorers in their total weight. The forest adds nothing to neighbours that see ranks, but trees learn
# from it. Without known anomalies the forest decides: its first rows are seldom all of one kind, so reviewing them
# teaches more.
EXPLORERS = {"neighbours": 1.0, "forest": 0.0}
COLD_EXPLORERS = {"neighbours": 0.0, "forest": 1.0}

# The neighbours' weight falls as anomalies become known (so many halve it), and with what they find of these, but not
# below this: labels say nothing about unknown classes.
_MANY_LABELS, _LEAST_EXPLORING = 60, 0.2

# Share of the forests that learn from verdicts in the weight of all agents: at most, and the false alarms that give
# half of it.
_JUDGED_SHARE, _SOME_VERDICTS = 0.2, 2

# The same for the order of a review, with few verdicts; with more, the other agents know better. Explorers have no
# say there as soon as an anomaly is known: the forests know which of the odd rows are false alarms.
_ASKING_SHARE, _FEW_VERDICTS = 0.9, 100

# As long as every verdict is a false alarm, the forests have been looking in the wrong place: after so many of them,
# the neighbours, which find other rows, count as much. The score believes them only half; the order of a review, all.
_FALSE_ALARMS, _BELIEVED = 20, 0.5

# Neighbours cannot say more than this of a row, in their unit. The weight of low scores of agents is at least this.
_FARTHEST, _LEAST_SLOPE = 3.0, 0.5

# Scores of agents are low if less than this share of the randomised trees vote for an anomaly, or below this, in their
# unit. Of unlabelled rows, this share is odd.
_VOTES, _HIGHEST_BEND, _ODD_SHARE = 0.3, 1.0, 0.02


class Bends(NamedTuple):
    """Where the sum of the agents' scores, and the neighbours' score, bend.

    Below `agents`, the sum counts for `slope` times as much as above; the neighbours' score is at most `neighbours`.
    """

    agents: float
    slope: float
    neighbours: float


STRAIGHT = Bends(0.0, 1.0, 1e99)


class Combination(NamedTuple):
    """What is done with the standardised scores of members."""

    weights: Weights  # of agents, forests that learn from verdicts, and explorers
    asking: Weights  # the same for the order of a review, which has no bends
    bends: Bends


def shares_of_kinds(n_known: int) -> dict[str, float]:
    """Return the share of each kind of agent, given the number of known anomalies.

    Examples
    --------
    >>> shares_of_kinds(10), shares_of_kinds(90)["boosted"]
    ({'network': 0.12, 'boosted': 0.15, 'randomised': 0.73}, 0.27)
    """
    boosted = _BOOSTED * n_known / (n_known + _SOME_LABELS)
    return {"network": _NETWORKS, "boosted": boosted, "randomised": 1 - _NETWORKS - boosted}


def agent_weights(kinds: Sequence[str], n_known: int) -> Weights:
    """Return the weights of agents of these kinds, which add up to 1.

    Examples
    --------
    >>> agent_weights(["boosted", "randomised", "boosted"], 10).round(3)
    array([0.085, 0.83 , 0.085])
    """
    share_of = shares_of_kinds(n_known)
    shares = np.array([share_of[kind] / kinds.count(kind) for kind in kinds])
    normal: Weights = shares / shares.sum()
    return normal


def believed_weights(
    agents: Sequence[str], n_judged: int, n_known: int, n_checked: int, found: float, exploration: float
) -> Weights:
    """Return the weights in the score of agents of these kinds, of forests that learn from verdicts, and of explorers.

    `found` tells how far the neighbours separate the known anomalies from other rows. Without known anomalies agents
    have no weight, and the score is that of the isolation forest; false alarms alone change half of it.

    Examples
    --------
    >>> believed_weights(["network"], 0, 60, 0, found=0.8, exploration=1.0)
    array([1.  , 0.32, 0.  ])
    >>> believed_weights(["network"], 1, 20, 8, found=0.0, exploration=1.0)
    array([0.84, 0.16, 0.2 , 0.  ])
    >>> believed_weights(["network"], 0, 0, 0, 0, 1), believed_weights(["network"], 1, 0, 20, 0, 1)
    (array([0., 0., 1.]), array([0.  , 0.25, 0.25, 0.5 ]))
    """
    if not n_known:
        cold = _cold_weights(len(agents), 0, 0)
        if not n_judged:
            return cold
        asked = _cold_weights(len(agents), n_judged, n_checked)
        return _BELIEVED * asked + (1 - _BELIEVED) * np.insert(cold, len(agents), np.zeros(n_judged))
    learned = _JUDGED_SHARE * n_checked / (n_checked + _SOME_VERDICTS) if n_judged else 0.0
    trusted = _MANY_LABELS / (_MANY_LABELS + n_known) * max(found, 0.0) ** 2
    exploring = exploration * max(_LEAST_EXPLORING, trusted) * _fewness(n_judged, n_known + n_checked)
    return _joined(agent_weights(agents, n_known) * (1 - learned), n_judged, learned, exploring)


def asking_weights(agents: Sequence[str], n_judged: int, n_known: int, n_checked: int) -> Weights:
    """Return the weights for the order of a review.

    Examples
    --------
    >>> asking_weights(["network", "boosted"], 1, 50, 50).round(2)
    array([0.03, 0.07, 0.9 , 0.  , 0.  ])
    >>> asking_weights(["network"], 1, 0, 20)
    array([0. , 0.5, 0.5, 0. ])
    """
    if not n_known:
        return _cold_weights(len(agents), n_judged, n_checked)
    learned = _ASKING_SHARE * _fewness(n_judged, n_known + n_checked) if n_judged else 0.0
    return _joined(agent_weights(agents, n_known) * (1 - learned), n_judged, learned, exploring=0.0)


def _cold_weights(n_agents: int, n_judged: int, n_checked: int) -> Weights:
    """Return weights without known anomalies."""
    learned = _FALSE_ALARMS / (_FALSE_ALARMS + n_checked) if n_judged else 0.0
    explorers = EXPLORERS if n_judged else COLD_EXPLORERS
    return _joined(np.zeros(n_agents), n_judged, learned, 1 - learned, explorers)


def _joined(
    agents: Weights, n_judged: int, learned: float, exploring: float, explorers: dict[str, float] = EXPLORERS
) -> Weights:
    forests = np.full(n_judged, learned / max(n_judged, 1))
    return np.concatenate([agents, forests, exploring * np.array(list(explorers.values()))])


def _fewness(n_judged: int, n_verdicts: int) -> float:
    """Return how much explorers count: less and less if there are more than a few verdicts of both kinds."""
    return min(1.0, _FEW_VERDICTS / n_verdicts) ** 2 if n_judged else 1.0


def bends(agents: Weights, neighbours: Weights, votes: float) -> Bends:
    """Return where scores bend, given those of unlabelled rows, and the score of agents at which many trees vote.

    A low score of the agents says that a row is unlike known anomalies. It speaks for a normal row only as far as the
    agents' direction is that of other anomalies, too: as far as the oddest unlabelled rows lean towards the known
    class.

    Examples
    --------
    >>> odd, usual = np.full(2, 9.0), np.arange(98.0) / 98
    >>> neighbours = np.concatenate([odd, usual])
    >>> bends(neighbours, neighbours, votes=0.8)
    Bends(agents=0.8, slope=1.0, neighbours=3.0)
    >>> bends(-neighbours, neighbours, votes=5.0)
    Bends(agents=1.0, slope=0.5, neighbours=3.0)
    """
    order = np.argsort(-neighbours, kind="stable")
    n_odd = max(1, round(_ODD_SHARE * len(order)))
    if n_odd == len(order):
        return Bends(0.0, 1.0, _FARTHEST)
    direction = separation(agents[order[:n_odd]], agents[order[n_odd:]])
    return Bends(min(_HIGHEST_BEND, votes), max(_LEAST_SLOPE, direction), _FARTHEST)


def score_of_votes(middle: float, spread: float, n_trees: int) -> float:
    """Return the standardised score of randomised trees of which some vote for an anomaly, but not many.

    Examples
    --------
    >>> score_of_votes(middle=5.0, spread=20.0, n_trees=50)
    0.5
    """
    return (_VOTES * n_trees - middle) / spread


def combined(scores: NDArray[np.float64], weights: Weights, bends: Bends) -> NDArray[np.float64]:
    """Return the score of rows, given the standardised scores of members as (members, rows).

    Examples
    --------
    >>> agents, neighbours, forest = [0.0, 2.0], [5.0, 1.0], [7.0, 7.0]
    >>> combined(np.array([agents, neighbours, forest]), np.array([1.0, 0.5, 0.0]), Bends(1.0, 0.5, 3.0))
    array([1.5, 2. ])
    """
    n_agents = len(scores) - len(EXPLORERS)
    agents = weighted_sum(scores[:n_agents], weights[:n_agents])
    agents = bends.slope * np.minimum(agents, bends.agents) + np.maximum(agents - bends.agents, 0)
    near = np.minimum(scores[n_agents], bends.neighbours)
    total: NDArray[np.float64] = (
        agents + weights[n_agents] * near + weights[n_agents + 1] * scores[n_agents + 1]
    )
    return total


def separation(anomalies: NDArray[np.float64], others: NDArray[np.float64]) -> float:
    """Return how far scores tell anomalies from other rows: 2a - 1, where a is the area under the ROC curve.

    Examples
    --------
    >>> separation(np.array([9.0]), np.arange(5.0)), separation(np.ones(2), np.ones(3))
    (1.0, 0.0)
    """
    ordered = np.sort(others)
    below = np.searchsorted(ordered, anomalies) + np.searchsorted(ordered, anomalies, side="right")
    return float(below.mean()) / len(others) - 1


def weighted_sum(scores: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Add up the weighted scores of members in order: not a matrix product, whose rounding depends on other rows.

    Examples
    --------
    >>> weighted_sum(np.array([[1.0, 2.0], [10.0, 20.0]]), np.array([1.0, 0.5]))
    array([ 6., 12.])
    """
    total: NDArray[np.float64] = np.add.accumulate(weights[:, np.newaxis] * scores, axis=0)[-1]
    return total
