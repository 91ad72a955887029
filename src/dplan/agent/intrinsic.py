"""The intrinsic reward f (Eq. 5): how easily an isolation forest isolates a row in the agent's embedding."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._compile import compiled
from dplan.agent.environment import World, random_unlabelled
from dplan.agent.forest import Forest, grow, isolation_scores, new_forest
from dplan.perceptron import Floats, Sizes, embed

# min–max is taken over this many rows of D^u: enough for the extremes, whatever the size of the data.
RESCALING_ROWS = 5_000


class Novelty(NamedTuple):
    """The forest that gives r^i, the embedding θ̂^e that it was grown in, and the rewards that it gave so far."""

    forest: Forest
    frozen: Floats  # θ̂^e, with the rest of θ
    limits: Floats  # lowest and highest isolation score over D^u
    rewards: Floats  # r^i per row of the world, NaN until the row is visited


def new_novelty(world: World, theta: Floats, n_trees: int, tree_size: int) -> Novelty:
    """Return the intrinsic reward before its first refresh."""
    return Novelty(
        forest=new_forest(n_trees, min(tree_size, world.n_unlabelled)),
        frozen=theta.copy(),
        limits=np.zeros(2, dtype=np.float32),
        rewards=np.full(world.n_labelled + world.n_unlabelled, np.nan, dtype=np.float32),
    )


@compiled
def intrinsic_reward(novelty: Novelty, world: World, sizes: Sizes, row: int) -> float:
    """Return r^i = f(s; θ̂^e) of a row."""
    if np.isnan(novelty.rewards[row]):
        # The forest stands still until its next refresh, so each row is asked about once.
        embedded = embed(novelty.frozen, sizes, world.rows[row : row + 1])
        novelty.rewards[row] = rescale(isolation_scores(novelty.forest, embedded), novelty.limits)[0]
    return float(novelty.rewards[row])


@compiled
def refresh(novelty: Novelty, world: World, theta: Floats, sizes: Sizes, rng: np.random.Generator) -> None:
    """Set θ̂^e = θ^e, grow a new forest on ψ(D^u; θ̂^e) and take the limits for rescaling."""
    novelty.frozen[:] = theta
    forest = novelty.forest
    for tree in range(forest.features.shape[0]):
        # D^u is in random order, so a stretch of it at a random place is a random sample without replacement.
        start = random_unlabelled(world, rng)
        grow(forest, tree, embed(theta, sizes, world.rows[start : start + forest.tree_size]), rng)

    first, last = world.n_labelled, world.n_labelled + min(RESCALING_ROWS, world.n_unlabelled)
    scores = isolation_scores(forest, embed(theta, sizes, world.rows[first:last]))
    novelty.limits[0], novelty.limits[1] = scores.min(), scores.max()
    novelty.rewards[:] = np.nan
    novelty.rewards[first:last] = rescale(scores, novelty.limits)


@compiled
def rescale(scores: Floats, limits: Floats) -> NDArray[np.float32]:
    """Bring isolation scores into [0, 1] by the extremes over D^u; rows outside of these are clipped."""
    rescaled = np.zeros_like(scores)
    if limits[1] > limits[0]:  # else every row of D^u looks the same, and none is novel
        for i in range(len(scores)):
            rescaled[i] = min(max((scores[i] - limits[0]) / (limits[1] - limits[0]), 0), 1)
    return rescaled
