"""Explanations: exact sums, the Shapley value where it can be had, one effect per original column."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from quick import QUICK
from saved import quick_model
from sklearn.base import clone

from dplan.explain import _means_by_scoring, _means_of_network, _scaled, effects

_RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def fitted():
    X = _RNG.normal(size=(300, 6))
    X[:30, 2] += 5
    detector = (
        clone(QUICK["DPLAN"]).set_params(n_steps=2000, hidden_units=(12, 7)).fit(X, np.arange(300) < 20)
    )
    return detector, X


@pytest.mark.parametrize("name", QUICK)
def test_effects_add_up_to_the_score_difference(name):
    detector, preparer, X = quick_model(name)
    groups = preparer.output_groups()
    found = effects(detector, X[:15], X[100:160], groups=groups)
    assert found.effects.shape == (15, 3)  # one per column of the table, though one of them is one-hot
    np.testing.assert_array_equal(found.scores, detector.anomaly_score(X[:15]))
    difference = detector.anomaly_score(X[:15]) - detector.anomaly_score(X[100:160]).mean()
    np.testing.assert_allclose(found.effects.sum(axis=1), difference, atol=1e-4)


@pytest.mark.parametrize("hidden_units", [(20,), (12, 7), (9, 8, 5)])
def test_the_fast_way_equals_scoring_every_replaced_row(hidden_units):
    X = _RNG.normal(size=(200, 7))
    detector = clone(QUICK["DPLAN"]).set_params(hidden_units=hidden_units).fit(X, np.arange(200) < 20)
    rows, usual = _scaled(detector, X[:9]), _scaled(detector, X[50:73])
    groups = np.array([0, 0, 1, 2, 2, 2, 3])
    plain = _means_by_scoring(detector, rows, usual, groups, 4)
    fast = _means_of_network(
        detector.weights_, detector.layer_sizes_, np.array([0.0, 1.0]), rows, usual, groups, 4
    )
    np.testing.assert_allclose(fast, plain, atol=2e-6)


def shapley(value, n_features):
    """Return the Shapley values of a game by their definition."""
    everyone, found = set(range(n_features)), np.zeros(n_features)
    for i in everyone:
        for size in range(n_features):
            weight = factorial(size) * factorial(n_features - size - 1) / factorial(n_features)
            for others in combinations(everyone - {i}, size):
                found[i] += weight * (value({*others, i}) - value(set(others)))
    return found


class Game:
    """A detector whose score is any function of the columns."""

    layer_sizes_ = ()

    def __init__(self, score, n_columns):
        self._score = score
        self.column_low_, self.column_inverse_ = np.zeros(n_columns), np.full(n_columns, 2.0)

    def anomaly_score(self, X):
        return np.asarray(self._score(np.asarray(X, dtype=np.float32)), dtype=float)


def value_of(score, row, usual):
    def value(features):
        mixed = usual.copy()
        mixed[:, sorted(features)] = row[sorted(features)]
        return float(np.mean(score(mixed), dtype=float))

    return value


def test_with_interactions_of_two_features_it_is_the_shapley_value():
    def score(X):
        return 3 * X[:, 0] * X[:, 1] - X[:, 1] * X[:, 2] + 2 * X[:, 3] + np.abs(X[:, 2])

    X = _RNG.normal(size=(30, 5)).astype(np.float32)
    found = effects(Game(score, 5), X[:4], X[10:])
    for i in range(4):
        exact = shapley(value_of(score, X[i], X[10:]), 5)
        np.testing.assert_allclose(found.effects[i], exact, atol=1e-4)


def test_for_a_trained_network_it_is_close_to_the_shapley_value(fitted):
    detector, X = fitted
    background = X[100:160]
    found = effects(detector, X[:10], background)
    exact = np.array([shapley(value_of(detector.anomaly_score, row, background), 6) for row in X[:10]])
    assert np.corrcoef(found.effects.ravel(), exact.ravel())[0, 1] > 0.98
    assert (found.effects[:, 2] == found.effects.max(axis=1)).mean() >= 0.9  # the column that was moved


def test_a_feature_without_influence_gets_nothing():
    def score(X):
        return X[:, 0] * X[:, 1] * X[:, 2]  # all three act together

    X = _RNG.normal(size=(30, 4)).astype(np.float32)
    found = effects(Game(score, 4), X[:4], X[10:])
    np.testing.assert_array_equal(found.effects[:, 3], 0)
    difference = score(X[:4]) - score(X[10:]).mean(dtype=float)
    np.testing.assert_allclose(found.effects.sum(axis=1), difference, atol=1e-6)


def test_a_row_like_the_background_has_no_effects(fitted):
    detector, X = fitted
    found = effects(detector, X[:1], X[:1])
    np.testing.assert_allclose(found.effects, 0, atol=1e-6)


def test_the_same_rows_get_the_same_effects_whatever_stands_beside_them(fitted):
    detector, X = fitted
    together = effects(detector, X[:20], X)
    alone = effects(detector, X[7:8], X)
    np.testing.assert_allclose(together.effects[7:8], alone.effects, atol=1e-6)
    np.testing.assert_array_equal(together.effects, effects(detector, X[:20], X).effects)


def test_ranking_and_top_name_the_features_that_matter(fitted):
    detector, X = fitted
    found = effects(detector, X[:20], X[30:])
    assert found.ranking()[0] == 2
    assert sorted(found.ranking().tolist()) == list(range(6))
    rows = np.arange(20)
    assert (found.effects[rows, found.top(3)[:, 0]] == found.effects.max(axis=1)).all()


def test_bad_input_says_what_is_wrong(fitted):
    detector, X = fitted
    with pytest.raises(ValueError, match="background must have rows"):
        effects(detector, X[:2], X[:0])
    with pytest.raises(ValueError, match="each of the 6 columns"):
        effects(detector, X[:2], X, groups=[0, 1])
    with pytest.raises(ValueError, match="features"):
        effects(detector, X[:2, :3], X[:, :3])
