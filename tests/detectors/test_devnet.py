import numpy as np
from sklearn.metrics import average_precision_score

from dplan import DevNet
from dplan._kernels import perceptron
from dplan.detectors._deep import HalfAndHalf, clipped_rmsprop, new_network, train, weighted_mean
from dplan.detectors.devnet import deviation_loss
from tests.detectors import gradients


def some_scores(n=40, seed=0):
    rng = np.random.default_rng(seed)
    return 4 * rng.standard_normal((n, 1)).astype(np.float32), rng.random(n) < 0.5


def test_the_loss_is_that_of_the_paper():
    scores, anomalous = some_scores()
    losses, _ = deviation_loss(scores, anomalous, 0.1, 1.2, 5.0)
    deviations = (scores[:, 0] - 0.1) / 1.2
    expected = (1 - anomalous) * np.abs(deviations) + anomalous * np.maximum(0, 5 - deviations)
    assert losses.shape == (40,)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_swapping_the_arguments_of_the_loss_changes_it():
    scores, anomalous = some_scores()
    losses, _ = deviation_loss(scores, anomalous, 0.0, 1.0, 5.0)
    swapped, _ = deviation_loss(anomalous.astype(np.float32)[:, None], scores[:, 0] > 0.5, 0.0, 1.0, 5.0)
    assert np.abs(losses.mean() - swapped.mean()) > 0.1
    inverted, _ = deviation_loss(scores, ~anomalous, 0.0, 1.0, 5.0)
    assert np.abs(losses - inverted).min() > 1e-3


def test_the_gradient_equals_finite_differences():
    rows = np.random.default_rng(0).random((12, 3))
    anomalous, weights = np.arange(12) < 5, np.random.default_rng(1).random(12)

    def loss(outputs):
        losses, slopes = deviation_loss(outputs, anomalous, 0.02, 0.9, 5.0)
        return weighted_mean(losses, slopes, weights), slopes

    gradients.check(loss, perceptron.layer_sizes(3, (4,), 1), rows, n_decayed=1)
    gradients.check(loss, perceptron.layer_sizes(3, (5, 4), 1), rows, n_decayed=2)


def test_training_equals_a_plain_twin():
    """Sixty steps in plain NumPy, every drawn row standing as often as it was drawn."""
    rng = np.random.default_rng(0)
    rows = rng.random((300, 6)).astype(np.float32)
    rows[:9] += 0.5
    anomalies, unlabelled = np.arange(9), np.arange(9, 300)
    network = new_network(perceptron.layer_sizes(6, (20,), 1), 0.01, 1, np.random.default_rng(1))
    (w1, b1), (w2, b2) = (
        (w.astype(np.float64), b.astype(np.float64))
        for w, b in perceptron.unflatten(network.theta, network.sizes)
    )
    sampler = HalfAndHalf(rows, anomalies, unlabelled, 64, np.random.default_rng(2))
    seen = []

    def remember():
        batch = sampler()
        times = np.rint(sampler.weights * 64).astype(int)
        seen.append((np.repeat(batch, times, axis=0), np.repeat(sampler.anomalous, times)))
        return batch

    def loss(outputs):
        losses, slopes = deviation_loss(outputs, sampler.anomalous, 0.0, 1.0, 5.0)
        return weighted_mean(losses, slopes, sampler.weights), slopes

    step = clipped_rmsprop(len(network.theta), 0.001)
    losses = list(train(network, remember, loss, step, n_epochs=3, epoch_batches=20))

    twin_losses, squares = [], [np.zeros_like(p) for p in (w1, b1, w2, b2)]
    for x, anomalous in seen:
        assert len(x) == 64
        assert anomalous.sum() == 32
        hidden = np.maximum(x @ w1 + b1, 0)
        score = (hidden @ w2 + b2)[:, 0]
        twin_losses.append(
            np.where(anomalous, np.maximum(0, 5 - score), np.abs(score)).mean() + 0.01 * (w1**2).sum()
        )
        by_score = np.where(anomalous, -(score < 5).astype(float), np.sign(score))[:, None] / 64
        by_hidden = (by_score @ w2.T) * (hidden > 0)
        gradient = [x.T @ by_hidden + 0.02 * w1, by_hidden.sum(0), hidden.T @ by_score, by_score.sum(0)]
        norm = np.sqrt(sum((g**2).sum() for g in gradient))
        for parameter, g, square in zip((w1, b1, w2, b2), gradient, squares, strict=True):
            g = g * min(1, 1 / norm)
            square *= 0.9
            square += 0.1 * g**2
            parameter -= 0.001 * g / (np.sqrt(square) + 1e-7)
    np.testing.assert_allclose(losses, np.reshape(twin_losses, (3, 20)).mean(axis=1), rtol=1e-4)
    expected = np.concatenate([p.ravel() for p in (w1, b1, w2, b2)])
    np.testing.assert_allclose(network.theta, expected, atol=1e-4)


def test_defaults_are_those_of_the_paper():
    detector = DevNet()
    assert (detector.hidden_units, detector.margin, detector.l2, detector.learning_rate) == (
        (20,),
        5,
        0.01,
        0.001,
    )
    assert (detector.n_epochs, detector.epoch_batches, detector.batch_size) == (50, 20, 512)


def backdoor_precision(task, seed):
    X, y, X_test, y_test = task
    return average_precision_score(y_test, DevNet(random_state=seed).fit(X, y).anomaly_score(X_test))


def test_backdoor_attacks_are_found_as_well_as_published(backdoor):
    """30 labelled, 2 % contamination, 80/20. The authors' code draws this once, with seed 42; they report 0.88."""
    task = backdoor(seed=42)
    reached = [backdoor_precision(task, seed) for seed in range(5)]
    assert np.mean(reached) >= 0.85, reached


def test_backdoor_attacks_are_found_for_any_split(backdoor):
    """Ten splits: in about one of twenty the 30 labelled rows mislead, down to an AUC-PR of 0.47.

    So a mean over ten moves by 0.02 with the seeds, or with the processor, which trains other networks; over forty
    splits it is 0.87. Medians over ten lie within 0.875 and 0.887, and 38 of 40 splits reach 0.84.
    """
    reached = [backdoor_precision(backdoor(seed), seed) for seed in range(10)]
    assert np.median(reached) >= 0.86, reached
    assert np.mean(np.array(reached) >= 0.8) >= 0.7, reached
