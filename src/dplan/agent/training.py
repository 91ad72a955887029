"""Algorithm 1, compiled: training DPLAN. `dplan.agent.reference` is the same algorithm, plain: read that first.

`train` runs the episodes and `run_steps` the steps between two updates; comments give the algorithm's line numbers.
Steps are counted from 0 over the whole training, including the warm-up. All random numbers come from one generator
that is passed in, so the same data, settings and seed give the same agent.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dplan._kernels import perceptron
from dplan._kernels.compile import compiled, compiled_exactly, compiled_into_caller
from dplan._kernels.views import matrix
from dplan.agent.environment import (
    ANOMALOUS,
    PROXIMITY,
    World,
    draw_next,
    draw_stretch,
    external_reward,
    is_checked,
    proximate,
    random_unlabelled,
)
from dplan.agent.intrinsic import Novelty, intrinsic_reward, refresh
from dplan.agent.network import Agent, Learning, Minibatch, learn, target_value
from dplan.arrays import Float32s

# θ does not change during the warm-up, so the embedding ψ is computed once and kept if it is no larger than this.
_KEPT_EMBEDDING_BYTES = 100_000_000


class Schedule(NamedTuple):
    """When things happen, counted in steps, and the range of ε."""

    n_steps: int
    episode_steps: int
    warmup_steps: int
    target_update_steps: int  # K
    novelty_update_steps: int  # N
    epsilon_start: float
    epsilon_end: float
    epsilon_steps: int
    intrinsic_reward: bool


class Memory(NamedTuple):
    """The experience set ℰ: transitions as row numbers. When it is full, new ones overwrite the oldest."""

    rows: NDArray[np.int64]
    actions: NDArray[np.int8]
    rewards: Float32s
    next_rows: NDArray[np.int64]
    # γ max_a' Q̂(s', a'; θ⁻), or 0 for a terminal transition; NaN until the transition is first drawn. θ⁻ is constant
    # between updates, so this is computed once per transition instead of once per draw.
    future: Float32s
    terminal: NDArray[np.bool_]


class Training(NamedTuple):
    """What a training needs: the agent with all that it learns from, and the settings."""

    agent: Agent
    world: World
    novelty: Novelty
    memory: Memory
    schedule: Schedule
    learning: Learning


class Steps(NamedTuple):
    """Some steps of an episode, in which neither the forest nor the target network changes."""

    begin: int
    end: int
    ends_episode: bool  # whether the last one is the episode's last one


class Cached(NamedTuple):
    """What is computed once, because the weights that it depends on stay as they are."""

    values: Float32s  # max_a Q̂(s, a; θ⁻) per row, NaN until it is needed: θ⁻ rarely changes
    stretch_start: int  # of the episode's stretch of D^u
    stretch: Float32s  # its embedding, during the warm-up, when θ is constant; empty if it is not kept


class Sums(NamedTuple):
    """Sums over the steps of an episode."""

    reward: float
    loss: float
    learned: float  # steps
    anomalous: float  # actions
    labelled: float  # rows


# Where kernels find them in an array.
_REWARD, _LOSS, _LEARNED, _ANOMALOUS, _LABELLED = range(len(Sums._fields))


class Episode(NamedTuple):
    """Metrics of one episode."""

    reward: float
    loss: float
    epsilon: float
    anomalous_actions: float
    labelled_rows: float


def new_memory(size: int) -> Memory:
    """Return an empty experience set (line 3)."""
    return Memory(
        rows=np.zeros(size, dtype=np.int64),
        actions=np.zeros(size, dtype=np.int8),
        rewards=np.zeros(size, dtype=np.float32),
        next_rows=np.zeros(size, dtype=np.int64),
        future=np.zeros(size, dtype=np.float32),
        terminal=np.zeros(size, dtype=np.bool_),
    )


def train(training: Training, rng: np.random.Generator) -> Iterator[Episode]:
    """Train the agent in place and yield after each episode; stop iterating to stop training."""
    agent, world, novelty, memory, schedule, _ = training
    if schedule.intrinsic_reward:
        refresh(novelty, world, agent.theta, agent.sizes, rng)
    nothing = np.empty((0, agent.sizes[-2]), dtype=np.float32)
    values = np.full(len(world.rows), np.nan, dtype=np.float32)
    if not agent.target.any():
        values[:] = 0
    for first_step in range(0, schedule.n_steps, schedule.episode_steps):  # line 4
        n_steps = min(schedule.episode_steps, schedule.n_steps - first_step)
        warming_up = first_step < schedule.warmup_steps
        if first_step == 0 or not warming_up:
            start = draw_stretch(world, rng)
            keeping = warming_up and _keeping_pays(agent, world, schedule)
            cached = Cached(values, start, embed_stretch(agent, world, start) if keeping else nothing)
        row = random_unlabelled(world, rng)  # line 5
        sums = np.zeros(len(Sums._fields))
        for steps in _between_updates(schedule, first_step, first_step + n_steps):
            row = run_steps(training, steps, cached, row, sums, rng)
            if steps.end == schedule.n_steps:
                break  # updates would only affect later steps
            # Before the first gradient step, the forest was already grown with the current θ.
            moved = steps.end > schedule.warmup_steps
            if schedule.intrinsic_reward and moved and steps.end % schedule.novelty_update_steps == 0:
                refresh(novelty, world, agent.theta, agent.sizes, rng)  # line 17
            if steps.end % schedule.target_update_steps == 0:
                agent.target[:] = agent.theta  # line 18
                values[:] = np.nan
                memory.future[~memory.terminal] = np.nan
        yield _summary(Sums(*sums.tolist()), n_steps, epsilon_at(first_step + n_steps, schedule))


def _between_updates(schedule: Schedule, begin: int, end: int) -> Iterator[Steps]:
    """Split an episode into steps in which neither the forest nor the target network changes."""
    periods = (schedule.novelty_update_steps, schedule.target_update_steps)
    while begin < end:
        stop = min(end, *(begin - begin % period + period for period in periods))
        yield Steps(begin, stop, stop == end)
        begin = stop


def _summary(sums: Sums, n_steps: int, epsilon: float) -> Episode:
    return Episode(
        reward=sums.reward,
        loss=sums.loss / sums.learned if sums.learned else np.nan,
        epsilon=epsilon,
        anomalous_actions=sums.anomalous / n_steps,
        labelled_rows=sums.labelled / n_steps,
    )


@compiled_exactly
def run_steps(
    training: Training,
    steps: Steps,
    cached: Cached,
    row: int,
    sums: NDArray[np.float64],
    rng: np.random.Generator,
) -> int:
    """Run some steps from a row, add to the episode's `Sums`, and return the next row."""
    agent, world, memory = training.agent, training.world, training.memory
    schedule, learning = training.schedule, training.learning
    size = learning.batch_size
    slots = np.empty(size, dtype=np.int64)
    batch = Minibatch(
        np.empty((size, world.rows.shape[1]), dtype=np.float32),
        np.empty(size, dtype=np.int64),
        np.empty(size, dtype=np.float32),
    )
    for step in range(steps.begin, steps.end):  # line 6
        action = select_action(agent, world, row, epsilon_at(step, schedule), rng)  # lines 7 and 8
        still = step < schedule.warmup_steps  # no learning yet, so θ has not changed
        next_row = next_observation(agent, world, row, action, cached, still, rng)  # lines 9 and 10
        labelled = row < world.n_labelled
        reward = external_reward(labelled, action)
        if schedule.intrinsic_reward and not is_checked(world, row):
            reward += intrinsic_reward(training.novelty, world, agent.sizes, row)  # lines 11 and 12
        terminal = steps.ends_episode and step == steps.end - 1
        store(memory, step, row, action, reward, next_row, terminal)  # line 13
        if not still:
            for i in range(size):  # line 14
                slots[i] = int(rng.random() * min(step + 1, len(memory.rows)))
            fill_batch(agent, world, memory, slots, learning.discount, cached.values, batch)
            sums[_LOSS] += learn(agent, batch, learning, rng)  # line 16
            sums[_LEARNED] += 1
        sums[_REWARD] += reward
        sums[_ANOMALOUS] += action == ANOMALOUS
        sums[_LABELLED] += labelled
        row = next_row
    return row


