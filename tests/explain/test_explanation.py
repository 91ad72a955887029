"""Explanations: exact sums, the Shapley value where it can be had, one effect per original column."""

from itertools import combinations
from math import factorial

import numpy as np
import pytest
from sklearn.base import clone

from dplan import variants
from dplan._kernels.neighbours import mean_nearest_distance
from dplan._kernels.replaced import neighbour_changes
from dplan._kernels.scaling import no_scale
from dplan._kernels.trees import join_trees, one_tree
from dplan.detectors._scaling import ScaledRows
from dplan.detectors._stacked import Bend, StackedTreesTerm, straight
from dplan.detectors._terms import LinearTerm, Replacing, ScoreTerm
from dplan.explain.explanation import effects
from tests.detectors.quick import QUICK
from tests.persistence.saved import quick_model

_RNG = np.random.default_rng(0)


@pytest.fixture(scope="module", params=["DPLAN", "DPLANEnsemble", "BoostedBaseline"])
def fitted(request):
    X = _RNG.normal(size=(300, 6))
    X[:30, 2] += 5
    longer = {
        "DPLAN": {"n_steps": 2000, "hidden_units": (12, 7)},
        "DPLANEnsemble": {"n_steps": 2000, "n_agents": 2},
    }
    detector = clone(QUICK[request.param]).set_params(**longer.get(request.param, {}))
    return detector.fit(X, np.arange(300) < 20), X


@pytest.mark.parametrize("n_checked", [0, 30])
@pytest.mark.parametrize("name", QUICK)
def test_effects_add_up_to_the_score_difference(name, n_checked):
    detector, preparer, X = quick_model(name, n_checked=n_checked)
    groups = preparer.feature_groups()
    found = effects(detector, X[:15], X[100:160], groups=groups)
    assert found.effects.shape == (15, 3)  # one per column of the table, though one of them is one-hot
    np.testing.assert_array_equal(found.scores, detector.anomaly_score(X[:15]))
    difference = detector.anomaly_score(X[:15]) - detector.anomaly_score(X[100:160]).mean()
    np.testing.assert_allclose(found.effects.sum(axis=1), difference, atol=1e-4)


HIDDEN_UNITS = {f"DPLAN, {units}": {"hidden_units": units} for units in [(20,), (12, 7), (9, 8, 5)]}
# Explained by scoring replaced rows: their scores are not sums of terms that there is a faster way for.
SLOW = {"DeepSAD", "DeepSAD, inverse", "REPEN"}
FAST = [*HIDDEN_UNITS, *(name for name in QUICK if name not in SLOW and name not in variants.names())]


def both_ways(detector, rows, background, groups):
    """Return the changes by all terms of a detector, and by scoring every replaced row."""
    replacing = Replacing(
        detector._arrange(rows), detector._arrange(background), np.array(groups), max(groups) + 1
    )
    exact = []
    for term in detector._terms():
        exact += term.others if isinstance(term, StackedTreesTerm) else [term]
    by_terms = sum(term.changes(replacing) for term in exact)
    added = ScoreTerm(lambda rows: sum(term.values(rows) for term in exact))
    return by_terms, added.changes(replacing)


@pytest.mark.parametrize("groups", [range(7), (0, 0, 1, 2, 2, 2, 3), (1, 0, 1, 0, 1, 0, 1), (0,) * 7])
@pytest.mark.parametrize("name", FAST)
def test_fast_explanations_equal_scoring_every_replaced_row(name, groups):
    X = _RNG.normal(size=(200, 7))
    X[:, 5] = X[:, 5] > 0.5  # so that some rows share a value
    detector = clone(QUICK[name.split(",")[0]]).set_params(**HIDDEN_UNITS.get(name, {}))
    if name == "DPLANEnsemble":
        detector.set_params(n_agents=2)
    detector.fit(X, np.repeat([1, -1, 0], [20, 20, 160]))
    fast, plain = both_ways(detector, X[:9], X[50:150], groups)
    assert np.abs(plain).max() > 0.01
    np.testing.assert_allclose(fast, plain, atol=2e-6 * max(1, np.abs(plain).max()))


@pytest.mark.parametrize("n_background", [1, 63, 64, 65, 129])
def test_trees_are_explained_with_any_number_of_background_rows(n_background):
    X = _RNG.normal(size=(300, 3)).round(1)  # few columns: the same one is asked again and again on a path
    detector = clone(QUICK["BoostedBaseline"]).fit(X, np.arange(300) < 20)
    fast, plain = both_ways(detector, X[:5], X[100 : 100 + n_background], range(3))
    np.testing.assert_allclose(fast, plain, atol=2e-6 * max(1, np.abs(plain).max()))


