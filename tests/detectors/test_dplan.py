"""DPLAN itself: defaults, variants, history, labels."""

import re
import tracemalloc

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from dplan import DPLAN, variants
from dplan._kernels import perceptron
from dplan.detectors.dplan import _COUNTS, _NUMBERS

PAPER = {
    "hidden_units": (20,),
    "n_steps": 20_000,
    "episode_steps": 2_000,
    "warmup_steps": 10_000,
    "target_update_steps": 10_000,
    "novelty_update_steps": 2_000,
    "epsilon_start": 1.0,
    "epsilon_end": 0.1,
    "epsilon_steps": 10_000,
    "labelled_probability": 0.5,
    "subsample_size": 1_000,
    "replay_size": 100_000,
    "batch_size": 32,
    "discount": 0.99,
    "learning_rate": 0.00025,
    "gradient_decay": 0.95,
    "min_squared_gradient": 0.01,
    "n_trees": 100,
    "tree_size": 256,
    "sampler": "proximity",
    "intrinsic_reward": True,
    "dropout": 0.0,
}
READINGS = {
    "optimizer": "rmsprop",
    "l2": 0.01,
    "scale": True,
    "momentum": 0.0,
    "novelty_features": "embedding",
    "novelty_scaling": "minmax",
}


def test_defaults_are_the_papers_and_our_readings():
    defaults = DPLAN().get_params()
    assert {name: defaults[name] for name in PAPER | READINGS} == PAPER | READINGS


def test_the_docstring_says_where_each_default_comes_from():
    section = DPLAN.__doc__.split("Parameters\n")[1].split("Attributes\n")[0]
    entries = re.split(r"\n(?=\w[\w, ]* : )", section)[1:]
    documented = {}
    for entry in entries:
        names, text = entry.split(" : ", 1)
        for name in names.split(", "):
            documented[name.strip()] = text
    parameters = set(DPLAN().get_params())
    assert set(documented) == parameters
    for name in parameters - {"random_state", "callback", "verbose"}:
        assert re.search(r"paper|original DQN|Our (choice|addition)", documented[name]), name


@pytest.mark.parametrize("name", _COUNTS)
def test_counts_must_be_large_enough_integers(name):
    X, y = np.random.default_rng(0).random((50, 2)), np.arange(50) < 5
    for value in (_COUNTS[name] - 1, -3, 2.5, "many", None, True):
        with pytest.raises(ValueError, match=f"{name} must be an integer"):
            DPLAN(**{name: value}).fit(X, y)


@pytest.mark.parametrize("name", _NUMBERS)
def test_numbers_must_be_in_their_interval(name):
    X, y = np.random.default_rng(0).random((50, 2)), np.arange(50) < 5
    for value in (-0.1, np.nan, "much", None):
        with pytest.raises(ValueError, match=f"{name} must be a number in"):
            DPLAN(**{name: value}).fit(X, y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hidden_units", 0),
        ("hidden_units", ()),
        ("hidden_units", (20, -1)),
        ("hidden_units", 2.5),
        ("optimizer", "adam"),
        ("sampler", "nearest"),
        ("intrinsic_reward", "no"),
        ("novelty_features", "both"),
        ("novelty_scaling", None),
    ],
)
def test_other_parameters_are_checked_too(name, value):
    X, y = np.random.default_rng(0).random((50, 2)), np.arange(50) < 5
    with pytest.raises(ValueError, match=name):
        DPLAN(**{name: value}).fit(X, y)


def test_variants_are_those_of_the_ablation_study():
    assert variants.names() == ["DPLAN", "ERew", "REnv", "DQN+", "Uniform", "UniformERew"]
    assert variants.variant("DPLAN").get_params() == DPLAN().get_params()
    deep = variants.variant("DQN+", random_state=3)
    assert (deep.hidden_units, deep.dropout, deep.random_state) == ((500, 100, 20), 0.9, 3)
    random_environment = variants.variant("REnv")
    assert (random_environment.intrinsic_reward, random_environment.sampler) == (False, "random")
    assert variants.variant("ERew").sampler == "proximity"
    assert variants.variant("Uniform").intrinsic_reward
    with pytest.raises(ValueError, match="unknown variant 'DQN'; choose from DPLAN, ERew"):
        variants.variant("DQN")