@compiled
def epsilon_at(step: int, schedule: Schedule) -> float:
    """Return ε at a step: it decreases linearly, then stays constant."""
    progress = min(1.0, step / schedule.epsilon_steps)
    return schedule.epsilon_start * (1.0 - progress) + schedule.epsilon_end * progress


@compiled_into_caller
def select_action(agent: Agent, world: World, row: int, epsilon: float, rng: np.random.Generator) -> int:
    """Choose a random action with probability ε, otherwise the greedy one."""
    if rng.random() < epsilon:
        return int(rng.random() * 2)
    values = perceptron.outputs(agent.theta, agent.sizes, world.rows[row : row + 1])
    return int(values[0, 1] > values[0, 0])


@compiled_into_caller
def next_observation(
    agent: Agent, world: World, row: int, action: int, cached: Cached, still: bool, rng: np.random.Generator
) -> int:
    """Return the next observation: s' ~ g(s' | s, a; θ^e)."""
    found, is_window = draw_next(world, cached.stretch_start, rng)
    if not is_window:
        return found
    embedded_row = perceptron.embed(agent.theta, agent.sizes, world.rows[row : row + 1])[0]
    if still and len(cached.stretch) > 0:
        first = (found - world.n_labelled - cached.stretch_start) % world.n_unlabelled
        window = cached.stretch[first : first + world.window]
    else:
        window = perceptron.embed(agent.theta, agent.sizes, world.rows[found : found + world.window])
    return proximate(world, row, action, found, embedded_row, window)


