"""What people count on, over every detector: seeds, threads, frames, batches, history."""

import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from tests.detectors.quick import QUICK

pytestmark = pytest.mark.parametrize("detector", QUICK.values(), ids=QUICK.keys())


@pytest.fixture(scope="module", params=[0, 40], ids=["no-checked-rows", "checked-rows"])
def labelled_table(request):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_500, 7)) * [1, 10, 0.1, 1, 1, 100, 1]
    X[:60] += 3
    y = np.zeros(1_500, dtype=int)
    y[:30] = rng.integers(1, 3, size=30)
    y[100 : 100 + request.param] = -1
    return X, y


def scores_of(detector, X, y, seed=0):
    return clone(detector).set_params(random_state=seed).fit(X, y).anomaly_score(X)


def test_the_same_seed_gives_the_same_bytes(detector, labelled_table):
    assert scores_of(detector, *labelled_table).tobytes() == scores_of(detector, *labelled_table).tobytes()


def test_another_seed_gives_another_detector_if_it_draws_anything(detector, labelled_table):
    same = (scores_of(detector, *labelled_table) == scores_of(detector, *labelled_table, seed=1)).all()
    assert same == (not detector.is_random)


def test_generators_and_random_states_serve_as_seeds(detector, labelled_table):
    X, y = labelled_table
    for make in (np.random.default_rng, np.random.RandomState):
        assert (scores_of(detector, X, y, make(3)) == scores_of(detector, X, y, make(3))).all()


def test_without_a_seed_results_differ(detector, labelled_table):
    assert np.isfinite(scores_of(detector, *labelled_table, seed=None)).all()


def test_global_random_states_are_left_alone(detector, labelled_table):
    before = random.getstate(), np.random.get_state()[1].tobytes(), np.random.get_state()[2]  # noqa: NPY002
    scores_of(detector, *labelled_table, seed=None)
    scores_of(detector, *labelled_table)
    after = random.getstate(), np.random.get_state()[1].tobytes(), np.random.get_state()[2]  # noqa: NPY002
    assert before == after


def test_the_number_of_threads_does_not_matter(detector, labelled_table):
    results = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            results.append(scores_of(detector, *labelled_table).tobytes())
    assert results[0] == results[1]


def test_threads_can_score_at_the_same_time(detector, labelled_table):
    X, y = labelled_table
    fitted = clone(detector).fit(X, y)
    alone = fitted.anomaly_score(X).tobytes()
    with ThreadPoolExecutor(8) as pool:
        together = [result.tobytes() for result in pool.map(fitted.anomaly_score, [X] * 16)]
    assert set(together) == {alone}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_go_in_and_their_columns_are_remembered(detector, labelled_table, make):
    X, y = labelled_table
    frame = make({f"column {i}": X[:, i] for i in range(X.shape[1])})
    fitted = clone(detector).fit(frame, y)
    assert fitted.feature_names_in_.tolist() == [f"column {i}" for i in range(X.shape[1])]
    np.testing.assert_array_equal(fitted.anomaly_score(frame), scores_of(detector, X, y))


def test_memory_order_and_precision_of_the_table_hardly_matter(detector, labelled_table):
    X, y = labelled_table
    expected = scores_of(detector, X, y)
    np.testing.assert_array_equal(scores_of(detector, np.asfortranarray(X), y), expected)
    read_only = X.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(scores_of(detector, read_only, y), expected)


def test_signs_are_those_of_scikit_learn(detector, labelled_table):
    X, y = labelled_table
    fitted = clone(detector).set_params(contamination=0.1).fit(X, y)
    scores = fitted.anomaly_score(X)
    np.testing.assert_array_equal(fitted.score_samples(X), -scores)
    np.testing.assert_array_equal(fitted.decision_function(X), -scores - fitted.offset_)
    np.testing.assert_array_equal(fitted.predict(X) == -1, fitted.decision_function(X) < 0)
    assert (fitted.predict(X[y <= 0]) == -1).mean() <= 0.1 + 1e-9


def test_contamination_only_affects_the_threshold(detector, labelled_table):
    X, y = labelled_table
    strict, lenient = (clone(detector).set_params(contamination=c).fit(X, y) for c in (0.01, 0.3))
    np.testing.assert_array_equal(strict.anomaly_score(X), lenient.anomaly_score(X))
    assert (strict.predict(X) == -1).sum() < (lenient.predict(X) == -1).sum()


def test_fitting_again_starts_from_scratch(detector, labelled_table):
    X, y = labelled_table
    fitted = clone(detector).fit(X[:, :3], y)
    fitted.fit(X, y)
    np.testing.assert_array_equal(fitted.anomaly_score(X), scores_of(detector, X, y))
    assert len(set(map(len, fitted.history_.values()))) <= 1


def test_the_callback_sees_every_round_and_can_score(detector, labelled_table):
    X, y = labelled_table
    seen = []

    def note(fitting, metrics):
        seen.append((metrics, fitting.anomaly_score(X[:5])))

    fitted = clone(detector).set_params(callback=note).fit(X, y)
    assert len(seen) == len(fitted.history_["seconds"])
    for name, values in fitted.history_.items():
        np.testing.assert_array_equal([metrics[name] for metrics, _ in seen], values)
    np.testing.assert_allclose(seen[-1][1], fitted.anomaly_score(X[:5]), rtol=1e-3, atol=1e-3)


def test_the_callback_can_stop_the_training(detector, labelled_table):
    X, y = labelled_table
    fitted = clone(detector).set_params(callback=lambda fitting, metrics: True).fit(X, y)
    assert len(fitted.history_["seconds"]) == 1
    assert np.isfinite(fitted.anomaly_score(X)).all()


def test_verbose_goes_to_the_log_and_nowhere_else(detector, labelled_table, caplog, capsys):
    X, y = labelled_table
    with caplog.at_level("INFO", logger="dplan"):
        fitted = clone(detector).set_params(verbose=1).fit(X, y)
    assert len(caplog.records) == len(fitted.history_["seconds"])
    assert capsys.readouterr() == ("", "")
