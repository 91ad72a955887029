"""DPLANEnsemble: many agents as one network, trees, verdicts, weights, uncertainty, exploration, going on."""

import time
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.metrics import average_precision_score, roc_auc_score

import dplan
from dplan import DPLANEnsemble
from dplan._kernels import perceptron
from dplan._kernels.neighbours import draw_samples, samples_with, spread_out
from dplan._kernels.trees import sum_of_leaves, sums_of_leaves
from dplan.detectors import _saving
from dplan.detectors._rows import balanced_weights
from dplan.detectors.ensemble import training
from dplan.detectors.ensemble.combining import (
    STRAIGHT,
    Bends,
    agent_weights,
    asking_weights,
    believed_weights,
    separation,
    shares_of_kinds,
)
from dplan.detectors.ensemble.fitted import network_agents, stack_networks, unstack_networks
from dplan.detectors.ensemble.learners import randomised_trees
from dplan.detectors.ensemble.members import standardised
from dplan.exceptions import NoLabelsWarning

FEW = {"n_steps": 3000, "warmup_steps": 1000, "n_rounds": 20, "n_trees": 30, "random_state": 0}


def small_task(n_rows=2000, n_known=16, seed=0):
    """Return rows and labels: 40 anomalies stand aside in two columns, and a part of them is known."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 5))
    X[:40, :2] += 4
    return X, (np.arange(n_rows) < n_known).astype(int)


@pytest.fixture(scope="module")
def fitted():
    return DPLANEnsemble(**FEW, n_agents=2).fit(*small_task())


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("hidden_units", [1, 7])
def test_networks_are_stacked_and_unstacked(count, hidden_units):
    rng = np.random.default_rng(0)
    sizes = perceptron.layer_sizes(4, (hidden_units,), 2)
    thetas = [rng.normal(size=perceptron.n_parameters(sizes)).astype(np.float32) for _ in range(count)]
    wide_sizes, wide = stack_networks(thetas, sizes)
    assert wide_sizes.tolist() == [4, count * hidden_units, count * 2]
    for theta, again in zip(thetas, unstack_networks(wide_sizes, wide, sizes), strict=True):
        np.testing.assert_array_equal(again, theta)
    rows = rng.normal(size=(50, 4)).astype(np.float32)
    together = perceptron.outputs(wide, wide_sizes, rows)
    for i, theta in enumerate(thetas):
        alone = perceptron.outputs(theta, sizes, rows)
        np.testing.assert_allclose(together[:, 2 * i : 2 * i + 2], alone, atol=1e-5)


def test_the_score_is_the_bent_sum_of_standardised_members(fitted):
    X, _ = small_task()
    rows = fitted._arrange(X)
    values = perceptron.outputs(fitted.weights_, fitted.layer_sizes_, rows)
    scores = [values[:, 2 * i + 1] for i in range(2)]
    assert fitted.neighbours_.shape == (8, 192, 5)
    spread = spread_out(fitted.column_quantiles_, rows)
    near = np.mean([cdist(spread, sample).min(axis=1) for sample in fitted.neighbours_], axis=0)
    mean_length = sum_of_leaves(fitted.forest_, rows) / 30
    isolated = 2 ** (-mean_length / fitted.average_path_length_)
    wide = np.column_stack([rows, near, isolated]).astype(np.float32)
    scores += [*sums_of_leaves(fitted.trees_, wide, 6)]
    scores += [near, isolated]
    standard = (np.array(scores).T - fitted.member_medians_) / fitted.member_scales_
    agents, near = standard[:, :-2] @ fitted.member_weights_[:-2], standard[:, -2]
    low, slope, farthest = fitted.bends_
    assert (low <= 1, 0.5 <= slope <= 1, farthest) == (True, True, 3)
    assert ((agents < low).any(), (agents > low).any(), (near > 3).any()) == (True, True, True)
    expected = slope * np.minimum(agents, low) + np.maximum(agents - low, 0)
    expected += fitted.member_weights_[-2] * np.minimum(near, 3)
    gaps = np.abs(fitted.anomaly_score(X) - expected)
    assert np.quantile(gaps, 0.99) < 1e-4  # a split may be decided by the last bit of a distance
    assert fitted.member_weights_[:-2].sum() == pytest.approx(1)
    assert set(range(7)) >= set(fitted.trees_.features) >= {5, 6}  # trees see what explorers found
    near, isolated = fitted.member_weights_[-2:]
    assert isolated == 0
    assert 0.2 <= near <= 60 / 76


@pytest.mark.parametrize("n_rows", [1, 2, 3, 5, 17, 400, 1000, 4096])
def test_samples_of_neighbours_share_rows_evenly(n_rows):
    samples = draw_samples(np.arange(n_rows), np.random.default_rng(0))
    assert samples.shape == (8, min(192, max(1, n_rows // 4)))
    counts = np.bincount(samples.ravel(), minlength=n_rows)
    assert counts.max() - counts.min() <= 1
    assert (samples_with(samples, n_rows) <= counts).all()


def test_no_row_is_its_own_neighbour_where_scores_are_standardised():
    """On a small table, every row is a neighbour; new rows like these must get the same percentiles."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), (np.arange(300) < 8).astype(int)
    detector = DPLANEnsemble(**FEW, n_agents=1, exploration=9.0).fit(X, y)
    assert 45 < np.median(detector.percentile(rng.normal(size=(5_000, 3)))) < 60
    assert np.median(detector._member_scores(detector._arrange(rng.normal(size=(5_000, 3))))[:, -2]) < 0.25