def stacked_trees(features):
    """Return a term of stumps that test these columns: three of the table, then their sum, then the first again."""
    children, leaves = np.array([[1, 0, 0], [2, 0, 0]]), np.array([False, True, True])
    values = np.array([0.0, 0.0, 1.0])
    stumps = [one_tree(*children, leaves, np.full(3, f), np.full(3, 0.5), values) for f in features]
    columns = [LinearTerm(np.ones(3)), LinearTerm(np.array([1.0, 0.0, 0.0]))]
    return StackedTreesTerm(
        join_trees(stumps), np.ones(len(features)), columns, [straight(0.5), straight(0.0)]
    )


def test_stacked_trees_are_explained_exactly_in_the_columns_of_the_table():
    rows, background = _RNG.random((2, 40, 3)).astype(np.float32)
    replacing = Replacing(rows, background, np.arange(3), 3)
    term = stacked_trees([0, 1, 1, 2])
    np.testing.assert_allclose(term.changes(replacing), ScoreTerm(term.values).changes(replacing), atol=1e-9)


def test_what_bends_is_explained_by_the_slope_from_the_background_to_the_row():
    rows, background = _RNG.random((2, 40, 3)).astype(np.float32)
    replacing = Replacing(rows, background, np.arange(3), 3)
    sums, bent = LinearTerm(np.ones(3)), Bend(at=1.6, below=0.25, above=2.0)
    nothing = one_tree(
        *np.zeros((2, 1), dtype=int), np.array([True]), np.array([0]), np.zeros(1), np.zeros(1)
    )
    term = StackedTreesTerm(nothing, np.ones(1), [sums], [bent], [sums], bent)
    first_in, last_out = term.changes(replacing)
    own, mean = sums.values(rows), sums.values(background).mean(keepdims=True)
    np.testing.assert_allclose(first_in.sum(axis=1), 2 * (bent.of(own) - bent.of(mean)), atol=1e-6)
    np.testing.assert_allclose(last_out, -first_in, atol=1e-6)
    np.testing.assert_allclose(term.values(rows), 2 * bent.of(own), atol=1e-6)


def test_what_a_stacked_column_changes_is_divided_among_the_features_behind_it():
    rows, background = _RNG.random((2, 40, 3)).astype(np.float32)
    replacing = Replacing(rows, background, np.arange(3), 3)
    changes = stacked_trees([4]).changes(replacing)  # the first column again
    np.testing.assert_allclose(changes, stacked_trees([0]).changes(replacing))
    rows[:, 2] = background[:, 2] = 0.1
    summed = stacked_trees([3]).changes(replacing)
    assert np.abs(summed[..., :2]).max() > 0.6  # more than the sum's own weight
    np.testing.assert_array_equal(summed[..., 2], 0)


