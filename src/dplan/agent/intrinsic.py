"""The intrinsic reward f (Eq. 5): how easily an isolation forest isolates a row in the agent's embedding."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels.compile import compiled_exactly, compiled_into_caller
from dplan._kernels.forest import (
    Forest,
    grow_on_stretches,
    isolation_score,
    isolation_scores,
    new_forest,
)
from dplan._kernels.perceptron import Sizes, embed
from dplan.agent.environment import World
from dplan.arrays import Float32s

# Scores are rescaled by the scores of this many rows of D^u: enough to find the extremes in data of any size.
RESCALING_ROWS = 5_000

# How isolation scores become rewards, and what the forest sees. Integers, for compiled code.
MINMAX, RANK, UNSCALED = 0, 1, 2
SCALINGS = {"minmax": MINMAX, "rank": RANK, "none": UNSCALED}
EMBEDDED, RAW = 0, 1
FEATURES = {"embedding": EMBEDDED, "raw": RAW}


class Novelty(NamedTuple):
    """The forest that gives r^i, the embedding θ̂^e that it was grown in, and the scores computed so far."""

    forest: Forest
    frozen: Float32s  # a copy of θ, which contains θ̂^e
    reference_scores: Float32s  # isolation scores of rows of D^u, in ascending order
    scores: Float32s  # isolation score per row of the world, NaN until the row is visited
    nodes: NDArray[np.int32]  # memory for walking one row down all trees
    scaling: int
    features: int


def new_novelty(
    world: World,
    theta: Float32s,
    n_trees: int,
    tree_size: int,
    scaling: int = MINMAX,
    features: int = EMBEDDED,
) -> Novelty:
    """Return the intrinsic reward before its first refresh."""
    return Novelty(
        forest=new_forest(n_trees, min(tree_size, world.n_unlabelled)),
        frozen=theta.copy(),
        reference_scores=np.zeros(min(RESCALING_ROWS, world.n_unlabelled), dtype=np.float32),
        scores=np.full(world.n_labelled + world.n_unlabelled, np.nan, dtype=np.float32),
        nodes=np.zeros(n_trees, dtype=np.int32),
        scaling=scaling,
        features=features,
    )


@compiled_into_caller
def intrinsic_reward(novelty: Novelty, world: World, sizes: Sizes, row: int) -> float:
    """Return r^i = f(s; θ̂^e) of a row."""
    if np.isnan(novelty.scores[row]):
        # The forest stands still until its next refresh, so each row is asked about once.
        seen = world.rows[row : row + 1]
        if novelty.features == EMBEDDED:
            seen = embed(novelty.frozen, sizes, seen)
        novelty.scores[row] = isolation_score(novelty.forest, seen[0], novelty.nodes)
    return float(_rescaled(novelty.scores[row], novelty.reference_scores, novelty.scaling))


def refresh(novelty: Novelty, world: World, theta: Float32s, sizes: Sizes, rng: np.random.Generator) -> None:
    """Set θ̂^e = θ^e, grow a new forest on ψ(D^u; θ̂^e) and compute the scores for rescaling."""
    novelty.frozen[:] = theta
    forest, first = novelty.forest, world.n_labelled
    unlabelled = world.rows[first : first + world.n_unlabelled + forest.tree_size]
    # D^u is in random order, so a stretch of it at a random place is a random sample without replacement.
    if novelty.features == RAW:
        grow_on_stretches(forest, unlabelled, world.n_unlabelled, theta, sizes[:0], rng)
    elif len(unlabelled) >= len(forest.features) * forest.tree_size:
        grow_on_stretches(forest, unlabelled, world.n_unlabelled, theta, sizes, rng)
    else:  # all trees together take more rows than there are: every row is embedded once and not once per tree
        size = forest.tree_size
        pieces = [unlabelled[start : start + size] for start in range(0, len(unlabelled), size)]
        everything = np.concatenate([embed(theta, sizes, piece) for piece in pieces])
        grow_on_stretches(forest, everything, world.n_unlabelled, theta, sizes[:0], rng)

    scores = isolation_scores(
        forest, _forest_input(novelty, sizes, unlabelled[: len(novelty.reference_scores)])
    )
    novelty.reference_scores[:] = np.sort(scores)
    novelty.scores[:] = np.nan
    novelty.scores[first : first + len(scores)] = scores


def _forest_input(novelty: Novelty, sizes: Sizes, rows: Float32s) -> Float32s:
    """Return what the forest sees of rows: ψ(s; θ̂^e), or the rows themselves."""
    return rows if novelty.features == RAW else embed(novelty.frozen, sizes, rows)


@compiled_exactly
def rescale(scores: Float32s, reference_scores: Float32s, scaling: int = MINMAX) -> NDArray[np.float32]:
    """Rescale isolation scores to [0, 1], given the scores of D^u in ascending order.

    MINMAX scales by the lowest and highest score of D^u and clips; RANK returns the share of D^u with a lower score.
    UNSCALED changes nothing: isolation scores are in (0, 1] already, but most are close to 0.5.
    """
    rescaled = np.empty(len(scores), dtype=np.float32)
    for i in range(len(scores)):
        rescaled[i] = _rescaled(scores[i], reference_scores, scaling)
    return rescaled


@compiled_into_caller
def _rescaled(score: np.float32, reference_scores: Float32s, scaling: int) -> np.float32:
    if scaling == UNSCALED:
        return score
    if scaling == RANK:
        low, high = 0, len(reference_scores)  # between which the number of lower scores lies
        while low < high:
            middle = (low + high) // 2
            if reference_scores[middle] < score:
                low = middle + 1
            else:
                high = middle
        return np.float32(low / len(reference_scores))
    lowest, highest = reference_scores[0], reference_scores[len(reference_scores) - 1]
    if not highest > lowest:  # every row of D^u looks the same, and none is novel
        return np.float32(0)
    reward = (score - lowest) / (highest - lowest)
    return np.float32(0) if reward < 0 else np.float32(1) if reward > 1 else reward
