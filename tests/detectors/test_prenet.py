import numpy as np
import pytest

from dplan import PReNet
from dplan._kernels import perceptron
from dplan.detectors.prenet import Pairs, relation_loss
from tests.detectors import gradients


def some_pairs(n_rows=30, n_pairs=40, seed=0):
    rng = np.random.default_rng(seed)
    left, right = rng.integers(n_rows, size=(2, n_pairs))
    targets = rng.choice(np.array([8, 4, 0], dtype=np.float32), n_pairs)
    return rng.standard_normal((n_rows, 2)).astype(np.float32), left, right, targets


def test_the_loss_is_as_written():
    outputs, left, right, targets = some_pairs()
    losses, _ = relation_loss(outputs, left, right, targets)
    assert losses.shape == (40,)
    np.testing.assert_allclose(losses, np.abs(targets - (outputs[left, 0] + outputs[right, 1])), rtol=1e-5)


def test_swapping_the_arguments_of_the_loss_changes_it():
    outputs, left, right, targets = some_pairs()
    losses, _ = relation_loss(outputs, left, right, targets)
    swapped, _ = relation_loss(outputs, right, left, targets)
    assert np.abs(losses - swapped).max() > 0.1
    inverted, _ = relation_loss(outputs, left, right, 8 - targets)
    assert np.abs(losses - inverted).max() > 0.1


def test_the_gradient_equals_finite_differences():
    _, left, right, targets = some_pairs(n_rows=12, n_pairs=20)
    rows = np.random.default_rng(0).random((12, 3))

    def loss(outputs):
        losses, slopes = relation_loss(outputs, left, right, targets)
        return losses.mean(), slopes

    gradients.check(loss, perceptron.layer_sizes(3, (4,), 2), rows, n_decayed=1)
    gradients.check(loss, perceptron.layer_sizes(3, (5, 4), 2), rows, n_decayed=2)


@pytest.mark.parametrize("n_anomalies", [5, 300])
def test_a_quarter_of_the_pairs_are_two_anomalies_and_a_quarter_are_one(n_anomalies):
    rows = np.arange(1_000, dtype=np.float32)[:, None]
    pairs = Pairs(rows, np.arange(n_anomalies), np.arange(n_anomalies, 1_000), 64, np.random.default_rng(0))
    seen = set()
    for _ in range(200):
        block = pairs().ravel()
        left, right = block[pairs.left], block[pairs.right]
        n_anomalous = (left < n_anomalies).astype(int) + (right < n_anomalies)
        np.testing.assert_array_equal(n_anomalous, [2] * 16 + [1] * 16 + [0] * 32)
        np.testing.assert_array_equal(pairs.targets, 4 * n_anomalous)
        seen |= {*left, *right}
    assert len(seen) == 1_000  # every row is drawn sooner or later


def test_every_minibatch_draws_new_pairs():
    rows = np.arange(100, dtype=np.float32)[:, None]
    pairs = Pairs(rows, np.arange(5), np.arange(5, 100), 64, np.random.default_rng(0))
    block = pairs().copy()
    left, unlabelled = pairs.left.copy(), block[5:]
    assert (pairs()[5:] != unlabelled).any()
    assert (pairs.left != left).any()


def test_the_score_is_the_mean_relation_to_the_references():
    X = np.random.default_rng(0).random((300, 3)).astype(np.float32)
    fitted = PReNet(random_state=0, n_epochs=3, scale=False).fit(X, (np.arange(300) < 20).astype(int))
    (kernel, biases), (weights, shift) = perceptron.unflatten(fitted.weights_, fitted.layer_sizes_)
    assert shift[1] == 0  # a pair has one bias

    def relation(left, right):  # as in the paper: one linear output on two representations put together
        both = np.concatenate([np.maximum(rows @ kernel + biases, 0) for rows in (left, right)], axis=1)
        return both @ np.concatenate([weights[:, 0], weights[:, 1]]) + shift[0]

    anomalies, unlabelled = fitted.reference_rows_[:30], fitted.reference_rows_[30:]
    assert {tuple(row) for row in anomalies} <= {tuple(row) for row in X[:20]}
    assert {tuple(row) for row in unlabelled} <= {tuple(row) for row in X[20:]}
    for row, score in zip(X[:50], fitted.anomaly_score(X[:50]), strict=True):
        ours = np.tile(row, (30, 1))
        pairs = np.concatenate([relation(anomalies, ours), relation(ours, unlabelled)])
        np.testing.assert_allclose(score, pairs.mean(), rtol=1e-4)
