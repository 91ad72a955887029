import numpy as np
import pytest
from scipy.stats import chisquare

from dplan import REPEN
from dplan._kernels import perceptron
from dplan.detectors.repen import Triplets, adadelta, outlier_candidates, triplet_loss
from tests.detectors import gradients


def test_candidates_are_above_cantellis_threshold():
    rng = np.random.default_rng(0)
    scores = rng.lognormal(size=1_000)
    expected = scores > scores.mean() + 1.7321 * scores.std()
    assert 0 < expected.sum() < 250  # at most a quarter, by Cantelli's inequality
    np.testing.assert_array_equal(outlier_candidates(scores), expected)


def test_the_ten_highest_are_candidates_if_none_is_above():
    scores = np.concatenate([np.zeros(50), np.ones(50)])
    scores[70:80] += 1e-6
    np.testing.assert_array_equal(np.flatnonzero(outlier_candidates(scores)), np.arange(70, 80))


def test_triplets_are_drawn_in_proportion_to_their_weights():
    rng = np.random.default_rng(0)
    scores = rng.random(30)
    scores[25:] += 4
    triplets = Triplets(rng.random((30, 2)).astype(np.float32), scores, 200, rng)
    inliers, outliers = np.arange(25), np.arange(25, 30)
    np.testing.assert_array_equal(triplets.inliers, inliers)
    anchors, positives, negatives = triplets.draw(500).reshape(500, 3, 200).transpose(1, 0, 2).reshape(3, -1)
    weights = scores[inliers].sum() - scores[inliers]
    expected = {
        "anchor": (anchors, weights / weights.sum()),
        "positive": (positives, np.full(25, 1 / 25)),
        "negative": (negatives - 25, scores[outliers] / scores[outliers].sum()),
    }
    for name, (drawn, probabilities) in expected.items():
        counts = np.bincount(drawn, minlength=len(probabilities))
        assert chisquare(counts, probabilities * 100_000).pvalue > 0.001, name


def test_a_minibatch_contains_the_drawn_rows():
    rng = np.random.default_rng(0)
    rows = rng.random((30, 2)).astype(np.float32)
    scores = rng.random(30)
    triplets, twin = (Triplets(rows, scores, 8, np.random.default_rng(1)) for _ in range(2))
    for _ in range(3):
        np.testing.assert_array_equal(triplets(), rows[next(twin.draws)])
    assert triplets().shape == (24, 2)


def test_the_loss_is_as_written():
    outputs = 20 * np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    losses, _ = triplet_loss(outputs, 300.0)
    e, p, n = np.maximum(outputs, 0).reshape(3, 10, 4)
    expected = np.maximum(0, 300 - (((e - n) ** 2).sum(axis=1) - ((e - p) ** 2).sum(axis=1)))
    assert losses.shape == (10,)
    assert 0 < (losses > 0).sum() < 10
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_swapping_positives_and_negatives_changes_the_loss():
    outputs = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float32)
    swapped = outputs[np.r_[0:10, 20:30, 10:20]]
    assert np.abs(triplet_loss(outputs, 1000.0)[0] - triplet_loss(swapped, 1000.0)[0]).max() > 0.1


@pytest.mark.parametrize(("hidden_units", "margin"), [((), 11.0), ((5,), 5.0)])
def test_the_gradient_equals_finite_differences(hidden_units, margin):
    rows = 5 * np.random.default_rng(0).standard_normal((30, 3))

    def loss(outputs):
        losses, slopes = triplet_loss(outputs, margin)
        assert 0 < (losses > 0).sum() < 10
        return losses.mean(), slopes

    gradients.check(loss, perceptron.layer_sizes(3, hidden_units, 4), rows, n_decayed=0, l2=0.0, seed=1)


def test_the_score_is_lesinn_in_the_representation_of_training_rows():
    X = np.random.default_rng(0).random((400, 3)).astype(np.float32)
    fitted = REPEN(random_state=0, n_epochs=2, scale=False).fit(X)
    assert {tuple(row) for row in fitted.reference_rows_} <= {tuple(row) for row in X}
    ((kernel, biases),) = perceptron.unflatten(fitted.weights_, fitted.layer_sizes_)

    def represent(rows):
        return np.maximum(rows @ kernel + biases, 0)

    references = represent(fitted.reference_rows_).reshape(50, 8, 20)
    rows = np.random.default_rng(1).random((60, 3)).astype(np.float32)
    gaps = represent(rows)[:, None, None, :] - references[None]
    expected = np.sqrt((gaps**2).sum(axis=3)).min(axis=2).mean(axis=1)
    np.testing.assert_allclose(fitted.anomaly_score(rows), expected, rtol=1e-3)


def test_labels_are_ignored_and_labelled_rows_left_out():
    X = np.random.default_rng(0).normal(size=(500, 4))
    y = np.zeros(500, dtype=int)
    y[:20] = 1
    one = REPEN(random_state=0, n_epochs=2, scale=False).fit(X, y)
    other = REPEN(random_state=0, n_epochs=2, scale=False).fit(np.r_[X[:20] + 50, X[20:]], 3 * y)
    np.testing.assert_array_equal(one.anomaly_score(X), other.anomaly_score(X))


def test_adadelta_equals_that_of_keras():
    rng = np.random.default_rng(0)
    theta, step = rng.normal(size=5).astype(np.float32), adadelta(5, learning_rate=1.0)
    twin, a, d = theta.astype(np.float64), np.zeros(5), np.zeros(5)
    for _ in range(50):
        gradient = rng.normal(size=5).astype(np.float32)
        step(theta, gradient)
        a = 0.95 * a + 0.05 * gradient.astype(float) ** 2
        update = gradient * np.sqrt(d + 1e-7) / np.sqrt(a + 1e-7)
        twin -= update
        d = 0.95 * d + 0.05 * update**2
    assert np.abs(twin).max() > 0
    np.testing.assert_allclose(theta, twin, rtol=1e-4)