@pytest.mark.parametrize("n_rows", [4, 6, 9, 20])
def test_few_rows_are_enough(n_rows):
    X = np.random.default_rng(0).normal(size=(n_rows, 3))
    detector = DPLANEnsemble(**{**FEW, "n_steps": 40, "warmup_steps": 20}, n_agents=1).fit(
        X, np.arange(n_rows) < 2
    )
    assert np.isfinite(detector.anomaly_score(X)).all()


def explored(X, odd):
    """Return the fractions of other rows below odd rows, by nearest neighbours and by the forest."""
    detector = DPLANEnsemble(**FEW, n_agents=1).fit(X, np.arange(len(X)) < 10)
    *_, neighbours, forest = detector._member_scores(detector._arrange(X)).T
    others = np.setdiff1d(np.arange(len(X)), odd)
    return [(scores[others] < np.median(scores[odd])).mean() for scores in (neighbours, forest)]


def test_neighbours_see_rare_combinations_of_common_values():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (2500, 5))
    odd = np.arange(20, 40)
    bits[:, 4] = bits[:, :4].sum(axis=1) % 2
    bits[odd, 4] = 1 - bits[odd, 4]  # of the others, all five have an even sum
    near, isolated = explored(bits + 0.1 * rng.normal(size=bits.shape), odd)
    assert near > 0.99
    assert isolated < 0.9


def test_explorers_see_small_differences_next_to_extreme_values():
    rng = np.random.default_rng(0)
    X = rng.random((2500, 2))
    X[100:110, 0] = 1e6
    odd = np.arange(20, 40)
    X[odd, 0] = rng.uniform(5, 10, 20)
    near, isolated = explored(X, odd)
    assert near > 0.93  # by rank; scaled values are the same to 1e-5, and would give less than 0.9
    assert isolated > 0.95


def test_parameters_set_after_fit_do_not_change_how_it_scores(fitted):
    X, _ = small_task()
    before = fitted.anomaly_score(X)
    changed = {"n_trees": 7, "n_rounds": 3, "hidden_units": 5, "n_agents": 1, "exploration": 0.0}
    kept = {name: getattr(fitted, name) for name in changed}
    fitted.set_params(**changed)
    np.testing.assert_array_equal(fitted.anomaly_score(X), before)
    with pytest.raises(ValueError, match="20 hidden units and cannot continue with hidden_units=5"):
        fitted.partial_fit(*small_task())
    np.testing.assert_array_equal(fitted.anomaly_score(X), before)
    fitted.set_params(**kept)


