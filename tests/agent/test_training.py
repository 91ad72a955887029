"""Algorithm 1: the compiled loop against the plain reference, and each reading of the schedule."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from dplan import DPLAN
from dplan._kernels import perceptron
from dplan.agent import training
from dplan.agent.environment import PROXIMITY, World, ring_order
from dplan.agent.intrinsic import new_novelty, rescale
from dplan.agent.network import OPTIMIZERS, Learning, Minibatch, new_agent
from dplan.agent.reference import Algorithm1, Settings
from dplan.agent.training import (
    Schedule,
    Training,
    epsilon_at,
    fill_batch,
    new_memory,
    select_action,
    store,
    train,
)
from tests.agent.worlds import LEARNING, SCHEDULE, make_agent, make_world

SHORT = SCHEDULE._replace(
    n_steps=500,
    episode_steps=100,
    warmup_steps=300,
    target_update_steps=150,
    novelty_update_steps=100,
    epsilon_steps=300,
)
# One forest throughout: how many draws it takes to grow one hangs on the last bits of the weights.
ONE_FOREST = Settings(
    n_steps=500,
    episode_steps=100,
    warmup_steps=300,
    target_update_steps=150,
    novelty_update_steps=1_000,
    epsilon_steps=300,
    subsample_size=100,
    replay_size=1_000,
    n_trees=20,
)


def run(world, schedule=SHORT, learning=LEARNING, hidden=(20,), replay_size=1_000, seed=0):
    agent, novelty, memory = make_agent(world, hidden, replay_size=replay_size)
    rng = np.random.default_rng(seed)
    episodes = list(train(Training(agent, world, novelty, memory, schedule, learning), rng))
    return agent, memory, episodes


@pytest.mark.parametrize("n_checked", [0, 40], ids=["published", "checked"])
@pytest.mark.parametrize("hidden_units", [(20,), (30, 15, 8)])
@pytest.mark.parametrize(
    "changed",
    [
        {"learning_rate": 0.002},
        {"momentum": 0.5},
        {"dropout": 0.5, "optimizer": "dqn", "l2": 0.0, "replay_size": 370},  # the memory wraps around
    ],
    ids=["rmsprop", "momentum", "dqn"],
)
def test_the_compiled_loop_equals_the_reference(hidden_units, changed, n_checked):
    settings = replace(ONE_FOREST, hidden_units=hidden_units, **changed)
    table = np.random.default_rng(0).random((530 + n_checked, 8), dtype=np.float32)
    rng, places = np.random.default_rng(1), np.arange(len(table))
    order = ring_order(places[:30], places[30:530], 256, rng, places[530:])
    q = 0.2 if n_checked else 0.0
    world = World(table[order], 30, 500, settings.subsample_size, 500, 0.5, PROXIMITY, n_checked, q)
    agent = new_agent(8, hidden_units, rng)
    novelty, memory = new_novelty(world, agent.theta, 20, 256), new_memory(settings.replay_size)
    numbers = {**asdict(settings), "optimizer": OPTIMIZERS[settings.optimizer], "intrinsic_reward": True}
    schedule, learning = (kind(*(numbers[name] for name in kind._fields)) for kind in (Schedule, Learning))
    start = agent.theta.copy()
    list(train(Training(agent, world, novelty, memory, schedule, learning), rng))
    plain = Algorithm1(table[:30], table[30:530], settings, 1, table[530:], q).train()

    n = len(plain.memory)
    rows, actions, rewards, next_rows, terminal = zip(*(plain.memory[i] for i in range(n)), strict=True)
    # Checked rows come after the repeated rows of the compiled world.
    at = np.r_[np.arange(530), len(world.rows) - n_checked + np.arange(n_checked)]
    np.testing.assert_array_equal(memory.rows[:n], at[list(rows)])
    assert (np.array(rows) >= 530).any() == bool(n_checked)
    np.testing.assert_array_equal(memory.actions[:n], actions)
    np.testing.assert_array_equal(memory.next_rows[:n], at[list(next_rows)])
    np.testing.assert_array_equal(memory.terminal[:n], terminal)
    np.testing.assert_allclose(memory.rewards[:n], rewards, atol=1e-4)
    theta = np.concatenate([part.ravel() for layer in plain.layers for part in layer])
    np.testing.assert_allclose(agent.theta, theta, atol=1e-4)  # after 200 learning steps
    assert abs(agent.theta - start).max() > 0.01  # which moved the weights


def test_the_reference_has_the_defaults_of_dplan():
    defaults = DPLAN().get_params()
    assert asdict(Settings()) == {name: defaults[name] for name in asdict(Settings())}


def test_the_reference_scores_as_dplan_does_with_the_same_seed():
    X = np.random.default_rng(0).random((500, 5)).astype(np.float32)
    detector = DPLAN(random_state=3, scale=False, **asdict(ONE_FOREST)).fit(X, np.arange(500) < 20)
    plain = Algorithm1(X[:20], X[20:], ONE_FOREST, random_state=3).train()
    np.testing.assert_allclose(detector.anomaly_score(X), plain.anomaly_score(X), atol=1e-3)


def test_epsilon_decreases_linearly_over_the_warm_up_and_stays():
    steps = [0, 5_000, 10_000, 15_000]
    assert [epsilon_at(step, SCHEDULE) for step in steps] == pytest.approx([1.0, 0.55, 0.1, 0.1])


def test_actions_are_random_with_probability_epsilon():
    world = make_world()
    agent, _, _ = make_agent(world)
    agent.theta[-1] = 100  # the greedy action is always 1
    rng = np.random.default_rng(0)
    actions = [select_action(agent, world, 0, 0.4, rng) for _ in range(10_000)]
    assert np.mean(actions) == pytest.approx(0.8, abs=0.02)


def test_the_target_is_zero_until_k_and_synced_exactly_at_k_and_2k():
    world = make_world()
    schedule = SHORT._replace(n_steps=480, episode_steps=1, warmup_steps=50, target_update_steps=200)
    agent, novelty, memory = make_agent(world)
    rng = np.random.default_rng(0)
    synced = []
    episodes = train(Training(agent, world, novelty, memory, schedule, LEARNING), rng)
    for step, _ in enumerate(episodes, start=1):  # one step an episode
        if step < 200:
            assert not agent.target.any()
        if step in (200, 400):
            np.testing.assert_array_equal(agent.target, agent.theta)
            synced.append(agent.target.copy())
        elif step > 200:
            np.testing.assert_array_equal(agent.target, synced[-1])
            assert (agent.target != agent.theta).any()
    assert len(synced) == 2
    assert (synced[0] != synced[1]).any()


def test_no_weight_moves_in_the_warm_up_and_every_later_step_learns():
    world = make_world()
    agent, novelty, memory = make_agent(world)
    rng = np.random.default_rng(0)
    schedule = SHORT._replace(n_steps=120, episode_steps=1, warmup_steps=100)
    before = agent.theta.copy()
    moved = []
    for _ in train(Training(agent, world, novelty, memory, schedule, LEARNING), rng):
        moved.append(bool((agent.theta != before).any()))
        before = agent.theta.copy()
    assert moved == [False] * 100 + [True] * 20


def test_the_reward_belongs_to_the_row_that_was_acted_on():
    world = make_world()
    _, memory, _ = run(world, SHORT._replace(intrinsic_reward=False))
    rows, actions = memory.rows[:500], memory.actions[:500]
    labelled = rows < world.n_labelled
    expected = np.where(labelled, np.where(actions == 1, 1, -1), np.where(actions == 1, -1, 0))
    np.testing.assert_array_equal(memory.rewards[:500], expected)


def test_the_combined_reward_adds_the_forests_score_of_the_same_row():
    world = make_world()
    still = SHORT._replace(n_steps=200, warmup_steps=200)  # one forest throughout
    agent, novelty, memory = make_agent(world)
    list(train(Training(agent, world, novelty, memory, still, LEARNING), np.random.default_rng(0)))
    rows, actions = memory.rows[:200], memory.actions[:200]
    external = np.where(rows < world.n_labelled, np.where(actions == 1, 1, -1), np.where(actions == 1, -1, 0))
    np.testing.assert_allclose(
        memory.rewards[:200], external + rescale(novelty.scores[rows], novelty.reference_scores), atol=1e-6
    )
    assert (memory.rewards[:200] != external).any()


def test_each_row_follows_from_the_one_before_within_an_episode():
    _, memory, _ = run(make_world())
    inside = ~memory.terminal[:499]
    np.testing.assert_array_equal(memory.next_rows[:499][inside], memory.rows[1:500][inside])
    assert np.flatnonzero(memory.terminal[:500]).tolist() == [99, 199, 299, 399, 499]


def test_targets_are_the_reward_and_the_discounted_value_of_the_next_row():
    world = make_world()
    agent, _, memory = make_agent(world)
    for slot, terminal in enumerate([False, True]):
        store(memory, slot, slot, 1, 0.5, 30, terminal)
    agent.target[:] = agent.theta
    agent.target[-2:] = 5
    values = np.full(len(world.rows), np.nan, dtype=np.float32)
    slots, actions = np.array([1, 0, 0]), np.empty(3, dtype=np.int64)
    rows, targets = np.empty((3, 6), dtype=np.float32), np.empty(3, dtype=np.float32)
    fill_batch(agent, world, memory, slots, 0.99, values, Minibatch(rows, actions, targets))
    value = perceptron.outputs(agent.target, agent.sizes, world.rows[30:31]).max()
    future = 0.99 * value
    assert targets.tolist() == pytest.approx(
        [0.5, 0.5 + future, 0.5 + future], rel=1e-5
    )  # slot 1 is terminal
    np.testing.assert_array_equal(rows, world.rows[slots])
    assert actions.tolist() == [1, 1, 1]


def test_transitions_are_valued_by_the_current_target_network():
    world = make_world()
    # The last update is at step 400; what is stored later, and what was stored before, is valued by the same θ⁻.
    schedule = SHORT._replace(target_update_steps=200, n_steps=500, episode_steps=100)
    agent, memory, _ = run(world, schedule)
    assert (agent.target != agent.theta).any()
    values = perceptron.outputs(agent.target, agent.sizes, world.rows[memory.next_rows[:500]]).max(axis=1)
    expected = np.where(memory.terminal[:500], 0, 0.99 * values)
    drawn = ~np.isnan(memory.future[:500])
    assert drawn.mean() > 0.9  # of 100 minibatches
    np.testing.assert_allclose(memory.future[:500][drawn], expected[drawn], rtol=1e-4, atol=1e-6)


def test_the_memory_overwrites_its_oldest_transitions():
    world = make_world()
    _, whole, _ = run(world, SHORT._replace(warmup_steps=500), replay_size=1_000)
    _, ring, _ = run(world, SHORT._replace(warmup_steps=500), replay_size=120)
    np.testing.assert_array_equal(ring.rows, whole.rows[380 + (np.arange(120) - 380) % 120])


def test_the_forest_is_refreshed_every_n_steps_and_not_in_between():
    world = make_world()
    agent, novelty, memory = make_agent(world)
    schedule = SHORT._replace(n_steps=100, episode_steps=1, warmup_steps=0, novelty_update_steps=30)
    changed, frozen = [], None
    rng = np.random.default_rng(0)
    for step, _ in enumerate(
        train(Training(agent, world, novelty, memory, schedule, LEARNING), rng), start=1
    ):
        if frozen is not None and (novelty.frozen != frozen).any():
            changed.append(step)
            np.testing.assert_array_equal(novelty.frozen, agent.theta)
        frozen = novelty.frozen.copy()
    assert changed == [30, 60, 90]


@pytest.mark.parametrize("stretch", [None, 60])
def test_caching_the_embedding_in_the_warm_up_changes_nothing(monkeypatch, stretch):
    world = make_world(stretch=stretch)
    embedded = []
    original = training.embed_stretch
    monkeypatch.setattr(training, "embed_stretch", lambda *a: embedded.append(a) or original(*a))
    _, kept, _ = run(world)
    monkeypatch.setattr("dplan.agent.training._KEPT_EMBEDDING_BYTES", 0)
    assert len(embedded) == 1  # for the whole warm-up
    _, computed, _ = run(world)
    np.testing.assert_array_equal(kept.next_rows, computed.next_rows)


def test_a_stretch_wraps_around_the_end_of_the_unlabelled_rows():
    world = make_world(n_unlabelled=400, window=50, stretch=100)
    agent, _, _ = make_agent(world)
    places = world.n_labelled + (370 + np.arange(150)) % 400
    expected = perceptron.embed(agent.theta, agent.sizes, world.rows[places])
    np.testing.assert_allclose(training.embed_stretch(agent, world, 370), expected, rtol=1e-5, atol=1e-6)


def test_an_episode_is_summed_up():
    world = make_world()
    _, memory, episodes = run(world)
    first = slice(0, 100)
    assert len(episodes) == 5
    assert episodes[0].reward == pytest.approx(memory.rewards[first].sum(), rel=1e-5)
    assert episodes[0].anomalous_actions == pytest.approx(memory.actions[first].mean())
    assert episodes[0].labelled_rows == pytest.approx((memory.rows[first] < world.n_labelled).mean())
    assert [np.isnan(episode.loss) for episode in episodes] == [True] * 3 + [False] * 2
    assert [episode.epsilon for episode in episodes] == pytest.approx([0.7, 0.4, 0.1, 0.1, 0.1])


def test_a_last_episode_may_be_shorter():
    _, memory, episodes = run(make_world(), SHORT._replace(n_steps=250, episode_steps=100))
    assert len(episodes) == 3
    assert np.flatnonzero(memory.terminal).tolist() == [99, 199, 249]
