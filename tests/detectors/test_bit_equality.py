"""The score of a row is bit-identical alone, in any order, among any rows and in any block.

For every detector, and everything computed from its scores. These tests do not depend on the BLAS library: `make
test-processors` runs them with the BLAS kernels of several processors.
"""

import functools

import numpy as np
import pytest
from sklearn.base import clone

import dplan._kernels.scaling
from dplan import DPLANEnsemble
from dplan.detectors._base import Detector
from dplan.explain import effects
from dplan.tables import fit_table, from_table
from tests.detectors.quick import QUICK
from tests.tables.payments import payments

pytestmark = [pytest.mark.any_processor, pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")]

N_ROWS = 1_500
detectors = pytest.mark.parametrize("name", QUICK)
widths = pytest.mark.parametrize("n_columns", [6, 54, 196])


@functools.cache
def table_of(n_columns: int):
    rng = np.random.default_rng(n_columns)
    X = rng.normal(size=(N_ROWS, n_columns)) * 10.0 ** rng.integers(-3, 4, n_columns)
    X[:, -1] = X[:, -1] > 0  # like a one-hot encoded column
    X[:40] += 3
    X[1000:1300] = X[5]  # duplicates
    y = np.zeros(N_ROWS, dtype=int)
    y[:20] = 1
    y[60:90] = -1 if n_columns != 6 else 0  # checked rows must not matter
    return X, y


@functools.cache
def fitted(name: str, n_columns: int) -> Detector:
    return clone(QUICK[name]).fit(*table_of(n_columns))


@detectors
@widths
def test_the_order_of_rows_does_not_matter(name, n_columns):
    detector, (X, _) = fitted(name, n_columns), table_of(n_columns)
    scores, order = detector.anomaly_score(X), np.random.default_rng(1).permutation(N_ROWS)
    np.testing.assert_array_equal(detector.anomaly_score(X[order]), scores[order])
    np.testing.assert_array_equal(detector.anomaly_score(X[::-1]), scores[::-1])


@detectors
@widths
def test_a_row_has_the_same_score_alone_and_among_others(name, n_columns):
    detector, (X, _) = fitted(name, n_columns), table_of(n_columns)
    scores = detector.anomaly_score(X)
    chosen = [*range(0, N_ROWS, 61), N_ROWS - 1]
    np.testing.assert_array_equal([detector.anomaly_score(X[i : i + 1])[0] for i in chosen], scores[chosen])


@detectors
@widths
def test_equal_rows_have_equal_scores(name, n_columns):
    detector, (X, _) = fitted(name, n_columns), table_of(n_columns)
    scores = detector.anomaly_score(X)
    assert set(scores[1000:1300]) == {scores[5]}
    assert len(set(detector.anomaly_score(np.repeat(X[7:8], 1024, axis=0)))) == 1


@detectors
@widths
def test_blocks_can_have_any_size(name, n_columns, monkeypatch):
    detector, (X, _) = fitted(name, n_columns), table_of(n_columns)
    scores = detector.anomaly_score(X)
    for size in (1, 7, 64, 1_333):
        pieces = [detector.anomaly_score(X[start : start + size]) for start in range(0, 300, size)]
        np.testing.assert_array_equal(np.concatenate(pieces)[:300], scores[:300])
        monkeypatch.setattr(dplan._kernels.scaling, "block_rows", lambda _, size=size: size)
        np.testing.assert_array_equal(detector.anomaly_score(X[:300]), scores[:300])
        monkeypatch.undo()


@detectors
def test_effects_of_features_do_not_depend_on_what_else_is_explained(name):
    detector, (X, _) = fitted(name, 6), table_of(6)
    background = X[40:90]
    together = effects(detector, X[:23], background)
    for rows in (slice(0, 1), slice(7, 12), slice(22, None, -3)):
        some = effects(detector, X[:23][rows], background)
        np.testing.assert_array_equal(some.effects, together.effects[rows])
        np.testing.assert_array_equal(some.scores, together.scores[rows])


@widths
def test_disagreement_and_percentiles_of_an_ensemble(n_columns):
    (X, y), ensemble = table_of(n_columns), clone(QUICK["DPLANEnsemble"]).set_params(n_agents=2)
    assert isinstance(ensemble, DPLANEnsemble)
    ensemble.fit(X, y)
    order = np.random.default_rng(1).permutation(N_ROWS)
    for method in (ensemble.uncertainty, ensemble.percentile):
        expected = method(X)
        np.testing.assert_array_equal(method(X[order]), expected[order])
        np.testing.assert_array_equal([method(X[i : i + 1])[0] for i in order[:20]], expected[order[:20]])


@pytest.mark.parametrize("name", ["DPLANEnsemble", "DevNet", "PReNet", "REPEN"])
def test_tables_can_be_scored_in_chunks_of_any_size(name):
    table = payments(600)
    own = from_table(table, label="verdict", anomaly=["fraud"], id="payment")
    model = fit_table(own, clone(QUICK[name]), estimate=False)
    whole, effects_of_whole = model.score(table), model.explain(table).effects
    for size in (1, 37, 256):
        pieces = list(table[:300].iter_slices(size))
        assert np.concatenate([model.score(piece) for piece in pieces]).tobytes() == whole[:300].tobytes()
        found = np.concatenate([model.explain(piece).effects for piece in pieces[:20]])
        assert found.tobytes() == effects_of_whole[: len(found)].tobytes()
    order = np.random.default_rng(1).permutation(len(table))
    assert model.score(table[order]).tobytes() == whole[order].tobytes()