def test_uncertainty_is_0_where_all_agree_and_grows_with_disagreement(fitted, monkeypatch):
    X, _ = small_task()
    n_agents = len(fitted.member_weights_) - 2
    found = []
    for gap in (0.0, 1.0, 3.0):
        said = np.append(0.5 + gap * (np.arange(n_agents) % 2), [9.0, -9.0])  # explorers' words do not count
        monkeypatch.setattr(fitted, "_member_scores", lambda rows, said=said: np.tile(said, (len(rows), 1)))
        found.append(fitted.uncertainty(X[:10]))
    np.testing.assert_allclose(found[0], 0, atol=1e-12)
    assert (found[1] > 0.1).all()
    np.testing.assert_allclose(found[2], 3 * found[1])


def test_agents_disagree_more_about_rows_unlike_any_they_saw(fitted):
    X, _ = small_task()
    far = np.random.default_rng(1).normal(size=(200, 5)) * 8
    assert (fitted.uncertainty(X) >= 0).all()
    assert np.median(fitted.uncertainty(far)) > 2 * np.median(fitted.uncertainty(X[40:]))


def test_about_one_percent_of_new_rows_are_above_the_99th_percentile():
    X, y = small_task(4040, n_known=40)  # no anomaly is hidden among the unlabelled rows
    detector = DPLANEnsemble(**FEW, n_agents=2).fit(X, y)
    percentiles = detector.percentile(np.random.default_rng(9).normal(size=(20_000, 5)))
    assert 0.005 < (percentiles > 99).mean() < 0.02
    assert 0.08 < (percentiles > 90).mean() < 0.12
    assert 47 < np.median(percentiles) < 53
    known = detector.percentile(X[:40])
    assert (known > 95).mean() > 0.9
    assert 0 <= percentiles.min() <= percentiles.max() <= known.max() <= 100


def test_any_number_of_threads_gives_the_same_bytes(tmp_path):
    X, y = small_task(800)
    files = []
    for n_jobs in (1, 2, 5):
        detector = DPLANEnsemble(**FEW, n_agents=2, n_jobs=n_jobs).fit(X, y)
        detector.history_["seconds"] = []
        detector.set_params(n_jobs=None).save(tmp_path / "m.dplan")
        files.append((tmp_path / "m.dplan").read_bytes())
    assert files[0] == files[1] == files[2]


def test_kinds_have_fixed_shares_however_many_agents_there_are():
    shares = shares_of_kinds(30)
    weights = agent_weights([*shares, *shares], 30)
    np.testing.assert_allclose(weights[:3] + weights[3:], list(shares.values()))
    boosted, network = shares["boosted"], shares["network"]
    expected = np.array([boosted / 2, network, boosted / 2]) / (boosted + network)
    np.testing.assert_allclose(agent_weights(["boosted", "network", "boosted"], 30), expected)


def test_boosted_trees_count_more_the_more_anomalies_are_known():
    boosted = [shares_of_kinds(n)["boosted"] for n in (1, 10, 100, 10_000)]
    assert boosted == sorted(boosted)
    assert boosted[0] < 0.05
    assert 0.25 < boosted[-1] < 0.3
    assert all(sum(shares_of_kinds(n).values()) == pytest.approx(1) for n in (1, 10, 100))


def randomised(X, labels, n_trees=60):
    """Return the scores of randomised trees that were trained on some rows."""
    labels = np.asarray(labels)
    anomalies, checked = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
    weights = balanced_weights(len(X), anomalies, checked, np.ones(len(anomalies)), np.ones(len(checked)))
    X = X.astype(np.float32)
    trees = randomised_trees(X, labels, weights, None, n_trees, np.random.default_rng(0))
    return sum_of_leaves(trees, X) / n_trees


