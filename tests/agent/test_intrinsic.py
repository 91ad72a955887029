"""The isolation forest and the intrinsic reward."""

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.ensemble import IsolationForest

from dplan._kernels import perceptron
from dplan._kernels.forest import (
    average_path_length,
    grow,
    isolation_score,
    isolation_scores,
    new_forest,
)
from dplan.agent.intrinsic import RANK, RAW, UNSCALED, intrinsic_reward, new_novelty, refresh, rescale
from tests.agent.worlds import make_agent, make_world


def grown(rows, n_trees=100, tree_size=256, seed=0):
    rng = np.random.default_rng(seed)
    forest = new_forest(n_trees, tree_size)
    for tree in range(n_trees):
        grow(forest, tree, rows[rng.choice(len(rows), tree_size, replace=False)], rng)
    return forest


@pytest.mark.parametrize("seed", range(5))
def test_ranks_rows_as_scikit_learn_does(seed):
    rng = np.random.default_rng(seed)
    # Like an embedding: few directions, zeros from ReLU, some rows far out.
    rows = np.maximum(rng.normal(size=(3_000, 5)) @ rng.normal(size=(5, 20)), 0) * rng.lognormal(
        size=(3_000, 1)
    )
    rows = rows.astype(np.float32)
    ours = isolation_scores(grown(rows, seed=seed), rows)
    theirs, theirs_again = (
        -IsolationForest(random_state=state).fit(rows).score_samples(rows) for state in (seed, seed + 100)
    )
    agreement = spearmanr(ours, theirs).statistic
    assert agreement >= 0.95
    assert agreement >= spearmanr(theirs, theirs_again).statistic - 0.02  # as they agree with themselves
    assert ours.mean() == pytest.approx(theirs.mean(), abs=0.02)


def test_a_lonely_row_scores_highest():
    rows = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
    rows[7] = 20
    assert isolation_scores(grown(rows), rows).argmax() == 7


def test_average_path_length_is_that_of_the_iforest_paper():
    assert [average_path_length(n) for n in (0, 1, 2)] == [0, 0, 1]
    harmonic = np.log(255) + 0.5772156649015329
    assert average_path_length(256) == pytest.approx(2 * harmonic - 2 * 255 / 256)


def test_constant_columns_are_passed_over():
    rows = np.zeros((300, 5), dtype=np.float32)
    rows[:, 3] = np.random.default_rng(0).random(300)
    forest = grown(rows, n_trees=10)
    asked = forest.features[np.isfinite(forest.thresholds)]
    assert set(asked.tolist()) == {3}


def test_rows_that_are_all_alike_end_at_the_root():
    rows = np.ones((300, 2), dtype=np.float32)
    forest = grown(rows, n_trees=3)
    assert not np.isfinite(forest.thresholds).any()
    assert isolation_scores(forest, rows) == pytest.approx(0.5, abs=1e-6)  # E[h] = c(256)


def test_rescaling_goes_by_the_extremes_and_clips():
    scores = np.array([0.3, 0.4, 0.5, 0.6, 0.7], dtype=np.float32)
    usual = np.array([0.4, 0.42, 0.6], dtype=np.float32)
    assert rescale(scores, usual).tolist() == pytest.approx([0, 0, 0.5, 1, 1], abs=1e-6)
    assert rescale(scores, np.full(3, 0.4, dtype=np.float32)).tolist() == [0] * 5


def test_rescaling_by_rank_and_not_at_all():
    scores = np.array([0.3, 0.41, 0.6, 0.7], dtype=np.float32)
    usual = np.array([0.4, 0.42, 0.5, 0.6], dtype=np.float32)
    assert rescale(scores, usual, RANK).tolist() == [0, 0.25, 0.75, 1]
    assert rescale(scores, usual, UNSCALED).tolist() == scores.tolist()


def test_rewards_by_rank_are_spread_evenly_and_order_rows_as_minmax_does():
    world = make_world(n_unlabelled=600)
    agent, by_extremes, _ = make_agent(world)
    by_rank = new_novelty(world, agent.theta, 20, 256, scaling=RANK)
    rewards = []
    for novelty in (by_extremes, by_rank):
        refresh(novelty, world, agent.theta, agent.sizes, np.random.default_rng(0))
        rewards.append([intrinsic_reward(novelty, world, agent.sizes, row) for row in range(20, 620)])
    assert np.mean(rewards[1]) == pytest.approx(0.5, abs=0.02)
    assert spearmanr(*rewards).statistic == pytest.approx(1, abs=1e-6)