def _keeping_pays(agent: Agent, world: World, schedule: Schedule) -> bool:
    """Return whether it is cheaper to embed the whole stretch once than each window, and the result is small."""
    n_rows = world.stretch + world.window
    drawn = world.labelled_probability + world.checked_probability
    asked = schedule.warmup_steps * (1 - drawn) * world.window
    n_bytes = n_rows * int(agent.sizes[-2]) * 4
    return world.sampler == PROXIMITY and asked > n_rows and n_bytes <= _KEPT_EMBEDDING_BYTES


def embed_stretch(agent: Agent, world: World, start: int) -> Float32s:
    """Return ψ for all rows that windows of a stretch can contain, in pieces to limit the memory of deep networks."""
    n_rows = world.stretch + world.window
    embedded = np.empty((n_rows, agent.sizes[-2]), dtype=np.float32)
    done = 0
    while done < n_rows:
        first = (start + done) % world.n_unlabelled  # a stretch may wrap around the end of D^u
        last = min(first + 4096, first + n_rows - done, world.n_unlabelled)
        piece = world.rows[world.n_labelled + first : world.n_labelled + last]
        embedded[done : done + len(piece)] = perceptron.embed(agent.theta, agent.sizes, piece)
        done += len(piece)
    return embedded


@compiled_into_caller
def store(
    memory: Memory, step: int, row: int, action: int, reward: float, next_row: int, terminal: bool
) -> None:
    """Store a transition."""
    slot = step % len(memory.rows)
    memory.rows[slot] = row
    memory.actions[slot] = action
    memory.rewards[slot] = reward
    memory.next_rows[slot] = next_row
    memory.terminal[slot] = terminal
    memory.future[slot] = 0 if terminal else np.nan


@compiled_into_caller
def fill_batch(
    agent: Agent,
    world: World,
    memory: Memory,
    slots: NDArray[np.int64],
    discount: float,
    values: Float32s,
    batch: Minibatch,
) -> None:
    """Write the transitions in these slots, with their targets y = r + γ max_a' Q̂(s', a'; θ⁻), into a minibatch."""
    rows, n_columns = batch.rows, batch.rows.shape[1]
    for i in range(len(slots)):
        slot = slots[i]
        if np.isnan(memory.future[slot]):  # first drawn since θ⁻ changed
            memory.future[slot] = discount * target_value(agent, world.rows, memory.next_rows[slot], values)
        source = matrix(world.rows, memory.rows[slot] * n_columns, 1, n_columns)[0]
        copy = matrix(rows, i * n_columns, 1, n_columns)[0]
        for column in range(n_columns):
            copy[column] = source[column]
        batch.actions[i] = memory.actions[slot]
        # line 15: y = r + γ max_a' Q̂(s', a'; θ⁻), where `future` is the second term, or 0 at the end of an episode
        batch.targets[i] = memory.rewards[slot] + memory.future[slot]
