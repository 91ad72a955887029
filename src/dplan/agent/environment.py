"""The anomaly-biased simulation environment E: observation sampling g (Eq. 3) and external reward h (Eq. 4).

An observation is a row number. The labelled anomalies D^a come first, then the unlabelled rows D^u in random order.
Checked normal rows, which the paper does not have, come last; without them, everything is as published.
"""

from typing import NamedTuple

import numpy as np

from dplan._kernels.compile import compiled, compiled_into_caller
from dplan.arrays import Float32s

NORMAL, ANOMALOUS = 0, 1  # the actions a⁰ and a¹

PROXIMITY, UNIFORM, RANDOM = 0, 1, 2
SAMPLERS = {
    "proximity": PROXIMITY,  # the paper: g_a with probability p, else g_u, the nearest or farthest of a subsample
    "uniform": UNIFORM,  # g_a with probability p, else any row of D^u
    "random": RANDOM,  # any row of D^a ∪ D^u, as in the paper's ablation REnv
}


# The windows of one episode (and of the whole warm-up) start within a stretch of at most this many rows of D^u, at a
# random position. The rows of an episode then fit into the processor's cache, and training takes the same time for any
# number of rows. An episode of 2,000 steps visits far fewer rows than that.
STRETCH_ROWS = 100_000

# An agent that draws rows uniformly sees a random sample of this many rows of D^u, or of as many as it takes steps, if
# that is more: it could hardly visit others.
UNIFORM_ROWS = 20_000


class World(NamedTuple):
    """The rows that the environment shows, and how it selects the next one.

    The first rows of D^u are repeated at the end, so that a window that starts anywhere in D^u is contiguous in memory
    and needs no gathering. Because D^u is in random order, a window at a random position is a random subsample.
    """

    rows: Float32s  # (n_labelled + n_unlabelled + repeated + n_checked, columns), C-contiguous
    n_labelled: int
    n_unlabelled: int
    window: int  # |S|
    stretch: int  # number of rows of D^u in which the windows of one episode start
    labelled_probability: float  # p
    sampler: int
    n_checked: int = 0  # the last rows
    checked_probability: float = 0.0  # of drawing one of them


_NONE = np.empty(0, dtype=np.int64)


def ring_order(
    labelled: np.ndarray,
    unlabelled: np.ndarray,
    repeated: int,
    rng: np.random.Generator,
    checked: np.ndarray = _NONE,
    n_drawn: int | None = None,
) -> np.ndarray:
    """Return the row of the table at each position of `World.rows`, with all unlabelled rows or a sample of them.

    Examples
    --------
    >>> order = ring_order(np.array([7, 8]), np.arange(5), 2, np.random.default_rng(0))
    >>> order[:2], sorted(int(i) for i in order[2:7]), bool((order[7:] == order[2:4]).all())
    (array([7, 8]), [0, 1, 2, 3, 4], True)
    """
    if n_drawn is None or n_drawn == len(unlabelled):
        shuffled = rng.permutation(unlabelled)
    else:
        shuffled = rng.choice(unlabelled, n_drawn, replace=False)
    return np.concatenate([labelled, shuffled, shuffled[:repeated], checked])


def is_labelled(world: World, row: int) -> bool:
    """Return whether a row is in D^a."""
    return row < world.n_labelled


@compiled_into_caller
def is_checked(world: World, row: int) -> bool:
    """Return whether a row was checked and is normal."""
    return row >= len(world.rows) - world.n_checked


def random_unlabelled(world: World, rng: np.random.Generator) -> int:
    """Draw a row of D^u, each equally likely."""
    return world.n_labelled + int(rng.random() * world.n_unlabelled)


def draw_stretch(world: World, rng: np.random.Generator) -> int:
    """Draw the position in D^u, counted from 0, where an episode's stretch starts; a small D^u is one stretch."""
    if world.stretch == world.n_unlabelled:
        return 0
    return int(rng.random() * world.n_unlabelled)


@compiled_into_caller
def draw_next(world: World, stretch_start: int, rng: np.random.Generator) -> tuple[int, bool]:
    """Draw the next observation or, if the returned flag is set, the start of the window S to choose it from."""
    first_checked = len(world.rows) - world.n_checked
    if world.sampler == RANDOM:
        n_others = world.n_labelled + world.n_unlabelled
        place = int(rng.random() * (n_others + world.n_checked))
        return (place if place < n_others else first_checked + place - n_others), False
    chance = rng.random()
    if chance < world.labelled_probability:
        return int(rng.random() * world.n_labelled), False  # g_a
    if chance < world.labelled_probability + world.checked_probability:
        return first_checked + int(rng.random() * world.n_checked), False
    if world.sampler == UNIFORM:
        return world.n_labelled + int(rng.random() * world.n_unlabelled), False
    place = stretch_start + int(rng.random() * world.stretch)
    return world.n_labelled + place % world.n_unlabelled, True


@compiled
def proximate(
    world: World, row: int, action: int, start: int, embedded_row: Float32s, embedded_window: Float32s
) -> int:
    """Return g_u: the row of the window nearest to the observation if it was called anomalous, else the farthest.

    Distances are Euclidean in the embedding. The observation itself is excluded; ties go to the first row.
    """
    itself = -1  # position of the observation in the window, if it is there
    if row >= world.n_labelled and not is_checked(world, row):
        itself = (row - start) % world.n_unlabelled
    best, best_distance = -1, np.float32(0)
    for i in range(embedded_window.shape[0]):
        distance = np.float32(0)
        for unit in range(embedded_window.shape[1]):
            gap = embedded_window[i, unit] - embedded_row[unit]
            distance += gap * gap
        better = distance < best_distance if action == ANOMALOUS else distance > best_distance
        if (better or best < 0) and i != itself:
            best, best_distance = i, distance
    if best < 0:
        return row  # D^u has no other row
    return world.n_labelled + (start - world.n_labelled + best) % world.n_unlabelled


@compiled_into_caller
def external_reward(labelled: bool, action: int) -> float:
    """Return r^e = h(s, a): 1 for a labelled row called anomalous, 0 for an unlabelled row called normal, else -1."""
    if labelled and action == ANOMALOUS:
        return 1.0
    if not labelled and action == NORMAL:
        return 0.0
    return -1.0
