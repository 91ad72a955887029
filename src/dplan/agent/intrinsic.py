"""The intrinsic reward f (Eq. 5): how easily an isolation forest isolates a row in the agent's embedding."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled
from dplan._kernels.forest import Forest, grow, isolation_scores, new_forest
from dplan._kernels.perceptron import Floats, Sizes, embed
from dplan.agent.environment import World, random_unlabelled

# Scores are rescaled by the scores of this many rows of D^u: enough to find the extremes in data of any size.
RESCALING_ROWS = 5_000

# How isolation scores become rewards, and what the forest sees. Integers, for compiled code.
MINMAX, RANK, AS_THEY_ARE = 0, 1, 2
SCALINGS = {"minmax": MINMAX, "rank": RANK, "none": AS_THEY_ARE}
EMBEDDED, RAW = 0, 1
FEATURES = {"embedding": EMBEDDED, "raw": RAW}


class Novelty(NamedTuple):
    """The forest that gives r^i, the embedding θ̂^e that it was grown in, and the rewards computed so far."""

    forest: Forest
    frozen: Floats  # a copy of θ, which contains θ̂^e
    usual: Floats  # isolation scores of rows of D^u, in ascending order
    rewards: Floats  # r^i per row of the world, NaN until the row is visited
    scaling: int
    features: int


def new_novelty(
    world: World,
    theta: Floats,
    n_trees: int,
    tree_size: int,
    scaling: int = MINMAX,
    features: int = EMBEDDED,
) -> Novelty:
    """Return the intrinsic reward before its first refresh."""
    return Novelty(
        forest=new_forest(n_trees, min(tree_size, world.n_unlabelled)),
        frozen=theta.copy(),
        usual=np.zeros(min(RESCALING_ROWS, world.n_unlabelled), dtype=np.float32),
        rewards=np.full(world.n_labelled + world.n_unlabelled, np.nan, dtype=np.float32),
        scaling=scaling,
        features=features,
    )


@compiled
def intrinsic_reward(novelty: Novelty, world: World, sizes: Sizes, row: int) -> float:
    """Return r^i = f(s; θ̂^e) of a row."""
    if np.isnan(novelty.rewards[row]):
        # The forest does not change until its next refresh, so each row is scored only once.
        scores = isolation_scores(novelty.forest, _seen(novelty, sizes, world.rows[row : row + 1]))
        novelty.rewards[row] = rescale(scores, novelty.usual, novelty.scaling)[0]
    return float(novelty.rewards[row])


@compiled
def refresh(novelty: Novelty, world: World, theta: Floats, sizes: Sizes, rng: np.random.Generator) -> None:
    """Set θ̂^e = θ^e, grow a new forest on ψ(D^u; θ̂^e) and compute the scores for rescaling."""
    novelty.frozen[:] = theta
    forest = novelty.forest
    for tree in range(forest.features.shape[0]):
        # D^u is in random order, so a contiguous part at a random position is a random sample without replacement.
        start = random_unlabelled(world, rng)
        grow(forest, tree, _seen(novelty, sizes, world.rows[start : start + forest.tree_size]), rng)

    first, last = world.n_labelled, world.n_labelled + len(novelty.usual)
    scores = isolation_scores(forest, _seen(novelty, sizes, world.rows[first:last]))
    novelty.usual[:] = np.sort(scores)
    novelty.rewards[:] = np.nan
    novelty.rewards[first:last] = rescale(scores, novelty.usual, novelty.scaling)


@compiled
def _seen(novelty: Novelty, sizes: Sizes, rows: Floats) -> Floats:
    """Return what the forest sees of rows: ψ(s; θ̂^e), or the rows themselves."""
    return rows if novelty.features == RAW else embed(novelty.frozen, sizes, rows)


@compiled
def rescale(scores: Floats, usual: Floats, scaling: int = MINMAX) -> NDArray[np.float32]:
    """Rescale isolation scores to [0, 1], given the scores of D^u in ascending order.

    MINMAX scales by the lowest and highest score of D^u and clips; RANK returns the share of D^u with a lower score.
    AS_THEY_ARE changes nothing: isolation scores are in (0, 1] already, but most are close to 0.5.
    """
    if scaling == AS_THEY_ARE:
        return scores
    rescaled = np.zeros_like(scores)
    if scaling == RANK:
        rescaled[:] = np.searchsorted(usual, scores) / len(usual)
    elif usual[-1] > usual[0]:  # otherwise all rows of D^u look the same, and none is novel
        for i in range(len(scores)):
            rescaled[i] = min(max((scores[i] - usual[0]) / (usual[-1] - usual[0]), 0), 1)
    return rescaled
