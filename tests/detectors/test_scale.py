"""The parameter `scale` of every detector: minimum and maximum, ranks, or the mean of both."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy.stats import rankdata
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import dplan
from dplan._kernels.scaling import column_scale
from dplan.cli.main import main
from dplan.detectors._continuing import ContinuingDetector
from dplan.exceptions import ModelFileError
from dplan.explain import effects
from dplan.persistence import model_file
from dplan.tables import fit_table, from_table
from dplan.tables.onnx import export_onnx
from tests.detectors.quick import NO_COPIES, QUICK
from tests.tables.payments import payments
from tests.tables.test_onnx import assert_equal_scores, run_onnx

RANKED = ("rank", "both")
NAMES = [name for name in QUICK if name == type(QUICK[name]).__name__]
detectors = pytest.mark.parametrize("name", NAMES)
scales = pytest.mark.parametrize("scale", RANKED)


def long_tails(n_rows=600, n_columns=5):
    """Return rows whose columns have long tails, and labels."""
    rng = np.random.default_rng(0)
    X = np.exp(2 * rng.normal(size=(n_rows, n_columns)))
    X[:, -1] = X[:, -1] > 1
    X[:30, 0] *= 20
    return X, (np.arange(n_rows) < 15).astype(int)


def fitted(name, scale):
    return clone(QUICK[name]).set_params(scale=scale).fit(*long_tails())


def test_values_are_scaled_by_rank_as_far_as_the_name_says():
    X, y = long_tails()
    shares = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    ranks = (rankdata(X, axis=0) - 0.5) / len(X)
    for scale, expected in (("minmax", shares), ("rank", ranks), ("both", (shares + ranks) / 2)):
        detector = dplan.LogisticBaseline(scale=scale).fit(X, y)
        np.testing.assert_allclose(detector._arrange(X), expected, atol=1 / 32)
    far = np.full((1, X.shape[1]), 1e6)
    both, rank = (dplan.LogisticBaseline(scale=scale).fit(X, y)._arrange(far) for scale in ("both", "rank"))
    assert (rank == 1).all()
    assert (both > 10).all()  # a value far outside the training rows stays far away


def test_ranks_of_a_large_table_come_from_a_sample():
    X = np.random.default_rng(0).exponential(size=(30_000, 2)) ** 4
    detector = dplan.IForest(n_estimators=5, scale="rank", random_state=0).fit(X)
    ranks = (rankdata(X, axis=0) - 0.5) / len(X)
    np.testing.assert_allclose(detector._arrange(X), ranks, atol=1 / 32 + 0.02)


@detectors
def test_true_is_minmax_and_neither_has_ranks(name, tmp_path):
    X, _ = long_tails()
    scores = []
    for scale in (True, np.True_, "minmax"):
        detector = fitted(name, scale)
        scores.append(detector.anomaly_score(X))
        assert detector.rank_quantiles_ is None
        detector.save(tmp_path / "m.dplan")
        assert not any("rank" in key for key in model_file.read(tmp_path / "m.dplan").tensors)
    np.testing.assert_array_equal(scores[1], scores[0])
    np.testing.assert_array_equal(scores[2], scores[0])
    np.testing.assert_array_equal(detector.column_low_, column_scale(X).low)
    assert (fitted(name, "both")._arrange(X) != detector._arrange(X)).any()


@detectors
@scales
def test_ranks_are_saved_and_the_parameter_stays_what_it_was(name, scale, tmp_path):
    X, _ = long_tails()
    detector = fitted(name, scale)
    detector.save(tmp_path / "m.dplan")
    again = dplan.load(tmp_path / "m.dplan")
    assert again.get_params()["scale"] == clone(again).scale == scale
    np.testing.assert_array_equal(again.anomaly_score(X), detector.anomaly_score(X))
    # What was fitted counts, whatever the parameter is set to later.
    again.set_params(scale=True).save(tmp_path / "m.dplan")
    np.testing.assert_array_equal(
        dplan.load(tmp_path / "m.dplan").anomaly_score(X), detector.anomaly_score(X)
    )


@detectors
@scales
def test_a_score_does_not_depend_on_other_rows_or_on_blocks(name, scale):
    X, _ = long_tails()
    detector = fitted(name, scale)
    scores, order = detector.anomaly_score(X), np.random.default_rng(1).permutation(len(X))
    np.testing.assert_array_equal(detector.anomaly_score(X[order]), scores[order])
    for size in (1, 7, 64):
        pieces = [detector.anomaly_score(X[start : start + size]) for start in range(0, 128, size)]
        np.testing.assert_array_equal(np.concatenate(pieces)[:128], scores[:128])


@detectors
@scales
def test_effects_add_up_to_the_score(name, scale):
    X, _ = long_tails()
    detector = fitted(name, scale)
    found = effects(detector, X[:12], X[100:180])
    np.testing.assert_array_equal(found.scores, detector.anomaly_score(X[:12]))
    np.testing.assert_allclose(found.effects.sum(axis=1), found.scores - found.baseline, atol=1e-4)


@scales
@pytest.mark.parametrize("name", [n for n in NAMES if isinstance(QUICK[n], ContinuingDetector)])
def test_training_continues_with_the_same_ranks(name, scale):
    X, y = long_tails()
    detector = fitted(name, scale)
    before = detector.rank_quantiles_.copy()
    detector.partial_fit(X[:300] * 2, y[:300])
    np.testing.assert_array_equal(detector.rank_quantiles_, before)
    assert np.isfinite(detector.anomaly_score(X)).all()


def breaks(change, tmp_path, match):
    path = tmp_path / "m.dplan"
    fitted("LogisticBaseline", "both").save(path)
    contents = model_file.read(path)
    change(contents.tensors, contents.description["numbers"])
    description = {**contents.description, "format": model_file.FORMAT, "package": contents.package}
    path.write_bytes(model_file._packed(contents.tensors, {"dplan": json.dumps(description)}))
    with pytest.raises(ModelFileError, match=match):
        dplan.load(path)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda t, n: t["rank_quantiles_"].__setitem__((3, 0), 9), "not sorted"),
        (lambda t, n: t["rank_quantiles_"].__setitem__((3, 0), np.nan), "out of range"),
        (lambda t, n: t.update(rank_quantiles_=t["rank_quantiles_"][:, 1:].copy()), "shape"),
        (lambda t, n: t.update(rank_quantiles_=t["rank_quantiles_"][:0]), "empty"),
        (lambda t, n: t.pop("rank_quantiles_"), "does not match rank_quantiles_"),
        (lambda t, n: n.pop("rank_share_"), "does not match rank_quantiles_"),
        (lambda t, n: n.update(rank_share_=0.7), "does not match rank_quantiles_"),
        (lambda t, n: n.update(rank_share_="both"), "not a number"),
    ],
)
def test_crafted_ranks_are_rejected(change, match, tmp_path):
    breaks(change, tmp_path, match)


@scales
@pytest.mark.parametrize("name", [name for name in NAMES if name != "REPEN"])
def test_onnxruntime_gives_the_same_scores(name, scale, tmp_path):
    table = payments(800)
    own = from_table(table, label="verdict", anomaly=["fraud"], id="payment")
    model = fit_table(own, clone(QUICK[name]).set_params(scale=scale), estimate=False)
    export_onnx(model, tmp_path / "m.onnx")
    assert_equal_scores(run_onnx(tmp_path / "m.onnx", table), model.score(table), others=0.01)


def test_a_file_is_fitted_with_it_from_the_command_line(tmp_path):
    table, model = tmp_path / "payments.csv", tmp_path / "m.dplan"
    payments(400).write_csv(table)
    options = [
        "--overwrite",
        "--label=verdict",
        "--anomaly=fraud",
        "--detector=LogisticBaseline",
        "--no-estimate",
    ]

    def fit(scale):
        return CliRunner().invoke(
            main, ["fit", str(table), *options, f"--set=scale={scale}", "-o", str(model)]
        )

    found = fit("both")
    assert found.exit_code == 0, found.output
    assert dplan.load(model).detector.rank_share_ == 0.5
    assert "scale='both'" in CliRunner().invoke(main, ["inspect", str(model)]).output
    found = fit("median")
    assert found.exit_code == 1
    assert "scale must be True, False, 'minmax', 'rank' or 'both', got 'median'" in found.output


@pytest.mark.filterwarnings("ignore::dplan.NoLabelsWarning")
@parametrize_with_checks(
    [clone(QUICK[name]).set_params(scale="both") for name in ("DPLAN", "LogisticBaseline", "IForest")],
    expected_failed_checks=lambda estimator: NO_COPIES,
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
