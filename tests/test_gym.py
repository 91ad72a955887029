"""The environment in Gymnasium's form."""

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from dplan._kernels import perceptron
from dplan.agent.intrinsic import new_novelty
from dplan.agent.network import Learning, new_agent
from dplan.agent.training import Schedule, Training, new_memory, train
from dplan.gym import ID, AnomalyBiasedEnv


@pytest.fixture(scope="module")
def table():
    X = np.random.default_rng(0).normal(size=(900, 5)) * [1, 10, 100, 0.1, 1]
    return X, np.repeat([0, 2, 0], [500, 30, 370])


def test_gymnasiums_checker_passes_without_warnings(table):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env = gymnasium.make(ID, X=table[0], y=table[1], episode_steps=50)
        check_env(env.unwrapped)


@pytest.mark.parametrize("n_checked", [0, 40])
def test_same_rewards_and_next_observations_as_the_kernel(table, n_checked):
    X, y = table[0], table[1].copy()
    y[:n_checked] = -1
    env = AnomalyBiasedEnv(X, y, subsample_size=200, episode_steps=300)
    agent = new_agent(5, (20,), np.random.default_rng(1))
    env.embed = lambda rows: perceptron.embed(agent.theta, agent.sizes, rows)

    memory = new_memory(300)
    novelty = new_novelty(env.world, agent.theta, 100, 256)
    schedule = Schedule(300, 300, 300, 10_000, 2_000, 1.0, 1.0, 1, True)
    learning = Learning(0.99, 0.001, 0.95, 0.01, 0.0, 0.01, 0.0, 0, 32)
    kernel_rng = np.random.Generator(np.random.PCG64(42))
    list(train(Training(agent, env.world, novelty, memory, schedule, learning), kernel_rng))

    observation, _ = env.reset(seed=42)
    np.testing.assert_array_equal(observation, env.world.rows[memory.rows[0]])
    was_checked, n_seen = False, 0
    for step in range(300):
        env.np_random.random()  # the agent's draw of whether to act at random
        action = int(env.np_random.random() * 2)
        assert action == memory.actions[step]
        observation, reward, terminated, truncated, info = env.step(action)
        np.testing.assert_array_equal(observation, env.world.rows[memory.next_rows[step]])
        assert reward == pytest.approx(memory.rewards[step], abs=1e-5)
        assert reward == info["external_reward"] + info["intrinsic_reward"]
        if was_checked:
            assert reward == -action
        was_checked = info["checked"]
        n_seen += was_checked
        assert (terminated, truncated) == (step == 299, False)
    assert (n_seen > 40) == (n_checked > 0)


def test_info_names_the_row_of_the_table(table):
    X, y = table
    env = AnomalyBiasedEnv(X, y)
    observation, info = env.reset(seed=1)
    scaled = (X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))
    seen = []
    for _ in range(200):
        np.testing.assert_allclose(observation, scaled[info["row"]], atol=1e-6)
        assert info["labelled"] == (y[info["row"]] > 0)
        assert not info["checked"]
        seen.append(info["labelled"])
        observation, _, _, _, info = env.step(env.action_space.sample())
    assert 0.3 < np.mean(seen) < 0.7


def test_the_same_seed_gives_the_same_episode(table):
    def episode(seed):
        env = AnomalyBiasedEnv(*table, n_trees=10)
        env.reset(seed=5)  # what came before must not matter
        env.step(1)
        env.reset(seed=seed)
        return [env.step(step % 2)[1:] for step in range(50)]

    assert episode(1) == episode(1)
    assert episode(1) != episode(2)


def test_the_forest_is_refreshed_every_n_steps_in_the_present_embedding(table):
    env = AnomalyBiasedEnv(*table, novelty_update_steps=10, n_trees=5)
    asked = []
    env.embed = lambda rows: asked.append(len(rows)) or rows
    env.reset(seed=0)
    trees = asked.count(256)
    assert trees == 5
    for _ in range(20):
        env.step(0)
    assert asked.count(256) == 3 * trees


def test_a_wrong_embedding_is_named(table):
    env = AnomalyBiasedEnv(*table, embed=lambda rows: rows[:, 0])
    with pytest.raises(ValueError, match="embed must return one row per input row"):
        env.reset(seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": np.zeros(900)}, "0 labelled and 900 unlabelled"),
        ({"X": np.full((900, 2), np.nan)}, "finite numbers"),
        ({"subsample_size": 0}, "subsample_size"),
        ({"sampler": "any"}, "sampler"),
        ({"labelled_probability": 2}, "labelled_probability"),
    ],
)
def test_bad_input_is_named(table, changes, message):
    arguments = {"X": table[0], "y": table[1], **changes}
    with pytest.raises(ValueError, match=message):
        AnomalyBiasedEnv(**arguments)


def test_without_gymnasium_the_install_command_is_named():
    code = "import sys; sys.modules['gymnasium'] = None; import dplan; dplan.gym"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install gymnasium" in run.stderr