def test_randomised_trees_are_hardly_misled_by_hidden_anomalies():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    X[:300, 0] += 6  # almost a third are anomalies, and ten of them are known
    scores = randomised(X, np.arange(1000) < 10)
    assert roc_auc_score(np.arange(1000) < 300, scores) > 0.97
    assert scores[300:].mean() < 0.2
    assert scores[10:300].mean() > 0.5


def test_randomised_trees_can_learn_from_a_single_anomaly():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    X[:20, 0] += 8
    assert roc_auc_score(np.arange(500) < 20, randomised(X, np.arange(500) < 1)) > 0.9


def test_randomised_trees_learn_checked_rows_as_normal():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    X[:40, 0] += 5
    X[40:80, 0] += 5
    X[40:80, 1] += 5  # like anomalies in one column; half of these are checked, and normal
    labels = np.zeros(1000, dtype=int)
    labels[:20] = 1
    before = randomised(X, labels)[60:80].mean()
    labels[40:60] = -1
    after = randomised(X, labels)
    assert after[60:80].mean() < before / 2
    assert after[20:40].mean() > 0.7


def test_separation_is_that_of_the_roc_curve():
    rng = np.random.default_rng(0)
    anomalies, others = rng.integers(2, 9, 50).astype(float), rng.integers(0, 7, 200).astype(float)
    area = roc_auc_score(np.arange(250) < 50, np.concatenate([anomalies, others]))
    assert separation(anomalies, others) == pytest.approx(2 * area - 1)


def exploration_of(X, y):
    return DPLANEnsemble(**{**FEW, "n_steps": 200}, n_agents=1).fit(X, y).member_weights_[-2:].sum()


def test_explorers_count_less_where_known_anomalies_are_not_rare():
    X, y = small_task()
    assert exploration_of(X, y) > 0.7  # they stand aside
    X[:40, :2] = 0
    assert exploration_of(X, y) == pytest.approx(0.2)  # but never less than a fifth, for unknown kinds


def test_explorers_count_less_the_more_is_known():
    alone = [believed_weights(["network"], 0, n_known, 0, 0.9, 1.0)[-2] for n_known in (5, 20, 60, 2_000)]
    assert alone == sorted(alone, reverse=True)
    assert alone[2] == pytest.approx(0.5 * 0.81)
    assert alone[-1] == pytest.approx(0.2)
    few, many = (believed_weights(["network"], 1, 50, n_checked, 0.9, 1.0) for n_checked in (50, 150))
    assert many[-2:].sum() == pytest.approx(few[-2:].sum() / 4)


def test_what_to_ask_is_not_what_to_believe():
    """Forests that learn from verdicts have most of the weight in a review, and little in the score."""
    counts = 2, 20, 10
    believed, asked = believed_weights(["network"], *counts, 0.9, 1.0), asking_weights(["network"], *counts)
    assert believed[1:3].sum() == pytest.approx(0.2 * 10 / 12)
    assert asked[1:3].sum() == pytest.approx(0.9)
    assert asked[-2:].tolist() == [0, 0]  # explorers do not know which of the odd rows are false alarms
    assert believed[-2] > 0.2
    one, ten = (believed_weights(["network"], 1, 20, n_checked, 0.9, 1.0)[1] for n_checked in (1, 10))
    assert one < ten < 0.2  # a single false alarm hardly changes the score
    cold = 1, 0, 20
    assert asking_weights(["network"], *cold).tolist() == [0, 0.5, 0.5, 0]
    assert believed_weights(["network"], *cold, 0.0, 1.0).tolist() == [0, 0.25, 0.25, 0.5]


