"""Our statistics against scipy, scikit-posthocs and the paper's own p-values."""

import numpy as np
import pytest
import scikit_posthocs
from scipy import stats

from experiments.paper import published
from experiments.statistics import average_ranks, rank_methods, wilcoxon_p_value, wins_ties_losses


def random_table(seed):
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(5, 40)), int(rng.integers(3, 10))
    table = rng.random((n, k)) + rng.random(k) * rng.choice([0, 0.5, 1.5])
    return np.round(table, 2) if seed % 2 else table  # every second one has ties


@pytest.mark.parametrize("seed", range(50))
def test_random_tables_agree_with_scipy_and_scikit_posthocs(seed):
    table = random_table(seed)
    ranking = rank_methods(table)
    assert ranking.p_value == pytest.approx(stats.friedmanchisquare(*table.T).pvalue)
    theirs = scikit_posthocs.posthoc_nemenyi_friedman(table).to_numpy()
    off_diagonal = ~np.eye(len(theirs), dtype=bool)
    # The critical difference is where Nemenyi's p-value crosses 5 %.
    apart = abs(ranking.ranks[:, None] - ranking.ranks[None, :]) > ranking.critical_difference
    np.testing.assert_array_equal(apart[off_diagonal], theirs[off_diagonal] < 0.05)
    np.testing.assert_allclose(average_ranks(table), np.mean([stats.rankdata(-row) for row in table], axis=0))
    for other in range(1, table.shape[1]):
        first, second = table[:, 0], table[:, other]
        differences = np.round(first - second, 12)
        expected = stats.wilcoxon(differences[differences != 0]).pvalue
        assert wilcoxon_p_value(first, second) == pytest.approx(expected)
        assert sum(wins_ties_losses(first, second)) == len(table)


def test_missing_figures_leave_a_data_set_out():
    table = random_table(0)
    with_holes = np.vstack([table, np.full(table.shape[1], 0.5)])
    with_holes[-1, 1] = np.nan
    for ours, theirs in zip(rank_methods(with_holes), rank_methods(table), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert wilcoxon_p_value(with_holes[:, 0], with_holes[:, 1]) == wilcoxon_p_value(table[:, 0], table[:, 1])


def test_too_little_to_rank_gives_nothing():
    assert rank_methods(np.random.default_rng(0).random((9, 2))) is None
    assert rank_methods(np.random.default_rng(0).random((1, 4))) is None
    assert rank_methods(np.ones((4, 3))).p_value == 1.0


def column(measure, method):
    figures = [published.result("table2", measure, name, method) for name in published.data_sets()]
    return np.array([figure.mean for figure in figures])


@pytest.mark.parametrize("method", published.methods("table2")[1:])
@pytest.mark.parametrize("measure", ["auc_pr", "auc_roc"])
def test_the_p_values_of_table_2_follow_from_its_figures(measure, method):
    """They were made from unrounded figures, so they need not agree to the last digit."""
    ours = wilcoxon_p_value(column(measure, "DPLAN"), column(measure, method))
    assert ours == pytest.approx(published.p_value("table2", measure, method), rel=0.25, abs=0.0001)
