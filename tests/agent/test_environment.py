"""Observation sampling g and external reward h."""

import numpy as np
import pytest
from scipy import stats

from dplan.agent.environment import (
    ANOMALOUS,
    NORMAL,
    PROXIMITY,
    RANDOM,
    UNIFORM,
    draw_next,
    draw_stretch,
    external_reward,
    is_checked,
    proximate,
    random_unlabelled,
    ring_order,
)
from tests.agent.worlds import make_world


@pytest.mark.parametrize(
    ("labelled", "action", "reward"),
    [(True, ANOMALOUS, 1.0), (False, NORMAL, 0.0), (True, NORMAL, -1.0), (False, ANOMALOUS, -1.0)],
)
def test_external_reward_of_the_four_cases(labelled, action, reward):
    assert external_reward(labelled, action) == reward


def choose(world, row, action, start, values):
    """Ask g_u with an embedding of one unit: `values` per row of the window, 0 for the observation."""
    window = np.array(values, dtype=np.float32)[:, None]
    return proximate(world, row, action, start, np.zeros(1, dtype=np.float32), window)


def test_nearest_if_anomalous_and_farthest_if_normal():
    world = make_world(n_labelled=2, n_unlabelled=10, window=4)
    assert choose(world, 0, ANOMALOUS, 5, [3, -1, 2, -4]) == 6
    assert choose(world, 0, NORMAL, 5, [3, -1, 2, -4]) == 8


def test_ties_go_to_the_first_row():
    world = make_world(n_labelled=2, n_unlabelled=10, window=4)
    assert choose(world, 0, ANOMALOUS, 5, [2, 1, -1, 1]) == 6
    assert choose(world, 0, NORMAL, 5, [1, -2, 2, 2]) == 6


@pytest.mark.parametrize("action", [NORMAL, ANOMALOUS])
@pytest.mark.parametrize("place", [0, 2])
def test_the_observation_itself_is_not_part_of_the_subsample(action, place):
    world = make_world(n_labelled=2, n_unlabelled=10, window=4)
    values = [5.0, 5.0, 5.0, 5.0]
    values[place] = 0.0 if action == ANOMALOUS else 9.0  # the observation would win if it took part
    assert choose(world, 5 + place, action, 5, values) != 5 + place


def test_the_window_wraps_around_the_end_of_the_unlabelled_rows():
    world = make_world(n_labelled=2, n_unlabelled=10, window=4)
    assert choose(world, 0, ANOMALOUS, 10, [9, 9, 9, 1]) == 3  # rows 10, 11, 2, 3
    np.testing.assert_array_equal(world.rows[12:14], world.rows[2:4])


def test_an_only_unlabelled_row_follows_itself():
    world = make_world(n_labelled=1, n_unlabelled=1, window=1)
    assert choose(world, 1, NORMAL, 1, [3]) == 1


def test_share_of_labelled_rows_is_p():
    world = make_world(p=0.3)
    rng = np.random.default_rng(0)
    labelled = sum(draw_next(world, 0, rng)[0] < world.n_labelled for _ in range(10_000))
    assert stats.binomtest(labelled, 10_000, 0.3).pvalue > 0.001
    assert stats.binomtest(labelled, 10_000, 0.5).pvalue < 1e-9  # the test can tell another p


def uniform_pvalue(counts):
    return stats.chisquare(counts).pvalue


@pytest.mark.parametrize("sampler", [PROXIMITY, UNIFORM])
def test_share_of_checked_rows_is_q_and_each_is_equally_likely(sampler):
    world, rng = make_world(p=0.3, n_checked=15, q=0.2, sampler=sampler), np.random.default_rng(0)
    rows = np.array([draw_next(world, 0, rng)[0] for _ in range(20_000)])
    checked = rows - (len(world.rows) - 15)
    assert stats.binomtest(int((checked >= 0).sum()), 20_000, 0.2).pvalue > 0.001
    assert stats.binomtest(int((rows < 20).sum()), 20_000, 0.3).pvalue > 0.001
    assert uniform_pvalue(np.bincount(checked[checked >= 0], minlength=15)) > 0.001


def test_the_random_sampler_draws_checked_rows_as_often_as_others():
    world = make_world(n_labelled=5, n_unlabelled=20, n_checked=15, q=0.2, sampler=RANDOM)
    rng = np.random.default_rng(0)
    rows = np.array([draw_next(world, 0, rng)[0] for _ in range(20_000)])
    counts = np.bincount(rows, minlength=len(world.rows))
    assert uniform_pvalue(np.concatenate([counts[:25], counts[-15:]])) > 0.001
    assert counts.sum() == counts[:25].sum() + counts[-15:].sum()