def test_suspicion_is_the_score_unless_rows_were_checked():
    X, y = small_task()
    detector = DPLANEnsemble(**FEW, n_agents=1).fit(X, y)
    np.testing.assert_array_equal(detector.suspicion(X), detector.anomaly_score(X))
    y[1000:1010] = -1
    detector.fit(X, y)
    members = detector._member_scores(detector._arrange(X))
    np.testing.assert_allclose(detector.suspicion(X), members @ detector.asking_weights_, atol=1e-9)
    assert np.abs(detector.suspicion(X) - detector.anomaly_score(X)).max() > 0.1


def test_one_false_alarm_does_not_ruin_what_is_known():
    """The highest row that is no anomaly is checked; the forests that learned from it once had 75 % of the weight."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(2000, 8))
    X[:60, :2] -= 1.5  # anomalies inside the range of the others, of which twenty are known: not rare at all
    X[:60, 2] = X[:60, 0] * 0.5
    truth, y = np.arange(2000) < 60, (np.arange(2000) < 20).astype(int)
    X_new = rng.normal(size=(2000, 8))
    X_new[:60, :2] -= 1.5
    X_new[:60, 2] = X_new[:60, 0] * 0.5
    changes = []
    for seed in range(4):  # another seed alone changes average precision by .02
        before = DPLANEnsemble(random_state=seed).fit(X, y)
        checked = y.copy()
        checked[np.flatnonzero(~truth)[before.anomaly_score(X[~truth]).argmax()]] = -1
        after = DPLANEnsemble(random_state=seed).fit(X, checked)
        areas = [
            average_precision_score(truth, detector.anomaly_score(X_new)) for detector in (before, after)
        ]
        changes.append(areas[1] - areas[0])
    assert np.mean(changes) > -0.03


def test_low_scores_of_agents_count_less_where_odd_rows_do_not_lean_towards_known_ones():
    X, y = small_task()  # the oddest rows are anomalies of the known class
    alike = DPLANEnsemble(**FEW, n_agents=1).fit(X, y).bends_[1]
    X[:40, :2] = 1.5 + 0.1 * X[:40, 2:4]  # not odd at all
    X[100:140, :2] -= 6
    assert DPLANEnsemble(**FEW, n_agents=1).fit(X, y).bends_[1] == 0.5 < 0.8 < alike


def test_without_known_anomalies_nothing_bends():
    X, _ = small_task()
    with pytest.warns(NoLabelsWarning):
        detector = DPLANEnsemble(**FEW, n_agents=1).fit(X, np.zeros(2000, dtype=int))
    assert Bends(*detector.bends_.tolist()) == STRAIGHT
    assert detector.member_weights_.tolist() == [0, 0, 1]


def test_checked_rows_and_rows_like_them_leave_the_top():
    X, y = small_task()
    X[500:540, 3] -= 7
    X[540:550, 2] -= 7  # rare too, and nobody checked these
    unchecked = DPLANEnsemble(**FEW, n_agents=2).fit(X, y)
    y[500:520] = -1
    checked = DPLANEnsemble(**FEW, n_agents=2).fit(X, y)
    alerts = [(detector.predict(X[500:540]) < 0).sum() for detector in (unchecked, checked)]
    assert alerts[0] > alerts[1] == 0
    assert checked.percentile(X[520:540]).mean() < unchecked.percentile(X[520:540]).mean() - 2
    assert checked.percentile(X[540:550]).mean() > unchecked.percentile(X[540:550]).mean() > 95
    assert checked.percentile(X[16:40]).mean() > 97  # hidden anomalies of the known kind


def test_a_scale_is_never_zero_even_if_all_scores_are_equal():
    silent = standardised("boosted", None, None, np.full(50, 3.0))
    assert (silent.middle, silent.spread) == (3.0, 1.0)
    rare = np.zeros(100)
    rare[:4] = 10
    assert standardised("boosted", None, None, rare).spread == pytest.approx(0.1 * rare.std())


@pytest.mark.parametrize("n_members", [1, 2, 3, 4])
def test_a_stopped_fit_can_score_and_be_saved(n_members, tmp_path):
    X, y = small_task(800)
    rounds = []

    def stop(detector, metrics):
        rounds.append(detector.anomaly_score(X[:3]))
        return len(rounds) == n_members

    detector = DPLANEnsemble(**FEW, n_agents=3, callback=stop).fit(X, y)
    assert len(detector.history_["seconds"]) == len(rounds) == n_members
    assert len(detector.member_weights_) == n_members + 2
    np.testing.assert_array_equal(detector.anomaly_score(X[:3]), rounds[-1])
    assert roc_auc_score(np.arange(800) < 40, detector.anomaly_score(X)) > 0.9
    detector.save(tmp_path / "m.dplan")
    again = dplan.load(tmp_path / "m.dplan")
    np.testing.assert_array_equal(again.anomaly_score(X), detector.anomaly_score(X))
    np.testing.assert_array_equal(again.uncertainty(X), detector.uncertainty(X))
    again.set_params(callback=None).partial_fit(X, y)  # and it can go on
    assert len(again.member_weights_) == 3 * 4 + 2


def test_hidden_anomalies_do_not_teach_that_they_are_normal(monkeypatch):
    """Of the rows that are like known anomalies, few are left for the randomised trees of the second round."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, 6)).astype(np.float32)
    X[:400] += [3, 3, 0, 0, 0, 0]
    labels = np.zeros(1500, dtype=int)
    labels[:20] = 1
    detector, seen = DPLANEnsemble(**FEW), []
    cleaned = training.cleaned

    def remember(chosen, exploring, *more):
        rows = cleaned(chosen, exploring, *more)
        seen.append((exploring.result().reference[:, :6], rows))
        return rows

    monkeypatch.setattr(training, "cleaned", remember)
    detector.fit(X, labels)
    ((reference, kept),) = seen
    hidden = {row.tobytes() for row in detector._arrange(X[:400])}
    is_hidden = np.array([row.tobytes() in hidden for row in reference])
    remaining = np.isin(np.arange(len(reference)), kept)
    assert is_hidden.sum() > 200
    assert remaining[is_hidden].mean() < 0.5
    assert remaining[~is_hidden].mean() > 0.9