@pytest.mark.parametrize("n_rows", [1, 40, 1003])
def test_neighbours_are_explained_for_any_number_of_rows(n_rows):
    neighbours = _RNG.random((3, 20, 4)).astype(np.float32)
    rows, background = _RNG.random((n_rows, 4)).astype(np.float32), _RNG.random((30, 4)).astype(np.float32)
    background[:5] = neighbours[0, :5]  # at a distance of zero
    rows[0] = 50.0  # far outside
    groups = np.array([0, 1, 0, 2])
    fast = neighbour_changes(neighbours, rows, background, groups, 3)
    for i in (0, n_rows // 2, n_rows - 1):
        for feature in range(3):
            replaced = groups == feature
            first_in = mean_nearest_distance(neighbours, np.where(replaced, rows[i], background)).mean()
            first_in -= mean_nearest_distance(neighbours, background).mean()
            last_out = mean_nearest_distance(neighbours, np.where(replaced, background, rows[i])).mean()
            last_out -= mean_nearest_distance(neighbours, rows[i : i + 1])[0]
            np.testing.assert_allclose(fast[:, i, feature], [first_in, last_out], atol=1e-4)


@pytest.mark.parametrize("n_checked", [0, 30])
@pytest.mark.parametrize("name", QUICK)
def test_the_terms_add_up_to_the_score(name, n_checked):
    detector, _, X = quick_model(name, n_checked=n_checked)
    total = sum(term.values(detector._arrange(X)) for term in detector._terms())
    np.testing.assert_allclose(total, detector.anomaly_score(X), rtol=1e-5, atol=1e-5)


def test_all_detectors_except_these_have_fast_explanations():
    def by_scoring(name):
        return any(isinstance(term, ScoreTerm) for term in quick_model(name)[0]._terms())

    assert {name for name in QUICK if by_scoring(name)} == SLOW


def test_a_stopped_ensemble_is_explained_too():
    X = _RNG.normal(size=(200, 4))
    detector = clone(QUICK["DPLANEnsemble"]).set_params(callback=lambda *_: True).fit(X, np.arange(200) < 20)
    assert len(detector.member_weights_) == 3  # one network agent and the explorers
    found = effects(detector, X[:5], X[50:])
    np.testing.assert_allclose(found.baseline + found.effects.sum(axis=1), found.scores, atol=1e-5)


def shapley(value, n_features):
    """Return the Shapley values of a game by their definition."""
    everyone, found = set(range(n_features)), np.zeros(n_features)
    for i in everyone:
        for size in range(n_features):
            weight = factorial(size) * factorial(n_features - size - 1) / factorial(n_features)
            for others in combinations(everyone - {i}, size):
                found[i] += weight * (value({*others, i}) - value(set(others)))
    return found


class Game(ScaledRows):
    """A detector whose score is any function of the columns."""

    def __init__(self, score, n_columns):
        self._score = score
        self._keep_scaling(no_scale(n_columns))

    def _terms(self):
        return [ScoreTerm(self._score)]

    def _row_steps(self):
        return 1

    def anomaly_score(self, X):
        return np.asarray(self._score(np.asarray(X, dtype=np.float32)), dtype=float)


def value_of(score, row, background):
    def value(features):
        mixed = background.copy()
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


def test_for_a_trained_detector_it_is_close_to_the_shapley_value(fitted):
    detector, X = fitted
    background = X[100:160]
    found = effects(detector, X[:10], background)
    exact = np.array([shapley(value_of(detector.anomaly_score, row, background), 6) for row in X[:10]])
    assert np.corrcoef(found.effects.ravel(), exact.ravel())[0, 1] > 0.98
    assert (found.effects[:, 2] == found.effects.max(axis=1)).mean() >= 0.9  # the column that was moved


def test_a_feature_without_influence_has_no_effect():
    def score(X):
        return X[:, 0] * X[:, 1] * X[:, 2]  # all three act together

    X = _RNG.normal(size=(30, 4)).astype(np.float32)
    found = effects(Game(score, 4), X[:4], X[10:])
    np.testing.assert_array_equal(found.effects[:, 3], 0)
    difference = score(X[:4]) - score(X[10:]).mean(dtype=float)
    np.testing.assert_allclose(found.effects.sum(axis=1), difference, atol=1e-6)


def test_a_column_that_no_tree_tests_has_no_effect():
    X = _RNG.normal(size=(300, 5))
    X[:30, 1] += 5
    X[:, 3] = 7.0
    detector = clone(QUICK["DPLANEnsemble"]).fit(X, np.arange(300) < 20)
    X[:10, 3] = 9.0  # never seen in training, so the detector is blind to it
    np.testing.assert_array_equal(effects(detector, X[:10], X[50:]).effects[:, 3], 0)


def test_a_row_like_the_background_has_no_effects(fitted):
    detector, X = fitted
    found = effects(detector, X[:1], X[:1])
    np.testing.assert_allclose(found.effects, 0, atol=1e-6)


def test_effects_do_not_depend_on_the_other_rows(fitted):
    detector, X = fitted
    together = effects(detector, X[:20], X)
    alone = effects(detector, X[7:8], X)
    np.testing.assert_array_equal(together.effects[7:8], alone.effects)
    np.testing.assert_array_equal(together.effects, effects(detector, X[:20], X).effects)


def test_ranking_and_top_return_the_features_that_matter(fitted):
    detector, X = fitted
    found = effects(detector, X[:20], X[30:])
    assert found.ranking()[0] == 2
    assert sorted(found.ranking().tolist()) == list(range(6))
    rows = np.arange(20)
    assert (found.effects[rows, found.top(3)[:, 0]] == found.effects.max(axis=1)).all()


def test_bad_input_says_what_is_wrong(fitted):
    detector, X = fitted
    with pytest.raises(ValueError, match="background must be a non-empty 2-D array"):
        effects(detector, X[:2], X[:0])
    with pytest.raises(ValueError, match="each of the 6 columns"):
        effects(detector, X[:2], X, groups=[0, 1])
    with pytest.raises(ValueError, match="features"):
        effects(detector, X[:2, :3], X[:, :3])


def test_an_effect_does_not_depend_on_the_other_rows():
    detector, _, X = quick_model("DPLANEnsemble")
    many = np.tile(X[:40], (9, 1))  # more than one thread takes at once
    found = effects(detector, many, X[100:]).effects
    np.testing.assert_array_equal(found, np.tile(effects(detector, X[:40], X[100:]).effects, (9, 1)))


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_explained_by_the_names_of_their_columns(library):
    frames = pytest.importorskip(library)
    names, X = list("abcd"), _RNG.normal(size=(200, 4))
    X[:20, 1] += 6
    table = frames.DataFrame(dict(zip(names, X.T, strict=True)))
    detector = clone(QUICK["BoostedBaseline"]).fit(table, np.arange(200) < 20)
    found = effects(detector, table.head(5), table)
    plain = clone(QUICK["BoostedBaseline"]).fit(X, np.arange(200) < 20)
    np.testing.assert_array_equal(found.effects, effects(plain, X[:5], X).effects)
    mixed = table[list("dcba")]
    for rows, background in ((mixed.head(5), table), (table.head(5), mixed)):
        with pytest.raises(ValueError, match="must be in the same order as they were in fit"):
            effects(detector, rows, background)
