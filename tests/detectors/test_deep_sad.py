import numpy as np
import pytest

from dplan import DeepSAD, NoLabelsWarning
from dplan._kernels import perceptron
from dplan.detectors._deep import weighted_mean
from dplan.detectors.deep_sad import sphere_loss
from tests.detectors import gradients


def some_outputs(seed=0):
    rng = np.random.default_rng(seed)
    return (
        rng.standard_normal((40, 6)).astype(np.float32),
        rng.random(40) < 0.5,
        rng.random(6).astype(np.float32),
    )


@pytest.mark.parametrize("inverse", [False, True])
def test_the_loss_is_as_written(inverse):
    outputs, anomalous, centre = some_outputs()
    losses, _ = sphere_loss(outputs, anomalous, centre, 5.0, inverse)
    distances = ((np.maximum(outputs, 0) - centre) ** 2).sum(axis=1)
    paid = 1 / (distances + 1e-6) if inverse else np.maximum(0, 5 - distances)
    assert losses.shape == (40,)
    np.testing.assert_allclose(losses, np.where(anomalous, paid, distances), rtol=1e-5)


@pytest.mark.parametrize("inverse", [False, True])
def test_swapping_the_labels_changes_the_loss(inverse):
    outputs, anomalous, centre = some_outputs()
    losses, _ = sphere_loss(outputs, anomalous, centre, 5.0, inverse)
    swapped, _ = sphere_loss(outputs, ~anomalous, centre, 5.0, inverse)
    assert np.abs(losses - swapped).min() > 1e-4


@pytest.mark.parametrize("inverse", [False, True])
def test_the_gradient_equals_finite_differences(inverse):
    rows = np.random.default_rng(0).random((12, 3))
    anomalous, weights = np.arange(12) < 5, np.random.default_rng(1).random(12)

    def loss(outputs):
        losses, slopes = sphere_loss(outputs, anomalous, np.full(4, 0.3), 5.0, inverse)
        return weighted_mean(losses, slopes, weights), slopes

    gradients.check(loss, perceptron.layer_sizes(3, (), 4), rows, n_decayed=1)
    gradients.check(loss, perceptron.layer_sizes(3, (5,), 4), rows, n_decayed=2)


def test_biases_stay_zero_and_the_centre_does_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 4))
    fitted = DeepSAD(random_state=0, hidden_units=(8, 5), n_epochs=3).fit(
        X, (np.arange(500) < 20).astype(int)
    )
    for kernel, biases in perceptron.unflatten(fitted.weights_, fitted.layer_sizes_):
        assert (biases == 0).all()
        assert np.abs(kernel).max() > 0
    assert (fitted.centre_ >= np.float32(0.1)).all()


def test_the_centre_is_the_mean_of_the_unlabelled_rows_at_the_start():
    X = np.random.default_rng(0).random((6_000, 3))
    y = np.zeros(6_000, dtype=int)
    y[:50] = 1
    X[:50] = 100  # labelled rows do not count
    start = []
    fitted = DeepSAD(random_state=0, n_epochs=1, epoch_batches=1, learning_rate=1e-12, scale=False)
    fitted.set_params(callback=lambda detector, _: start.append(detector.weights_)).fit(X, y)
    represented = np.maximum(X[50:] @ perceptron.unflatten(start[0], fitted.layer_sizes_)[0][0], 0)
    np.testing.assert_allclose(fitted.centre_, np.maximum(represented.mean(axis=0), 0.1), rtol=1e-4)


def test_the_score_is_the_squared_distance_to_the_centre():
    X = np.random.default_rng(0).random((300, 3)).astype(np.float32)
    fitted = DeepSAD(random_state=0, n_epochs=2, scale=False).fit(X, (np.arange(300) < 20).astype(int))
    ((kernel, _),) = perceptron.unflatten(fitted.weights_, fitted.layer_sizes_)
    expected = ((np.maximum(X @ kernel, 0) - fitted.centre_) ** 2).sum(axis=1)
    np.testing.assert_allclose(fitted.anomaly_score(X), expected, rtol=1e-4)


def test_without_labels_it_pulls_the_rows_together():
    X = np.random.default_rng(0).random((300, 3))
    with pytest.warns(NoLabelsWarning):
        fitted = DeepSAD(random_state=0, n_epochs=1, epoch_batches=1).fit(X)
    with pytest.warns(NoLabelsWarning):
        longer = DeepSAD(random_state=0, n_epochs=30).fit(X)
    assert longer.anomaly_score(X).mean() < 0.5 * fitted.anomaly_score(X).mean()