def test_exploration_finds_unknown_classes():
    X, y = small_task()
    X[1000:1010, 3] = -9  # nobody knows these, and the known ones are elsewhere
    unknown = np.arange(2000)[1000:1010]
    others = np.arange(2000) >= 1010
    found = {}
    for exploration in (0.0, 0.6, 2.0):
        detector = DPLANEnsemble(**FEW, n_agents=1, exploration=exploration).fit(X, y)
        scores = detector.anomaly_score(X)
        found[exploration] = scores[unknown].mean() - np.quantile(scores[others], 0.99)
        assert roc_auc_score(np.arange(2000) < 40, scores) > 0.95  # the known kind is not forgotten for it
    assert 0 < found[0.6] < found[2.0]
    assert found[0.0] < found[0.6]


def second_kind(seed=5):
    """Return the small task with a second kind of anomalies, which only later labels tell of."""
    X, y = small_task(seed=seed)
    X[100:160, 2] += 4
    later = y.copy()
    later[100:130] = 2
    return X, y, later


@pytest.mark.parametrize("exploration", [0.0, 0.6])
def test_partial_fit_learns_a_newly_labelled_class_and_keeps_the_old_one(exploration):
    X, y, later = second_kind()
    detector = DPLANEnsemble(**FEW, n_agents=2, exploration=exploration).fit(X, y)
    before = detector.percentile(X[130:160]).mean()
    low = detector.column_low_.copy()
    n_before = len(detector.history_["seconds"])
    detector.partial_fit(X, later)
    assert detector.percentile(X[130:160]).mean() > max(before + 2, 95)  # of these, no label ever told
    assert detector.percentile(X[20:40]).mean() > 95
    np.testing.assert_array_equal(detector.column_low_, low)
    seconds = detector.history_["seconds"]
    assert len(seconds) == n_before + 2 * 4
    assert seconds == sorted(seconds)


