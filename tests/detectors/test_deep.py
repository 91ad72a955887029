"""What the deep detectors share: minibatches, optimiser, the best epoch."""

import numpy as np
import pytest
from scipy.stats import chisquare
from sklearn.base import clone

import dplan
from dplan.detectors._deep import DeepDetector, HalfAndHalf, WeightedChoice, clip_by_norm, weighted_mean

DEEP = [
    dplan.DevNet(),
    dplan.DeepSAD(),
    dplan.DeepSAD(loss="inverse"),
    dplan.DUA(),
    dplan.PReNet(),
    dplan.REPEN(),
]
deep = pytest.mark.parametrize("detector", DEEP, ids=str)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2_000, 6))
    X[:100] += 2
    y = np.zeros(2_000, dtype=int)
    y[:30] = 1
    return X, y


def test_all_of_them_are_tested_here():
    def below(kind):
        return {kind}.union(*(below(child) for child in kind.__subclasses__()))

    ours = {kind for kind in below(DeepDetector) if kind.__module__.startswith("dplan.")}
    assert {type(detector) for detector in DEEP} == ours - {DeepDetector}


@deep
def test_weights_move_and_the_loss_falls(detector, table):
    first = clone(detector).set_params(random_state=0, n_epochs=1).fit(*table)
    last = clone(detector).set_params(random_state=0, n_epochs=20).fit(*table)
    assert np.abs(first.weights_ - last.weights_).max() > 0.01
    assert last.history_["loss"][0] == first.history_["loss"][0]
    assert last.history_["loss"][-1] < 0.9 * first.history_["loss"][0]


@deep
def test_the_epoch_with_the_lowest_loss_is_kept(detector, table):
    # Epochs so small that the loss goes up and down.
    restless = clone(detector).set_params(random_state=0, n_epochs=60, epoch_batches=1, batch_size=4)
    restless.set_params(learning_rate=20 * detector.learning_rate)
    seen = []
    restless.set_params(callback=lambda fitted, metrics: seen.append(fitted.weights_)).fit(*table)
    best = int(np.argmin(restless.history_["loss"]))
    assert best < 59
    stopped = clone(restless).set_params(callback=lambda fitted, _: len(fitted.history_["loss"]) == best + 1)
    np.testing.assert_array_equal(stopped.fit(*table).weights_, restless.weights_)
    assert seen[best] is seen[-1]  # what a callback sees is what fit would return if it stopped there


@deep
@pytest.mark.parametrize("hidden_units", [5, (7, 5)])
def test_any_depth_learns(detector, table, hidden_units):
    fitted = clone(detector).set_params(random_state=0, hidden_units=hidden_units, n_epochs=5).fit(*table)
    assert fitted.history_["loss"][-1] < fitted.history_["loss"][0]


def test_half_of_a_minibatch_is_labelled_and_draws_are_uniform():
    rows = np.arange(50, dtype=np.float32)[:, None]
    sampler = HalfAndHalf(rows, np.arange(10), np.arange(10, 50), 64, np.random.default_rng(0))
    drawn = np.zeros(50)
    for _ in range(400):
        batch = sampler().ravel()
        np.testing.assert_allclose(sampler.weights[sampler.anomalous].sum(), 0.5, rtol=1e-5)
        np.testing.assert_allclose(sampler.weights.sum(), 1, rtol=1e-5)
        assert (batch[sampler.anomalous] < 10).all()
        assert (batch[~sampler.anomalous] >= 10).all()
        np.add.at(drawn, batch.astype(int), np.rint(sampler.weights * 64))
    assert chisquare(drawn[:10]).pvalue > 0.001
    assert chisquare(drawn[10:]).pvalue > 0.001


def test_many_anomalies_are_drawn_like_the_unlabelled_rows():
    rows = np.arange(500, dtype=np.float32)[:, None]
    sampler = HalfAndHalf(rows, np.arange(100), np.arange(100, 500), 64, np.random.default_rng(0))
    drawn = np.zeros(500)
    for _ in range(400):
        batch = sampler().ravel().astype(int)
        assert len(batch) == 64
        assert (batch[:32] < 100).all()
        np.add.at(drawn, batch, 1)
    assert (sampler.weights == np.float32(1 / 64)).all()
    assert chisquare(drawn[:100]).pvalue > 0.001
    assert chisquare(drawn[100:]).pvalue > 0.001


@pytest.mark.parametrize("weights", [[1, 2, 3, 4], [0, 5, 0, 1e-3], [7], [1e-300, 1e-300], list(range(200))])
def test_weighted_choice_follows_the_weights(weights):
    weights = np.array(weights, dtype=np.float64)
    drawn = np.bincount(WeightedChoice(weights)(100_000, np.random.default_rng(0)), minlength=len(weights))
    assert (drawn[weights == 0] == 0).all()
    possible = weights > 0
    expected = weights[possible] / weights.sum() * 100_000
    assert possible.sum() == 1 or chisquare(drawn[possible], expected).pvalue > 0.001


def test_weightless_choice_is_uniform():
    drawn = np.bincount(WeightedChoice(np.zeros(5))(10_000, np.random.default_rng(0)), minlength=5)
    assert chisquare(drawn).pvalue > 0.001


def test_the_weighted_mean_scales_the_gradient_too():
    losses, slopes = np.array([1, 2], dtype=np.float32), np.ones((2, 3), dtype=np.float32)
    assert weighted_mean(losses, slopes, np.array([0.25, 0.5], dtype=np.float32)) == 1.25
    np.testing.assert_array_equal(slopes, [[0.25] * 3, [0.5] * 3])


def test_the_norm_of_the_whole_gradient_is_clipped():
    gradient = np.array([3, 0, -4], dtype=np.float32)
    clip_by_norm(gradient, 1.0)
    np.testing.assert_allclose(gradient, [0.6, 0, -0.8], rtol=1e-6)
    clip_by_norm(gradient, 1.1)
    np.testing.assert_allclose(gradient, [0.6, 0, -0.8], rtol=1e-6)