@pytest.fixture(scope="module")
def hard_to_isolate():
    """Return anomalies that only labels give away: shifted in one column, a little narrower in the others."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4_000, 8))
    hidden = rng.random(4_000) < 0.1
    X[hidden] *= 0.9
    X[hidden, 2] = rng.normal(1.5, 0.5, size=hidden.sum())
    y = np.zeros(4_000, dtype=int)
    y[np.flatnonzero(hidden)[:60]] = 1
    return X, y, hidden


@pytest.mark.parametrize("name", variants.names())
def test_labels_matter(hard_to_isolate, name):
    X, y, hidden = hard_to_isolate
    unlabelled = y == 0
    blind = -IsolationForest(random_state=0).fit(X).score_samples(X)
    assert abs(roc_auc_score(hidden[unlabelled], blind[unlabelled]) - 0.5) < 0.1

    def mean_auc(labels):
        aucs = []
        for seed in range(1 if name == "DQN+" else 3):
            scores = variants.variant(name, random_state=seed).fit(X, labels).anomaly_score(X)
            aucs.append(roc_auc_score(hidden[unlabelled], scores[unlabelled]))
        return np.mean(aucs)

    permuted = np.random.default_rng(1).permutation(y)
    assert mean_auc(y) >= mean_auc(permuted) + 0.1


def test_known_anomalies_outrank_the_rest_by_default():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 5))
    X[:100, 1] += 3
    y = np.zeros(3_000, dtype=int)
    y[:50] = 1
    scores = DPLAN(random_state=0).fit(X, y).anomaly_score(X)
    assert roc_auc_score(np.arange(3_000) < 100, scores) > 0.9


def test_the_score_is_q_of_the_anomalous_action_without_dropout():
    X, y = np.random.default_rng(0).random((300, 4)), np.arange(300) < 20
    fitted = DPLAN(n_steps=300, warmup_steps=100, hidden_units=(8, 4), dropout=0.5, random_state=0).fit(X, y)
    rows = ((X - X.min(axis=0)) / (X.max(axis=0) - X.min(axis=0))).astype(np.float32)
    expected = perceptron.outputs(fitted.weights_, fitted.layer_sizes_, rows)[:, 1]
    np.testing.assert_allclose(fitted.anomaly_score(X), expected, atol=1e-6)


def test_history_has_an_entry_per_episode():
    X, y = np.random.default_rng(0).random((300, 4)), np.arange(300) < 20
    history = DPLAN(n_steps=1_000, warmup_steps=400, episode_steps=200, random_state=0).fit(X, y).history_
    assert list(history) == ["reward", "loss", "epsilon", "anomalous_actions", "labelled_rows", "seconds"]
    assert {len(values) for values in history.values()} == {5}
    assert np.isnan(history["loss"]).tolist() == [True, True, False, False, False]
    assert history["seconds"] == sorted(history["seconds"])
    assert history["labelled_rows"] == pytest.approx([0.5] * 5, abs=0.15)


def test_an_agent_that_draws_uniformly_needs_no_copy_of_a_long_table():
    X = np.random.default_rng(0).random((200_000, 20), dtype=np.float32)
    y = (np.arange(len(X)) < 20).astype(int)
    peaks = []
    for sampler in ("uniform", "proximity"):
        detector = DPLAN(sampler=sampler, n_steps=300, warmup_steps=200, random_state=0)
        tracemalloc.start()
        detector.fit(X, y)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[0] < 0.6 * peaks[1]


def test_different_seeds_give_different_weights():
    X, y = np.random.default_rng(0).random((300, 4)), np.arange(300) < 20
    few = {"n_steps": 300, "warmup_steps": 100}
    weights = [DPLAN(random_state=seed, **few).fit(X, y).weights_ for seed in range(3)]
    assert not np.allclose(weights[0], weights[1])
    assert not np.allclose(weights[1], weights[2])


def test_a_learning_rate_that_is_far_too_large_raises():
    X, y = np.random.default_rng(0).random((300, 4)), np.arange(300) < 20
    with pytest.raises(ValueError, match="a lower learning rate"):
        DPLAN(n_steps=400, warmup_steps=100, learning_rate=1e30, random_state=0).fit(X, y)


def test_partial_fit_of_an_agent_that_never_left_its_warm_up():
    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (np.arange(200) < 10).astype(int)
    detector = DPLAN(n_steps=300, random_state=0).fit(X, y).partial_fit(X, y)
    assert np.isfinite(detector.anomaly_score(X)).all()