def test_a_forest_on_raw_rows_does_not_ask_the_network():
    world = make_world(n_unlabelled=600)
    agent, _, _ = make_agent(world)
    raw = new_novelty(world, agent.theta, 20, 256, features=RAW)
    rewards = []
    for factor in (1, -3):
        agent.theta[:] *= factor
        refresh(raw, world, agent.theta, agent.sizes, np.random.default_rng(0))
        rewards.append([intrinsic_reward(raw, world, agent.sizes, row) for row in range(620)])
    assert rewards[0] == rewards[1]
    np.testing.assert_allclose(
        rewards[0][20:],
        rescale(isolation_scores(raw.forest, world.rows[20:620]), raw.reference_scores),
        atol=1e-6,
    )


def test_rewards_span_0_to_1_over_the_unlabelled_rows():
    world = make_world(n_unlabelled=600)
    agent, novelty, _ = make_agent(world)
    refresh(novelty, world, agent.theta, agent.sizes, np.random.default_rng(0))
    rewards = np.array([intrinsic_reward(novelty, world, agent.sizes, row) for row in range(620)])
    assert rewards.min() == 0
    assert rewards.max() == 1
    assert rewards[20:].min() == 0
    assert rewards[20:].max() == 1


def test_a_row_asked_alone_gets_what_it_gets_in_company():
    world = make_world(n_unlabelled=600)
    agent, novelty, _ = make_agent(world)
    refresh(novelty, world, agent.theta, agent.sizes, np.random.default_rng(0))
    unlabelled = range(20, 620)
    in_company = [intrinsic_reward(novelty, world, agent.sizes, row) for row in unlabelled]
    novelty.scores[:] = np.nan
    alone = [intrinsic_reward(novelty, world, agent.sizes, row) for row in unlabelled]
    np.testing.assert_allclose(alone, in_company, atol=1e-5)


def test_the_forest_is_grown_in_the_embedding_of_the_unlabelled_rows_alone():
    world = make_world(n_unlabelled=300)
    agent, novelty, _ = make_agent(world)
    world.rows[: world.n_labelled] = 1_000  # would stretch the thresholds if it took part
    refresh(novelty, world, agent.theta, agent.sizes, np.random.default_rng(0))
    thresholds = novelty.forest.thresholds
    highest = perceptron.embed(agent.theta, agent.sizes, world.rows[world.n_labelled :]).max()
    assert thresholds[np.isfinite(thresholds)].max() <= highest


def test_the_embedding_stays_as_it_was_until_the_next_refresh():
    world = make_world(n_unlabelled=300)
    agent, novelty, _ = make_agent(world)
    refresh(novelty, world, agent.theta, agent.sizes, np.random.default_rng(0))
    labelled = range(world.n_labelled)
    before = [intrinsic_reward(novelty, world, agent.sizes, row) for row in labelled]
    novelty.scores[:] = np.nan
    agent.theta[:] *= -1
    assert [intrinsic_reward(novelty, world, agent.sizes, row) for row in labelled] == before


def test_fewer_rows_than_a_tree_takes():
    world = make_world(n_unlabelled=37, window=37)
    agent, novelty, _ = make_agent(world)
    refresh(novelty, world, agent.theta, agent.sizes, np.random.default_rng(0))
    assert novelty.forest.tree_size == 37
    assert np.isfinite(novelty.scores[20:]).all()


@pytest.mark.parametrize("n_rows", [1, 255, 256, 600])
def test_a_row_scores_the_same_alone_and_among_others(n_rows: int) -> None:
    rows = np.random.default_rng(0).normal(size=(600, 5)).astype(np.float32)
    forest, memory = grown(rows), np.zeros(100, dtype=np.int32)
    alone = [isolation_score(forest, row, memory) for row in rows[:n_rows]]
    np.testing.assert_array_equal(isolation_scores(forest, rows[:n_rows]), np.array(alone))