def test_a_checked_row_is_followed_by_any_row_of_the_window():
    world = make_world(n_labelled=2, n_unlabelled=10, window=4, n_checked=3, q=0.2)
    for row in range(len(world.rows) - 3, len(world.rows)):
        assert is_checked(world, row)
        for place in range(4):  # none is taken for the observation itself
            values = [9.0] * 4
            values[place] = 0.0
            assert choose(world, row, ANOMALOUS, 5, values) == 5 + place
    assert not is_checked(world, len(world.rows) - 4)


def test_labelled_rows_are_equally_likely():
    world = make_world()
    rng = np.random.default_rng(0)
    rows = np.array([draw_next(world, 0, rng)[0] for _ in range(20_000)])
    assert uniform_pvalue(np.bincount(rows[rows < 20], minlength=20)) > 0.001


def test_subsample_is_uniform_over_the_unlabelled_rows():
    world = make_world(n_unlabelled=50, window=10)
    rng = np.random.default_rng(0)
    counts = np.zeros(50)
    for _ in range(20_000):
        start, is_window = draw_next(world, 0, rng)
        if is_window:
            counts[(start - world.n_labelled + np.arange(world.window)) % 50] += 1
    # Rows of one window come together, so chi-square is taken over the windows' beginnings: each tenth row.
    assert uniform_pvalue(counts[::10]) > 0.001
    assert counts.min() > 0.85 * counts.mean()


def test_windows_of_an_episode_start_in_its_stretch_and_all_rows_are_equally_likely_over_episodes():
    world = make_world(n_unlabelled=50, window=10, stretch=8)
    rng = np.random.default_rng(0)
    starts = np.zeros(50)
    for _ in range(4_000):
        stretch = draw_stretch(world, rng)
        for _ in range(5):
            start, is_window = draw_next(world, stretch, rng)
            if is_window:
                assert (start - world.n_labelled - stretch) % 50 < 8
                starts[start - world.n_labelled] += 1
                break  # draws of one episode hang together; chi-square wants independent ones
    assert uniform_pvalue(starts) > 0.001


def test_the_stretch_is_all_of_the_unlabelled_rows_if_they_are_few():
    world, rng = make_world(), np.random.default_rng(0)
    before = rng.bit_generator.state
    assert draw_stretch(world, rng) == 0
    assert rng.bit_generator.state == before  # nothing was drawn


def test_the_order_of_rows_is_random():
    neighbours = {
        tuple(ring_order(np.empty(0, int), np.arange(5), 0, np.random.default_rng(seed)))
        for seed in range(200)
    }
    assert len(neighbours) > 80  # of 120 orders


def test_a_sample_of_the_unlabelled_rows_is_in_random_order_and_repeated_as_all_of_them_are():
    labelled, checked = np.array([7, 8]), np.array([3])
    order = ring_order(labelled, np.arange(100, 1100), 5, np.random.default_rng(0), checked, n_drawn=50)
    sample = order[2:52]
    assert order[:2].tolist() == [7, 8]
    assert len(set(sample)) == 50
    assert set(sample) <= set(range(100, 1100))
    assert sample.tolist() != sorted(sample)
    assert order[52:57].tolist() == sample[:5].tolist()
    assert order[57:].tolist() == [3]


def test_first_observation_is_uniform_over_the_unlabelled_rows():
    world = make_world(n_unlabelled=40)
    rng = np.random.default_rng(0)
    rows = np.array([random_unlabelled(world, rng) for _ in range(20_000)]) - world.n_labelled
    assert uniform_pvalue(np.bincount(rows, minlength=40)) > 0.001


def test_the_uniform_sampler_keeps_p_and_needs_no_window():
    world = make_world(sampler=UNIFORM, n_unlabelled=40)
    rng = np.random.default_rng(0)
    draws = [draw_next(world, 0, rng) for _ in range(20_000)]
    assert not any(is_window for _, is_window in draws)
    rows = np.array([row for row, _ in draws])
    assert stats.binomtest(int((rows < 20).sum()), 20_000, 0.5).pvalue > 0.001
    assert uniform_pvalue(np.bincount(rows[rows >= 20] - 20, minlength=40)) > 0.001


def test_the_random_sampler_draws_uniformly_from_all_rows():
    world = make_world(sampler=RANDOM, n_unlabelled=40)
    rng = np.random.default_rng(0)
    rows = np.array([draw_next(world, 0, rng)[0] for _ in range(20_000)])
    assert uniform_pvalue(np.bincount(rows, minlength=60)) > 0.001
