"""Small worlds, agents and settings for the tests of the agent."""

import numpy as np

from dplan.agent.environment import PROXIMITY, World, ring_order
from dplan.agent.intrinsic import new_novelty
from dplan.agent.network import Learning, new_agent
from dplan.agent.training import Schedule, new_memory

SCHEDULE = Schedule(
    n_steps=20_000,
    episode_steps=2_000,
    warmup_steps=10_000,
    target_update_steps=10_000,
    novelty_update_steps=2_000,
    epsilon_start=1.0,
    epsilon_end=0.1,
    epsilon_steps=10_000,
    intrinsic_reward=True,
)
LEARNING = Learning(
    discount=0.99,
    learning_rate=0.00025,
    gradient_decay=0.95,
    min_squared_gradient=0.01,
    momentum=0.0,
    l2=0.01,
    dropout=0.0,
    optimizer=0,
    batch_size=32,
)


def make_world(
    n_labelled=20,
    n_unlabelled=400,
    n_columns=6,
    window=100,
    stretch=None,
    p=0.5,
    sampler=PROXIMITY,
    seed=0,
    n_checked=0,
    q=0.0,
):
    rng = np.random.default_rng(seed)
    n_others = n_labelled + n_unlabelled
    table = rng.random((n_others + n_checked, n_columns), dtype=np.float32)
    repeated, checked = max(window, 256), n_others + np.arange(n_checked)
    order = ring_order(np.arange(n_labelled), n_labelled + np.arange(n_unlabelled), repeated, rng, checked)
    window, stretch = min(window, n_unlabelled), stretch or n_unlabelled
    return World(table[order], n_labelled, n_unlabelled, window, stretch, p, sampler, n_checked, q)


def make_agent(world, hidden=(20,), seed=0, n_trees=20, replay_size=1_000):
    """Return an agent with its intrinsic reward and an empty memory."""
    agent = new_agent(world.rows.shape[1], hidden, np.random.default_rng(seed))
    return agent, new_novelty(world, agent.theta, n_trees, 256), new_memory(replay_size)