def test_partial_fit_gives_the_same_bytes_with_any_number_of_threads_and_after_loading(tmp_path):
    X, y, later = second_kind()
    DPLANEnsemble(**FEW, n_agents=2).fit(X, y).save(tmp_path / "m.dplan")
    scores = []
    for n_jobs in (1, 2, 2):
        detector = dplan.load(tmp_path / "m.dplan").set_params(n_jobs=n_jobs)
        scores.append(detector.partial_fit(X, later).anomaly_score(X).tobytes())
    assert scores[0] == scores[1] == scores[2]
    in_memory = DPLANEnsemble(**FEW, n_agents=2).fit(X, y).partial_fit(X, later)
    assert in_memory.anomaly_score(X).tobytes() == scores[0]


def test_a_failed_partial_fit_leaves_the_detector_unchanged(monkeypatch):
    X, y, later = second_kind()
    detector = DPLANEnsemble(**FEW, n_agents=1).fit(X, y)
    before = detector.anomaly_score(X)

    def fails(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(training, "train_agent", fails)
    with pytest.raises(MemoryError, match="no room"):
        detector.partial_fit(X[::2], later[::2])
    np.testing.assert_array_equal(detector.anomaly_score(X), before)


def test_network_agents_continue_from_their_weights():
    X, y, later = second_kind()
    fitted = DPLANEnsemble(**FEW, n_agents=1).fit(X, y)
    before = network_agents(fitted._fitted())
    short = {"n_steps": 20, "warmup_steps": 10}  # too short to get far
    after = network_agents(fitted.set_params(**short).partial_fit(X, later)._fitted())
    anew = network_agents(DPLANEnsemble(**{**FEW, **short}, n_agents=1).fit(X, later)._fitted())
    for old, going_on, new in zip(before, after, anew, strict=True):
        assert 0 < np.abs(going_on - old).max() < 0.3 * np.abs(new - old).max()


def test_without_labels_it_finds_isolated_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 4))
    X[:10] += 7
    with pytest.warns(dplan.NoLabelsWarning):
        detector = DPLANEnsemble(**FEW, n_agents=1).fit(X)
    assert roc_auc_score(np.arange(1000) < 10, detector.anomaly_score(X)) > 0.95


def test_agents_that_continue_take_fewer_steps():
    X, y = small_task()
    detector = DPLANEnsemble(**FEW | {"n_steps": 60_000, "warmup_steps": 0, "n_rounds": 1}, n_agents=1)

    def seconds(train):
        started = time.process_time()
        train(X, y)
        return time.process_time() - started

    seconds(detector.fit)  # compiled
    fitting, continuing = (
        min(seconds(train) for _ in range(2)) for train in (detector.fit, detector.partial_fit)
    )
    assert continuing < 0.6 * fitting


def test_a_detector_of_version_4_scores_as_it_did_and_continues_with_its_fast_networks():
    golden = Path(__file__).parents[1] / "persistence" / "golden" / "dplanensemble-format-1.dplan"
    found = _saving.load(golden)
    detector, rows = found.detector, found.arrays["rows"]
    assert [kind.name for kind in detector._member_kinds()][:2] == ["networks", "trees"]
    assert Bends(*detector.bends_.tolist()) == STRAIGHT
    np.testing.assert_array_equal(detector.suspicion(rows), detector.anomaly_score(rows))
    detector.partial_fit(np.tile(rows, (20, 1)), np.arange(20 * len(rows)) < 5)
    assert "randomised trees" in [kind.name for kind in detector._member_kinds()]
